"""What contexts share: the root of their tree, and the levels of services.

Reads: core.bus, core.fiber. Feeds: core.dispatch, core.context.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading

from dsh_nb.core.bus import Bus
from dsh_nb.core.fiber import Fiber
from dsh_nb.errors import ContextError, WrongThreadError

__all__ = ["MISSING", "Root", "Scope", "running_loop"]

MISSING = object()


class Root:
    """What all contexts of one tree share."""

    def __init__(self, replace: bool) -> None:
        self.bus = Bus()
        self.replace = replace
        self.thread = threading.get_ident()
        self.loop = running_loop()
        self.variables = contextvars.copy_context()
        self.waiting: list[Fiber] = []

    def bind(self, loop: asyncio.AbstractEventLoop, *, move: bool = False) -> None:
        """Make `loop` the one that the tree belongs to, on this thread.

        Raises:
            ContextError: It belongs to another loop that is not closed, and is not to `move`.
        """
        taken = self.loop is not None and self.loop is not loop and not self.loop.is_closed()
        if taken and not move:
            raise ContextError(
                "the context belongs to another event loop; make a new one on this loop"
            )
        self.loop, self.thread = loop, threading.get_ident()

    def bound_loop(self) -> asyncio.AbstractEventLoop:
        """The loop it belongs to; binds to the running one when it has none.

        Raises:
            ContextError: It has none and none is running.
        """
        if self.loop is None or self.loop.is_closed():
            running = running_loop()
            if running is None:
                raise ContextError(
                    "no event loop is running; call this inside one, or use run_sync"
                )
            self.bind(running)
            return running
        return self.loop

    def check_thread(self, doing: str) -> None:
        """Raise `WrongThreadError`, naming `doing`, off the tree's thread."""
        if threading.get_ident() != self.thread:
            raise WrongThreadError(
                f"{doing} was called from thread {threading.current_thread().name!r}; "
                "call it on the context's own thread, for example through ctx.post"
            )


class Scope:
    """One level of services; a name that is not here is looked up in the parent."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.services: dict[str, object] = {}

    def find(self, name: str) -> object:
        """The nearest service of that name; `MISSING` when there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.services:
                return scope.services[name]
            scope = scope.parent
        return MISSING


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
