"""The plugin core: context, fibers, services and live events; it knows nothing of agents.

Feeds: every room that offers a service or a live event.
"""

from __future__ import annotations

from dsh_nb.core.context import CORE_ERROR, Context, Plugin, Service
from dsh_nb.core.fiber import Disposer, Fiber, FiberState
from dsh_nb.core.keys import (
    Bail,
    Emit,
    LiveEvent,
    Parallel,
    Pipe,
    Proceed,
    ProceedPipe,
    Serial,
    ServiceKey,
    Waterfall,
)

__all__ = [
    "CORE_ERROR",
    "Bail",
    "Context",
    "Disposer",
    "Emit",
    "Fiber",
    "FiberState",
    "LiveEvent",
    "Parallel",
    "Pipe",
    "Plugin",
    "Proceed",
    "ProceedPipe",
    "Serial",
    "Service",
    "ServiceKey",
    "Waterfall",
]
