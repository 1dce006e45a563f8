"""Running a recorded session again: it comes to the same, or tells where it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.agent.agent_loop import AgentOptions
from dsh_nb.agent.protocol import (
    AGENT_REQUEST,
    AGENT_STEP_RESULT,
    AGENT_TURN_CONTINUATION,
    AGENT_TURN_START,
)
from dsh_nb.core import Context
from dsh_nb.errors import AgentError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.scripted import ScriptedModel, Step, call, cut, fail, finish, pause, say
from dsh_nb.messages import Message, Source, TextBlock, text_of
from dsh_nb.plugins.permission import PERMISSION, PERMISSION_ASKED, permission
from dsh_nb.plugins.rerun import DriftError, repeat, rerun
from dsh_nb.plugins.retry import RetryConfig, retry
from dsh_nb.session import Session
from dsh_nb.session.check import check_log
from dsh_nb.session.events import SessionEvent, ToolResult, TurnEnd
from dsh_nb.session.fork import fork_events, inherited_events
from dsh_nb.testing import TestAgent, running_agent
from dsh_nb.tools.schema import tool

Drive = Callable[[TestAgent], Awaitable[object]]
OPTIONS = AgentOptions(system_prompt="Be brief.", options={"max_tokens": 100})


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def lookup(city: str) -> str:
    """Look a city up."""
    raise KeyError(city)


@tool(parallel=True)
async def slow(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return f"{seconds}"


TOOLS = (add, lookup, slow)


def at_once(ctx: Context) -> None:
    """Retry without waiting."""
    retry(ctx, RetryConfig(attempts=2, first_delay_seconds=0))


async def record(steps: Sequence[Step], drive: Drive, *, tools: Any = TOOLS) -> Session:
    """The session of an agent that was driven so."""
    model = ScriptedModel(steps)
    async with running_agent(model, tools=tools, options=OPTIONS, plugins=[at_once]) as test:
        await drive(test)
        return test.agent.session


async def again(
    log: Sequence[SessionEvent],
    *,
    offered: Any = TOOLS,
    options: AgentOptions = OPTIONS,
    plugins: Any = (at_once,),
    prepare: Callable[[TestAgent], object] = lambda test: None,
    **how: Any,
) -> Session:
    """The rerun of `log` on an agent whose own model must not be asked."""
    nobody = ScriptedModel([])
    async with running_agent(nobody, tools=offered, options=options, plugins=plugins) as test:
        prepare(test)
        session = await rerun(log, test.agent, **how)
        assert nobody.requests == []
        return session


def facts(log: Sequence[SessionEvent]) -> list[tuple[str, Any]]:
    """Types and data, without ids of messages and what need not come again."""
    told = []
    for event in log:
        if event.type == "tool/late" or event.type.startswith("approval/"):
            continue
        data = msgspec.to_builtins(event.data)
        for source in (data.get("source"), data.get("trigger", {}).get("source")):
            (source or {}).pop("id", None)
        told.append((event.type, data))
    return told


def says(*texts: str) -> Drive:
    async def drive(test: TestAgent) -> None:
        for text in texts:
            await test.say(text)

    return drive


def at(place: str, number: int, act: Callable[[TestAgent], object]) -> Drive:
    """Act when event `number` of the type `place` is logged, in a turn that a second follows."""

    async def drive(test: TestAgent) -> None:
        seen: list[SessionEvent] = []

        def heard(session: Session, event: SessionEvent) -> None:
            if event.type == place:
                seen.append(event)
                if len(seen) == number:
                    act(test)

        test.agent.session.listen(heard)
        await test.say("first")
        await test.say("second")

    return drive


async def continued(test: TestAgent) -> None:
    await test.say("first")
    test.agent.inject("news")
    test.agent.continue_turn()
    await test.idle()


async def queued(test: TestAgent) -> None:
    test.agent.inject("before")
    test.agent.send("one")
    test.agent.send("two", Source("agent", "other"))
    await test.idle()
    await test.say("three")


def inject_twice(test: TestAgent) -> None:
    test.agent.inject("a")
    test.agent.inject("b")


def stopped(place: str, number: int = 1) -> Drive:
    return at(place, number, lambda test: test.agent.abort("enough"))


async def stopped_in_parallel(test: TestAgent) -> None:
    """Stop when the second of three calls is done and the others run."""
    test.agent.send("first")
    await test.until("tool/call", 3)
    await asyncio.sleep(0.05)
    test.agent.abort("enough")
    await test.idle()
    await test.say("second")


CALLS: list[Step] = [[call("add", a=1, b=2), call("lookup", city="Bern")], say("ok"), say("b")]
SESSIONS: dict[str, tuple[list[Step], Drive]] = {
    "plain": ([say("a"), say("b")], says("hi", "bye")),
    "tools": (CALLS, says("1 + 2", "bye")),
    "queued together": ([say("a"), say("b")], queued),
    "continued": ([say("a"), say("b")], continued),
    "error": ([[say("so"), fail("broke", code="x")], say("b")], says("a", "b")),
    "error before a chunk": ([fail("broke", code="x"), say("b")], says("a", "b")),
    "retry": ([[say("so"), fail("busy")], say("better"), say("b")], says("a", "b")),
    "refusal": ([[say("I"), finish("refusal", message="no")], say("b")], says("a", "b")),
    "cut": ([[say("so"), cut()], [say("so"), cut(mid_block=True)], say("b")], says("a", "b")),
    "aborted by the model": ([[say("so"), finish("aborted")], say("b")], says("a", "b")),
    "max-tokens": (
        [[call("add", a=1, b=2), finish("max-tokens")], say("b"), say("c")],
        says("a", "b"),
    ),
    **{
        f"steered at {place} {number}": (
            [[call("add", a=1, b=2)], say("ok"), say("then"), say("b")],
            at(place, number, lambda test: [test.agent.steer("now"), test.agent.steer("or then")]),
        )
        for place, number in [
            ("turn/start", 1),
            ("step/start", 1),
            ("assistant/chunk", 2),
            ("tool/call", 1),
            ("tool/result", 1),
            ("step/end", 1),
            ("step/end", 2),
            ("turn/end", 1),
        ]
    },
    **{
        f"context at {place} {number}": (
            CALLS,
            at(place, number, inject_twice),
        )
        for place, number in [
            ("user/message", 1),
            ("turn/start", 1),
            ("step/start", 1),
            ("assistant/chunk", 1),
            ("assistant/chunk", 3),
            ("tool/call", 2),
            ("tool/result", 1),
            ("turn/end", 1),
            ("user/message", 2),
            ("turn/end", 2),
        ]
    },
    **{
        f"stopped at {place} {number}": (CALLS, stopped(place, number))
        for place, number in [
            ("turn/start", 1),
            ("step/start", 1),
            ("request/header", 1),
            ("assistant/chunk", 1),
            ("assistant/chunk", 4),
            ("assistant/message", 1),
            ("usage", 1),
            ("tool/call", 1),
            ("tool/result", 1),
            ("tool/call", 2),
            ("tool/result", 2),
            ("step/end", 1),
            ("step/start", 2),
            ("assistant/chunk", 9),
        ]
    },
    "stopped in parallel": (
        [[call("slow", seconds=9), call("slow", seconds=0), call("slow", seconds=8)], say("b")],
        stopped_in_parallel,
    ),
}


HOW: dict[str, dict[str, Any]] = {
    "live tools": {},
    "recorded tools": {"tools": "recorded"},
    "nothing but the log": {"tools": "recorded", "pinned": True},
}


async def rerun_as(log: Session, how: str) -> Session:
    if how == "nothing but the log":
        return await again(log, offered=(), options=AgentOptions(), plugins=(), **HOW[how])
    return await again(log, **HOW[how])


@pytest.mark.rule("S5", "S6")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", SESSIONS)
async def test_rerun_is_the_same_session(name: str, how: str) -> None:
    steps, drive = SESSIONS[name]
    log = await record(steps, drive)

    session = await rerun_as(log, how)

    assert facts(session) == facts(log)


ACTIONS = st.lists(
    st.sampled_from(["say", "tools", "fail", "refuse", "cut", "retry", "continue"]),
    min_size=1,
    max_size=5,
)
BESIDE = st.lists(
    st.tuples(st.sampled_from(["steer", "inject", "abort", "send"]), st.integers(0, 60)),
    max_size=4,
)
STEPS: dict[str, list[Step]] = {
    "say": [[say("well, well")]],
    "continue": [say("more")],
    "tools": [[call("add", a=1, b=2), call("lookup", city="Bern")], say("done")],
    "fail": [[say("so"), fail("broke", code="x")]],
    "refuse": [[say("I"), finish("refusal")]],
    "cut": [[call("add", a=1, b=2), cut()], [say("so"), cut(mid_block=True)]],
    "retry": [[say("so"), fail("busy")], say("well")],
}


@pytest.mark.rule("S5", "S6")
@given(actions=ACTIONS, beside=BESIDE, how=st.sampled_from([*HOW]))
@settings(max_examples=60, deadline=None)
def test_rerun_of_any_session_is_the_same(
    actions: list[str], beside: list[tuple[str, int]], how: str
) -> None:
    """What comes beside comes when so many events are logged; the script never ends."""

    async def drive(test: TestAgent) -> None:
        agent = test.agent
        acts: dict[str, Callable[[], object]] = {
            "steer": lambda: agent.steer("hurry"),
            "inject": lambda: agent.inject("news"),
            "abort": lambda: agent.abort("enough"),
            "send": lambda: agent.send("and this"),
        }

        def heard(session: Session, event: SessionEvent) -> None:
            for act, seq in beside:
                if event.seq == seq:
                    acts[act]()

        agent.session.listen(heard)
        for action in actions:
            if action == "continue" and agent.session.turn:
                agent.continue_turn()
                await test.idle()
            else:
                await test.say(action)

    async def check() -> None:
        steps = [step for action in actions for step in STEPS[action]]
        log = await record([*steps, *(say(f"and {n}") for n in range(20))], drive)

        session = await rerun_as(log, how)

        assert facts(session) == facts(log)
        check_log(session, ended=True)

    asyncio.run(check())


@given(cut=st.integers(0, 200), how=st.sampled_from([*HOW]))
@settings(max_examples=30, deadline=None)
def test_rerun_of_a_log_that_was_cut_ends_where_it_does(cut: int, how: str) -> None:
    async def check() -> None:
        steps, drive = SESSIONS["tools"]
        whole = await record(steps, drive)
        part = Session("cut", whole[: cut % (len(whole) + 1)])
        taken = any(event.type == "turn/start" for event in part)

        session = await rerun_as(part, how)

        fork = Session("closed", fork_events(part).events)
        assert not taken or [*session.messages] == _begun(fork)

    asyncio.run(check())


def _begun(log: Session) -> list[Message]:
    """The history without messages at the end that no turn has taken."""
    last = max(event.seq for event in log if event.type == "turn/end")
    return [*Session("begun", log[: last + 1]).messages]


async def test_rerun_of_a_rerun_is_the_same() -> None:
    steps, drive = SESSIONS["tools"]
    log = await record(steps, drive)

    twice = await again(await again(log))

    assert facts(twice) == facts(log)


async def test_rerun_says_where_it_comes_from_and_that_nothing_was_billed() -> None:
    log = await record(*SESSIONS["plain"])

    session = await again(log)

    assert session.header == {"parent": "main", "kind": "rerun", "inherited": len(log)}
    assert inherited_events(session) >= len(session)


async def test_tool_that_comes_to_something_else_is_drift() -> None:
    log = await record(*SESSIONS["tools"])

    @tool(name="add")
    def wrong(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b + 1

    with pytest.raises(DriftError) as caught:
        await again(log, offered=(wrong, lookup, slow))

    drift = caught.value
    assert (drift.turn, drift.step, drift.what) == (1, 1, "the result of a tool call")
    assert str(drift).splitlines() == [
        "turn 1, step 1: the result of a tool call differs from the recording",
        f" {drift.expected.splitlines()[0]}",
        "-3",
        "+4",
    ]


async def test_drift_ends_the_rerun_and_its_log_holds() -> None:
    log = await record(*SESSIONS["tools"])
    seen: list[Session] = []

    with pytest.raises(DriftError):
        await again(
            log,
            offered=(
                lookup,
                slow,
                tool(lambda a, b: 4, name="add", description="Add two numbers."),
            ),
            prepare=lambda test: seen.append(test.agent.session),
        )

    check_log(seen[0], ended=True)
    endings = [event.data.reason for event in seen[0] if isinstance(event.data, TurnEnd)]
    assert [one.reason for one in endings] == ["the rerun differs from its recording"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"options": AgentOptions(system_prompt="Be long.", options={"max_tokens": 100})},
            "the system of the request differs from the recording\n-Be brief.\n\\+Be long.",
        ),
        ({"offered": (lookup, slow)}, 'what the request says of tools differs .*\n-.*"add"'),
    ],
)
async def test_prompt_or_tools_that_differ_are_drift(changed: dict[str, Any], text: str) -> None:
    log = await record(*SESSIONS["tools"])

    with pytest.raises(DriftError, match=f"^turn 1, step 1: {text}") as caught:
        await again(log, **changed)
    assert max(map(len, str(caught.value).splitlines())) < 210


async def test_tool_and_model_and_options_that_came_later_are_no_drift() -> None:
    log = await record(*SESSIONS["tools"])

    @tool
    def later() -> str:
        """Come later."""
        return "late"

    session = await again(
        log, offered=(*TOOLS, later), options=AgentOptions(system_prompt="Be brief.")
    )

    assert facts(session) == facts(log)


async def test_listener_that_changes_messages_is_drift() -> None:
    log = await record(*SESSIONS["plain"])

    def shout(test: TestAgent) -> None:
        async def change(agent: Any, request: Any, proceed: Any) -> Any:
            request = await proceed()
            return msgspec.structs.replace(request, messages=request.messages[:0])

        test.ctx.on(AGENT_REQUEST, change)

    with pytest.raises(DriftError, match="turn 1, step 1: what happens next differs"):
        await again(log, prepare=shout)


async def test_listeners_of_the_recording_are_pinned_where_they_are_not_at_hand() -> None:
    """One rewrites requests, one answers, one makes a turn go on, one ends it."""

    async def shorten(agent: Any, request: Any, proceed: Any) -> Any:
        request = await proceed()
        return msgspec.structs.replace(request, messages=request.messages[-1:], system="Short.")

    async def politely(agent: Any, result: Any, proceed: Any) -> Any:
        result = await proceed()
        return msgspec.structs.replace(result, content=(*result.content, TextBlock("please")))

    async def twice(agent: Any, continuation: Any, proceed: Any) -> Any:
        return continuation.step < 2

    async def drive(test: TestAgent) -> None:
        test.ctx.on(AGENT_REQUEST, shorten)
        test.ctx.on(AGENT_STEP_RESULT, politely)
        test.ctx.on(AGENT_TURN_CONTINUATION, twice)
        await says("a", "b")(test)

    steps: list[Step] = [say("1"), say("2"), call("add", a=1, b=1), call("add", a=1, b=2)]
    log = await record(steps, drive)

    assert facts(await rerun_as(log, "nothing but the log")) == facts(log)
    with pytest.raises(DriftError):
        await rerun_as(log, "recorded tools")


async def test_context_that_a_plugin_makes_again_is_not_given_twice() -> None:
    def remember(ctx: Context) -> None:
        def inject(agent: Any, turn: int) -> None:
            agent.inject("it rains", Source("plugin", "memory"))

        ctx.on(AGENT_TURN_START, inject)

    model = ScriptedModel([say("a"), say("b")])
    async with running_agent(model, options=OPTIONS, plugins=[remember]) as test:
        await says("hi", "bye")(test)
        log = test.agent.session

    same = await again(log, offered=(), plugins=[remember], made_again=("harness", "plugin"))
    assert facts(same) == facts(log)
    assert facts(await again(log, offered=(), plugins=())) == facts(log)
    with pytest.raises(DriftError, match="what happens next differs"):
        await again(log, offered=(), plugins=[remember])


async def test_recording_that_goes_on_where_nothing_happens_is_drift() -> None:
    log = [*await record(*SESSIONS["plain"])]
    trigger = {"kind": "message", "source": {}}
    whole = Session("main", log)
    whole.append("turn/start", {"turn": 3, "trigger": trigger})

    with pytest.raises(DriftError, match=r"^turn 3: what happens next differs") as caught:
        await again(whole)
    assert caught.value.got == ""


async def test_event_more_than_was_recorded_is_drift() -> None:
    log = await record(*SESSIONS["plain"])

    def more(test: TestAgent) -> None:
        async def go_on(agent: Any, continuation: Any, proceed: Any) -> Any:
            return True

        test.ctx.on(AGENT_TURN_CONTINUATION, go_on)

    with pytest.raises(DriftError, match=r"^turn 1, step 1: what happens next differs") as caught:
        await again(log, prepare=more)
    assert "Continue." in caught.value.got


async def test_call_that_runs_alone_now_is_drift() -> None:
    """A call that waits for its stop once kept the others from beginning, and all from ending."""
    log = await record(*SESSIONS["stopped in parallel"])

    @tool(name="slow")
    async def alone(seconds: float) -> str:
        """Take a while."""
        return ""

    with pytest.raises(DriftError, match="what happens next differs"):
        await again(log, offered=(add, lookup, alone), tools="recorded")


async def test_long_difference_is_shown_where_it_is() -> None:
    @tool(name="add")
    def long(a: int, b: int) -> str:
        """Add two numbers."""
        return "x" * 5_000 + "after"

    @tool(name="add")
    def other(a: int, b: int) -> str:
        """Add two numbers."""
        return "x" * 5_000 + "later"

    log = await record([call("add", a=1, b=2), say("ok")], says("go"), tools=[long])

    with pytest.raises(DriftError) as caught:
        await again(log, offered=[other])
    *_, old, new = str(caught.value).splitlines()
    assert (old[:2], new[:2]) == ("-…", "+…")
    assert old.endswith("xafter")
    assert new.endswith("xlater")
    assert len(old) < 210


async def test_difference_of_many_lines_is_shortened() -> None:
    def lines(word: str) -> Any:
        return tool(lambda: "\n".join(f"{word} {n}" for n in range(99)), name="f", description="F.")

    log = await record([call("f"), say("ok")], says("go"), tools=[lines("a")])

    with pytest.raises(DriftError, match=r"  … \d+ more lines$"):
        await again(log, offered=[lines("b")])


async def test_live_tool_that_asks_a_model_asks_its_own() -> None:
    asked: list[str] = []

    def ask(test_ctx: list[Any]) -> Any:
        @tool(name="ask")
        async def ask() -> str:
            """Ask another model."""
            request = ModelRequest("other", (Message("user", (TextBlock("?"),)),))
            answer = await test_ctx[0].llm.generate(request)
            asked.append(text_of(answer.content))
            return asked[-1]

        return ask

    def other(ctxs: list[Any]) -> Callable[[TestAgent], object]:
        def prepare(test: TestAgent) -> None:
            ctxs.append(test.ctx)
            test.agent.llm.register(ScriptedModel([say("42")], name="other"), ["other"])

        return prepare

    async def drive(test: TestAgent) -> None:
        other(first)(test)
        await test.say("go")

    first: list[Any] = []
    log = await record([call("ask"), say("ok")], drive, tools=[ask(first)])
    second: list[Any] = []
    session = await again(log, offered=[ask(second)], prepare=other(second))

    assert facts(session) == facts(log)
    assert asked == ["42", "42"]


def gate(ctx: Context) -> None:
    """Each call of ``add`` needs approval."""
    ctx.plugin(permission, {"rules": [{"tool": "add", "decision": "ask"}]})


def decides(test: TestAgent, decide: str, asks: list[str]) -> None:
    """Let a person be there who decides so."""
    service = test.ctx.get(PERMISSION)
    service.can_ask = lambda: True

    def asked(ask: Any) -> None:
        asks.append(ask.call_id)
        if decide == "stop":
            test.agent.abort("enough")
        else:
            getattr(service, decide)(ask.id)

    test.ctx.on(PERMISSION_ASKED, asked)


@pytest.mark.parametrize("decide", ["approve", "deny", "stop"])
@pytest.mark.parametrize("how", HOW)
async def test_live_tools_ask_a_person_again_and_recorded_ones_do_not(
    how: str, decide: str
) -> None:
    first: list[str] = []
    model = ScriptedModel(CALLS)
    async with running_agent(model, tools=TOOLS, options=OPTIONS, plugins=[gate]) as test:
        decides(test, decide, first)
        await says("1 + 2", "bye")(test)
        log = test.agent.session
    assert first == ["call_1"]

    again_asked: list[str] = []
    if how == "live tools":
        session = await again(
            log, plugins=[gate], prepare=lambda test: decides(test, decide, again_asked)
        )
    else:
        session = await rerun_as(log, how)

    assert facts(session) == facts(log)
    asked = [one for one in session if one.type == "approval/asked"]
    assert len(asked) == (1 if how == "live tools" else 0)


async def test_turn_that_ended_with_its_agent_counts_as_stopped() -> None:
    log = await record([[say("so far"), pause(9)]], disposed_in_mid_stream)
    assert log[-1].data.reason.kind == "disposed"

    session = await again(log)

    assert facts(session)[:-1] == facts(log)[:-1]
    assert session[-1].data.reason.kind == "aborted"


async def disposed_in_mid_stream(test: TestAgent) -> None:
    test.agent.send("hi")
    await test.until("assistant/chunk", 3)
    await test.agent.dispose()


async def test_agent_that_is_not_new_is_refused() -> None:
    log = await record(*SESSIONS["plain"])

    async with running_agent(ScriptedModel([say("a")])) as test:
        await test.say("hi")
        for run in (rerun, repeat):
            with pytest.raises(AgentError, match="has a session already; pass a new one"):
                await run(log, test.agent)


async def test_rerun_that_is_cancelled_stops_its_agent() -> None:
    log = await record([call("slow", seconds=0), say("ok")], says("go"))
    began = asyncio.Event()

    @tool(name="slow", parallel=True)
    async def slower(seconds: float) -> str:
        """Take a while."""
        began.set()
        await asyncio.sleep(60)
        return ""

    async with running_agent(
        ScriptedModel([]), tools=[add, lookup, slower], options=OPTIONS
    ) as test:
        running = asyncio.ensure_future(rerun(log, test.agent))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await test.idle()

        assert test.agent.session[-1].data.reason.reason == "the rerun was cancelled"


async def test_rerun_leaves_no_listener() -> None:
    log = await record(*SESSIONS["plain"])

    async with running_agent(ScriptedModel([say("live")]), tools=TOOLS, options=OPTIONS) as test:
        await rerun(log, test.agent)
        await test.say("and now?")

        assert test.agent.session.turn == 3
        assert text_of(test.agent.session.messages[-1].content) == "live"


# -- experiments ---------------------------------------------------------------------------------


async def tried(log: Session, model: Any, **how: Any) -> tuple[Session, list[str]]:
    """The session of an experiment, and what its types of events are."""
    async with running_agent(model, tools=TOOLS, options=OPTIONS) as test:
        session = await repeat(log, test.agent, **how)
        return session, test.types


async def test_experiment_gives_another_model_the_same_inputs() -> None:
    log = await record(*SESSIONS["queued together"])

    session, _ = await tried(log, ScriptedModel([say("x"), say("y")]))

    texts = [text_of(message.content) for message in session.messages]
    context = '<context source="user">before</context>'
    assert texts == [context, "one", "two", "x", "three", "y"]
    assert session.header == {"parent": "main", "kind": "experiment"}


async def test_experiment_continues_where_the_recording_did() -> None:
    log = await record(*SESSIONS["continued"])

    _, types = await tried(log, ScriptedModel([say("x"), say("y")]))

    assert types.count("user/message") == 1
    assert types.count("turn/start") == 2


async def test_experiment_steers_at_the_same_step_or_before_the_end() -> None:
    log = await record(*SESSIONS["steered at tool/result 1"])

    _, same = await tried(log, ScriptedModel([call("add", a=1, b=1), say("a"), say("b")]))
    _, early = await tried(log, ScriptedModel([say("at once"), say("a"), say("b")]))

    assert same.index("steering/message") < same.index("step/end")
    assert early.count("steering/message") == 2
    assert early.index("step/end") > early.index("steering/message")
    assert early.count("step/start") == 3


async def test_experiment_says_with_the_next_turn_what_a_failed_one_was_not_told() -> None:
    log = await record(*SESSIONS["steered at tool/result 1"])

    session, types = await tried(log, ScriptedModel([fail("broke"), say("b")]))

    assert "steering/message" not in types
    texts = [text_of(message.content) for message in session.messages]
    assert texts[-4:] == ["now", "or then", "second", "b"]


async def test_experiment_gives_context_where_it_came() -> None:
    log = await record(*SESSIONS["context at tool/result 1"])

    _, types = await tried(log, ScriptedModel([*CALLS]))

    assert types.count("context/message") == 2
    assert types.index("context/message") > types.index("assistant/message")


async def test_experiment_with_recorded_tools_runs_none() -> None:
    log = await record(*SESSIONS["tools"])
    steps: list[Step] = [[call("add", b=2, a=1), call("add", a=5, b=5)], say("ok"), say("b")]

    session, _ = await tried(log, ScriptedModel(steps), tools="recorded")

    results = [event.data for event in session if isinstance(event.data, ToolResult)]
    texts = [text_of(one.content) for one in results]
    assert texts[0] == "3"
    assert texts[1].startswith("no result of 'add' with these arguments was recorded")
    assert [one.is_error for one in results] == [False, True]


async def test_experiment_that_is_cancelled_stops_its_agent() -> None:
    log = await record(*SESSIONS["plain"])

    async with running_agent(ScriptedModel([[say("x"), pause(60)]]), options=OPTIONS) as test:
        running = asyncio.ensure_future(repeat(log, test.agent))
        await test.until("assistant/chunk")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await test.idle()

        assert test.agent.session[-1].data.reason.reason == "the rerun was cancelled"
