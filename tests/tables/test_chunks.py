"""The chunks of a log: what was streamed, in which attempt."""

from __future__ import annotations

import msgspec
import pandas as pd

from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ReasoningDelta,
    Retry,
    TextBlock,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from dsh_nb.tables import chunks
from dsh_nb.testing import FakeClock, LogBuilder

STREAM: list[Chunk] = [
    TextDelta(0, "wro"),
    Retry(1, "busy", "overloaded"),
    BlockStart(0, "reasoning"),
    ReasoningDelta(0, "hm"),
    ToolCallDelta(1, "c1", '{"a"', "add"),
    BlockEnd(0, TextBlock("hm")),
    UsageChunk(Usage(1)),
    Finish(FinishReason("error", "too busy")),
]


def test_each_chunk_is_a_row_with_its_attempt() -> None:
    log = LogBuilder(FakeClock()).user("hi").turn().step()
    for chunk in STREAM:
        log.chunk(chunk)
    log.end_step().step().chunk(TextDelta(0, ""))
    frame = chunks(log.events, "s1")

    rows = frame[["step", "attempt", "index", "kind", "text"]].astype(object).to_numpy().tolist()
    assert [[None if pd.isna(value) else value for value in row] for row in rows] == [
        [1, 1, 0, "text-delta", "wro"],
        [1, 1, None, "retry", "busy"],
        [1, 2, 0, "block-start", None],
        [1, 2, 0, "reasoning-delta", "hm"],
        [1, 2, 1, "tool-call-delta", '{"a"'],
        [1, 2, 0, "block-end", None],
        [1, 2, None, "usage", None],
        [1, 2, None, "finish", "too busy"],
        [2, 1, 0, "text-delta", ""],
    ]
    assert frame["seq"].tolist() == [4, 5, 6, 7, 8, 9, 10, 11, 14]
    assert frame["time"].tolist() == [
        pd.Timestamp(log.events[seq].time, unit="ms", tz="UTC") for seq in frame["seq"]
    ]


def test_kinds_are_the_names_that_the_log_has() -> None:
    log = LogBuilder().user("hi").turn().step()
    for chunk in STREAM:
        log.chunk(chunk)

    assert chunks(log.events)["kind"].tolist() == [
        msgspec.to_builtins(chunk)["type"] for chunk in STREAM
    ]
