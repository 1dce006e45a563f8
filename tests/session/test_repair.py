"""Closing a log that ends inside a turn: what is said of calls that waited for a person."""

from __future__ import annotations

import pytest

from dsh_nb.messages import ToolCallBlock, text_of
from dsh_nb.session.check import check_log
from dsh_nb.session.events import SessionEvent, ToolResult, TurnEnd, TurnReason
from dsh_nb.session.history import INTERRUPTED, NOT_STARTED
from dsh_nb.session.repair import closing_events
from dsh_nb.testing.logs import LogBuilder

NOT_RUN = "; the tool was not run"
GO_ON = "go on with your best assumption, and say what you assumed"
FIRST = {"turn": 1, "step": 1, "callId": "c1", "id": "a1"}


def waiting() -> LogBuilder:
    """Two calls; the first has begun."""
    calls = [ToolCallBlock("c1", "shell", "{}"), ToolCallBlock("c2", "shell", "{}")]
    return LogBuilder().user("go").turn().step().says(*calls).call("c1", "shell")


def asked() -> LogBuilder:
    """The first call waits for a decision."""
    return waiting().add("approval/asked", {**FIRST, "tool": "shell", "arguments": {}})


def questioned() -> LogBuilder:
    """The first call asks the user something."""
    return waiting().add("question/asked", {**FIRST, "question": "Which?"})


def closed(log: LogBuilder) -> list[tuple[str, str, bool]]:
    """Outcome, text and failure of each result that closes `log`, which must then hold."""
    closing = closing_events(log.events)
    check_log([*log.events, *closing], ended=True)
    results = [event.data for event in closing if isinstance(event.data, ToolResult)]
    return [(one.outcome, text_of(one.content), one.is_error) for one in results]


@pytest.mark.rule("S7")
def test_call_that_ran_and_one_that_did_not_are_told_apart() -> None:
    results = closed(waiting())

    assert results == [("interrupted", INTERRUPTED, True), ("not started", NOT_STARTED, True)]


def test_call_that_nobody_decided_about_did_not_run() -> None:
    results = closed(asked())

    text = f"nobody has decided about this call of 'shell'{NOT_RUN}"
    assert results[0] == ("denied", text, True)


@pytest.mark.parametrize(
    ("decided", "text"),
    [
        ({"outcome": "denied", "by": "user"}, "the user denied this call of 'shell'"),
        (
            {"outcome": "denied", "by": "hook", "reason": "not here"},
            "'hook' denied this call of 'shell': not here",
        ),
        (
            {"outcome": "stopped", "by": "stop", "reason": "enough"},
            "this call of 'shell' was stopped before anybody decided (enough)",
        ),
        (
            {"outcome": "disposed", "by": "dispose"},
            "asking about this call of 'shell' ended before anybody decided",
        ),
        (
            {"outcome": "timeout", "by": "timeout", "reason": "5 s"},
            "nobody decided about this call of 'shell' in time (5 s)",
        ),
        (
            {"outcome": "nobody", "by": "policy"},
            "calls of 'shell' need approval, and nobody is there to be asked",
        ),
        (
            {"outcome": "rule", "by": "rule", "reason": "deny shell with any arguments"},
            "this call of 'shell' is denied by a rule: deny shell with any arguments",
        ),
    ],
)
def test_call_that_was_not_let_run_says_why(decided: dict[str, str], text: str) -> None:
    results = closed(asked().add("approval/decided", {**FIRST, **decided}))

    assert results[0] == ("denied", f"{text}{NOT_RUN}", True)


@pytest.mark.parametrize("outcome", ["approved", "a word of another program", None])
def test_call_that_may_have_run_is_said_to_have_unknown_effects(outcome: str | None) -> None:
    decided = FIRST if outcome is None else {**FIRST, "outcome": outcome}

    results = closed(asked().add("approval/decided", decided))

    assert results[0] == ("interrupted", INTERRUPTED, True)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("approved", ("interrupted", INTERRUPTED, True)),
        ("denied", ("denied", f"'somebody' denied this call of 'shell'{NOT_RUN}", True)),
    ],
)
def test_decision_that_names_the_ask_alone_counts(
    outcome: str, expected: tuple[str, str, bool]
) -> None:
    results = closed(asked().add("approval/decided", {"id": "a1", "outcome": outcome}))

    assert results[0] == expected


@pytest.mark.parametrize("data", [{}, {"id": 3, "callId": ["c1"]}, {"callId": None}])
def test_approval_events_of_no_call_change_nothing(data: dict[str, object]) -> None:
    log = waiting().add("approval/asked", data).add("approval/decided", data)

    assert closed(log)[0] == ("interrupted", INTERRUPTED, True)


def test_decision_of_an_earlier_step_says_nothing_of_this_one() -> None:
    log = asked().add("approval/decided", {**FIRST, "outcome": "denied", "by": "user"})
    log.result("c1", is_error=True).result("c2").end_step().step()
    log.says(ToolCallBlock("c1", "shell", "{}")).call("c1", "shell")

    assert closed(log) == [("interrupted", INTERRUPTED, True)]


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (None, ("interrupted", "nobody has answered this question", True)),
        ({"outcome": "answered", "answer": "The blue one"}, ("ok", "The blue one", False)),
        (
            {"outcome": "declined", "reason": "ask Ann"},
            ("ok", f"the user does not want to answer this question: ask Ann; {GO_ON}", False),
        ),
        (
            {"outcome": "timeout", "reason": "5 s"},
            ("error", f"nobody answered this question in time (5 s); {GO_ON}", True),
        ),
        ({"outcome": "a word of another program"}, ("interrupted", INTERRUPTED, True)),
        (
            {"outcome": "stopped", "reason": "enough"},
            (
                "interrupted",
                "the turn was stopped before anybody answered this question (enough)",
                True,
            ),
        ),
    ],
)
def test_question_keeps_what_came_of_it(
    answered: dict[str, str] | None, expected: tuple[str, str, bool]
) -> None:
    log = questioned()
    if answered is not None:
        log.add("question/answered", {**FIRST, **answered})

    assert closed(log)[0] == expected


def test_nothing_closes_a_turn_that_ended() -> None:
    log = LogBuilder().user("go").turn().step().says("done").end_step().end_turn()

    assert closing_events(log.events) == []


def test_turn_is_closed_as_aborted_at_the_time_of_the_last_event() -> None:
    log = LogBuilder().user("go").turn()

    (end,) = closing_events(log.events)

    reason = TurnReason("aborted", "the log ends inside this turn")
    assert end == SessionEvent(2, log.events[-1].time, "turn/end", TurnEnd(1, reason))
