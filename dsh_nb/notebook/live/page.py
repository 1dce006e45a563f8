"""What a view shows of a turn, and what it must be told when more has happened.

Reads: notebook.cards, notebook.live.text, notebook.parts, notebook.streaming,
notebook.transcript. Feeds: notebook.live.
"""

from __future__ import annotations

from dsh_nb.notebook.cards import (
    call_frame,
    finished_blocks,
    part_html,
    text_frame,
    thinking_frame,
)
from dsh_nb.notebook.live.text import LiteralStream, MarkdownStream
from dsh_nb.notebook.parts import Part, TextPart, ThinkingPart
from dsh_nb.notebook.results import literal_ends
from dsh_nb.notebook.sanitise import clean_html
from dsh_nb.notebook.streaming import CallEntry, StreamedBlock
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.notebook.wording import thinking_note

__all__ = ["LivePage", "Op"]

Op = list[object]
"""Something that a view is told: those of `Stream`, and ``["part", part, html]``, which sets what
is around the blocks of a part, and ``["cut", count]``, which drops all parts but the first ones."""


class _Shown:
    """A part as the view has it: a frame, and the blocks in it."""

    def __init__(
        self, source: object, stream: MarkdownStream | LiteralStream | None = None
    ) -> None:
        self.source = source
        self.stream = stream
        self.frame: str | None = None  # none was told yet
        self.read = 0  # so many pieces of a streamed block are in the stream
        self.done = False


class LivePage:
    """The parts of one turn as a view has them.

    What it costs to bring it up to date depends on what is new, and on how many parts the
    running step has; not on how long the turn or a text in it is.

    Args:
        first: Position of the turn's first part in the view.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._shown: list[_Shown] = []
        self._settled = 0

    def __len__(self) -> int:
        return len(self._shown)

    def update(self, transcript: TurnTranscript) -> list[Op]:
        """Ops that bring a view up to date."""
        entries = transcript.entries
        ops: list[Op] = []
        for position in range(self._settled, len(entries)):
            ops += self._show(position, entries[position])
        if len(self._shown) > len(entries):
            del self._shown[len(entries) :]
            ops.append(["cut", self.first + len(entries)])
        self._settled = transcript.settled
        return ops

    def snapshot(self) -> list[Op]:
        """Ops that make an empty view show what the others show."""
        ops: list[Op] = []
        for position, shown in enumerate(self._shown, self.first):
            ops.append(["part", position, shown.frame or ""])
            blocks = shown.stream.blocks if shown.stream else ()
            ops += [["block", position, index, html] for index, html in enumerate(blocks)]
        return ops

    def _show(self, position: int, entry: Part | StreamedBlock | CallEntry) -> list[Op]:
        if position == len(self._shown):
            self._shown.append(_Shown(None))
        if isinstance(entry, StreamedBlock):
            return self._streamed(position, entry)
        part = entry.part() if isinstance(entry, CallEntry) else entry
        return [] if self._shown[position].source is part else self._settle(position, part)

    def _streamed(self, position: int, block: StreamedBlock) -> list[Op]:
        ops: list[Op] = []
        if self._shown[position].source is not block:
            ops = self._replace(position, _Shown(block, _stream(block)))
        shown = self._shown[position]
        if shown.done:
            return ops
        if not block.open or shown.stream is None:
            part = block.part()
            ops += self._frame(position, "") if part is None else self._settle(position, part)
            self._shown[position].source = block
            self._shown[position].done = not block.open
            return ops
        text = "".join(block.pieces[shown.read :])
        shown.read = len(block.pieces)
        ops += self._frame(position, _open_frame(block))
        return ops + shown.stream.feed(self.first + position, text) if text else ops

    def _settle(self, position: int, part: Part) -> list[Op]:
        """Show a part that streams no more, with the blocks that stand there already."""
        frame, blocks = _parted(part)
        stream = self._shown[position].stream
        if not blocks:
            stream = None
        elif not isinstance(stream, MarkdownStream):
            stream = MarkdownStream()
        ops = self._replace(position, _Shown(part, stream)) + self._frame(position, frame)
        return ops + stream.finish(self.first + position, blocks) if stream else ops

    def _replace(self, position: int, shown: _Shown) -> list[Op]:
        """Put `shown` in the place of what the view has there: the same frame, for now."""
        before = self._shown[position]
        shown.frame = before.frame
        self._shown[position] = shown
        # Where no block was told, the view may not even have the part.
        told = before.stream is not None and before.stream.blocks
        stale = told and before.stream is not shown.stream
        return [["trim", self.first + position, 0]] if stale else []

    def _frame(self, position: int, frame: str) -> list[Op]:
        shown = self._shown[position]
        if shown.frame == frame:
            return []
        shown.frame = frame
        return [["part", self.first + position, frame]]


def _stream(block: StreamedBlock) -> MarkdownStream | LiteralStream | None:
    if block.kind in ("text", "reasoning"):
        return MarkdownStream()
    return LiteralStream(*literal_ends()) if block.kind == "tool-call" else None


def _open_frame(block: StreamedBlock) -> str:
    if block.kind == "reasoning":
        return thinking_frame()
    if block.kind == "tool-call":
        return call_frame(block.name)
    return text_frame() if block.pieces else ""


def _parted(part: Part) -> tuple[str, tuple[str, ...]]:
    """The frame and the blocks of a part that streams no more; no blocks where it has no text."""
    if isinstance(part, TextPart):
        return text_frame(interrupted=part.interrupted), finished_blocks(part.text)
    if isinstance(part, ThinkingPart) and part.text.strip():
        return thinking_frame(thinking_note(part)), finished_blocks(part.text)
    return clean_html(part_html(part, running=True)), ()
