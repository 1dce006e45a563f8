"""Running a tool: whatever it does becomes an outcome, on the thread where it belongs."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from dsh_nb.core import CORE_ERROR, Context
from dsh_nb.messages import TextBlock, text_of
from dsh_nb.tools.events import TOOLS_BLOCKING, TOOLS_LATE, TOOLS_PROGRESS
from dsh_nb.tools.registry import TOOLS, ToolRegistry
from dsh_nb.tools.schema import tool
from dsh_nb.tools.tool import Tool, ToolCall, ToolExecution, ToolOutcome

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")
STOPPED = "the tool 'run' was interrupted; its effects may be partial"


@pytest.fixture
async def tools() -> AsyncIterator[ToolRegistry]:
    ctx = Context()
    await ctx.plugin(ToolRegistry)
    yield ctx.get(TOOLS)
    await ctx.dispose()


def made(function: Callable[..., Any], **options: Any) -> Tool:
    """`function` as a tool named ``run``."""
    return tool(function, name="run", description="Run.", **options)


async def outcome_of(
    tools: ToolRegistry, function: Callable[..., Any], **options: Any
) -> ToolOutcome:
    """What a call of `function` without arguments comes to."""
    tools.register(made(function, **options), replace=True)
    return await tools.execute(ToolCall(id="c1", name="run", arguments={}))


def raising(error: BaseException, where: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A tool that raises `error`, with its options."""

    def sync() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    def generator() -> Iterator[int]:
        yield 1
        raise error

    async def async_generator() -> AsyncIterator[int]:
        yield 1
        raise error

    kinds: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "thread": (sync, {}),
        "main": (sync, {"main_thread": True}),
        "async": (coroutine, {}),
        "generator": (generator, {}),
        "async generator": (async_generator, {}),
        "coroutine on a thread": (lambda: coroutine(), {}),
    }
    return kinds[where]


WHERE = ["thread", "main", "async", "generator", "async generator", "coroutine on a thread"]


@pytest.mark.rule("T2")
@pytest.mark.parametrize("where", WHERE)
async def test_exception_is_told_with_type_text_and_place(tools: ToolRegistry, where: str) -> None:
    function, options = raising(ValueError("no such city"), where)

    outcome = await outcome_of(tools, function, **options)

    assert outcome.is_error
    first, place = text_of(outcome.content).splitlines()
    assert first == "ValueError: no such city"
    assert place.startswith("(test_run.py, line ")


@pytest.mark.rule("T2")
async def test_exception_without_a_message_names_the_tool(tools: ToolRegistry) -> None:
    outcome = await outcome_of(tools, raising(KeyError(), "thread")[0])

    assert text_of(outcome.content).startswith("KeyError: the tool 'run' failed without a text\n")


@pytest.mark.rule("T2")
@pytest.mark.parametrize("where", WHERE)
async def test_exit_is_prevented(tools: ToolRegistry, where: str) -> None:
    function, options = raising(SystemExit(3), where)

    outcome = await outcome_of(tools, function, **options)

    text = "the tool 'run' tried to exit the program (3); that was prevented"
    assert outcome == ToolOutcome(content=(TextBlock(text),), is_error=True)


@pytest.mark.rule("T2")
@pytest.mark.parametrize("where", WHERE)
async def test_keyboard_interrupt_asks_to_stop_the_turn(tools: ToolRegistry, where: str) -> None:
    function, options = raising(KeyboardInterrupt(), where)

    outcome = await outcome_of(tools, function, **options)

    assert outcome == ToolOutcome(content=(TextBlock(STOPPED),), is_error=True, interrupted=True)


@pytest.mark.rule("T2")
@pytest.mark.parametrize("where", WHERE)
async def test_cancellation_that_the_tool_raises_itself_is_its_failure(
    tools: ToolRegistry, where: str
) -> None:
    function, options = raising(asyncio.CancelledError(), where)

    outcome = await outcome_of(tools, function, **options)

    assert outcome.is_error
    assert text_of(outcome.content).startswith("CancelledError: the tool 'run' failed")


