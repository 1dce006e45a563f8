"""Rebuilding requests from a log, and playing the log to a second agent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.agent.agent_loop import AgentOptions
from dsh_nb.agent.prompt import SYSTEM_PROMPT
from dsh_nb.agent.protocol import AGENT_REQUEST, AGENT_STREAM_CHUNK, Agent
from dsh_nb.core import Context, Proceed
from dsh_nb.errors import LlmError, RecordingError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.rebuild import rebuild_requests
from dsh_nb.llm.recorded import RecordedModel
from dsh_nb.llm.scripted import ScriptedModel, Step, call, cut, fail, finish, pause, say, think
from dsh_nb.messages import (
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    Message,
    TextBlock,
    ToolCallBlock,
    Usage,
    UsageChunk,
)
from dsh_nb.plugins.retry import RetryConfig, retry
from dsh_nb.session.events import Failure, SessionEvent, TurnEnd, TurnReason, UserMessage
from dsh_nb.testing import FakeClock, LogBuilder, TestAgent, running_agent

Drive = Callable[[TestAgent], Awaitable[object]]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def lookup(city: str) -> str:
    """Look a city up."""
    raise KeyError(city)


TOOLS = (add, lookup)
OPTIONS = AgentOptions(system_prompt="Be brief.", options={"max_tokens": 100})


def at_once(ctx: Context) -> None:
    """Retry without waiting."""
    retry(ctx, RetryConfig(attempts=2, first_delay_seconds=0))


async def run(
    model: Any,
    drive: Drive,
    *,
    plugins: Iterable[Any] = (at_once,),
    tools: Sequence[Callable[..., Any]] = TOOLS,
    options: AgentOptions = OPTIONS,
) -> list[SessionEvent]:
    """The log of a session with `model`."""
    async with running_agent(
        model, plugins=plugins, tools=tools, options=options, model_name="scripted"
    ) as test:
        await drive(test)
        return test.log


def facts(log: Sequence[SessionEvent]) -> list[tuple[str, Any]]:
    """Types and data, without the ids that messages are given by chance."""
    told = []
    for event in log:
        data = msgspec.to_builtins(event.data)
        for source in (data.get("source"), data.get("trigger", {}).get("source")):
            (source or {}).pop("id", None)
        told.append((event.type, data))
    return told


def asked(requests: Iterable[ModelRequest]) -> list[ModelRequest]:
    """Requests with their messages as plain tuples, each attempt of a step as one."""
    plain = [msgspec.structs.replace(one, messages=tuple(one.messages)) for one in requests]
    return plain[:1] + [now for before, now in pairwise(plain) if now != before]


def says(*texts: str) -> Drive:
    async def drive(test: TestAgent) -> None:
        for text in texts:
            await test.say(text)

    return drive


async def aborted(test: TestAgent) -> None:
    """Abort at the third chunk, and go on."""
    seen: list[Chunk] = []

    def count(agent: Agent, turn: int, step: int, chunk: Chunk) -> None:
        seen.append(chunk)
        if len(seen) == 3:
            agent.abort("enough")

    test.ctx.on(AGENT_STREAM_CHUNK, count)
    await test.say("tell me a long story")
    await test.say("go on")


async def aborted_twice(test: TestAgent) -> None:
    """Abort before the first chunk, then after the last, and go on."""
    for text, last in [("hi", "request/header"), ("again", "assistant/chunk")]:
        test.agent.send(text)
        await test.until(last)
        await asyncio.sleep(0.02)
        test.agent.abort("too slow")
        await test.idle()
    await test.say("and again")


SESSIONS: dict[str, tuple[list[Step], Drive]] = {
    "plain": ([[think("hm"), say("hello")], say("bye")], says("hi", "bye")),
    "tools": (
        [[say("Let me."), call("add", a=1, b=2), call("lookup", city="Bern")], say("3")],
        says("1 + 2"),
    ),
    "bad calls": (
        [[call("add", arguments_text='{"a": '), call("none"), call("add", a="x", b=1)], say("no")],
        says("1 + 2"),
    ),
    "abort": ([say("Once upon a time there was a model"), say("that went on")], aborted),
    "error in mid-stream": ([[say("so"), fail("broke", code="x")], say("b")], says("a", "b")),
    "error before a chunk": ([fail("broke", code="x"), say("b")], says("a", "b")),
    "error as a finish": ([[say("so"), finish("error", code="x")], say("b")], says("a", "b")),
    "retry": ([[say("so"), fail("busy")], fail("busy"), say("b")], says("a", "b")),
    "retry that helps": ([[say("so"), fail("busy")], say("better"), say("b")], says("a", "b")),
    "refusal": ([[say("I"), finish("refusal", message="no")], say("b")], says("a", "b")),
    "cut": ([[say("so"), cut()], [say("so"), cut(mid_block=True)], say("b")], says("a", "b")),
    "max-tokens": (
        [[call("add", a=1, b=2), finish("max-tokens")], say("b"), say("c")],
        says("a", "b"),
    ),
}


@pytest.mark.rule("S5")
@pytest.mark.parametrize("name", SESSIONS)
async def test_session_replays_to_the_same_log(name: str) -> None:
    steps, drive = SESSIONS[name]
    recorded = await run(ScriptedModel(steps), drive)

    replayed = await run(RecordedModel(recorded), drive)

    assert facts(replayed) == facts(recorded)


@pytest.mark.rule("S5", "L7")
async def test_aborted_step_ends_aborted_also_when_nobody_aborts_it_again() -> None:
    steps: list[Step] = [[pause(20), say("a")], [say("so far"), pause(20)], say("b")]
    recorded = await run(ScriptedModel(steps), aborted_twice)

    replayed = await run(RecordedModel(recorded), says("hi", "again", "and again"))

    told = [fact for fact in facts(replayed) if "aborted" not in str(fact[1].get("chunk"))]
    assert told == facts(recorded)
    endings = [one.data.reason for one in replayed if isinstance(one.data, TurnEnd)]
    slow = TurnReason("aborted", reason="too slow")
    assert endings == [slow, slow, TurnReason("completed")]


@pytest.mark.rule("S5")
async def test_replay_of_a_replay_is_still_the_same() -> None:
    steps, drive = SESSIONS["tools"]
    recorded = await run(ScriptedModel(steps), drive)

    again = await run(RecordedModel(await run(RecordedModel(recorded), drive)), drive)

    assert facts(again) == facts(recorded)


HI = says("hi", "and now?")


async def recording() -> list[SessionEvent]:
    return await run(ScriptedModel([call("add", a=1, b=2), say("3"), say("four")]), HI)


def ending(log: Sequence[SessionEvent]) -> tuple[str | None, str]:
    reason = next(one.data.reason for one in reversed(log) if isinstance(one.data, TurnEnd))
    return reason.code, reason.message or ""


@pytest.mark.parametrize(
    ("changed", "place", "difference"),
    [
        ({"drive": says("ho")}, "turn 1, step 1", r"message 0 was .*'hi'.* and is .*'ho'"),
        (
            {"drive": says("hi", "what?")},
            "turn 2, step 1",
            r"message 4 was .*now\?.* and is .*what",
        ),
        (
            {"drive": says("hi"), "tools": [add]},
            "turn 1, step 1",
            r"tools was \['add', 'lookup'\] and is \['add'\]",
        ),
        (
            {"drive": says("hi"), "options": AgentOptions(options={"max_tokens": 100})},
            "turn 1, step 1",
            "system was 'Be brief.' and is None",
        ),
        (
            {"drive": says("hi"), "options": AgentOptions(system_prompt="Be brief.")},
            "turn 1, step 1",
            r"options was {'max_tokens': 100} and is {}",
        ),
    ],
)
async def test_request_that_differs_fails_and_names_what_differs(
    changed: dict[str, Any], place: str, difference: str
) -> None:
    model = RecordedModel(await recording())

    code, message = ending(await run(model, **changed))

    assert code == "RECORDING"
    with pytest.raises(RecordingError, match=rf"recorded one of {place}: {difference}"):
        raise RecordingError(message)


async def test_another_model_and_other_messages_are_told_apart() -> None:
    log = LogBuilder().user("hi").turn().step().says("hello").end_step().end_turn().events
    hi = Message("user", (TextBlock("hi"),))

    for request, text in [
        (ModelRequest("other", (hi,)), "model was 'scripted' and is 'other'"),
        (ModelRequest("scripted", (hi, hi)), "there were 1 messages and are 2"),
    ]:
        with pytest.raises(RecordingError, match=text):
            await anext(RecordedModel(log).stream(request))


async def test_long_difference_is_shortened() -> None:
    log = LogBuilder().user("a" * 5_000).turn().step().says("hello").events
    request = ModelRequest("scripted", (Message("user", (TextBlock("b" * 5_000),)),))

    with pytest.raises(RecordingError) as caught:
        await anext(RecordedModel(log).stream(request))
    assert len(str(caught.value)) < 1_000


async def test_step_more_than_was_recorded_fails() -> None:
    log = await run(RecordedModel(await recording()), says("hi", "and now?", "more"), plugins=[])

    text = "the recording ends after 3 steps and a further one was asked for; record it anew"
    code, message = ending(log)
    assert (code, message[: len(text)]) == ("RECORDING", text)


async def test_request_that_differs_does_not_use_the_answer_up() -> None:
    model = RecordedModel(await recording())

    async def drive(test: TestAgent) -> None:
        request = ModelRequest("scripted", ())
        with pytest.raises(RecordingError):
            await anext(test.agent.llm.stream(request))
        await HI(test)

    assert ending(await run(model, drive)) == (None, "")


def subtract(a: int, b: int) -> int:
    """Add two numbers."""
    return a - b


subtract.__name__ = "add"


async def test_other_results_are_taken_where_they_need_not_be_the_same() -> None:
    log = await recording()

    code, message = ending(await run(RecordedModel(log), HI, tools=(subtract, lookup)))
    lenient = RecordedModel(log, strict_results=False)
    again = await run(lenient, HI, tools=(subtract, lookup))
    prompted = await run(RecordedModel(log, strict_results=False), says("ho"))

    assert (code, "message 2 was" in message) == ("RECORDING", True)
    assert ending(again) == (None, "")
    assert [one.type for one in again if one.type == "tool/result"] == ["tool/result"]
    assert ending(prompted)[0] == "RECORDING"


@pytest.mark.parametrize(
    ("pace", "words"),
    [(0, "at once"), (1, "at the pace at which"), (2.5, "at 2.5 times the pace at which")],
)
async def test_recording_says_that_it_is_one(pace: float, words: str) -> None:
    log = LogBuilder(FakeClock()).user("hi").turn().step().says("a").end_step().events

    notice = RecordedModel(log, pace=pace).notice

    assert f"`scripted` gave these answers on 2023-11-14, and they are played {words}" in notice
    assert RecordedModel([]).notice.startswith("A recording: no model gave these answers, and")


@pytest.mark.parametrize("shown", [tuple, list])
async def test_old_message_that_a_listener_changed_is_found(shown: Callable[..., Any]) -> None:
    """Messages that were once the same are not read again, but only of the same history."""
    log = await recording()
    model, requests = RecordedModel(log), [step.request for step in rebuild_requests(log)]
    for request in requests[:2]:
        await anext(model.stream(request))
    changed = shown([Message("user", (TextBlock("ho"),)), *requests[2].messages[1:]])

    with pytest.raises(RecordingError, match=r"message 0 was .*'hi'.* and is .*'ho'"):
        await anext(model.stream(msgspec.structs.replace(requests[2], messages=changed)))


async def test_other_history_that_grew_alike_is_read_from_its_beginning() -> None:
    log = await recording()
    model, requests = RecordedModel(log), [step.request for step in rebuild_requests(log)]
    await anext(model.stream(requests[0]))
    other = [*log]
    other[0] = msgspec.structs.replace(
        other[0], data=UserMessage((TextBlock("ho"),), other[0].data.source)
    )
    forged = [step.request for step in rebuild_requests(other)]

    with pytest.raises(RecordingError, match=r"message 0 was .*'hi'.* and is .*'ho'"):
        await anext(model.stream(forged[1]))


def test_models_are_those_of_the_recording_in_order() -> None:
    log = LogBuilder().user("a").turn().step().says("b").end_step()
    header = {"turn": 1, "step": 2, "model": "better"}
    log.step().add("request/header", header).says("c").end_step().end_turn()

    assert RecordedModel(log.events).models == ["scripted", "better"]
    assert RecordedModel([]).models == []


async def chunks_of(model: RecordedModel, log: LogBuilder) -> list[Chunk]:
    [step] = rebuild_requests(log.events)
    return [chunk async for chunk in model.stream(step.request)]


async def test_log_without_chunks_answers_from_its_messages() -> None:
    log = LogBuilder().user("hi").turn().step()
    log.says("Look.", ToolCallBlock("c1", "add", "{}"), usage=Usage(7, 2)).end_step().end_turn()
    log.events = [one for one in log.events if one.type != "assistant/chunk"]

    assert await chunks_of(RecordedModel(log.events), log) == [
        BlockEnd(0, TextBlock("Look.")),
        BlockEnd(1, ToolCallBlock("c1", "add", "{}")),
        UsageChunk(Usage(7, 2), model="scripted"),
        Finish(FinishReason("tool-calls")),
    ]


async def test_interrupted_message_without_chunks_ends_aborted() -> None:
    log = LogBuilder().user("hi").turn().step()
    message = {"turn": 1, "step": 1, "content": [{"type": "text", "text": "so"}]}
    log.add("assistant/message", {**message, "interrupted": True}).end_step().end_turn("aborted")

    assert await chunks_of(RecordedModel(log.events), log) == [
        BlockEnd(0, TextBlock("so")),
        Finish(FinishReason("aborted")),
    ]


async def test_failure_after_a_whole_answer_is_not_the_models() -> None:
    log = LogBuilder().user("hi").turn().step().says("hello").end_step()
    log.add("error", Failure(1, 1, "a listener broke")).end_turn("error")

    assert (await chunks_of(RecordedModel(log.events), log))[-1] == Finish(FinishReason("stop"))


async def test_failure_of_the_model_is_raised_again() -> None:
    log = LogBuilder().user("hi").turn().step().streams("so far").end_step()
    log.add("error", Failure(1, 1, "busy", "overloaded_error")).end_turn("error")

    with pytest.raises(LlmError, match="busy") as caught:
        await chunks_of(RecordedModel(log.events), log)
    assert caught.value.code == "overloaded_error"


async def test_pace_keeps_the_times_of_the_recording() -> None:
    log = LogBuilder(FakeClock(step_ms=20)).user("hi").turn().step().streams("a b c").says("x")
    loop = asyncio.get_running_loop()

    async def seconds(pace: float) -> float:
        begin = loop.time()
        await chunks_of(RecordedModel(log.events, pace=pace), log)
        return loop.time() - begin

    recorded = 0.12  # header, three deltas, a block's end and a finish
    assert await seconds(1.0) >= recorded
    assert recorded / 2 <= await seconds(2.0) < recorded
    assert await seconds(0) < recorded / 2


@pytest.mark.rule("S5")
async def test_rebuilt_requests_are_those_that_the_model_got() -> None:
    model = ScriptedModel(
        [call("add", a=1, b=2), say("3"), [say("I"), finish("refusal")], say("b")]
    )
    drive = says("1 + 2", "something bad", "something good")

    log = await run(model, drive)

    steps = [*rebuild_requests(log)]
    assert [one.request for one in steps] == asked(model.requests)
    assert [(one.turn, one.step) for one in steps] == [(1, 1), (1, 2), (2, 1), (3, 1)]


@pytest.mark.rule("S5", "S7")
async def test_context_and_steering_are_rebuilt_where_the_model_saw_them() -> None:
    started, go = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        started.set()
        go.wait(5)
        return "waited"

    async def drive(test: TestAgent) -> None:
        test.agent.inject("before the turn")
        test.agent.send("hi")
        await asyncio.to_thread(started.wait, 5)
        test.agent.inject("between call and result")
        test.agent.steer("hurry")
        go.set()
        await test.idle()
        await test.say("bye")

    model = ScriptedModel([call("wait"), say("ok"), say("bye")])
    log = await run(model, drive, tools=[wait])

    assert [one.request for one in rebuild_requests(log)] == asked(model.requests)
    assert len(model.requests[1].messages) == 6


@pytest.mark.rule("S5")
@pytest.mark.parametrize("before", [0, 1])
async def test_context_injected_while_a_request_is_on_its_way_is_not_in_it(before: int) -> None:
    """At first nothing has been streamed, then one chunk."""
    inject: list[Callable[[], None]] = []

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:  # type: ignore[override]
            number = 0
            async for chunk in super().stream(request):
                if number == before and inject:
                    inject.pop()()
                number += 1
                yield chunk

    async def drive(test: TestAgent) -> None:
        inject.append(lambda: test.agent.inject("news"))
        await test.say("hi")
        await test.say("bye")

    model = Slow([say("a"), say("b")])
    log = await run(model, drive)

    assert [one.request for one in rebuild_requests(log)] == asked(model.requests)
    assert [len(one.messages) for one in model.requests] == [1, 4]


@pytest.mark.rule("S5")
async def test_context_injected_during_the_assembly_is_in_the_request() -> None:
    async def drive(test: TestAgent) -> None:
        def section(agent: str) -> str:
            test.agent.inject("the time is now")
            return "See the context."

        test.ctx.get(SYSTEM_PROMPT).add(section)
        await test.say("hi")

    model = ScriptedModel([say("a")])
    log = await run(model, drive)

    assert [one.request for one in rebuild_requests(log)] == asked(model.requests)
    assert len(model.requests[0].messages) == 2


@pytest.mark.rule("S5")
async def test_requests_that_a_listener_rewrote_are_rebuilt() -> None:
    async def newest(
        agent: Agent, request: ModelRequest, proceed: Proceed[ModelRequest]
    ) -> ModelRequest:
        request = await proceed()
        if len(request.messages) == 1:
            return request
        return msgspec.structs.replace(
            request, messages=request.messages[-1:], system="Short.", options={"temperature": 0}
        )

    async def drive(test: TestAgent) -> None:
        test.ctx.on(AGENT_REQUEST, newest)
        await says("a", "b", "c")(test)

    model = ScriptedModel([say("a"), say("b"), say("c")])
    log = await run(model, drive)

    assert [one.request for one in rebuild_requests(log)] == asked(model.requests)
    assert [one.system for one in model.requests] == ["Be brief.", "Short.", "Short."]
    assert facts(await run(RecordedModel(log), drive)) == facts(log)


@pytest.mark.rule("S5")
async def test_each_prefix_of_a_log_rebuilds_the_requests_that_it_holds() -> None:
    log = await recording()
    whole = [step.request for step in rebuild_requests(log)]

    for length in range(len(log) + 1):
        part = [step.request for step in rebuild_requests(log[:length])]
        assert part == whole[: len(part)]


ACTIONS = st.lists(
    st.sampled_from(["say", "steer", "inject", "tools", "fail", "refuse", "cut", "retry"]),
    min_size=1,
    max_size=6,
)
STEPS: dict[str, list[Step]] = {
    "say": [say("well")],
    "steer": [say("well"), say("then")],
    "inject": [say("well")],
    "tools": [[call("add", a=1, b=2), call("lookup", city="Bern")], say("done")],
    "fail": [[say("so"), fail("broke", code="x")]],
    "refuse": [[say("I"), finish("refusal")]],
    "cut": [[call("add", a=1, b=2), cut()], [say("so"), cut(mid_block=True)]],
    "retry": [[say("so"), fail("busy")], say("well")],
}


@pytest.mark.rule("S5", "S6")
@given(actions=ACTIONS)
@settings(max_examples=25)
def test_random_session_is_rebuilt_and_replayed(actions: list[str]) -> None:
    async def drive(test: TestAgent) -> None:
        first: list[Callable[[str], object]] = []

        def at_first_chunk(agent: Agent, turn: int, step: int, chunk: Chunk) -> None:
            if first:
                first.pop()(f"during {turn}")

        test.ctx.on(AGENT_STREAM_CHUNK, at_first_chunk)
        for number, action in enumerate(actions):
            if action == "steer":
                first.append(test.agent.steer)
            elif action == "inject":
                first.append(test.agent.inject)
            await test.say(f"{action} {number}")

    async def check() -> None:
        model = ScriptedModel([step for action in actions for step in STEPS[action]])
        log = await run(model, drive)
        assert [one.request for one in rebuild_requests(log)] == asked(model.requests)
        assert facts(await run(RecordedModel(log), drive)) == facts(log)

    asyncio.run(check())
