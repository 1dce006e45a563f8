"""Where a replay is in a log, and when it goes on: by event, step and turn, and by the clock.

Reads: session.events. Feeds: notebook.live.reel, notebook.live.replay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal, NamedTuple

from dsh_nb.session.events import SessionEvent, StepEnd, StepStart, TurnEnd, TurnStart

__all__ = ["SPEEDS", "WAIT_SECONDS", "Outline", "Place", "Playhead", "Stride"]

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)

WAIT_SECONDS = 2.0
"""So long does a wait take where waits are skipped."""

Stride = Literal["event", "step", "turn"]


class Place(NamedTuple):
    """Turn and step at a position; a step of 0 is before the first one, so is a turn of 0."""

    turn: int
    step: int


class Outline:
    """Where the turns and steps of a log are; a position is how many events have happened.

    Args:
        events: The log.

    Attributes:
        parted: Positions where the transcript of one turn ends and that of the next begins.
        stops: Positions to step to, by what ends there.
        turns: The number of the last turn.
    """

    def __init__(self, events: Sequence[SessionEvent]) -> None:
        self.parted = [0]
        self.stops: dict[str, list[int]] = {"step": [], "turn": []}
        self.turns = 0
        self._marks = [0]
        self._places = [Place(0, 0)]
        self._running = 0
        for position, event in enumerate(events, 1):
            if event.type != "assistant/chunk":  # most of them are
                self._take(position, event.data)

    def place(self, position: int) -> Place:
        """The turn and step there."""
        return self._places[bisect_right(self._marks, position) - 1]

    def part(self, position: int) -> int:
        """Which turn's transcript, from 0, shows the event after `position`."""
        return bisect_right(self.parted, position) - 1

    def _take(self, position: int, data: object) -> None:
        if isinstance(data, TurnStart):
            self._mark(position, Place(data.turn, 0))
            self._running = self._running or data.turn  # a transcript goes on to its own end
            self.turns = max(self.turns, data.turn)
        elif isinstance(data, StepStart):
            self._mark(position, Place(data.turn, data.step))
        elif isinstance(data, StepEnd):
            self.stops["step"].append(position)
        elif isinstance(data, TurnEnd):
            self.stops["turn"].append(position)
            if data.turn == self._running:
                self.parted.append(position)
                self._running = 0

    def _mark(self, position: int, place: Place) -> None:
        self._marks.append(position)
        self._places.append(place)


class Playhead:
    """A position in a log that can be moved, or moves with the clock.

    Args:
        events: The log.
        outline: Where its turns and steps are.

    Attributes:
        at: How many events have happened; at least 1 where there are any.
        first: The least position.
        last: The greatest position.
        playing: Whether it moves with the clock.
        speed: How many times faster than it happened.
        skips_waits: Whether a wait takes `WAIT_SECONDS` at most.
    """

    def __init__(self, events: Sequence[SessionEvent], outline: Outline) -> None:
        self.first = min(1, len(events))
        self.last = len(events)
        self.at = self.first
        self.playing = False
        self.speed = 1.0
        self.skips_waits = True
        self._events = events
        self._outline = outline
        self._spent = 0.0  # of the wait for the next event, in milliseconds of the log

    @property
    def clock(self) -> int:
        """The time in the log, Unix epoch in milliseconds; 0 of an empty log."""
        if not self.at:
            return 0
        return self._events[self.at - 1].time + int(self._spent)

    def seek(self, at: int) -> None:
        """Go to a position, or to the nearest that there is."""
        self.at = max(self.first, min(at, self.last))
        self._spent = 0.0

    def step(self, count: int, by: Stride) -> None:
        """Go so many events, ends of steps or ends of turns forward, or back where negative."""
        if by == "event":
            self.seek(self.at + count)
            return
        stops = self._outline.stops[by]
        if count > 0:
            index = bisect_right(stops, self.at) + count - 1
        else:
            index = bisect_left(stops, self.at) + count
        if index < 0:
            self.seek(self.first)
        else:
            self.seek(stops[index] if index < len(stops) else self.last)

    def play(self) -> None:
        """Move with the clock from here on; from the beginning when it is at the end."""
        if self.at == self.last:
            self.seek(self.first)
        self.playing = self.at < self.last

    def pause(self) -> None:
        """Stay here."""
        self.playing = False

    def advance(self, seconds: float) -> None:
        """Let time pass while it plays; the last event ends that."""
        if not self.playing:
            return
        self._spent += max(0.0, seconds) * 1000 * self.speed
        while self.at < self.last and self._gap() <= self._spent:
            self._spent -= self._gap()
            self.at += 1
        if self.at == self.last:
            self._spent = 0.0
            self.playing = False

    def wait_seconds(self) -> float:
        """How long until the next event."""
        left = self._gap() - self._spent if self.at < self.last else 0.0
        return max(0.0, left / 1000 / self.speed)

    def _gap(self) -> float:
        """Milliseconds between the newest event and the next one; clocks may have gone back."""
        gap = max(0, self._events[self.at].time - self._events[self.at - 1].time)
        return min(gap, WAIT_SECONDS * 1000) if self.skips_waits else gap
