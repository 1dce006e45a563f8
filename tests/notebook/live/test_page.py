"""What a view shows of a turn: whenever it is told, it has what a fresh one has."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.messages import (
    Block,
    BlockEnd,
    BlockStart,
    Chunk,
    ImageBlock,
    ReasoningBlock,
    ReasoningDelta,
    Retry,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.notebook.cards import SLOT, part_html
from dsh_nb.notebook.live.page import LivePage
from dsh_nb.notebook.sanitise import clean_html
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.session.events import AssistantMessage, Failure, SessionEvent, ToolResult
from dsh_nb.testing import LogBuilder
from tests.notebook.live.screen import Screen, seen

PIXEL = ImageBlock("data:image/png;base64,iVBORw0KGgo=")
WORDS = st.sampled_from(
    [
        "",
        "Some **bold** words.\n\n",
        "```py\nx = 1\n```\n",
        "- one\n- two\n",
        "🙂 <b>é</b>",
        "\x1b[1mx",
    ]
)
TEXTS = st.lists(WORDS, max_size=4).map("".join)
BLOCKS = st.one_of(
    TEXTS.map(TextBlock),
    TEXTS.map(ReasoningBlock),
    st.sampled_from(['{"a":1}', "{", '{"text": "<b>&"}']).map(
        lambda arguments: ToolCallBlock("", "add", arguments)
    ),
    st.just(PIXEL),
)
OUTCOMES = ["ok", "error", "denied", "interrupted", "not started"]
Draw = Callable[[st.SearchStrategy[Any]], Any]  # Any: a strategy of any kind


@st.composite
def logs(draw: Draw) -> list[SessionEvent]:
    """A turn with whatever may happen in one."""
    log = LogBuilder().context("by the way").user("Go").turn()
    for step in range(1, draw(st.integers(1, 3)) + 1):
        log.step()
        blocks = _named(draw(st.lists(BLOCKS, max_size=3)), step)
        for attempt in range(draw(st.sampled_from([0, 0, 1]))):
            _stream(draw, log, blocks)
            log.chunk(Retry(attempt + 1, "overloaded <b>", "529"))
        _stream(draw, log, blocks)
        ended = draw(st.sampled_from(["message", "message", "message", "interrupted", "nothing"]))
        if ended != "nothing":
            cut = ended == "interrupted"
            said = AssistantMessage(1, step, tuple(blocks), interrupted=cut)
            log.add("assistant/message", said)
            _calls(draw, log, step, [one for one in blocks if isinstance(one, ToolCallBlock)])
        if draw(st.booleans()):
            log.steer("In *euros*, please")
        log.end_step()
    if draw(st.booleans()):
        log.add("error", Failure(1, 1, "it <i>broke</i>"))
    return log.end_turn(draw(st.sampled_from(["completed", "aborted", "error"]))).events


def _named(blocks: list[Block], step: int) -> list[Block]:
    """Each call with an id of its own."""
    return [
        ToolCallBlock(f"c{step}{index}", "add", one.arguments)
        if isinstance(one, ToolCallBlock)
        else one
        for index, one in enumerate(blocks)
    ]


def _stream(draw: Draw, log: LogBuilder, blocks: list[Block]) -> None:
    for index, block in enumerate(blocks):
        if draw(st.booleans()):
            log.chunk(BlockStart(index, str(block.__struct_config__.tag)))  # type: ignore[arg-type]
        for chunk in _deltas(index, block):
            log.chunk(chunk)
        if isinstance(block, ImageBlock) or draw(st.booleans()):
            log.chunk(BlockEnd(index, block))


def _deltas(index: int, block: Block) -> Iterator[Chunk]:
    if isinstance(block, TextBlock):
        yield from (
            TextDelta(index, block.text[at : at + 9]) for at in range(0, len(block.text), 9)
        )
    elif isinstance(block, ReasoningBlock):
        yield from (ReasoningDelta(index, piece) for piece in block.text.splitlines(True))
    elif isinstance(block, ToolCallBlock):
        yield from (ToolCallDelta(index, block.id, char, "add") for char in block.arguments)


def _calls(draw: Draw, log: LogBuilder, step: int, calls: list[ToolCallBlock]) -> None:
    """Calls that run side by side: all begin, and their results come in any order."""
    for call in calls:
        place = {"turn": 1, "step": step, "callId": call.id}
        if draw(st.booleans()):
            log.add("approval/asked", {**place, "tool": "add"})
        if draw(st.booleans()):
            log.add("approval/decided", {**place, "outcome": "approved", "by": "user"})
        if draw(st.booleans()):
            log.call(call.id, "add", call.arguments)
    for call in draw(st.permutations(calls)):
        outcome = draw(st.sampled_from(OUTCOMES))
        content = (TextBlock("three <script>"), PIXEL)
        log.add("tool/result", ToolResult(1, step, call.id, content, outcome != "ok", outcome))


def shown(page: LivePage) -> Screen:
    return Screen().apply(page.snapshot())


def expected(transcript: TurnTranscript) -> list[str]:
    """The HTML of an ended turn, by way of its parts."""
    return [clean_html(part_html(part, running=True)) for part in transcript.parts()]


def markup(screen: Screen) -> list[str]:
    parts = [frame.replace(SLOT, "".join(blocks)) for frame, blocks in screen.parts]
    return [clean_html(html) for html in parts if html]


@given(logs(), st.lists(st.booleans(), min_size=60, max_size=60))
def test_view_has_what_a_fresh_one_has_whenever_it_is_told(
    events: list[SessionEvent], flushes: list[bool]
) -> None:
    transcript, page, screen = TurnTranscript(), LivePage(), Screen()
    for event, flush in zip(events, [*flushes, *[True] * len(events)], strict=False):
        transcript.feed(event)
        if flush:
            screen.apply(page.update(transcript))
            assert screen == shown(page)
            assert len(screen.parts) == len(page) == len(transcript.entries)
    screen.apply(page.update(transcript))

    fresh = LivePage()
    told = fresh.update(transcript)
    assert screen == shown(page)
    assert screen.parts == shown(fresh).parts
    assert shown(fresh) == Screen().apply(told)
    assert page.update(transcript) == []
    assert markup(screen) == expected(transcript)


@given(logs())
def test_turn_after_others_leaves_their_parts_alone(events: list[SessionEvent]) -> None:
    transcript, page = TurnTranscript(), LivePage(2)
    before = [("<p>one</p>", []), ("<p>two</p>", ["<p>block</p>"])]
    screen = Screen([(frame, [*blocks]) for frame, blocks in before])
    for event in events:
        transcript.feed(event)
        screen.apply(page.update(transcript))

    assert screen.parts[:2] == before
    fresh = LivePage()
    fresh.update(transcript)
    assert screen.parts[2:] == shown(fresh).parts


def test_answer_and_arguments_are_shown_once_as_they_stream() -> None:
    log = LogBuilder().user("Go").turn().step().streams("one two three four")
    for piece in ('{"a"', ": 1, ", '"b": 2}'):
        log.chunk(ToolCallDelta(1, "c1", piece, "add"))
    transcript, page = TurnTranscript(), LivePage()
    shown_after = []
    for event in log.events:
        transcript.feed(event)
        page.update(transcript)
        shown_after.append([seen(blocks) for _, blocks in shown(page).parts[1:]])

    texts = [["one"], ["one two"], ["one two three"], ["one two three four"]]
    calls = ['{"a"', '{"a": 1,', '{"a": 1, "b": 2}']
    assert shown_after[-7:] == [*texts, *(["one two three four", call] for call in calls)]


def test_answer_keeps_its_blocks_when_its_message_comes() -> None:
    log = LogBuilder().user("Go").turn().step().streams("One.\n\nTwo **bold** words\n\nand more")
    transcript, page = TurnTranscript(), LivePage()
    for event in log.events:
        transcript.feed(event)
        page.update(transcript)
    for event in log.says("One.\n\nTwo **bold** words\n\nand more ").events[len(log.events) - 4 :]:
        transcript.feed(event)

    ops = page.update(transcript)

    assert [op for op in ops if op[0] in ("trim", "cut") or (op[0] == "block" and op[2] == 0)] == []


def test_thinking_that_is_hidden_and_over_at_once_is_shown() -> None:
    """The view was once told to trim a part that it did not have, and showed no more after that."""
    log = LogBuilder().user("Go").turn().step()
    log.chunk(BlockStart(0, "reasoning")).chunk(BlockEnd(0, ReasoningBlock("")))
    transcript, page = TurnTranscript(), LivePage()
    for event in log.events:
        transcript.feed(event)

    ops = page.update(transcript)

    assert [op[:2] for op in ops] == [["part", 0], ["part", 1]]
    assert "hidden by the provider" in str(ops[1])


def test_withdrawn_attempt_leaves_the_view() -> None:
    log = LogBuilder().user("Go").turn().step().streams("half an answer")
    transcript, page, screen = TurnTranscript(), LivePage(), Screen()
    for event in log.events:
        transcript.feed(event)
    screen.apply(page.update(transcript))
    transcript.feed(log.chunk(Retry(1, "overloaded", "529")).events[-1])

    screen.apply(page.update(transcript))

    assert "half" not in str(screen)
    assert "Attempt 1 failed and was repeated: overloaded" in str(screen)


def long_turn(steps: int) -> Iterator[tuple[int, list[SessionEvent]]]:
    log = LogBuilder().user("Go").turn()
    at = 0
    for step in range(1, steps + 1):
        call = ToolCallBlock(f"c{step:03}", "add", '{"a":1}')
        log.step().streams("Some words of a step").says("Some words of a step", call)
        log.call(call.id, "add", call.arguments).result(call.id, "3").end_step()
        yield step, log.events[at:]
        at = len(log.events)


def work(call: Callable[[], object]) -> tuple[object, int]:
    """What `call` gives, and how many Python functions it called."""
    called = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return call(), called
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("flushes", ["each event", "each step"])
def test_flush_costs_no_more_after_many_parts(flushes: str) -> None:
    transcript, page = TurnTranscript(), LivePage()
    told, called = {}, {}
    for step, events in long_turn(150):
        told[step] = called[step] = 0
        for event in events:
            transcript.feed(event)
            if flushes == "each event" or event is events[-1]:
                ops, calls = work(lambda: page.update(transcript))
                told[step] += len(json.dumps(ops))
                called[step] += calls

    assert len(page) == 1 + 2 * 150
    assert told[150] <= told[10] + 100  # the numbers of the parts are longer
    assert called[150] <= called[10] * 1.1
