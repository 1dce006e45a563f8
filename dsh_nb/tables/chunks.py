"""The chunks of a log as a DataFrame: what was streamed, and when.

Reads: messages, session.events, tables.frame. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ReasoningDelta,
    Retry,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from dsh_nb.session.events import AssistantChunk, SessionEvent
from dsh_nb.tables.frame import frame_of, name_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CHUNK_COLUMNS", "chunks"]

CHUNK_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "seq": "Int64",
    "time": "time",
    "turn": "Int64",
    "step": "Int64",
    "attempt": "Int64",
    "index": "Int64",
    "kind": "chunk",
    "text": "text",
}
"""The columns, in order, each with what it holds."""

_KIND_OF: Mapping[type, str] = {
    TextDelta: "text-delta",
    ReasoningDelta: "reasoning-delta",
    ToolCallDelta: "tool-call-delta",
    BlockStart: "block-start",
    BlockEnd: "block-end",
    UsageChunk: "usage",
    Finish: "finish",
    Retry: "retry",
}


def chunks(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per streamed chunk, in log order; those of failed attempts too.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_chunks, 9)``; an empty log gives the same columns and dtypes:

        =======  ====================  ====================================================
        column   dtype                 meaning
        =======  ====================  ====================================================
        session  string                id of the session
        seq      Int64                 position in the log, from 0
        time     datetime64[us, UTC]   when it came
        turn     Int64                 its turn, from 1
        step     Int64                 its step, from 1
        attempt  Int64                 its attempt in the step, from 1; a ``retry`` ends one
        index    Int64                 its block; <NA> for a chunk of the whole message
        kind     category              ``text-delta``, ``block-end``, ``finish``, ``retry``, …
        text     string                what was streamed; of a finish or retry what went wrong
        =======  ====================  ====================================================
    """
    columns: dict[str, list[Any]] = {name: [] for name in CHUNK_COLUMNS if name != "session"}
    seq, time, turn, step, tried, index, kind, text = (column.append for column in columns.values())
    place, attempt = (0, 0), 1
    for event in log:
        data = event.data
        if type(data) is not AssistantChunk:
            continue
        chunk = data.chunk
        if place != (data.turn, data.step):
            place, attempt = (data.turn, data.step), 1
        if type(chunk) is Retry:
            attempt = chunk.attempt
        seq(event.seq)
        time(event.time)
        turn(data.turn or None)
        step(data.step or None)
        tried(attempt)
        index(getattr(chunk, "index", None))
        kind(_KIND_OF[type(chunk)])
        text(_text(chunk))
        if type(chunk) is Retry:
            attempt += 1
    return frame_of(columns, CHUNK_COLUMNS, name_of(log, session))


def _text(chunk: Chunk) -> str | None:
    match chunk:
        case TextDelta() | ReasoningDelta():
            return chunk.text
        case ToolCallDelta():
            return chunk.arguments_delta
        case Finish():
            return chunk.reason.message
        case Retry():
            return chunk.message
        case _:
            return None
