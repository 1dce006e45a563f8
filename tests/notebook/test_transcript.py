"""The fold of session events into what a person sees of a turn."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from dsh_nb.messages import (
    BlockStart,
    ImageBlock,
    ReasoningBlock,
    ReasoningDelta,
    Retry,
    Source,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
)
from dsh_nb.notebook.parts import (
    EndPart,
    ErrorPart,
    ImagePart,
    Part,
    RetryPart,
    TextPart,
    ThinkingPart,
    ToolPart,
    UserPart,
)
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.session.events import (
    AssistantMessage,
    Failure,
    SessionEvent,
    ToolLate,
    ToolResult,
    TurnReason,
    UserMessage,
)
from dsh_nb.testing.logs import LogBuilder

CALL, OTHER = ToolCallBlock("c1", "add", '{"a":1}'), ToolCallBlock("c2", "add", "{}")
DENIED = ToolResult(1, 1, "c1", (TextBlock("no"),), True, "denied")


def ticking() -> LogBuilder:
    """A log in which each event comes 100 ms after the one before."""
    times = count(0, 100)
    return LogBuilder(lambda: next(times))


def fold(events: Iterable[SessionEvent], turn: int | None = None) -> TurnTranscript:
    transcript = TurnTranscript(turn)
    for event in events:
        transcript.feed(event)
    return transcript


def parts(log: LogBuilder) -> tuple[Part, ...]:
    return fold(log.events).parts()


def last_call(log: LogBuilder) -> ToolPart:
    return [part for part in parts(log) if isinstance(part, ToolPart)][-1]


def test_transcript_shows_a_whole_turn_in_the_order_of_its_happening() -> None:
    log = ticking().user("hi").turn().step().says(ReasoningBlock("hm"), CALL)
    log.call("c1", "add", '{"a":1}').result("c1", "3").steer("in euros").end_step()
    log.step().says("three", usage=Usage(1, 2, 4)).end_step().end_turn()

    transcript = fold(log.events)

    call = ToolPart(
        call_id="c1",
        name="add",
        arguments='{\n  "a": 1\n}',
        state="done",
        seconds=0.1,
        content="3",
        settled=True,
    )
    assert transcript.parts() == (
        UserPart("hi", "user", Source(id="m0")),
        ThinkingPart("hm", seconds=0.0),
        call,
        UserPart("in euros", "steering"),
        TextPart("three"),
        EndPart("completed", "", 1.8, Usage(11, 7, 4), 2),
    )
    assert (transcript.text, transcript.usage, transcript.steps) == ("three", Usage(11, 7, 4), 2)


def test_transcript_binds_to_the_next_turn_and_to_no_other() -> None:
    log = LogBuilder().user("one").turn().step()
    begun = len(log.events)
    log.says("first").end_step().context("noon").end_turn()
    log.user("two").turn().step().says("second").end_step().end_turn()
    log.user("three").turn().step().says("third").end_step().end_turn()

    transcript = fold(log.events[begun:])

    assert transcript.turn == 2
    assert [getattr(part, "text", "") for part in transcript.parts()] == ["two", "second", ""]


def test_transcript_waits_unbound_until_its_turn_begins() -> None:
    log = LogBuilder().user("hi")
    transcript = fold(log.events)
    waiting = (transcript.turn, transcript.begun, transcript.ended, transcript.reason)

    transcript.feed(log.turn().events[-1])

    assert waiting == (0, False, False, None)
    assert (transcript.turn, transcript.begun, transcript.ended) == (1, True, False)


def test_what_was_said_within_another_turn_belongs_to_that_one() -> None:
    log = LogBuilder().user("one").turn()
    begun = len(log.events)
    log.context("noon").end_turn().user("two").turn()

    shown = fold(log.events[begun:]).parts()

    assert shown == (UserPart("two", source=Source(id="m4")),)


def test_transcript_by_number_shows_that_turn_alone() -> None:
    log = LogBuilder().user("one").turn().end_turn().user("two").turn().end_turn()

    shown = fold(log.events, turn=2).parts()

    assert shown == (UserPart("two", source=Source(id="m3")), EndPart("completed", "", 0.0))


def test_chunks_show_as_they_come() -> None:
    log = (
        LogBuilder().turn().step().chunk(ReasoningDelta(0, "so ")).chunk(ReasoningDelta(0, "then"))
    )
    log.streams("a b", 1).chunk(BlockStart(2, "tool-call", "c1", "add"))
    log.chunk(ToolCallDelta(2, "c1", '{"a"'))

    assert parts(log) == (
        ThinkingPart("so then", False, 0.0),
        TextPart("a b ", False),
        ToolPart(call_id="c1", name="add", arguments='{"a"'),
    )


def test_newest_streamed_block_is_open() -> None:
    log = LogBuilder().turn().step().streams("a")

    assert parts(log) == (TextPart("a ", open=True),)


def test_message_takes_the_place_of_its_chunks() -> None:
    log = LogBuilder().turn().step().streams("half an")
    rewritten = (TextBlock("whole"),)
    log.add("assistant/message", AssistantMessage(1, 1, rewritten, rewritten=True))

    assert parts(log) == (TextPart("whole"),)


def test_retry_withdraws_what_its_attempt_streamed() -> None:
    log = LogBuilder().turn().step().streams("lost").chunk(Retry(1, "overloaded", "X"))
    log.streams("kept")

    assert parts(log) == (RetryPart("overloaded", 1), TextPart("kept ", open=True))


def test_interrupted_message_says_where_it_was_cut() -> None:
    log = LogBuilder().turn().step()
    log.add("assistant/message", AssistantMessage(1, 1, (TextBlock("I wa"),), interrupted=True))

    assert parts(log) == (TextPart("I wa", interrupted=True),)


def test_step_without_a_message_keeps_its_text_and_drops_its_half_calls() -> None:
    log = LogBuilder().turn().step().streams("I wa").chunk(ToolCallDelta(1, "c1", "{", "add"))
    log.end_step()

    assert parts(log) == (TextPart("I wa ", interrupted=True),)


def test_call_goes_from_waiting_to_running_to_its_outcome() -> None:
    log = LogBuilder().turn().step().says(CALL)
    states = [last_call(log).state]
    states.append(last_call(log.call("c1")).state)
    states.append(last_call(log.result("c1", "no such", is_error=True)).state)

    assert states == ["not started", "running", "failed"]


def test_denied_call_is_no_failure() -> None:
    log = LogBuilder().turn().step().says(CALL).call("c1").add("tool/result", DENIED)

    assert last_call(log).state == "denied"


def test_call_without_a_result_was_interrupted_when_the_turn_is_over() -> None:
    log = LogBuilder().turn().step().says(CALL).call("c1").end_turn("aborted")

    assert last_call(log).state == "interrupted"


def test_call_has_its_pictures_display_and_overflow() -> None:
    image, display = ImageBlock("data:image/png;base64,AA=="), {"text/html": "<b>3</b>"}
    log = LogBuilder().turn().step().says(CALL).call("c1")
    content = (TextBlock("3"), image)
    log.add(
        "tool/result", ToolResult(1, 1, "c1", content, False, display=display, overflow="x" * 9)
    )

    call = last_call(log)

    assert call.images == (ImagePart(image.url, "image from add"),)
    assert (call.content, call.display, call.overflow_chars) == ("3", display, 9)


def test_calls_of_two_steps_may_share_an_id() -> None:
    log = LogBuilder().turn().step().says(CALL).call("c1").result("c1", "one").end_step()
    log.step().says(CALL).call("c1").result("c1", "two").end_step()

    calls = [part.content for part in parts(log) if isinstance(part, ToolPart)]

    assert calls == ["one", "two"]


def test_results_stand_with_their_calls_whatever_their_order() -> None:
    log = LogBuilder().turn().step().says(CALL, OTHER).call("c1").call("c2")
    log.result("c2", "second").result("c1", "first")

    calls = [part.content for part in parts(log) if isinstance(part, ToolPart)]

    assert calls == ["first", "second"]


def test_late_results_and_unknown_events_change_nothing() -> None:
    log = LogBuilder().turn().step().says(CALL).call("c1").result("c1", "3")
    before = parts(log)
    log.add("tool/late", ToolLate(1, 1, "c1", (TextBlock("late"),))).add("mine/own", {"turn": 1})

    assert parts(log) == before


def test_error_and_reason_are_told() -> None:
    log = LogBuilder().turn().add("error", Failure(1, 0, "no model", "NO_ADAPTER"))
    log.end_turn("error", "NO_ADAPTER")

    transcript = fold(log.events)

    assert transcript.parts() == (
        ErrorPart("no model", "NO_ADAPTER"),
        EndPart("error", "NO_ADAPTER", 0.0),
    )
    assert transcript.reason == TurnReason("error", code="NO_ADAPTER")


def test_picture_of_a_person_is_a_part_of_its_own() -> None:
    url = "data:image/png;base64,AA=="
    log = LogBuilder()
    log.add("user/message", UserMessage((TextBlock("see"), ImageBlock(url)), Source()))

    assert parts(log) == (UserPart("see"), ImagePart(url, "image from user"))


def test_chunk_costs_the_same_however_long_the_text_is() -> None:
    log = LogBuilder().turn().step()
    transcript = fold(log.events)
    piece = log.chunk(TextDelta(0, "word ")).events[-1]
    for _ in range(20_000):
        transcript.feed(piece)

    block = transcript._entries[-1]

    # The pieces lie side by side until somebody reads them.
    assert len(block.pieces) == 20_000  # type: ignore[union-attr]  # a streamed block
    assert transcript.parts() == (TextPart("word " * 20_000, open=True),)
