"""Comparing two logs: what stands side by side, and which words differ."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.messages import (
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolCallBlock,
    ToolSchema,
)
from dsh_nb.session.compare import Pair, Span, TurnPair, compare, spans_of
from dsh_nb.session.events import RequestHeader, SessionEvent, UserMessage
from dsh_nb.session.items import Item, items_of
from dsh_nb.testing import LogBuilder


def asks(*results: str, answer: str = "done", tool: str = "search") -> list[SessionEvent]:
    """A turn with a step for each result, and one that answers."""
    log = LogBuilder().user("question").turn()
    for number, result in enumerate(results):
        call = ToolCallBlock(f"c{number}", tool, f'{{"n": {number}}}')
        log.step().says(call).call(call.id, tool).result(call.id, result).end_step()
    return log.step().says(answer).end_step().end_turn().events


def text_of(item: Item | None) -> str | None:
    return None if item is None else item.text


def told(pairs: TurnPair) -> list[tuple[str, str, str | None, str | None]]:
    """Status, kind and texts of each pair."""
    return [(one.status, one.one.what, text_of(one.a), text_of(one.b)) for one in pairs.pairs]


def test_items_are_what_was_said_and_done() -> None:
    log = LogBuilder().context("news", "memory").user("hi").turn().steer("first").step()
    log.add(
        "request/header",
        RequestHeader(
            1, 1, "big", "Be brief.", (ToolSchema("add", "Adds.", {}),), {"max_tokens": 5}
        ),
    )
    log.says(ReasoningBlock("hm"), "well", ToolCallBlock("c1", "add", ' {"b":2, "a":1}'))
    log.call("c1").result("c1", "no", is_error=True).end_step()
    log.add("error", {"turn": 1, "step": 1, "message": "broke", "code": "x"}).end_turn("error", "x")

    assert [*items_of(log.events)] == [
        Item(1, 0, "context", "memory", "news"),
        Item(1, 0, "prompt", "", "hi"),
        Item(1, 0, "steering", "", "first"),
        Item(1, 1, "model", "", "scripted"),
        Item(1, 1, "model", "", "big"),
        Item(1, 1, "system", "", "Be brief."),
        Item(1, 1, "tools", "", "add: Adds."),
        Item(1, 1, "options", "", '{"max_tokens": 5}'),
        Item(1, 1, "thinking", "", "hm"),
        Item(1, 1, "text", "", "well"),
        Item(1, 1, "tool_call", "add", '{"a": 1, "b": 2}'),
        Item(1, 1, "tool_result", "add", "(error) no"),
        Item(1, 1, "error", "", "broke (x)"),
        Item(1, 1, "end", "", "error: (x)"),
    ]


def test_pictures_and_unknown_blocks_are_items_too() -> None:
    picture = ImageBlock("data:image/png;base64,AAAA", "image/png")
    log = LogBuilder().add("user/message", UserMessage((TextBlock("see"), picture), Source()))
    log.turn().step().says(picture, OpaqueBlock("p", {"type": "x"}), ToolCallBlock("c", "f", "{"))

    items = [*items_of(log.events)]

    assert items[0].text.startswith("see\n(image/png ")
    assert [(one.what, one.text[:11]) for one in items[2:]] == [
        ("image", "(image/png "),
        ("opaque", '{"provider"'),
        ("tool_call", "{"),
    ]


def test_cut_text_says_so() -> None:
    log = LogBuilder().user("a").turn().step().streams("so far")
    message = {
        "turn": 1,
        "step": 1,
        "content": [{"type": "text", "text": "so"}],
        "interrupted": True,
    }
    log.add("assistant/message", message).end_step().end_turn("aborted")

    assert [one.text for one in items_of(log.events)][2:] == ["so … (cut)", "aborted"]


def test_log_compared_with_itself_is_the_same() -> None:
    log = asks("a", "b")

    [turn] = compare(log, log)

    assert turn.status == "same"
    assert {pair.status for pair in turn.pairs} == {"same"}


def test_changed_result_stands_beside_the_one_of_the_same_call() -> None:
    [turn] = compare(asks("a", "b"), asks("a", "c"))

    assert told(turn) == [
        ("same", "prompt", "question", "question"),
        ("same", "model", "scripted", "scripted"),
        ("same", "tool_call", '{"n": 0}', '{"n": 0}'),
        ("same", "tool_result", "a", "a"),
        ("same", "tool_call", '{"n": 1}', '{"n": 1}'),
        ("changed", "tool_result", "b", "c"),
        ("same", "text", "done", "done"),
        ("same", "end", "completed", "completed"),
    ]
    assert turn.status == "changed"


def test_step_that_one_has_alone_moves_nothing_else() -> None:
    [turn] = compare(asks("a", answer="x"), asks("a", "b", answer="x"))

    assert told(turn)[4:6] == [
        ("added", "tool_call", None, '{"n": 1}'),
        ("added", "tool_result", None, "b"),
    ]
    assert [(pair.a and pair.a.step, pair.b and pair.b.step) for pair in turn.pairs][6] == (2, 3)


def test_calls_of_different_tools_are_not_beside_each_other() -> None:
    [turn] = compare(asks("a", tool="read"), asks("a", tool="write"))

    assert [(status, what) for status, what, _, _ in told(turn)][2:6] == [
        ("removed", "tool_call"),
        ("removed", "tool_result"),
        ("added", "tool_call"),
        ("added", "tool_result"),
    ]


def test_turn_that_one_has_alone_is_added_or_removed() -> None:
    one, two = asks("a"), LogBuilder()
    two.events = [*one]
    two._turn = 1  # it goes on after that turn
    two.user("more").turn().step().says("ok").end_step().end_turn()

    assert [turn.status for turn in compare(one, two.events)] == ["same", "added"]
    assert [turn.status for turn in compare(two.events, one)] == ["same", "removed"]


def test_two_empty_logs_have_no_turns() -> None:
    assert compare([], []) == []
    assert TurnPair(1, ()).status == "same"


def test_words_that_differ_are_told_from_those_that_do_not() -> None:
    a, b = spans_of("the cat sat on it.", "the dog sat on it, too.")

    assert a == [Span("the ", True), Span("cat ", False), Span("sat on it.", True)]
    assert [span.text for span in b if not span.same] == ["dog ", ", too"]


def test_space_alone_is_a_difference_only_when_nothing_else_is() -> None:
    assert [one.text for one in spans_of("a b", "a  b")[1] if not one.same] == ["a  "]
    assert [one.text for one in spans_of("a b c", "a  b d")[1] if not one.same] == ["d"]


@given(a=st.text(), b=st.text())
def test_pieces_of_a_text_are_all_of_it(a: str, b: str) -> None:
    ours, theirs = spans_of(a, b)

    assert "".join(span.text for span in ours) == a
    assert "".join(span.text for span in theirs) == b
    assert a != b or all(span.same for span in (*ours, *theirs))


@given(
    a=st.lists(st.sampled_from("abc"), max_size=6), b=st.lists(st.sampled_from("abc"), max_size=6)
)
def test_everything_stands_in_one_row_in_its_order(a: list[str], b: list[str]) -> None:
    one, other = asks(*a), asks(*b)

    pairs = [pair for turn in compare(one, other) for pair in turn.pairs]

    assert [pair.a for pair in pairs if pair.a] == [*items_of(one)]
    assert [pair.b for pair in pairs if pair.b] == [*items_of(other)]


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a " * 3_000, "b a " * 1_500),
        ("a\n" * 3_000, "b\na\n" * 1_500),
        ("".join(f"w{n} " for n in range(9_000)), "".join(f"v{n} " for n in range(9_000))),
    ],
)
def test_long_texts_are_compared_in_no_time(a: str, b: str) -> None:
    assert seconds(lambda: spans_of(a, b)) < 0.5


def test_long_turn_is_compared_in_no_time_and_step_by_step() -> None:
    a, b = asks(*["x"] * 3_000), asks(*["y"] * 3_001)
    found: list[TurnPair] = []

    assert seconds(lambda: found.extend(compare(a, b))) < 2
    statuses = [pair.status for pair in found[0].pairs]
    assert (statuses.count("changed"), statuses.count("added")) == (3_000, 2)


def test_long_step_is_compared_place_by_place() -> None:
    def step(word: str) -> list[SessionEvent]:
        log = LogBuilder().user("a").turn().step()
        return log.says(*(f"{word} {n}" for n in range(1_200))).end_step().end_turn().events

    [turn] = compare(step("x"), step("y"))

    assert turn.pairs[2] == Pair(Item(1, 1, "text", "", "x 0"), Item(1, 1, "text", "", "y 0"))
    assert len(turn.pairs) == 1_203
