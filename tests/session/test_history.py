"""The history that a model is shown."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import (
    Message,
    OpaqueBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    text_of,
)
from dsh_nb.session.history import (
    INTERRUPTED,
    NOT_STARTED,
    History,
    HistoryView,
    derive_messages,
)
from dsh_nb.session.repair import closing_events
from dsh_nb.session.session import Session
from dsh_nb.testing.logs import LogBuilder
from dsh_nb.testing.validator import validate_request

CALL, OTHER = ToolCallBlock("c1", "add", "{}"), ToolCallBlock("c2", "add", "{}")


def short(messages: HistoryView) -> list[str]:
    """Each message in a few words."""
    return [f"{one.role[0]}:{'|'.join(_block(block) for block in one.content)}" for one in messages]


def _block(block: object) -> str:
    if isinstance(block, ToolResultBlock):
        return f"{block.tool_call_id}={text_of(block.content)}"
    return str(getattr(block, "text", None) or getattr(block, "id", "?"))


@pytest.mark.rule("S4")
def test_each_kind_of_event_becomes_its_message() -> None:
    log = LogBuilder().user("hi").turn().step().says("I add", CALL).call("c1").result("c1", "3")
    log.steer("in euros").end_step().context("it is <noon>", "clock")

    assert short(derive_messages(log.events)) == [
        "u:hi",
        "a:I add|c1",
        "u:c1=3",
        'u:<steering source="user">in euros</steering>',
        'u:<context source="clock">it is <noon></context>',
    ]


@pytest.mark.rule("S4")
def test_chunks_boundaries_usage_and_errors_do_not_show() -> None:
    log = LogBuilder().user("hi").turn().step().streams("half an answer").end_step()
    log.add("error", {"turn": 1, "step": 1, "message": "lost"}).end_turn("error")

    assert short(derive_messages(log.events)) == ["u:hi"]


@pytest.mark.rule("S4")
def test_view_is_not_changed_by_later_events() -> None:
    log = LogBuilder().user("one").turn().step()
    history = History()
    for event in log.events:
        history.feed(event)
    view = history.view()
    for event in log.says("answer").end_step().end_turn().user("two").events[3:]:
        history.feed(event)

    assert (short(view), len(history.view())) == (["u:one"], 3)


@pytest.mark.rule("S4")
def test_fold_is_fed_each_message_once() -> None:
    class Count:
        def __init__(self) -> None:
            self.count = 0

        def feed(self, message: Message) -> None:
            fed.append(message)
            self.count += 1

    fed: list[Message] = []
    history, log = History(), LogBuilder()
    for turn in range(3):
        log.user(f"q{turn}").turn().step().says(f"a{turn}").end_step().end_turn()
    for event in log.events:
        history.feed(event)
        history.view().folded("count", Count)

    assert fed == list(history.view())


@pytest.mark.rule("S7")
@pytest.mark.parametrize("done", [(), ("c1",), ("c2",)])
def test_missing_results_say_whether_the_call_had_started(done: tuple[str, ...]) -> None:
    log = LogBuilder().user("hi").turn().step().says(CALL, OTHER).call("c1")
    for call_id in done:
        log.result(call_id, "real")
    log.user("next")

    expected = {"c1": INTERRUPTED, "c2": NOT_STARTED} | dict.fromkeys(done, "real")
    assert short(derive_messages(log.events)) == [
        "u:hi",
        "a:c1|c2",
        f"u:c1={expected['c1']}",
        f"u:c2={expected['c2']}",
        "u:next",
    ]


@pytest.mark.rule("S7")
def test_call_that_waits_for_a_person_is_shown_as_not_run() -> None:
    log = LogBuilder().user("hi").turn().step().says(CALL, OTHER).call("c1").call("c2")
    log.add("approval/asked", {"callId": "c1", "id": "a1", "tool": "add"})
    log.add("question/asked", {"callId": "c2", "id": "q1"})
    before = short(derive_messages(log.events))
    log.add("approval/decided", {"callId": "c1", "id": "a1", "outcome": "approved"})
    log.add("question/answered", {"id": "q1", "outcome": "answered", "answer": "blue"})

    assert before[2:] == [
        "u:c1=nobody has decided about this call of 'add'; the tool was not run",
        "u:c2=nobody has answered this question",
    ]
    assert short(derive_messages(log.events))[2:] == [f"u:c1={INTERRUPTED}", "u:c2=blue"]


@pytest.mark.rule("S7")
@pytest.mark.parametrize("order", [*itertools.permutations(["c1", "c2", "context"])])
def test_results_come_right_after_their_calls_whatever_arrives_between(
    order: tuple[str, ...],
) -> None:
    log = LogBuilder().user("hi").turn().step().says(CALL, OTHER)
    for what in order:
        log.context("note") if what == "context" else log.result(what)

    assert short(derive_messages(log.events))[2:4] == ["u:c1=done", "u:c2=done"]
    assert short(derive_messages(log.events))[4] == 'u:<context source="plugin">note</context>'


@pytest.mark.rule("S7")
def test_blank_text_and_a_leading_answer_never_show() -> None:
    log = LogBuilder().turn().step().says("  ", "hello", TextBlock(""))

    assert short(derive_messages(log.events)) == [
        "u:(The messages before this one are not in this log.)",
        "a:hello",
    ]


@pytest.mark.rule("S7")
def test_blank_result_is_shown_as_such() -> None:
    log = LogBuilder().user("hi").turn().step().says(CALL).call("c1").result("c1", " ")

    assert short(derive_messages(log.events))[-1] == "u:c1=(no result)"


def test_refused_exchange_is_not_shown_again() -> None:
    log = LogBuilder().user("good").turn().step().says("fine").end_step().end_turn()
    log.user("bad").turn().step().says("No.", stop="refusal").end_step().end_turn(
        "error", "REFUSAL"
    )
    log.user("good again")

    assert short(derive_messages(log.events)) == ["u:good", "a:fine", "u:good again"]


def test_continuation_after_an_answer_asks_the_model_to_go_on() -> None:
    log = LogBuilder().user("hi").turn().step().says("part").end_step().end_turn()
    log.add("turn/start", {"turn": 2, "trigger": {"kind": "continuation"}})

    assert (
        short(derive_messages(log.events))[-1] == 'u:<context source="harness">Continue.</context>'
    )


def test_paused_server_call_without_answer_is_dropped_when_a_user_speaks() -> None:
    paused = OpaqueBlock("anthropic", {"type": "server_tool_use", "id": "s1", "name": "search"})
    log = LogBuilder().user("hi").turn().step().says("wait", paused, stop="pause-turn").end_step()
    shown = short(derive_messages(log.events))
    log.end_turn("aborted").user("never mind")

    assert shown == ["u:hi", "a:wait|?"]
    assert short(derive_messages(log.events)) == ["u:hi", "a:wait", "u:never mind"]


@pytest.mark.rule("S4")
def test_deriving_costs_the_same_late_in_a_long_session() -> None:
    """The 10,000th step once cost what all before it cost together."""
    history, log = History(), LogBuilder()
    for _ in range(2_000):
        log.user("q").turn().step().says(CALL).call("c1").result("c1").end_step().end_turn()
    fed: list[int] = []
    for event in log.events:
        before = len(history._messages)
        history.feed(event)
        view = history.view()
        fed.append(len(history._messages) - before + len(view.open_tail))

    assert max(fed) <= 2
    assert view._base is history._messages  # nothing was copied


def _logs() -> st.SearchStrategy[LogBuilder]:
    actions = st.sampled_from(["answer", "call", "two calls", "abort", "context", "steer"])
    return st.lists(actions, max_size=12).map(_build)


def _build(actions: list[str]) -> LogBuilder:
    log = LogBuilder().user("begin").turn()
    numbers = itertools.count(1)
    for action in actions:
        log.step()
        if action == "answer":
            log.says("text")
        elif action in ("context", "steer"):
            (log.context if action == "context" else log.steer)("x")
            log.says("ok")
        else:
            calls = [
                ToolCallBlock(f"n{next(numbers)}", "add", "{}")
                for _ in range(1 + (action != "call"))
            ]
            log.says(*calls)
            for call in calls[: 1 if action == "abort" else None]:
                log.call(call.id).result(call.id)
            if action == "abort":
                log.result(calls[-1].id, NOT_STARTED, is_error=True)
        log.end_step()
    return log.end_turn().user("end")


@pytest.mark.rule("S7")
@given(log=_logs(), data=st.data())
def test_any_prefix_closed_is_a_history_that_a_provider_accepts(
    log: LogBuilder, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(log.events)))
    prefix = log.events[:cut]
    session = Session("fork", [*prefix, *closing_events(prefix)], check=True)
    session.append("user/message", {"content": [{"type": "text", "text": "go on"}], "source": {}})

    body = json.loads(encode_request(ModelRequest("claude-x", session.messages)))

    assert validate_request(body) == []