@pytest.mark.rule("T2")
@pytest.mark.parametrize("where", ["async", "thread"])
async def test_tool_over_its_limit_is_given_up(tools: ToolRegistry, where: str) -> None:
    release = threading.Event()

    async def slow() -> None:
        await asyncio.sleep(20)

    function: Callable[..., Any] = slow if where == "async" else lambda: release.wait(20)
    begin = time.monotonic()
    outcome = await outcome_of(tools, function, timeout_seconds=0.05)
    release.set()

    assert 0.05 <= time.monotonic() - begin < 2
    text = (
        "the tool 'run' took longer than its limit of 0.05 s and was given up; "
        "its effects may be partial"
    )
    assert outcome == ToolOutcome(content=(TextBlock(text),), is_error=True)


@pytest.mark.rule("T2")
@pytest.mark.parametrize("where", WHERE)
async def test_tools_own_timeout_is_not_taken_for_the_limit(
    tools: ToolRegistry, where: str
) -> None:
    function, options = raising(TimeoutError("no answer from the database"), where)

    outcome = await outcome_of(tools, function, timeout_seconds=20, **options)

    assert outcome.is_error
    assert text_of(outcome.content).startswith("TimeoutError: no answer from the database")


@pytest.mark.rule("T2")
async def test_tool_that_cleans_up_at_its_limit_may_still_answer(tools: ToolRegistry) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            return "cleaned up"
        return "slept"

    outcome = await outcome_of(tools, stubborn, timeout_seconds=0.02)

    assert outcome == ToolOutcome(content=(TextBlock("cleaned up"),))


async def test_outcome_of_a_thread_that_was_given_up_is_told_later(tools: ToolRegistry) -> None:
    release, told = threading.Event(), asyncio.Event()
    late: list[tuple[str, str, int]] = []

    def tell(call: ToolCall, outcome: ToolOutcome) -> None:
        late.append((call.id, text_of(outcome.content), threading.get_ident()))
        told.set()

    def slow() -> str:
        release.wait(20)
        return "after all"

    tools.ctx.on(TOOLS_LATE, tell)
    outcome = await outcome_of(tools, slow, timeout_seconds=0.02)
    release.set()
    await asyncio.wait_for(told.wait(), 5)

    assert outcome.is_error
    assert late == [("c1", "after all", threading.get_ident())]


async def test_cancelling_the_call_cancels_an_async_tool(tools: ToolRegistry) -> None:
    seen: list[str] = []
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(outcome_of(tools, slow))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_sync_tool_runs_on_a_thread_of_its_own_and_the_loop_goes_on(
    tools: ToolRegistry,
) -> None:
    release = threading.Event()

    def wait() -> list[object]:
        here = threading.current_thread()
        return [release.wait(5), here.name, here.daemon, here is threading.main_thread()]

    asyncio.get_running_loop().call_later(0.01, release.set)
    outcome = await outcome_of(tools, wait)

    assert text_of(outcome.content) == '[true,"dsh-tool-run",true,false]'


@pytest.mark.parametrize("kind", ["function", "partial", "object", "generator", "plain run"])
async def test_async_tool_runs_on_the_loop_however_it_is_wrapped(
    tools: ToolRegistry, kind: str
) -> None:
    async def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def generated() -> AsyncIterator[bool]:
        yield await where()

    class Here:
        async def __call__(self) -> bool:
            return await where()

    async def run(arguments: dict[str, Any], execution: ToolExecution) -> bool:
        return await where()

    plain = Tool(name="run", description="Run.", parameters={"type": "object"}, run=run)
    kinds: dict[str, Tool] = {
        "function": made(where),
        "partial": made(functools.partial(where)),
        "object": made(Here()),
        "generator": made(generated),
        "plain run": plain,
    }
    tools.register(kinds[kind])

    outcome = await tools.execute(ToolCall(id="c1", name="run", arguments={}))

    assert outcome == ToolOutcome(content=(TextBlock("true"),))


async def test_main_thread_tool_runs_there_after_it_was_told(tools: ToolRegistry) -> None:
    seen: list[str] = []

    def here() -> bool:
        seen.append("ran")
        return threading.current_thread() is threading.main_thread()

    tools.ctx.on(TOOLS_BLOCKING, lambda call: seen.append(f"blocking {call.name}"))
    outcome = await outcome_of(tools, here, main_thread=True)

    assert text_of(outcome.content) == "true"
    assert seen == ["blocking run", "ran"]


