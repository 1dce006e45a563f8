"""The one assembly: chunks of a stream become the blocks of a message.

Reads: messages. Feeds: session.check, llm, agent.
"""

from __future__ import annotations

from collections.abc import Iterable

from dsh_nb.messages import (
    Block,
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
    UsageChunk,
)

__all__ = ["BlockAssembler", "assemble"]


class _Open:
    """A block that is still being streamed."""

    __slots__ = ("call", "kind", "pieces")

    def __init__(self, kind: str, call: tuple[str, str] = ("", "")) -> None:
        self.kind = kind
        self.call = call
        self.pieces: list[str] = []

    def block(self) -> Block | None:
        text = "".join(self.pieces)
        if self.kind == "reasoning":
            return ReasoningBlock(text)
        if self.kind == "tool-call":
            return ToolCallBlock(*self.call, text)
        return TextBlock(text) if self.kind == "text" else None


class BlockAssembler:
    """Takes chunks, with or without block boundaries, and yields blocks in stream order.

    Attributes:
        reason: Why the model stopped; ``None`` until the stream has ended properly.
        usage: The newest token counts, with message id and model.
        attempt: Which attempt is streaming, from 1.
    """

    def __init__(self) -> None:
        self.attempt = 1
        self._begin()

    def _begin(self) -> None:
        self.reason: FinishReason | None = None
        self.usage: UsageChunk | None = None
        self._order: list[int] = []
        self._open: dict[int, _Open] = {}
        self._done: dict[int, Block | None] = {}
        self._yielded = 0

    def feed(self, chunk: Chunk) -> tuple[Block, ...]:
        """Take the next chunk.

        Returns:
            The blocks that this chunk completes, in the order in which they began; a block that
            waits for an earlier one comes with it.
        """
        kind = type(chunk)
        if kind is TextDelta or kind is ReasoningDelta:
            piece = self._open.get(chunk.index)  # type: ignore[union-attr]  # both have an index
            if piece is None:
                piece = self._opened(chunk.index, "text" if kind is TextDelta else "reasoning")  # type: ignore[union-attr]
            piece.pieces.append(chunk.text)  # type: ignore[union-attr]
            return ()
        return self._feed_other(chunk)

    def blocks(self) -> tuple[Block, ...]:
        """The complete blocks so far, in stream order; all of them after the finish."""
        return tuple(block for index in self._order if (block := self._done.get(index)) is not None)

    def visible(self) -> tuple[Block, ...]:
        """What a person has seen: complete blocks and the text of open ones, no half calls."""
        seen = []
        for index in self._order:
            block = self._done.get(index)
            if index in self._open and self._open[index].kind != "tool-call":
                block = self._open[index].block()
            if block is not None and getattr(block, "text", "shown") != "":
                seen.append(block)
        return tuple(seen)

    def _feed_other(self, chunk: Chunk) -> tuple[Block, ...]:
        if isinstance(chunk, ToolCallDelta):
            call = (chunk.id, chunk.name or "")
            piece = self._open.get(chunk.index) or self._opened(chunk.index, "tool-call", call)
            piece.pieces.append(chunk.arguments_delta)
        elif isinstance(chunk, BlockStart):
            if chunk.index not in self._done:
                self._opened(chunk.index, chunk.block_type, (chunk.id or "", chunk.name or ""))
        elif isinstance(chunk, BlockEnd):
            return self._close(chunk.index, chunk.block)
        elif isinstance(chunk, UsageChunk):
            self.usage = chunk
        elif isinstance(chunk, Finish):
            return self._finish(chunk.reason)
        elif isinstance(chunk, Retry):
            self._begin()
            self.attempt = chunk.attempt + 1
        return ()

    def _opened(self, index: int, kind: str, call: tuple[str, str] = ("", "")) -> _Open:
        """Begin a block; what belongs to one that is closed already goes nowhere."""
        if index in self._done:
            return _Open(kind)
        if index not in self._open:
            self._order.append(index)
            self._open[index] = _Open(kind, call)
        return self._open[index]

    def _close(self, index: int, block: Block) -> tuple[Block, ...]:
        if index in self._done:
            return ()
        if index not in self._open:
            self._order.append(index)
        self._open.pop(index, None)
        self._done[index] = block
        return self._ready()

    def _finish(self, reason: FinishReason) -> tuple[Block, ...]:
        self.reason = reason
        for index, piece in list(self._open.items()):
            self._done[index] = piece.block()
        self._open.clear()
        return self._ready()

    def _ready(self) -> tuple[Block, ...]:
        ready: list[Block] = []
        while self._yielded < len(self._order) and self._order[self._yielded] in self._done:
            block = self._done[self._order[self._yielded]]
            self._yielded += 1
            if block is not None:
                ready.append(block)
        return tuple(ready)


def assemble(chunks: Iterable[Chunk]) -> BlockAssembler:
    """An assembler that has been fed all `chunks`."""
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler
