"""Packed runs of chunks in logs of the DeepSeek Harness, unpacked with each chunk's time.

Reads: messages, imports.dsh_content, imports.fields. Feeds: imports.dsh.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsh_nb.imports.dsh_content import chunk_of
from dsh_nb.imports.fields import as_count, as_list, as_object, as_text
from dsh_nb.messages import Chunk, JsonObject, ReasoningDelta, TextDelta, ToolCallDelta

__all__ = ["PACKED", "run_chunks", "stream_chunks"]

PACKED = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
"""The types of a packed run, as a line of a v0 log and as a record of a v4 stream."""


def stream_chunks(stream: object) -> Iterator[tuple[int, Chunk]]:
    """The chunks of a message's ``stream``, each with its time; what is no chunk is left out."""
    for record in as_list(stream):
        fields = as_object(record)
        kind = as_text(fields.get("type"))
        if kind in PACKED:
            yield from run_chunks(fields, fields)
        elif kind == "chunk":
            chunk = chunk_of(as_object(fields.get("chunk")))
            if chunk is not None:
                yield as_count(fields.get("time")), chunk


def run_chunks(row: JsonObject, run: JsonObject) -> Iterator[tuple[int, Chunk]]:
    """The chunks of one run; `row` says when it began, `run` what was streamed."""
    time, index = as_count(row.get("time0")), as_count(run.get("index"))
    gaps = [0, *as_list(run.get("dt"))]
    kind = row.get("type")
    pieces = as_list(run.get("args") if kind == "tool-call-chunks" else run.get("texts"))
    id, name = as_text(run.get("id")), run.get("name")
    for k, piece in enumerate(pieces):
        gap = gaps[k] if k < len(gaps) else 0
        time += gap if isinstance(gap, int) else 0  # below zero where the clock was set back
        text = as_text(piece)
        if kind == "text-chunks":
            yield time, TextDelta(index, text)
        elif kind == "reasoning-chunks":
            yield time, ReasoningDelta(index, text)
        else:
            named = name if k == 0 and isinstance(name, str) else None
            yield time, ToolCallDelta(index, id, text, named)