async def test_interrupt_reaches_a_main_thread_tool_and_the_old_way_comes_back(
    tools: ToolRegistry,
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    try:
        outcome = await outcome_of(tools, interrupted, main_thread=True)
        after = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    assert (outcome.interrupted, text_of(outcome.content)) == (True, STOPPED)
    assert after == signal.SIG_IGN


async def test_coroutine_of_a_main_thread_tool_is_awaited(tools: ToolRegistry) -> None:
    async def late() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    outcome = await outcome_of(tools, lambda: late(), main_thread=True)

    assert outcome == ToolOutcome(content=(TextBlock("true"),))


@pytest.mark.parametrize("main_thread", [False, True])
async def test_tool_sees_the_context_variables_of_its_caller(
    tools: ToolRegistry, main_thread: bool
) -> None:
    token = WHO.set("me")
    try:
        outcome = await outcome_of(tools, lambda: WHO.get(), main_thread=main_thread)
    finally:
        WHO.reset(token)

    assert text_of(outcome.content) == "me"


def counting() -> Generator[str, None, str]:
    """Count."""
    yield "one"
    yield "two"
    return "three"  # a tool may


async def acounting() -> AsyncIterator[str]:
    """Count."""
    yield "one"
    yield "two"


@pytest.mark.parametrize(
    ("function", "options", "result"),
    [
        (counting, {}, "three"),
        (counting, {"main_thread": True}, "three"),
        (acounting, {}, "two"),
        (lambda: acounting(), {}, "two"),
        (functools.partial(counting), {}, "three"),
    ],
)
async def test_what_a_generator_yields_is_progress_on_the_contexts_thread(
    tools: ToolRegistry, function: Callable[..., Any], options: dict[str, Any], result: str
) -> None:
    shown: list[tuple[str, object, int]] = []
    tools.ctx.on(
        TOOLS_PROGRESS, lambda call, value: shown.append((call.id, value, threading.get_ident()))
    )

    outcome = await outcome_of(tools, function, **options)

    here = threading.get_ident()
    assert outcome == ToolOutcome(content=(TextBlock(result),))
    assert shown == [("c1", "one", here), ("c1", "two", here)]


async def test_progress_may_be_told_from_the_tool_and_a_failing_listener_harms_nothing(
    tools: ToolRegistry,
) -> None:
    reported: list[str] = []
    tools.ctx.on(CORE_ERROR, lambda error, doing: reported.append(f"{doing}: {error}"))

    def fails(call: ToolCall, value: object) -> None:
        raise RuntimeError(f"cannot show {value}")

    def work(execution: ToolExecution) -> str:
        execution.progress(execution.call.name)
        return "done"

    tools.ctx.on(TOOLS_PROGRESS, fails)
    outcome = await outcome_of(tools, work)

    assert outcome == ToolOutcome(content=(TextBlock("done"),))
    assert reported == ["a listener of 'tools/progress': cannot show run"]


async def test_generator_without_a_value_gives_no_result(tools: ToolRegistry) -> None:
    def silent() -> Iterator[int]:
        yield from ()

    outcome = await outcome_of(tools, silent)

    assert outcome == ToolOutcome(content=(TextBlock("(no result)"),))


@pytest.mark.rule("C9")
async def test_disposal_waits_for_the_threads_of_tools() -> None:
    ctx = Context()
    await ctx.plugin(ToolRegistry)
    ended: list[str] = []
    started = threading.Event()

    def work() -> None:
        started.set()
        time.sleep(0.1)
        ended.append("ended")

    call = asyncio.create_task(outcome_of(ctx.get(TOOLS), work))
    await asyncio.to_thread(started.wait, 5)
    call.cancel()
    await asyncio.wait({call})
    await ctx.dispose()

    assert ended == ["ended"]
    assert not [one for one in threading.enumerate() if one.name == "dsh-tool-run"]


@pytest.mark.rule("C9")
async def test_thread_that_still_runs_after_the_disposal_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dsh_nb.tools.registry._JOIN_SECONDS", 0.05)
    ctx, release = Context(), threading.Event()
    reported: list[str] = []
    await ctx.plugin(ToolRegistry)
    ctx.on(CORE_ERROR, lambda error, doing: reported.append(f"{doing}: {error}"))

    outcome = await outcome_of(ctx.get(TOOLS), lambda: release.wait(20), timeout_seconds=0.01)
    await ctx.get(TOOLS).ctx.dispose()
    release.set()
    await ctx.dispose()

    assert outcome.is_error
    assert reported == ["joining tools: tools still run after 0.05 s: ['dsh-tool-run']"]
