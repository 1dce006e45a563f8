"""Where a replay is: turns and steps of a log, steps over them, and the clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dsh_nb.notebook.live.playhead import Outline, Place, Playhead, Stride
from dsh_nb.session.events import SessionEvent
from dsh_nb.testing.logs import LogBuilder


def log() -> list[SessionEvent]:
    """Two turns, of two steps and of one; an event a second."""
    times: Iterator[int] = iter(range(1_000_000, 9_000_000, 1000))
    built = LogBuilder(lambda: next(times)).user("one").turn().step().says("a").end_step()
    built.step().says("b").end_step().end_turn().user("two").turn().step().says("c").end_step()
    return built.end_turn().events


def head(events: list[SessionEvent] | None = None) -> Playhead:
    events = log() if events is None else events
    return Playhead(events, Outline(events))


def ends(events: list[SessionEvent], type: str) -> list[int]:
    return [event.seq + 1 for event in events if event.type == type]


def test_outline_knows_turns_and_steps() -> None:
    events = log()
    outline = Outline(events)
    places = [outline.place(at) for at in range(len(events) + 1)]

    assert list(dict.fromkeys(places)) == [
        Place(0, 0),
        Place(1, 0),
        Place(1, 1),
        Place(1, 2),
        Place(2, 0),
        Place(2, 1),
    ]
    assert outline.turns == 2
    assert outline.stops == {"step": ends(events, "step/end"), "turn": ends(events, "turn/end")}
    assert outline.parted == [0, *ends(events, "turn/end")]


def test_turn_that_never_ended_goes_on_to_the_end_of_the_log() -> None:
    cut = LogBuilder().user("one").turn().step().events
    resumed = LogBuilder().user("two").turn().turn().end_turn().events

    assert Outline(cut).parted == [0]
    assert Outline(resumed).parted == [0]
    assert Outline(resumed).turns == 2


@pytest.mark.parametrize("by", ["step", "turn"])
def test_steps_go_to_where_a_step_or_turn_ends(by: Stride) -> None:
    events = log()
    stops = ends(events, f"{by}/end")
    playhead = head(events)
    there, back = [], []
    for _ in range(len(stops) + 1):
        playhead.step(1, by)
        there.append(playhead.at)
    for _ in range(len(stops) + 1):
        playhead.step(-1, by)
        back.append(playhead.at)

    expected = list(dict.fromkeys([*stops, len(events)]))
    assert list(dict.fromkeys(there)) == expected
    assert list(dict.fromkeys(back)) == [*reversed(expected[:-1]), 1]


def test_several_steps_are_as_many_single_ones() -> None:
    one, all_at_once = head(), head()
    for _ in range(2):
        one.step(1, "step")
    all_at_once.step(2, "step")

    assert one.at == all_at_once.at


def test_position_stays_within_the_log() -> None:
    playhead = head()
    seen = []
    for at in (-5, 0, 3, 10_000):
        playhead.seek(at)
        seen.append(playhead.at)

    assert seen == [1, 1, 3, playhead.last]


def test_it_plays_as_fast_as_it_happened_times_the_speed() -> None:
    playhead = head()
    playhead.play()
    playhead.advance(2.5)
    first = (playhead.at, playhead.clock - 1_000_000, playhead.wait_seconds())
    playhead.speed = 4.0
    playhead.advance(0.5)

    assert first == (3, 2500, 0.5)
    assert (playhead.at, playhead.clock - 1_000_000) == (5, 4500)


def test_waits_are_skipped_where_that_is_wanted() -> None:
    times = iter([0, 60_000, 61_000])
    events = LogBuilder(lambda: next(times)).user("a").user("b").user("c").events
    short, long = head(events), head(events)
    long.skips_waits = False
    for playhead in (short, long):
        playhead.play()
        playhead.advance(2.0)

    assert (short.at, long.at) == (2, 1)
    assert long.wait_seconds() == 58.0


def test_clock_that_went_back_is_no_wait() -> None:
    times = iter([5000, 0, 1000])
    playhead = head(LogBuilder(lambda: next(times)).user("a").user("b").user("c").events)
    playhead.play()
    playhead.advance(0.5)

    assert playhead.at == 2


def test_it_ends_at_the_last_event_and_plays_again_from_the_first() -> None:
    playhead = head()
    playhead.play()
    playhead.advance(1000)
    ended = (playhead.at, playhead.playing, playhead.wait_seconds())
    playhead.play()

    assert ended == (playhead.last, False, 0.0)
    assert (playhead.at, playhead.playing) == (1, True)


def test_paused_one_does_not_move() -> None:
    playhead = head()
    playhead.play()
    playhead.pause()
    playhead.advance(10)

    assert playhead.at == 1


def test_empty_log_has_one_position() -> None:
    playhead = head([])
    playhead.play()
    playhead.step(1, "turn")

    assert (playhead.at, playhead.playing, playhead.clock, playhead.wait_seconds()) == (
        0,
        False,
        0,
        0,
    )
