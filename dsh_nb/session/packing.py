"""Runs: many small chunks of one block as one line of a session file, and back.

Reads: messages, session.events. Feeds: session.files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal

import msgspec

from dsh_nb.messages import ReasoningDelta, TextDelta, ToolCallDelta
from dsh_nb.session.events import AssistantChunk, SessionEvent

__all__ = ["Delta", "Run", "RunLine", "delta_text", "pack", "run_end", "unpack"]

Delta = TextDelta | ReasoningDelta | ToolCallDelta
"""A chunk that adds text to a block."""


class Run(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Consecutive deltas of one block.

    Attributes:
        kind: The tag of the chunks.
        turn: The turn of all of them.
        step: The step of all of them.
        index: The block of all of them.
        text: Their texts, joined.
        cuts: How many characters each of them has.
        gaps: Milliseconds from each to the next; left out when all are 0.
        id: The call's id, of a tool call.
        name: Its tool, where the deltas name it.
    """

    kind: Literal["text-delta", "reasoning-delta", "tool-call-delta"]
    turn: int
    step: int
    index: int
    text: str
    cuts: list[int]
    gaps: list[int] = []
    id: str | None = None
    name: str | None = None


class RunLine(msgspec.Struct, frozen=True, gc=False):
    """A run as it stands in a file: `seq` and `time` are those of its first chunk."""

    seq: int
    time: int
    type: str
    run: Run


def run_end(events: Sequence[SessionEvent], start: int) -> int:
    """Where the run that begins at `start` ends; `start` itself when none begins there."""
    first = events[start]
    if type(first.data) is not AssistantChunk or type(first.data.chunk) not in _KINDS:
        return start
    data = first.data
    chunk: Any = data.chunk  # Any: each kind has fields of its own, and `kind` tells which
    kind = type(chunk)
    turn, step, index, shift = data.turn, data.step, chunk.index, first.seq - start
    call = (chunk.id, chunk.name) if kind is ToolCallDelta else None
    for end in range(start + 1, len(events)):
        event = events[end]
        data = event.data
        if type(data) is not AssistantChunk:
            return end
        chunk = data.chunk
        if type(chunk) is not kind or chunk.index != index or event.seq - end != shift:
            return end
        if data.step != step or data.turn != turn:
            return end
        if call is not None and (chunk.id, chunk.name) != call:
            return end
    return len(events)


def pack(events: Sequence[SessionEvent]) -> RunLine:
    """The line of a run, which `events` is as a whole (`run_end`)."""
    first = events[0]
    data = first.data
    chunk: Delta = data.chunk
    texts = [delta_text(event.data.chunk) for event in events]
    times = [event.time for event in events]
    gaps = [after - before for before, after in pairwise(times)] if len({*times}) > 1 else []
    call_id, name = (chunk.id, chunk.name) if isinstance(chunk, ToolCallDelta) else (None, None)
    return RunLine(
        first.seq,
        first.time,
        first.type,
        Run(
            _KINDS[type(chunk)],
            data.turn,
            data.step,
            chunk.index,
            "".join(texts),
            [len(text) for text in texts],
            gaps,
            call_id,
            name,
        ),
    )


def unpack(line: RunLine) -> Iterator[SessionEvent]:
    """The events of a run, each with its own seq and time.

    Raises:
        ValueError: The cuts or the gaps do not fit the text.
    """
    run = line.run
    gaps = run.gaps or [0] * (len(run.cuts) - 1)
    if sum(run.cuts) != len(run.text) or len(gaps) != len(run.cuts) - 1 or min(run.cuts) < 0:
        raise ValueError("the cuts or gaps of a run do not fit its text")
    ends = accumulate(run.cuts)
    times = accumulate(gaps, initial=line.time)
    for seq, (time, end, length) in enumerate(zip(times, ends, run.cuts, strict=True), line.seq):
        chunk = _delta(run, run.text[end - length : end])
        yield SessionEvent(seq, time, line.type, AssistantChunk(run.turn, run.step, chunk))


def delta_text(chunk: Delta) -> str:
    """What a delta adds to its block."""
    return chunk.arguments_delta if type(chunk) is ToolCallDelta else chunk.text  # type: ignore[union-attr]


def _delta(run: Run, text: str) -> Delta:
    if run.kind == "text-delta":
        return TextDelta(run.index, text)
    if run.kind == "reasoning-delta":
        return ReasoningDelta(run.index, text)
    return ToolCallDelta(run.index, run.id or "", text, run.name)


_KINDS: dict[type, Literal["text-delta", "reasoning-delta", "tool-call-delta"]] = {
    TextDelta: "text-delta",
    ReasoningDelta: "reasoning-delta",
    ToolCallDelta: "tool-call-delta",
}
