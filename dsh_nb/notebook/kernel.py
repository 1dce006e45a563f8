"""What there is of Jupyter around: the kernel, its cells, and its interrupts.

Reads: tools.run. Feeds: notebook.turn, notebook.display, notebook.sync.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

from dsh_nb.tools.run import RUNNING_TOOL

__all__ = [
    "cell_number",
    "guard_exit",
    "has_widgets",
    "in_kernel",
    "interrupt_main_thread",
    "interrupts",
    "on_subshell",
    "publish",
]


def in_kernel() -> bool:
    """Whether this is a Jupyter kernel, so that outputs can be updated in place."""
    shell = _shell()
    return shell is not None and hasattr(shell, "kernel")


def cell_number() -> int | None:
    """The execution count of the cell that runs; None outside IPython."""
    shell = _shell()
    return None if shell is None else int(shell.execution_count)


def has_widgets() -> bool:
    """Whether the cell that runs came from a page that may show widgets and answer.

    What executes notebooks without a person (nbclient, papermill) allows no input, pages do.
    """
    shell = _shell()
    kernel = getattr(shell, "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


def on_subshell() -> bool:
    """Whether the message that is heard was sent to a subshell of the kernel.

    ipykernel hears the next message of a comm where it last answered on that comm.
    """
    kernel = getattr(_shell(), "kernel", None)
    parent: dict[str, dict[str, object]] = getattr(kernel, "get_parent", dict)()
    return bool(parent.get("header", {}).get("subshell_id"))


def interrupt_main_thread() -> bool:
    """Interrupt what blocks the main thread, as the stop button does; False when nothing can be."""
    if not hasattr(signal, "pthread_kill") or not callable(signal.getsignal(signal.SIGINT)):
        return False
    # Unlike `_thread.interrupt_main` this also wakes a blocking call.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    return True


def guard_exit() -> None:
    """Make ``exit()`` in a tool raise SystemExit there, as it does outside IPython.

    IPython's own ``exit`` asks the kernel to end, and nothing would reach the tool's guard.
    Elsewhere it does what it did.
    """
    shell = _shell()
    ask_exit = getattr(shell, "ask_exit", None)  # some shells cannot be left
    if ask_exit is None or getattr(ask_exit, "guarded_by_dsh_nb", False):
        return

    def guarded() -> None:
        if RUNNING_TOOL.get():
            raise SystemExit
        ask_exit()

    guarded.guarded_by_dsh_nb = True  # type: ignore[attr-defined]  # so that it wraps once
    shell.ask_exit = guarded


def publish(
    bundle: Mapping[str, object], display_id: str | None = None, *, update: bool = False
) -> None:
    """Show a MIME bundle as an output of the current cell, or update the one shown before."""
    from IPython.core import display_functions

    # Any: IPython's functions are not typed
    send: Any = display_functions.publish_display_data
    transient = {} if display_id is None else {"display_id": display_id}
    # What executes notebooks without a page drops updates that name a cell that is over; from an
    # empty context they name the one that runs.
    here = Context() if update and not has_widgets() else copy_context()
    here.run(send, data=dict(bundle), transient=transient, update=update)


@contextmanager
def interrupts() -> Iterator[list[bool]]:
    """Notice interrupts of the kernel meanwhile; the list is no longer empty after the first.

    What the kernel does with an interrupt is left as it is. Noticing is what tells an interrupt
    from any other cancellation of the cell's task.
    """
    seen: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield seen
        return

    def note(number: int, frame: Any) -> object:  # Any: as the signal module types frames
        seen.append(True)
        return before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


def _shell() -> Any:  # Any: IPython's shell, which is not imported for this
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    return get_ipython()
