"""The sync facade: waiting for a turn in code that cannot await.

Reads: notebook.turn. Feeds: notebook.agent.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dsh_nb.core.scope import running_loop
from dsh_nb.errors import WrongThreadError
from dsh_nb.notebook.turn import Reply, TurnHandle

__all__ = ["own_loop", "wait_here"]

CLOSE_SECONDS = 1.0

_own: asyncio.AbstractEventLoop | None = None


def own_loop() -> asyncio.AbstractEventLoop:
    """The loop for code without one: made when first asked for, closed when Python ends."""
    global _own
    if _own is None or _own.is_closed():
        _own = asyncio.new_event_loop()
        atexit.register(_close, _own)
    return _own


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """End what still runs at the end of the program, so that Python does not complain of it."""
    if loop.is_closed():
        return
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_SECONDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def wait_here(handle: TurnHandle, loop: asyncio.AbstractEventLoop) -> Reply:
    """The reply of `handle`, whose turn runs on `loop`, waited for without ``await``.

    Where the loop runs already (a notebook cell) it is entered again with nest-asyncio2, for
    this call alone. An interrupt stops the turn, and the reply comes as far as it got; outside
    a kernel it is raised as KeyboardInterrupt afterwards.

    Raises:
        WrongThreadError: Called on another thread than the loop's.
        KeyboardInterrupt: Interrupted, outside a kernel.
    """
    running = running_loop()
    if running is not None and running is not loop:
        raise WrongThreadError(
            "run_sync was called inside another event loop; await the agent there"
        )
    if running is not None:
        _allow_nesting(loop)
    with _stopped_by_interrupt(handle, loop) as interrupted:
        reply = loop.run_until_complete(handle.wait())
    if interrupted and running is None:
        raise KeyboardInterrupt
    return reply


def _allow_nesting(loop: asyncio.AbstractEventLoop) -> None:
    if hasattr(asyncio, "_nest_patched") and not hasattr(asyncio, "_nest_asyncio2"):
        warnings.warn(
            "nest_asyncio 1.x was applied by somebody: in ipykernel 7 it loses cells that are "
            "queued and clicks that are made while run_sync waits; use nest-asyncio2, or await",
            RuntimeWarning,
            stacklevel=5,
        )
        return
    import nest_asyncio2

    nest_asyncio2.apply(loop)


@contextmanager
def _stopped_by_interrupt(
    handle: TurnHandle, loop: asyncio.AbstractEventLoop
) -> Iterator[list[bool]]:
    """Let the first SIGINT stop the turn instead of raising anywhere in the loop's code.

    A second one raises KeyboardInterrupt where it finds the program.
    """
    seen: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def stop(number: int, frame: Any) -> None:  # Any: as the signal module types frames
        if seen:
            raise KeyboardInterrupt
        seen.append(True)
        loop.call_soon_threadsafe(handle.stop, "interrupted")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
