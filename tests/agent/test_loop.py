"""The loop, rule by rule."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentLoop
from dsh_nb.agent.protocol import (
    AGENT_ERROR,
    AGENT_QUEUED,
    AGENT_REQUEST,
    AGENT_STATUS,
    AGENT_STEP_END,
    AGENT_STEP_RESULT,
    AGENT_STREAM_CHUNK,
    AGENT_TURN_CONTINUATION,
    AGENT_TURN_START,
    Agent,
    Continuation,
    StepResult,
)
from dsh_nb.core import CORE_ERROR, Context, Proceed
from dsh_nb.errors import AgentTakenError, ConfigError, DisposedError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.scripted import ScriptedModel, call, cut, fail, finish, pause, say, think
from dsh_nb.messages import Chunk, Source, TextDelta, ToolCallBlock, text_of
from dsh_nb.session.check import check_log
from dsh_nb.session.events import (
    AssistantMessage,
    ContextMessage,
    Failure,
    ToolResult,
    TurnEnd,
    TurnReason,
)
from dsh_nb.session.history import INTERRUPTED, NOT_STARTED
from dsh_nb.session.store import SESSION_EVENT, SESSION_FLUSH
from dsh_nb.testing import TestAgent, running_agent
from dsh_nb.tools.schema import tool

PLAIN = [
    "user/message",
    "turn/start",
    "step/start",
    "assistant/chunk",
    "assistant/message",
    "usage",
    "step/end",
    "turn/end",
]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ending(test: TestAgent) -> TurnReason:
    """How the last turn ended."""
    return next(one.data.reason for one in reversed(test.log) if isinstance(one.data, TurnEnd))


def results(test: TestAgent) -> list[tuple[str, str]]:
    """Outcome and text of each result, in log order."""
    found = [one.data for one in test.log if isinstance(one.data, ToolResult)]
    return [(one.outcome, text_of(one.content)) for one in found]


@pytest.mark.rule("L1", "S2", "S3")
async def test_plain_turn_has_the_golden_sequence() -> None:
    async with running_agent(ScriptedModel([say("hello")])) as test:
        await test.say("hi")

        assert test.types == PLAIN
        assert ending(test) == TurnReason("completed")
        assert test.log[1].data.trigger.kind == "message"
        check_log(test.log, ended=True)


@pytest.mark.rule("S2")
async def test_turn_with_one_tool_has_the_golden_sequence() -> None:
    model = ScriptedModel([call("add", a=1, b=2), say("3")])
    async with running_agent(model, tools=[add]) as test:
        await test.say("1 + 2")

        first = [*PLAIN[:6], "tool/call", "tool/result", "step/end"]
        assert test.types == [*first, *PLAIN[2:]]
        assert results(test) == [("ok", "3")]


@pytest.mark.rule("L1")
async def test_messages_queued_while_running_share_the_next_turn_in_order() -> None:
    model = ScriptedModel([[say("one"), pause(0.05)], say("two")])
    async with running_agent(model) as test:
        test.agent.send("a")
        await test.until("assistant/chunk")
        test.agent.send("b")
        test.agent.send("c")
        await test.idle()

        assert test.types == [*PLAIN, "user/message", *PLAIN]
        said = [text_of(one.data.content) for one in test.log if one.type == "user/message"]
        assert said == ["a", "b", "c"]


@pytest.mark.rule("L2", "L3")
async def test_steering_during_a_tool_joins_the_turn_before_the_step_ends() -> None:
    started, go = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        started.set()
        go.wait(5)
        return "waited"

    model = ScriptedModel([call("wait"), say("ok")])
    async with running_agent(model, tools=[wait]) as test:
        test.agent.send("begin")
        await asyncio.to_thread(started.wait, 5)
        test.agent.steer("use euros")
        go.set()
        await test.idle()

        first = [*PLAIN[:6], "tool/call", "tool/result", "steering/message", "step/end"]
        assert test.types == [*first, *PLAIN[2:]]
        last = model.requests[-1].messages[-1]
        assert text_of(last.content) == '<steering source="user">use euros</steering>'


@pytest.mark.rule("L2")
async def test_steering_from_a_step_end_listener_stands_between_the_steps() -> None:
    async with running_agent(ScriptedModel([say("a"), say("b")])) as test:
        steered: list[int] = []

        def once(agent: Agent, turn: int, step: int) -> None:
            if not steered:
                steered.append(step)
                agent.steer("more")

        test.ctx.on(AGENT_STEP_END, once)
        await test.say("hi")

        assert test.types == [*PLAIN[:7], "steering/message", *PLAIN[2:]]


@pytest.mark.rule("L2")
async def test_steering_when_idle_is_a_queued_message() -> None:
    async with running_agent(ScriptedModel([say("a")])) as test:
        test.agent.steer("hi")
        await test.idle()

        assert test.types == PLAIN


@pytest.mark.rule("L3")
async def test_continuation_may_force_either_way() -> None:
    model = ScriptedModel([call("add", a=1, b=1), say("not asked for")])
    async with running_agent(model, tools=[add]) as test:

        async def stop(agent: Agent, next_: Continuation, proceed: Proceed[bool]) -> bool:
            return False

        test.ctx.on(AGENT_TURN_CONTINUATION, stop)
        await test.say("hi")
        assert len(model.requests) == 1

    model = ScriptedModel([say("one"), say("two")])
    async with running_agent(model) as test:

        async def once_more(agent: Agent, next_: Continuation, proceed: Proceed[bool]) -> bool:
            return next_.step == 1

        test.ctx.on(AGENT_TURN_CONTINUATION, once_more)
        await test.say("hi")
        assert [len(model.requests), model.requests[1].messages[-1].role] == [2, "user"]


@pytest.mark.rule("L3", "L4")
async def test_steering_that_arrives_while_it_decides_is_always_seen() -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with running_agent(model) as test:

        async def stop(agent: Agent, next_: Continuation, proceed: Proceed[bool]) -> bool:
            if next_.step == 1:
                agent.steer("wait")
            return False

        test.ctx.on(AGENT_TURN_CONTINUATION, stop)
        await test.say("hi")

        assert "wait" in text_of(model.requests[1].messages[-1].content)
        assert test.types.count("turn/start") == 1


@pytest.mark.rule("L4")
async def test_steering_too_late_for_the_turn_starts_the_next_one_once() -> None:
    model = ScriptedModel([[say("one"), pause(5)], say("two")])
    async with running_agent(model) as test:
        test.agent.send("hi")
        await test.until("assistant/chunk")
        test.agent.steer("late")
        test.agent.abort()
        await test.idle()

        said = [text_of(one.data.content) for one in test.log if one.type == "user/message"]
        assert said == ["hi", "late"]
        assert "steering/message" not in test.types


@pytest.mark.rule("L4")
async def test_message_of_a_known_id_is_delivered_once() -> None:
    async with running_agent(ScriptedModel([say("a"), say("b")])) as test:
        for _ in range(2):
            test.agent.send("same", Source(id="m1"))
        await test.idle()
        test.agent.send("same", Source(id="m1"))
        test.agent.send("same", Source(id="m2"))
        await test.idle()

        assert [one.data.source.id for one in test.log if one.type == "user/message"] == [
            "m1",
            "m2",
        ]


@pytest.mark.rule("L5")
async def test_step_result_is_what_is_logged_run_and_sent() -> None:
    model = ScriptedModel([call("add", a=1, b=2), say("done")])
    async with running_agent(model, tools=[add]) as test:

        async def bigger(
            agent: Agent, result: StepResult, proceed: Proceed[StepResult]
        ) -> StepResult:
            said = await proceed()
            blocks = [
                ToolCallBlock(one.id, one.name, '{"a": 10, "b": 20}')
                for one in said.content
                if isinstance(one, ToolCallBlock)
            ]
            return StepResult(tuple(blocks), said.reason)

        test.ctx.on(AGENT_STEP_RESULT, bigger)
        await test.say("hi")

        assert results(test) == [("ok", "30")]
        assert '{"a": 10, "b": 20}' in repr(model.requests[1].messages[1])
        assert next(one.data for one in test.log if one.type == "assistant/message").rewritten


@pytest.mark.rule("L6", "M4")
async def test_failed_step_ends_before_its_error_and_the_loop_lives() -> None:
    errors: list[str] = []
    async with running_agent(ScriptedModel([fail("down", code="api_error"), say("ok")])) as test:
        test.ctx.on(AGENT_ERROR, lambda agent, error: errors.append(str(error)))
        await test.say("hi")
        failed = test.types
        await test.say("again")

        assert failed == [
            "user/message",
            "turn/start",
            "step/start",
            "step/end",
            "error",
            "turn/end",
        ]
        assert errors == ["down"]
        assert [one.data.reason.kind for one in test.log if one.type == "turn/end"] == [
            "error",
            "completed",
        ]
        check_log(test.log, ended=True)


@pytest.mark.rule("L6", "M4")
async def test_finish_of_kind_error_or_aborted_is_no_completed_message() -> None:
    script = [[say("a"), finish("error")], [say("b"), finish("aborted")]]
    async with running_agent(ScriptedModel(script)) as test:
        await test.say("one")
        first = ending(test).kind
        await test.say("two")

        messages = [one.data for one in test.log if isinstance(one.data, AssistantMessage)]
        assert (first, ending(test).kind) == ("error", "aborted")
        assert [one.interrupted for one in messages] == [True, True]


BOUNDARIES = [
    AGENT_STATUS,
    AGENT_TURN_START,
    AGENT_STEP_END,
    AGENT_STREAM_CHUNK,
    "agent/step-start",
    "agent/turn-end",
    "session/event",
    "agent/request",
    "agent/step-result",
    "agent/turn-continuation",
    "system-prompt/assemble",
    "llm/stream",
    "agent/error",
    "agent/queued",
]


@pytest.mark.rule("L6")
@pytest.mark.parametrize("event", BOUNDARIES, ids=str)
async def test_throwing_listener_at_any_boundary_never_ends_the_loop(event: Any) -> None:
    async with running_agent(ScriptedModel(lambda request: say("ok"))) as test:
        test.ctx.on(CORE_ERROR, lambda error, doing: None)

        def broken(*args: object) -> None:
            raise RuntimeError("listener")

        undo = test.ctx.on(event, broken)
        with pytest.raises(RuntimeError) if event == "agent/queued" else _nothing():
            test.agent.send("hi")
        await test.idle()
        undo()
        await test.say("again")

        assert ending(test) == TurnReason("completed")
        starts, ends = test.types.count("step/start"), test.types.count("step/end")
        assert (starts, test.types.count("turn/start")) == (ends, test.types.count("turn/end"))
        check_log(test.log, ended=True)


@pytest.mark.rule("L6")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("event", [*BOUNDARIES[:-1], "session/flush"], ids=str)
async def test_listener_that_exits_or_interrupts_never_ends_the_loop(
    event: Any, error: BaseException
) -> None:
    async with running_agent(ScriptedModel(lambda request: say("ok"))) as test:
        test.ctx.on(CORE_ERROR, lambda error, doing: None)

        def leave(*args: object) -> None:
            raise error

        undo = test.ctx.on(event, leave)
        test.agent.send("hi")
        await test.idle()
        undo()
        await test.say("again")

        assert ending(test) == TurnReason("completed")
        check_log(test.log, ended=True)


class _nothing:  # noqa: N801 - reads like pytest.raises beside it
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...


@pytest.mark.rule("L6")
async def test_throwing_status_listener_ends_the_turn_in_error() -> None:
    async with running_agent(ScriptedModel([say("never")])) as test:
        test.ctx.on(CORE_ERROR, lambda error, doing: None)

        def broken(agent: Agent, status: str) -> None:
            if status == "running":
                raise RuntimeError("no light")

        test.ctx.on(AGENT_STATUS, broken)
        await test.say("hi")

        assert test.types == ["user/message", "turn/start", "error", "turn/end"]
        assert ending(test) == TurnReason("error", message="no light")


@pytest.mark.rule("L7")
async def test_abort_in_mid_stream_keeps_what_was_visible() -> None:
    model = ScriptedModel([[think("hm"), say("half an answer"), pause(60)], say("next")])
    async with running_agent(model) as test:
        test.agent.send("hi")
        await test.until("assistant/chunk", 8)
        began = asyncio.get_running_loop().time()
        test.agent.abort("enough")
        test.agent.abort("later reason")
        await test.idle()
        took = asyncio.get_running_loop().time() - began

        assert test.types == [*PLAIN[:5], "step/end", "turn/end"]
        message = next(one.data for one in test.log if isinstance(one.data, AssistantMessage))
        assert (message.interrupted, text_of(message.content)[:4]) == (True, "half")
        assert ending(test) == TurnReason("aborted", reason="enough")
        assert took < 0.5
        await test.say("go on")
        assert model.requests[1].messages[-1].role == "user"


@pytest.mark.rule("L7")
async def test_abort_before_anything_was_visible_leaves_no_message() -> None:
    async with running_agent(ScriptedModel([pause(60)])) as test:
        test.agent.send("hi")
        await test.until("request/header")
        await asyncio.sleep(0.01)
        test.agent.abort()
        await test.idle()

        assert test.types == ["user/message", "turn/start", "step/start", "step/end", "turn/end"]


class Stubborn:
    """An adapter that heeds no cancellation."""

    name = "stubborn"

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        yield TextDelta(0, "on and on")
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue
        yield TextDelta(0, " too late")


@pytest.mark.rule("L7")
async def test_abort_holds_also_when_the_adapter_ignores_it() -> None:
    model = Stubborn()
    async with running_agent(model) as test:
        test.ctx.on(CORE_ERROR, lambda error, doing: None)
        test.agent.send("hi")
        await test.until("assistant/chunk")
        test.agent.abort()
        await test.idle()
        before = len(test.log)
        model.released.set()
        await asyncio.sleep(0.05)

        assert ending(test).kind == "aborted"
        assert len(test.log) == before


@pytest.mark.rule("L7")
async def test_abort_during_a_batch_gives_each_call_its_own_words() -> None:
    started = asyncio.Event()

    async def slow() -> None:
        """Take long."""
        started.set()
        await asyncio.sleep(60)

    model = ScriptedModel([[call("add", a=1, b=2), call("slow"), call("add", a=3, b=4)], say("x")])
    async with running_agent(model, tools=[add, slow]) as test:
        test.agent.send("hi")
        await started.wait()
        test.agent.abort()
        await test.idle()

        assert results(test) == [
            ("ok", "3"),
            ("interrupted", INTERRUPTED),
            ("not started", NOT_STARTED),
        ]
        check_log(test.log, ended=True)


@pytest.mark.rule("L7")
@pytest.mark.parametrize(
    "seam",
    ["system-prompt/assemble", "agent/request", "agent/turn-continuation", "agent/step-result"],
)
async def test_abort_holds_in_every_waterfall(seam: str) -> None:
    async with running_agent(ScriptedModel(lambda request: say("x"))) as test:
        reached = asyncio.Event()

        async def hang(*args: object) -> object:
            reached.set()
            await asyncio.sleep(60)
            return None

        undo = test.ctx.on(seam, hang)
        test.agent.send("hi")
        await reached.wait()
        test.agent.abort("now")
        await test.idle()
        undo()

        assert ending(test) == TurnReason("aborted", reason="now")
        await test.say("next")
        assert ending(test).kind == "completed"
        check_log(test.log, ended=True)


@pytest.mark.rule("L7")
async def test_abort_when_idle_does_not_touch_the_next_turn() -> None:
    async with running_agent(ScriptedModel([say("fine")])) as test:
        test.agent.abort("early")
        await test.say("hi")

        assert ending(test).kind == "completed"


@pytest.mark.rule("L7")
async def test_late_result_of_a_thread_is_logged_and_not_sent() -> None:
    started, go = threading.Event(), threading.Event()

    def stuck() -> str:
        """Hang."""
        started.set()
        go.wait(10)
        return "late"

    model = ScriptedModel([call("stuck"), say("next")])
    async with running_agent(model, tools=[stuck]) as test:
        test.agent.send("hi")
        await asyncio.to_thread(started.wait, 5)
        test.agent.abort()
        await test.idle()
        go.set()
        late = await test.until("tool/late")
        await test.say("next")

        assert text_of(late.data.content) == "late"
        assert "late" not in repr([*model.requests[1].messages])
        check_log(test.log, ended=True)


@pytest.mark.rule("L8")
async def test_dispose_in_mid_turn_ends_it_as_disposed_and_leaves_no_task() -> None:
    async with running_agent(ScriptedModel([[say("x"), pause(60)]])) as test:
        statuses: list[str] = []
        test.ctx.on(AGENT_STATUS, lambda agent, status: statuses.append(status))

        def broken(agent: Agent, status: str) -> None:
            if status == "disposed":
                raise RuntimeError("no")

        test.ctx.on(AGENT_STATUS, broken)
        test.ctx.on(CORE_ERROR, lambda error, doing: None)
        before = asyncio.all_tasks()
        test.agent.send("hi")
        await test.until("assistant/chunk")
        await test.agent.dispose()
        await test.agent.dispose()

        assert ending(test).kind == "disposed"
        assert statuses == ["running", "disposed"]
        assert test.ctx.agents.list() == []
        assert asyncio.all_tasks() == before
        for method in (test.agent.send, test.agent.steer, test.agent.inject):
            with pytest.raises(DisposedError, match="agent 'main' is disposed"):
                method("x")


@pytest.mark.rule("L9")
async def test_status_does_not_blink_between_chained_turns() -> None:
    seen: list[str] = []
    async with running_agent(ScriptedModel([[say("a"), pause(0.03)], say("b")])) as test:
        test.ctx.on(AGENT_STATUS, lambda agent, status: seen.append(status))
        test.ctx.on(AGENT_QUEUED, lambda agent, source, steering: seen.append("queued"))
        test.ctx.on(
            SESSION_EVENT,
            lambda session, event: (
                seen.append(event.type) if event.type == "user/message" else None
            ),
        )
        test.agent.send("a")
        await test.until("assistant/chunk")
        test.agent.send("b")
        await test.idle()

        assert seen == ["queued", "running", "user/message", "queued", "user/message", "idle"]


@pytest.mark.rule("L10")
async def test_failing_flush_is_logged_after_the_turn_and_kills_nothing() -> None:
    async with running_agent(ScriptedModel([say("a"), say("b")])) as test:
        test.ctx.on(CORE_ERROR, lambda error, doing: None)

        async def full(session: object) -> None:
            raise OSError("disk full")

        test.ctx.on(SESSION_FLUSH, full)
        await test.say("hi")
        failure = test.log[-1]
        await test.say("again")

        assert test.types == [*PLAIN, "error", *PLAIN, "error"]
        assert isinstance(failure.data, Failure)
        assert failure.data.message == "disk full"


@pytest.mark.rule("L11")
async def test_turn_on_a_seeded_session_goes_on_with_the_numbers() -> None:
    async with running_agent(ScriptedModel([say("a")])) as test:
        await test.say("one")
        seed = test.log
    async with running_agent(ScriptedModel([say("b")]), seed=seed) as test:
        await test.say("two")

        assert [one.data.turn for one in test.log if one.type == "turn/start"] == [1, 2]
        assert [one.type for one in test.log].count("request/header") == 1
        check_log(test.log, ended=True)


@pytest.mark.rule("S3")
async def test_turn_can_go_on_without_a_message_and_asks_the_model_to_continue() -> None:
    model = ScriptedModel([say("one"), [say("two"), pause(0.05)]])
    async with running_agent(model) as test:
        await test.say("hi")
        test.agent.continue_turn()
        await test.until("turn/start", 2)
        test.agent.continue_turn()  # nothing happens while a turn runs
        await test.idle()

        triggers = [one.data.trigger.kind for one in test.log if one.type == "turn/start"]
        assert triggers == ["message", "continuation"]
        assert "Continue." in text_of(model.requests[1].messages[-1].content)
        check_log(test.log, ended=True)


@pytest.mark.rule("L12")
async def test_agent_without_a_model_says_how_to_give_it_one() -> None:
    async with running_agent(ScriptedModel([say("hello")])) as test:
        bare = test.ctx.get(AGENT_LOOP).create("bare")
        other = TestAgent(test.ctx, bare)
        await other.say("hi")
        told = ending(other)

        async def supply(
            agent: Agent, request: ModelRequest, proceed: Proceed[ModelRequest]
        ) -> ModelRequest:
            given = await proceed()
            return ModelRequest(
                "scripted", given.messages, given.system, given.tools, given.options
            )

        test.ctx.on(AGENT_REQUEST, supply)
        await other.say("again")

        assert told.code == "NO_MODEL"
        assert "has no model; give it one" in str(told.message)
        assert ending(other).kind == "completed"


@pytest.mark.rule("L13")
async def test_calls_run_in_order_unless_all_are_safe_together() -> None:
    seen: list[str] = []

    async def first() -> str:
        """Be slow."""
        await asyncio.sleep(0.03)
        seen.append("first")
        return "1"

    async def second() -> str:
        """Be quick."""
        seen.append("second")
        return "2"

    for parallel, expected in ((False, ["first", "second"]), (True, ["second", "first"])):
        seen.clear()
        tools = [tool(one, parallel=parallel) for one in (first, second)]
        model = ScriptedModel([[call("first"), call("second")], say("ok")])
        async with running_agent(model, tools=tools) as test:
            await test.say("hi")

            assert (seen, results(test)) == (expected, [("ok", "1"), ("ok", "2")])


@pytest.mark.rule("L13")
async def test_failing_parallel_call_does_not_cancel_the_others() -> None:
    async def broken() -> None:
        """Fail without a word."""
        raise LookupError

    async def slow() -> str:
        """Finish."""
        await asyncio.sleep(0.02)
        return "finished"

    tools = [tool(one, parallel=True) for one in (broken, slow)]
    model = ScriptedModel([[call("slow"), call("broken"), call("slow")], say("ok")])
    async with running_agent(model, tools=tools) as test:
        await test.say("hi")

        assert [outcome for outcome, _ in results(test)] == ["ok", "error", "ok"]
        assert "LookupError" in results(test)[1][1]


@pytest.mark.rule("L14")
async def test_cancelling_the_driver_closes_the_turn() -> None:
    async with running_agent(ScriptedModel([[say("x"), pause(60)], say("y")])) as test:
        test.agent.send("hi")
        await test.until("assistant/chunk")
        assert test.agent._driver is not None
        test.agent._driver.cancel()
        await test.idle()
        await test.say("next")

        assert [one.data.reason.kind for one in test.log if one.type == "turn/end"] == [
            "aborted",
            "completed",
        ]


@pytest.mark.rule("L15")
async def test_configured_agents_live_as_long_as_the_plugin() -> None:
    ctx = Context()
    fiber = await ctx.plugin(AgentLoop, {"agents": [{"id": "main"}, {"id": "other", "model": "m"}]})
    agents = ctx.agents.list()

    await fiber.dispose()

    assert [agent.id for agent in agents] == ["main", "other"]
    assert [agent.status for agent in agents] == ["disposed", "disposed"]
    assert ctx.agents.list() == []
    await ctx.dispose()


@pytest.mark.rule("L15")
async def test_bad_loop_config_and_a_taken_id_are_refused() -> None:
    ctx = Context()
    with pytest.raises(ConfigError, match=r"agents\[0\]\.modle is 'x', expected: no such field"):
        await ctx.plugin(AgentLoop, {"agents": [{"id": "a", "modle": "x"}]})
    await ctx.plugin(AgentLoop)
    ctx.agent_loop.create("a")
    with pytest.raises(AgentTakenError, match="an agent 'a' is live already"):
        ctx.agent_loop.create("a")
    await ctx.dispose()


@pytest.mark.rule("L16")
async def test_stream_that_just_ends_runs_no_call_and_is_no_completed_turn() -> None:
    ran: list[int] = []

    def touch() -> None:
        """Touch."""
        ran.append(1)

    async with running_agent(
        ScriptedModel([[say("I will"), call("touch"), cut()]]), tools=[touch]
    ) as test:
        await test.say("hi")

        assert ran == []
        assert ending(test).code == "STREAM_ENDED"
        assert results(test) == [("not started", NOT_STARTED)]
        check_log(test.log, ended=True)


@pytest.mark.rule("L16")
async def test_answer_cut_at_the_limit_runs_no_call_and_tells_the_model() -> None:
    ran: list[int] = []

    def touch() -> None:
        """Touch."""
        ran.append(1)

    model = ScriptedModel([[call("touch"), finish("max-tokens")], say("smaller")])
    async with running_agent(model, tools=[touch]) as test:
        await test.say("hi")

        assert (ran, ending(test).kind) == ([], "completed")
        assert "cut at the output limit" in results(test)[0][1]
        assert "smaller pieces" in repr(model.requests[1].messages[-1])


@pytest.mark.rule("L16")
async def test_call_cut_three_times_and_text_cut_once_end_the_turn_and_say_so() -> None:
    def touch() -> None:
        """Touch."""

    model = ScriptedModel(lambda request: [call("touch"), finish("max-tokens")])
    async with running_agent(model, tools=[touch]) as test:
        await test.say("hi")
        assert (len(model.requests), ending(test).code) == (3, "MAX_TOKENS")
        assert "3 times in a row" in str(ending(test).message)

    async with running_agent(ScriptedModel([[say("a"), finish("max-tokens")]])) as test:
        await test.say("hi")
        assert ending(test).code == "MAX_TOKENS"
        assert test.types[-3:] == ["step/end", "error", "turn/end"]


@pytest.mark.rule("M3")
@pytest.mark.parametrize(("kind", "code"), [("refusal", "REFUSAL"), ("moon-phase", "MOON-PHASE")])
async def test_no_other_stop_reason_counts_as_done(kind: str, code: str) -> None:
    async with running_agent(ScriptedModel([[say("a"), finish(kind)]])) as test:
        await test.say("hi")

        assert (ending(test).kind, ending(test).code) == ("error", code)


@pytest.mark.rule("M3")
async def test_paused_answer_is_resumed_with_nothing_added_at_most_eight_times() -> None:
    model = ScriptedModel([[say("a"), finish("pause-turn")], say("b")])
    async with running_agent(model) as test:
        await test.say("hi")
        assert [one.role for one in model.requests[1].messages] == ["user", "assistant"]
        assert ending(test).kind == "completed"

    model = ScriptedModel(lambda request: [say("a"), finish("pause-turn")])
    async with running_agent(model) as test:
        await test.say("hi")
        assert (len(model.requests), ending(test).code) == (9, "PAUSED")


@pytest.mark.rule("S5")
async def test_header_is_logged_when_it_changes_and_rewritten_messages_always() -> None:
    async with running_agent(ScriptedModel([say("a"), say("b"), say("c")]), tools=[add]) as test:
        await test.say("one")
        await test.say("two")
        assert test.agent.session[3].data.tools[0].name == "add"

        async def shorter(
            agent: Agent, request: ModelRequest, proceed: Proceed[ModelRequest]
        ) -> ModelRequest:
            given = await proceed()
            return ModelRequest(given.model, given.messages[-1:], "Be brief.")

        test.ctx.on(AGENT_REQUEST, shorter)
        await test.say("three")

        headers = [one.data.system for one in test.log if one.type == "request/header"]
        rewritten = [one.data for one in test.log if one.type == "request/messages"]
        assert (headers, [len(one.messages) for one in rewritten]) == ([None, "Be brief."], [1])


async def test_injected_context_starts_nothing_and_is_shown_next() -> None:
    model = ScriptedModel([say("a"), say("b")])
    async with running_agent(model) as test:
        test.agent.inject("it is noon", Source("clock"))
        assert test.types == ["context/message"]
        await test.say("hi")

        assert 'source="clock">it is noon' in text_of(model.requests[0].messages[0].content)


async def test_context_injected_while_a_request_is_on_its_way_stands_after_its_first_chunk() -> (
    None
):
    async with running_agent(ScriptedModel([[pause(0.05), say("a")]])) as test:
        test.agent.send("hi")
        await test.until("request/header")
        await asyncio.sleep(0.01)
        test.agent.inject("note")
        await test.idle()

        types = [one.type for one in test.log]
        assert types.index("context/message") > types.index("assistant/chunk")


async def test_call_ids_are_made_unique_in_a_session() -> None:
    script = [call("add", a=1, b=1), say("x")]
    async with running_agent(ScriptedModel(script), tools=[add]) as test:
        await test.say("hi")
        seed = test.log
    async with running_agent(ScriptedModel(script), tools=[add], seed=seed) as test:
        await test.say("again")

        ids = [one.data.call_id for one in test.log if isinstance(one.data, ToolResult)]
        assert len(set(ids)) == 2


@pytest.mark.rule("C8")
async def test_send_steer_inject_and_abort_work_from_another_thread() -> None:
    async with running_agent(ScriptedModel([[say("a"), pause(60)]])) as test:

        def elsewhere() -> None:
            test.agent.inject("context")
            test.agent.send("hi")

        await asyncio.to_thread(elsewhere)
        await test.until("assistant/chunk")
        await asyncio.to_thread(test.agent.abort, "from afar")
        await test.idle()

        assert [one.type for one in test.log][:2] == ["context/message", "user/message"]
        assert ending(test) == TurnReason("aborted", reason="from afar")
        assert isinstance(test.log[0].data, ContextMessage)


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (5, TypeError, "the prompt is 5, a int; pass text"),
        ("  ", ValueError, "is blank; say something"),
        ([], TypeError, "pass text"),
    ],
)
async def test_prompt_of_the_wrong_kind_is_refused_at_once(
    said: Any, error: type[Exception], text: str
) -> None:
    async with running_agent(ScriptedModel([])) as test:
        with pytest.raises(error, match=text):
            test.agent.send(said)
        assert test.log == []


async def test_long_result_can_be_read_on() -> None:
    text = "".join(f"line {n}\n" for n in range(20_000))

    def dump() -> str:
        """Dump it."""
        return text

    script = [
        call("dump"),
        call("read_result", call_id="call_1", start=100_000, length=50),
        say("x"),
    ]
    async with running_agent(ScriptedModel(script), tools=[dump]) as test:
        await test.say("hi")

        whole = next(one.data for one in test.log if isinstance(one.data, ToolResult))
        assert whole.overflow == text
        assert len(text_of(whole.content).encode()) < 60_000
        assert results(test)[1] == ("ok", text[100_000:100_050])


async def test_tool_that_asks_to_stop_stops_the_turn() -> None:
    async def stop() -> None:
        """Stop."""
        raise KeyboardInterrupt

    model = ScriptedModel([[call("stop"), call("stop")], say("never")])
    async with running_agent(model, tools=[stop]) as test:
        await test.say("hi")

        assert [outcome for outcome, _ in results(test)] == ["interrupted", "not started"]
        assert (ending(test).kind, len(model.requests)) == ("aborted", 1)
