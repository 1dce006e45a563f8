"""Running one tool behind a guard: nothing it does blocks the loop unasked, or ends it.

Reads: tools.tool, tools.results. Feeds: tools.registry.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dsh_nb.messages import JsonObject
from dsh_nb.tools.results import error_outcome, text_outcome, to_outcome
from dsh_nb.tools.tool import Tool, ToolExecution, ToolOutcome

__all__ = ["RUNNING_TOOL", "ToolThreads", "run_tool"]

RUNNING_TOOL: contextvars.ContextVar[str] = contextvars.ContextVar(
    "dsh_nb_running_tool", default=""
)
"""Name of the tool that runs in this context, on whatever thread; ``""`` outside one."""

Late = Callable[[ToolOutcome], None]


class ToolThreads:
    """The threads that sync tools run on: one a call, never waited for at interpreter exit."""

    def __init__(self) -> None:
        self._live: set[threading.Thread] = set()

    async def run(self, name: str, call: Callable[[], ToolOutcome], late: Late) -> ToolOutcome:
        """The outcome of `call`, run on a thread of its own with the caller's context variables.

        When the awaiting task is cancelled the thread runs on, and `late` gets the outcome.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ToolOutcome] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(outcome: ToolOutcome) -> None:
            self._live.discard(thread)
            if done.done():
                late(outcome)
            else:
                done.set_result(outcome)

        def work() -> None:
            outcome = context.run(call)
            try:
                loop.call_soon_threadsafe(deliver, outcome)
            except RuntimeError:  # the loop was closed meanwhile: nobody is left to tell
                self._live.discard(thread)

        thread = threading.Thread(target=work, name=f"dsh-tool-{name}", daemon=True)
        self._live.add(thread)
        thread.start()
        return await done

    async def join(self, seconds: float) -> list[str]:
        """Wait until no thread is left, at most `seconds`; returns the names of those that are."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._live and loop.time() < deadline:
            await asyncio.sleep(0.01)
            self._live = {thread for thread in self._live if thread.is_alive()}
        return sorted(thread.name for thread in self._live)


async def run_tool(
    tool: Tool,
    arguments: JsonObject,
    execution: ToolExecution,
    *,
    threads: ToolThreads,
    blocking: Callable[[], None],
    late: Late,
) -> ToolOutcome:
    """What the call came to. Only a cancellation of the awaiting task is raised.

    Args:
        tool: What to run.
        arguments: The decoded arguments.
        execution: What the tool may know of its call.
        threads: Where sync tools run.
        blocking: Called just before the loop's thread is blocked.
        late: Gets the outcome of a thread that was given up.
    """
    limit = asyncio.timeout(tool.timeout_seconds)
    token = RUNNING_TOOL.set(tool.name)
    try:
        async with limit:
            if _is_async(tool):
                value = await _consumed(tool.run(arguments, execution), execution)
                return to_outcome(value, call_id=execution.call.id)
            if tool.main_thread:
                return await _on_this_thread(tool, arguments, execution, blocking)
            return await threads.run(tool.name, lambda: _guarded(tool, arguments, execution), late)
    except TimeoutError as error:
        if limit.expired():
            return text_outcome(
                f"the tool {tool.name!r} took longer than its limit of {tool.timeout_seconds:g} s "
                "and was given up; its effects may be partial",
                is_error=True,
            )
        return error_outcome(error, tool=tool.name)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return error_outcome(error, tool=tool.name)
    except BaseException as error:  # SystemExit in a task would end the kernel
        return _failure(error, tool)
    finally:
        RUNNING_TOOL.reset(token)


def _failure(error: BaseException, tool: Tool) -> ToolOutcome:
    if isinstance(error, SystemExit):
        return text_outcome(
            f"the tool {tool.name!r} tried to exit the program ({error}); that was prevented",
            is_error=True,
        )
    if isinstance(error, KeyboardInterrupt):
        text = f"the tool {tool.name!r} was interrupted; its effects may be partial"
        outcome = text_outcome(text, is_error=True)
        return ToolOutcome(content=outcome.content, is_error=True, interrupted=True)
    return error_outcome(error, tool=tool.name)


def _guarded(tool: Tool, arguments: JsonObject, execution: ToolExecution) -> ToolOutcome:
    """Run a sync tool to its end and make its outcome, on the current thread."""
    try:
        value = tool.run(arguments, execution)
        if inspect.isgenerator(value):
            value = _exhausted(value, execution)
        elif inspect.isawaitable(value) or inspect.isasyncgen(value):
            value = asyncio.run(_consumed(value, execution))
        return to_outcome(value, call_id=execution.call.id)
    except BaseException as error:
        return _failure(error, tool)


async def _on_this_thread(
    tool: Tool, arguments: JsonObject, execution: ToolExecution, blocking: Callable[[], None]
) -> ToolOutcome:
    """Block the loop's thread with a sync tool; an interrupt of the kernel reaches the tool."""
    blocking()
    await asyncio.sleep(0.05)  # what shows the turn gets a moment to say that it blocks
    with _interruptible():
        value = tool.run(arguments, execution)
        if inspect.isgenerator(value):
            value = _exhausted(value, execution)
    value = await _consumed(value, execution)  # a coroutine of a sync function runs on the loop
    return to_outcome(value, call_id=execution.call.id)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt here; the kernel ignores it outside its own cells."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exhausted(values: Any, execution: ToolExecution) -> object:  # Any: a generator of anything
    """Run a generator; what it yields is progress, what it returns (or yielded last) the result."""
    last: object = None
    while True:
        try:
            last = next(values)
        except StopIteration as end:
            return last if end.value is None else end.value
        execution.progress(last)


async def _consumed(value: object, execution: ToolExecution) -> object:
    """The value of a coroutine, or the last one of an async generator whose others are progress."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        return await _last(value, execution)
    if inspect.isgenerator(value):
        return _exhausted(value, execution)
    return value


async def _last(values: AsyncIterator[object], execution: ToolExecution) -> object:
    last: object = None
    async for last in values:
        execution.progress(last)
    return last


def _is_async(tool: Tool) -> bool:
    """Whether the tool runs on the loop: an async function or generator, however it is wrapped."""
    function: Any = tool.function or tool.run
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    if not inspect.isroutine(function) and callable(function):
        function = function.__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
