"""What is seen at a position of a log, whichever way one came there."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.messages import ReasoningBlock, ReasoningDelta, TextBlock, ToolCallBlock, ToolCallDelta
from dsh_nb.notebook.live.page import Op
from dsh_nb.notebook.live.playhead import Outline
from dsh_nb.notebook.live.reel import Reel
from dsh_nb.session.events import SessionEvent
from dsh_nb.testing.logs import LogBuilder
from tests.notebook.live.screen import Screen, seen


def turn(log: LogBuilder, number: int) -> None:
    """A turn with thinking, a call and a Markdown answer that is streamed in pieces."""
    log.user(f"question {number}").turn().step()
    log.chunk(ReasoningDelta(0, "Hm, ")).chunk(ReasoningDelta(0, "**well**.\n\nYes."))
    log.chunk(ToolCallDelta(1, f"c{number}", '{"a": ', "add"))
    log.chunk(ToolCallDelta(1, f"c{number}", "1}"))
    thought = ReasoningBlock("Hm, **well**.\n\nYes.")
    log.says(thought, ToolCallBlock(f"c{number}", "add", '{"a": 1}'))
    log.call(f"c{number}", arguments='{"a": 1}').steer("use euros").result(f"c{number}", "2")
    log.end_step().step().streams("First *one* paragraph.\n\n- a\n- b\n\n```python\nx = 1 # y")
    log.says(TextBlock("First *one* paragraph.\n\n- a\n- b\n\n```python\nx = 1 # y\n```\n"))
    log.end_step().end_turn()


def log_of(turns: int) -> list[SessionEvent]:
    times = count(1_700_000_000_000, 50)
    log = LogBuilder(lambda: next(times))
    for number in range(turns):
        turn(log, number)
    return log.events


EVENTS = [*log_of(3), *LogBuilder().context("said between the turns").events]
OUTLINE = Outline(EVENTS)
POSITIONS = st.integers(0, len(EVENTS))


def fresh(at: int) -> Screen:
    return Screen().apply(Reel(EVENTS, OUTLINE).wind_to(at))


@given(st.lists(POSITIONS, max_size=8), POSITIONS)
@settings(deadline=None, max_examples=60)
def test_what_is_seen_depends_on_the_position_alone(way: list[int], at: int) -> None:
    reel, screen = Reel(EVENTS, OUTLINE), Screen()
    for stop in [*way, at]:
        screen.apply(reel.wind_to(stop))

    assert screen == fresh(at)
    assert Screen().apply(reel.snapshot()) == screen


@given(st.lists(st.tuples(st.booleans(), POSITIONS), max_size=10))
@settings(deadline=None, max_examples=60)
def test_playing_then_resting_shows_the_same_as_going_there(way: list[tuple[bool, int]]) -> None:
    reel, screen = Reel(EVENTS, OUTLINE), Screen()
    for plays, stop in way:
        move = reel.play_to if plays and stop >= reel.at else reel.wind_to
        screen.apply(move(stop))
        assert Screen().apply(reel.snapshot()) == screen
    screen.apply(reel.wind_to(reel.at))

    assert screen == fresh(reel.at)


def test_end_shows_every_turn() -> None:
    screen = fresh(len(EVENTS))
    text = seen(frame + "".join(blocks) for frame, blocks in screen.parts)

    assert [text.count(f"question {number}") for number in range(3)] == [1, 1, 1]
    assert text.count("First one paragraph.") == 3
    assert text.count("use euros") == 3
    assert text.count("said between the turns") == 1


def test_beginning_shows_the_first_message_alone() -> None:
    (frame, blocks), *more = fresh(1).parts

    assert "question 0" in frame
    assert (blocks, more) == ([], [])


def test_step_back_tells_only_what_differs() -> None:
    reel = Reel(EVENTS, OUTLINE)
    end = len(EVENTS) - 1
    reel.wind_to(end)
    (op,) = reel.wind_to(end - 1)

    assert op == ["cut", len(fresh(end).parts) - 1]


def test_turn_that_was_passed_is_not_folded_again() -> None:
    events = Counted(log_of(40))
    reel = Reel(events, Outline(events))
    reel.wind_to(len(events))
    events.read = 0
    ops: list[Op] = []
    for at in (1, len(events), len(events) // 2, len(events)):
        ops += reel.wind_to(at)

    assert events.read < 4 * len(events) // 40


class Counted(list[SessionEvent]):
    """A log that counts how much of it is read by slices.

    Attributes:
        read: So many events were read.
    """

    read = 0

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as list has it
        found = super().__getitem__(index)
        self.read += len(found) if isinstance(index, slice) else 0
        return found
