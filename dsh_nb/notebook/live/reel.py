"""A log wound to a position: what is seen there, and what a view must be told to show it.

Reads: session.events, notebook.live.page, notebook.live.playhead, notebook.live.text,
notebook.transcript. Feeds: notebook.live.replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsh_nb.notebook.live.page import LivePage, Op
from dsh_nb.notebook.live.playhead import Outline
from dsh_nb.notebook.live.text import Stream
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.session.events import SessionEvent

__all__ = ["Reel"]


class Reel:
    """The parts of a log as a view has them, at a position that goes forward and back.

    A turn that was passed once is not folded or rendered again: what a move costs depends on
    the turn that it ends in, and on the turns that it reaches first.

    Args:
        events: The log.
        outline: Where its turns are.

    Attributes:
        at: How many of the events have happened.
    """

    def __init__(self, events: Sequence[SessionEvent], outline: Outline) -> None:
        self.at = 0
        self._events = events
        self._outline = outline
        self._done: list[LivePage] = []  # whole turns, from the first on
        self._part = 0  # the turn that is shown in part; those before it are shown whole
        self._page = LivePage()
        self._transcript = TurnTranscript()

    def play_to(self, at: int) -> list[Op]:
        """Ops that show what has happened up to `at`, which is not before the present position.

        They cost what is new; the open block may be rendered in full only later.
        """
        ops: list[Op] = []
        part = self._outline.part(at)
        while self._part < part:
            ops += self._end_of_turn()
        self._feed(at)
        return ops + self._page.update(self._transcript)

    def wind_to(self, at: int) -> list[Op]:
        """Ops that show exactly what was to be seen at `at`, however the view came there."""
        part = self._outline.part(at)
        if part > self._part:
            ops = self.play_to(self._outline.parted[part])
            return ops + self.wind_to(at)
        before = self._page.snapshot()
        if part < self._part:
            before = [op for page in self._passed(part) for op in page.snapshot()] + before
        if part < self._part or at < self.at:
            self._begin(part)
        self._feed(at)
        self._page = LivePage(self._page.first)
        self._page.update(self._transcript)
        return _difference(before, self._page)

    def snapshot(self) -> list[Op]:
        """Ops that show everything to a view that has nothing."""
        pages = [*self._done[: self._part], self._page]
        return [op for page in pages for op in page.snapshot()]

    def _passed(self, part: int) -> list[LivePage]:
        """The turns from `part` on that are shown whole."""
        return self._done[part : self._part]

    def _end_of_turn(self) -> list[Op]:
        """Show the rest of the turn, and begin the next."""
        if self._part < len(self._done):
            ops = _difference(self._page.snapshot(), self._done[self._part])
        else:
            self._feed(self._outline.parted[self._part + 1])
            ops = self._page.update(self._transcript)
            self._done.append(self._page)
        self._begin(self._part + 1)
        return ops

    def _begin(self, part: int) -> None:
        """Be at the beginning of a turn."""
        before = self._done[part - 1] if part else None
        self._page = LivePage(before.first + len(before) if before else 0)
        self._transcript = TurnTranscript()
        self._part = part
        self.at = self._outline.parted[part]

    def _feed(self, at: int) -> None:
        for event in self._events[self.at : at]:
            self._transcript.feed(event)
        self.at = at


def _difference(before: Sequence[Op], page: LivePage) -> list[Op]:
    """Ops that make what `before` shows, from the first part of `page` on, be the page."""
    ops: list[Op] = []
    old, new = _parts(before), _parts(page.snapshot())
    for position, (frame, blocks) in new.items():
        ops += _changed(position, old.get(position), frame, blocks)
    if len(old) > len(new):
        ops.append(["cut", page.first + len(new)])
    return ops


def _changed(
    position: int, old: tuple[str, list[str]] | None, frame: str, blocks: list[str]
) -> list[Op]:
    """Ops for one part."""
    ops: list[Op] = []
    stream = Stream()
    if old is not None and old[0] == frame:
        stream.blocks = old[1]
    else:
        # Another frame may have another place for the blocks: they are laid anew.
        if old is not None and old[1]:
            ops.append(["trim", position, 0])
        ops.append(["part", position, frame])
    return ops + stream.finish(position, blocks)


def _parts(ops: Sequence[Any]) -> dict[int, tuple[str, list[str]]]:  # Any: an op holds JSON
    """Frame and blocks of each part, from the ops of a snapshot."""
    parts: dict[int, tuple[str, list[str]]] = {}
    for kind, position, *rest in ops:
        if kind == "part":
            parts[position] = (rest[0], [])
        else:
            parts[position][1].append(rest[1])
    return parts
