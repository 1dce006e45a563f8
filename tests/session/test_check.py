"""The log invariants, and closing a log that ends inside a turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dsh_nb.errors import LogError
from dsh_nb.messages import TextBlock, ToolCallBlock, ToolCallDelta, Usage
from dsh_nb.session.check import check_log
from dsh_nb.session.events import AssistantMessage, SessionEvent, ToolResult
from dsh_nb.session.repair import closing_events
from dsh_nb.testing.logs import LogBuilder

CALL = ToolCallBlock("c1", "add", "{}")


def begun() -> LogBuilder:
    return LogBuilder().user("hi").turn().step()


def test_whole_log_passes() -> None:
    log = begun().says("I add", CALL).call("c1").result("c1").steer("faster").end_step()
    log.step().says("3").end_step().end_turn().user("two").turn().step().says("x").end_step()

    check_log(log.end_turn().events, ended=True)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda log: log.turn(), "begins turn 2 inside turn 1"),
        (
            lambda log: log.says("a").end_step().end_turn().end_turn(),
            "ends turn 1, which is not open",
        ),
        (lambda log: log.end_turn(), "while step 1 is open"),
        (lambda log: log.step(), "begins step 2 of turn 1 out of place"),
        (lambda log: log.says("a").says("b"), "chunk after the message"),
        (lambda log: log.says(CALL).end_step(), r"calls \['c1'\] have no result"),
        (
            lambda log: log.says(CALL).call("c1").result("c1").result("c1"),
            "'c1', which is not open",
        ),
        (lambda log: log.says("a").call("c9"), "starts call 'c9', which is not waiting"),
        (lambda log: log.says("a").result("c9"), "answers call 'c9', which is not open"),
        (lambda log: log.says("a", usage=Usage(-1)), "negative count"),
        (lambda log: log.says("a").end_step().end_turn().steer("x"), "steers turn 1"),
        (lambda log: log.says(CALL, CALL), "two calls with id 'c1'"),
    ],
)
def test_each_broken_invariant_is_named(
    spoil: Callable[[LogBuilder], LogBuilder], problem: str
) -> None:
    with pytest.raises(LogError, match=problem):
        check_log(spoil(begun()).events)


def test_message_must_say_what_its_chunks_say_unless_it_was_rewritten() -> None:
    log = begun().streams("one two")
    said = AssistantMessage(1, 1, (TextBlock("three"),), interrupted=True)

    with pytest.raises(LogError, match="does not say what the chunks"):
        check_log([*log.events, SessionEvent(len(log.events), 0, "assistant/message", said)])
    rewritten = AssistantMessage(1, 1, (TextBlock("three"),), rewritten=True)
    check_log([*log.events, SessionEvent(len(log.events), 0, "assistant/message", rewritten)])


def test_seq_must_be_its_index() -> None:
    events = begun().events

    with pytest.raises(LogError, match="has seq 1, not 0"):
        check_log(events[1:])


@pytest.mark.rule("S5")
def test_answer_without_a_logged_header_is_refused_unless_the_log_is_foreign() -> None:
    events = [event for event in begun().says("a").events if event.type != "request/header"]
    foreign = [SessionEvent(n, one.time, one.type, one.data) for n, one in enumerate(events)]

    with pytest.raises(LogError, match="whose header was never logged"):
        check_log(foreign)
    check_log(foreign, complete=False)


def test_open_turn_is_told_at_the_end() -> None:
    with pytest.raises(LogError, match="turn 1 never ended"):
        check_log(begun().events, ended=True)


@pytest.mark.rule("S7")
def test_closing_keeps_the_streamed_text_and_tells_which_call_had_started() -> None:
    log = begun().streams("half a")
    log.chunk(ToolCallDelta(1, "c7", '{"a"', "add"))
    after = closing_events(log.events)
    asked = begun().says(CALL, ToolCallBlock("c2", "add", "{}")).call("c1")
    results = [one.data for one in closing_events(asked.events) if isinstance(one.data, ToolResult)]

    assert [one.type for one in after] == ["assistant/message", "step/end", "turn/end"]
    assert after[0].data.content == (TextBlock("half a "),)
    assert [(one.call_id, one.outcome) for one in results] == [
        ("c1", "interrupted"),
        ("c2", "not started"),
    ]
    check_log([*log.events, *after], ended=True)
    check_log([*asked.events, *closing_events(asked.events)], ended=True)


def test_whole_log_needs_no_closing() -> None:
    log = begun().says("a").end_step().end_turn()

    assert closing_events(log.events) == []
    assert closing_events([]) == []
