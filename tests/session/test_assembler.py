"""The one assembly."""

from __future__ import annotations

import pytest

from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ReasoningBlock,
    ReasoningDelta,
    Retry,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from dsh_nb.session.assembler import BlockAssembler, assemble

STOP = Finish(FinishReason("stop"))


@pytest.mark.rule("M2", "M5")
def test_streams_with_and_without_boundaries_assemble_to_the_same_blocks() -> None:
    bare: list[Chunk] = [
        ReasoningDelta(0, "h"),
        ReasoningDelta(0, "m"),
        TextDelta(1, "a"),
        ToolCallDelta(2, "c1", '{"a"', "add"),
        ToolCallDelta(2, "c1", ": 1}"),
        STOP,
    ]
    bounded: list[Chunk] = [
        BlockStart(0, "reasoning"),
        *bare[:2],
        BlockEnd(0, ReasoningBlock("hm")),
        BlockStart(1, "text"),
        bare[2],
        BlockEnd(1, TextBlock("a")),
        BlockStart(2, "tool-call", "c1", "add"),
        *bare[3:5],
        BlockEnd(2, ToolCallBlock("c1", "add", '{"a": 1}')),
        STOP,
    ]

    expected = (ReasoningBlock("hm"), TextBlock("a"), ToolCallBlock("c1", "add", '{"a": 1}'))
    assert assemble(bare).blocks() == assemble(bounded).blocks() == expected


@pytest.mark.rule("M5")
def test_deltas_for_a_closed_block_are_ignored() -> None:
    chunks: list[Chunk] = [BlockEnd(0, TextBlock("whole")), TextDelta(0, " more"), STOP]

    assert assemble(chunks).blocks() == (TextBlock("whole"),)


@pytest.mark.rule("M5")
def test_blocks_come_in_stream_order_as_they_complete() -> None:
    assembler, first, second = BlockAssembler(), TextBlock("1"), TextBlock("2")

    came = [
        assembler.feed(chunk)
        for chunk in (
            TextDelta(0, "1"),
            TextDelta(1, "2"),
            BlockEnd(1, second),
            BlockEnd(0, first),
            TextDelta(2, "3"),
            STOP,
        )
    ]

    assert came == [(), (), (), (first, second), (), (TextBlock("3"),)]


def test_what_was_visible_leaves_half_calls_out() -> None:
    chunks: list[Chunk] = [
        TextDelta(0, "so far"),
        ToolCallDelta(1, "c", "{", "add"),
        TextDelta(2, ""),
    ]

    assert assemble(chunks).visible() == (TextBlock("so far"),)
    assert assemble(chunks).reason is None


def test_retry_withdraws_what_was_streamed() -> None:
    assembler = assemble(
        [TextDelta(0, "old"), UsageChunk(Usage(1)), Retry(1, "lost", "CONNECTION")]
    )
    assembler.feed(TextDelta(0, "new"))
    assembler.feed(STOP)

    assert (assembler.blocks(), assembler.usage, assembler.attempt) == (
        (TextBlock("new"),),
        None,
        2,
    )
