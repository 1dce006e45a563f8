"""Forking a log: where it ends, what it inherits, and that it is valid at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.errors import SessionError
from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.scripted import ScriptedModel, call, say
from dsh_nb.messages import Source, TextBlock, ToolCallBlock
from dsh_nb.plugins.permission import PERMISSION, PERMISSION_ASKED, permission
from dsh_nb.session import Session
from dsh_nb.session.events import SessionEvent, TurnStart, TurnTrigger, UserMessage
from dsh_nb.session.fork import Fork, fork_events, fork_name, inherited_events
from dsh_nb.tables import tool_calls
from dsh_nb.testing import LogBuilder, running_agent
from dsh_nb.testing.validator import validate_request


def two_turns() -> Session:
    """A turn with two calls in its first step and one in its second, then a turn without any."""
    calls = [ToolCallBlock("c1", "add", "{}"), ToolCallBlock("c2", "add", "{}")]
    log = LogBuilder().user("first").turn().step().says(*calls)
    log.call("c1").result("c1").call("c2").result("c2").end_step()
    log.step().says(ToolCallBlock("c3", "add", "{}")).call("c3").result("c3").end_step()
    log.step().says("done").end_step().end_turn()
    log.context("news").user("second").user("and third").turn().step().says("well")
    return Session("main", log.end_step().end_turn().events)


def ends_before(fork: Fork, type: str, number: int) -> bool:
    """Whether the fork inherits all before the event `number` (from 1) of `type`."""
    places = [event.seq for event in two_turns() if event.type == type]
    return bool(fork.header["inherited"] == places[number - 1])


def test_fork_without_a_place_has_the_whole_log() -> None:
    session = two_turns()

    fork = fork_events(session)

    assert fork.events == (*session,)
    assert fork.header == {"parent": "main", "kind": "fork", "inherited": len(session)}


def test_fork_at_an_event_ends_with_it() -> None:
    session = two_turns()
    end = next(event.seq for event in session if event.type == "turn/end")

    fork = fork_events(session, at=end)

    assert fork.events == (*session[: end + 1],)


def test_fork_before_a_turn_leaves_out_its_messages() -> None:
    fork = fork_events(two_turns(), turn=2)

    assert ends_before(fork, "user/message", 2)
    assert [event.type for event in fork.events[-2:]] == ["turn/end", "context/message"]


def test_fork_before_the_first_turn_is_empty() -> None:
    assert fork_events(two_turns(), turn=1).events == ()


def test_fork_before_a_continuation_ends_at_its_start() -> None:
    session = two_turns()
    session.append("turn/start", TurnStart(3, TurnTrigger("continuation")))

    assert fork_events(session, turn=3).events == (*session[:-1],)


@pytest.mark.parametrize(
    ("before", "step"), [("c1", 1), ("c2", 1), ("c3", 2), (0, 1), (1, 1), (2, 2), (-1, 2)]
)
def test_fork_before_a_call_ends_before_the_step_that_asked_for_it(
    before: str | int, step: int
) -> None:
    assert ends_before(fork_events(two_turns(), before=before), "step/start", step)


def test_rows_of_calls_are_those_of_the_table() -> None:
    session, table = two_turns(), tool_calls(two_turns())

    by_row = [fork_events(session, before=row) for row in table.index]
    by_id = [fork_events(session, before=id) for id in table["call_id"]]

    assert len(table) == 3
    assert by_row == by_id


def test_call_whose_message_is_lost_counts_from_where_it_begins() -> None:
    log = LogBuilder().turn().call("c1").result("c1").events

    assert fork_events(log, before="c1").header["inherited"] == 1


def test_open_turn_is_closed_in_the_fork_alone() -> None:
    session = two_turns()
    before = [*session]
    called = next(event.seq for event in session if event.type == "tool/call")

    fork = fork_events(session, at=called)

    closing = fork.events[called + 1 :]
    told = ["tool/result", "tool/result", "step/end", "turn/end"]
    assert [event.type for event in closing] == told
    assert [event.data.outcome for event in closing[:2]] == ["interrupted", "not started"]
    assert fork.header["inherited"] == called + 1
    assert [*session] == before


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"at": 99}, r"no event 99 to fork at; its events are 0 to \d+"),
        ({"at": -1}, r"no event -1 to fork at; its events are 0 to"),
        ({"turn": 3}, "no turn 3 to fork before; its turns are 1 to 2"),
        ({"before": "c9"}, r"no call 'c9' to fork before; the newest calls are \['c1', 'c2', 'c3'"),
        ({"before": 3}, "tool_calls has no row 3 to fork before; its rows are 0 to 2"),
    ],
)
def test_place_that_is_not_there_says_which_ones_are(place: dict[str, Any], text: str) -> None:
    with pytest.raises(SessionError, match=text):
        fork_events(two_turns(), **place)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"at": 0}, "no event 0 to fork at; it is empty"),
        ({"turn": 1}, "no turn 1 to fork before; it has none"),
        ({"before": "c1"}, "no call 'c1' to fork before; it has no calls"),
        ({"before": 0}, "no row 0 to fork before; it has none"),
    ],
)
def test_empty_log_says_that_it_is_empty(place: dict[str, Any], text: str) -> None:
    with pytest.raises(SessionError, match=text):
        fork_events([], **place)


def test_two_places_are_refused() -> None:
    with pytest.raises(TypeError, match="one place, and at and turn were given; pass one"):
        fork_events(two_turns(), at=1, turn=1)


def test_place_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        fork_events(two_turns(), at=1.5)  # type: ignore[arg-type]  # what is tested


def test_id_that_two_calls_have_is_refused() -> None:
    log = LogBuilder().user("a").turn()
    for _ in range(2):
        log.step().says(ToolCallBlock("c1", "add", "{}")).call("c1").result("c1").end_step()

    with pytest.raises(SessionError, match="2 calls have the id 'c1'; pass the row of one"):
        fork_events(log.events, before="c1")


def test_name_of_a_fork_is_not_taken() -> None:
    assert fork_name("main", ()) == "main-fork"
    assert fork_name("main", {"main-fork", "main-fork-2"}) == "main-fork-3"
    assert fork_name("main", {"main-fork"}, "rerun") == "main-rerun"


def test_inherited_events_are_told_from_the_header() -> None:
    fork = fork_events(two_turns(), turn=2)
    session = Session("other", fork.events, header=fork.header)

    assert inherited_events(session) == fork.header["inherited"] > 0
    assert inherited_events(two_turns()) == inherited_events([]) == 0
    assert inherited_events(Session("bad", header={"inherited": "many"})) == 0


def test_fork_of_a_fork_inherits_what_that_inherited() -> None:
    first = fork_events(two_turns(), turn=2)
    child = Session("child", first.events, header=first.header)

    second = fork_events(child)

    assert second.header == {"parent": "child", "kind": "fork", "inherited": len(child)}


def _logs() -> st.SearchStrategy[list[SessionEvent]]:
    actions = st.sampled_from(["answer", "call", "two calls", "context", "steer", "turn"])
    return st.lists(actions, max_size=12).map(_build)


def _build(actions: list[str]) -> list[SessionEvent]:
    log = LogBuilder().user("begin").turn()
    for number, action in enumerate(actions):
        if action == "turn":
            log.end_turn().user("next").turn()
            continue
        log.step()
        if action in ("context", "steer"):
            (log.context if action == "context" else log.steer)("x")
            log.says("ok")
        elif action == "answer":
            log.says("text")
        else:
            count = 2 if action == "two calls" else 1
            calls = [ToolCallBlock(f"n{number}-{n}", "add", "{}") for n in range(count)]
            log.says(*calls)
            for one in calls:
                log.call(one.id).result(one.id)
        log.end_step()
    return log.end_turn().events


@pytest.mark.rule("S6", "S7")
@given(log=_logs(), data=st.data())
def test_fork_of_any_prefix_is_a_history_that_a_provider_accepts(
    log: list[SessionEvent], data: st.DataObject
) -> None:
    prefix = log[: data.draw(st.integers(1, len(log)))]
    place = data.draw(st.integers(0, len(prefix) - 1))

    fork = fork_events(prefix, at=place)

    session = Session("fork", fork.events, header=fork.header, check=True)
    session.append("user/message", UserMessage((TextBlock("go on"),), Source()))
    body = json.loads(encode_request(ModelRequest("claude-x", session.messages)))
    assert validate_request(body) == []
    assert list(fork.events[: place + 1]) == prefix[: place + 1]


@pytest.mark.rule("S6", "L11")
async def test_fork_goes_on_by_itself_and_its_parent_stays() -> None:
    async with running_agent(ScriptedModel(["one", "two"])) as test:
        await test.say("first")
        await test.say("second")
        parent = test.agent.session
    before = [*parent]
    fork = fork_events(parent, turn=2)

    async with running_agent(ScriptedModel(["other"]), seed=fork.events) as test:
        await test.say("another question")
        child = test.agent.session

    assert [*parent] == before
    assert child.turn == 2
    texts = [message.content[0].text for message in child.messages]  # type: ignore[union-attr]
    assert texts == ["first", "one", "another question", "other"]


async def test_approval_from_before_the_fork_lets_nothing_run_after_it() -> None:
    ran: list[str] = []

    def wipe(path: str) -> str:
        """Delete."""
        ran.append(path)
        return "gone"

    async def session(seed: Any, remember: Any) -> tuple[Session, int]:
        """The session after two turns that call the tool, and how often a person was asked."""
        model = ScriptedModel([call("wipe", path="a"), say("ok")])

        def gate(ctx: Any) -> None:
            ctx.plugin(permission, {"rules": [{"tool": "wipe", "decision": "ask"}]})

        async with running_agent(model, tools=[wipe], plugins=[gate], seed=seed) as test:
            service = test.ctx.get(PERMISSION)
            service.can_ask = lambda: True
            test.ctx.on(PERMISSION_ASKED, lambda ask: service.approve(ask.id, remember=remember))
            await test.say("wipe a")
            new = test.agent.session[test.agent.session.seeded :]
            return test.agent.session, sum(event.type == "approval/asked" for event in new)

    once, asked = await session((), False)
    assert asked == 1
    decided = next(event.seq for event in once if event.type == "approval/decided")

    at_the_decision, asked = await session(fork_events(once, at=decided).events, False)
    assert asked == 1
    assert ran == ["a", "a"]
    for_good, _ = await session(fork_events(at_the_decision).events, True)
    _, asked = await session(fork_events(for_good).events, False)
    assert asked == 0
