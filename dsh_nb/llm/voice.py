"""How an offline model speaks: what a step says becomes a stream, at a natural pace.

Reads: errors, messages, llm.protocol. Feeds: llm.scripted, llm.demo.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from dsh_nb.errors import LlmError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import (
    Block,
    BlockEnd,
    BlockStart,
    BlockType,
    Chunk,
    Finish,
    FinishReason,
    ImageBlock,
    Message,
    OpaqueBlock,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    Usage,
    UsageChunk,
)

__all__ = ["Call", "Cut", "Fail", "Halt", "Move", "Part", "Pause", "Say", "Think", "Voice"]

_PIECE_SECONDS = 0.018  # with the rests after sentences, about 40 pieces a second
_SENTENCE_SECONDS = 0.04
_THOUGHT_SECONDS = 0.3
_PIECES_PER_BREATH = 16
_CHARS_PER_TOKEN = 4
_IMAGE_CHARS = 4_000
_NEWEST_COUNTED = 256
_ALONE = 0.6  # share of the words that are not joined with the next one
_WORD = re.compile(r"\s*\S{1,16}|\s+")
_SENTENCE_END = re.compile(r"[.!?…][)\"'*_`]*\s*$|\n\s*$")


class Say(msgspec.Struct, frozen=True):
    """A text block."""

    text: str


class Think(msgspec.Struct, frozen=True):
    """A reasoning block."""

    text: str


class Call(msgspec.Struct, frozen=True):
    """A tool call; `arguments` is raw text, JSON or not."""

    name: str
    arguments: str


class Pause(msgspec.Struct, frozen=True):
    """Silence of `seconds` of real time."""

    seconds: float


class Halt(msgspec.Struct, frozen=True):
    """A proper end for `reason`."""

    reason: FinishReason


class Fail(msgspec.Struct, frozen=True):
    """An `LlmError`; `mid_block` leaves the block before it without its end."""

    message: str
    code: str
    mid_block: bool = False


class Cut(msgspec.Struct, frozen=True):
    """An end without a finish; `mid_block` leaves the block before it without its end."""

    mid_block: bool = False


Part: TypeAlias = Say | Think | Call | Pause | Halt | Fail | Cut
"""One thing that a step does."""

Move: TypeAlias = Chunk | float
"""A chunk to send, or seconds to wait before the next one; 0.0 gives others a turn."""


def _numbered(number: int, request: ModelRequest) -> str:
    return f"call_{number}"


class Voice:
    """How an offline model speaks: parts become the chunks of a stream, at a natural pace.

    Text comes in pieces of a word or two, without losing a character. Usage is estimated at four
    characters a token. When a request continues the history of the one before, only its new
    messages are counted, and what was counted before is reported as read from the cache;
    otherwise the newest 256 messages, the system text and the tools are counted afresh. Streams
    that end by `Fail` or `Cut` report no usage.

    Attributes:
        pace: How slow to speak: 1.0 is about 40 pieces a second, 0.5 twice as fast, 0.0 without
            any wait but those of `Pause`.
    """

    def __init__(
        self,
        *,
        pace: float = 0.0,
        seed: int = 0,
        call_id: Callable[[int, ModelRequest], str] = _numbered,
    ) -> None:
        """Prepare to speak.

        Args:
            pace: As in the attributes.
            seed: Seed of the pieces and of the jitter.
            call_id: Makes the id of a call from its number, which counts from 1 over the life
                of the voice, and from the request.
        """
        self.pace = pace
        self._seed = seed
        self._call_id = call_id
        self._calls = 0
        self._meter = _Meter()

    def moves(self, parts: Sequence[Part], request: ModelRequest) -> Iterator[Move]:
        """The stream of one step: chunks to send, and seconds to wait before the next of them.

        Raises:
            LlmError: A part is `Fail`.
        """
        rng = random.Random(self._seed)
        blocks: list[Block] = []
        for place, part in enumerate(parts):
            if isinstance(part, Pause):
                yield float(part.seconds)
            elif isinstance(part, (Say, Think, Call)):
                blocks.append(self._block(part, request))
                stays_open = _stays_open(parts[place + 1 :])
                yield from self._spoken(len(blocks) - 1, blocks[-1], rng, stays_open)
            elif isinstance(part, Halt):
                yield from self._ended(part.reason, blocks, request)
                return
            elif isinstance(part, Fail):
                raise LlmError(part.message, code=part.code)
            else:
                return
        called = any(isinstance(block, ToolCallBlock) for block in blocks)
        yield from self._ended(FinishReason("tool-calls" if called else "stop"), blocks, request)

    def _block(self, part: Say | Think | Call, request: ModelRequest) -> Block:
        if isinstance(part, Say):
            return TextBlock(part.text)
        if isinstance(part, Think):
            return ReasoningBlock(part.text)
        self._calls += 1
        return ToolCallBlock(self._call_id(self._calls, request), part.name, part.arguments)

    def _spoken(
        self, index: int, block: Block, rng: random.Random, stays_open: bool
    ) -> Iterator[Move]:
        yield _start(index, block)
        for number, piece in enumerate(_pieces(_said(block), rng), 1):
            wait = self._wait(piece, rng)
            if wait or number % _PIECES_PER_BREATH == 0:
                yield wait
            yield _delta(index, block, piece)
        if stays_open:
            return
        if isinstance(block, ReasoningBlock) and self.pace:
            yield _THOUGHT_SECONDS * self.pace
        yield BlockEnd(index, block)

    def _wait(self, piece: str, rng: random.Random) -> float:
        jitter = rng.uniform(0.6, 1.4)  # drawn always: pieces do not depend on pace
        rest = _SENTENCE_SECONDS if _SENTENCE_END.search(piece) else 0.0
        return self.pace * (_PIECE_SECONDS * jitter + rest)

    def _ended(
        self, reason: FinishReason, blocks: Sequence[Block], request: ModelRequest
    ) -> Iterator[Move]:
        thought = sum(_chars(block) for block in blocks if isinstance(block, ReasoningBlock))
        answered = sum(_chars(block) for block in blocks) - thought
        fresh, cached = self._meter.read(request)
        usage = Usage(
            input_tokens=fresh,
            output_tokens=_tokens(answered),
            cache_read_tokens=cached,
            reasoning_tokens=_tokens(thought),
        )
        yield UsageChunk(usage, model=request.model)
        yield Finish(reason)


def _stays_open(following: Sequence[Part]) -> bool:
    end = next((part for part in following if not isinstance(part, Pause)), None)
    return isinstance(end, (Fail, Cut)) and end.mid_block


def _start(index: int, block: Block) -> BlockStart:
    if isinstance(block, ToolCallBlock):
        return BlockStart(index, "tool-call", block.id, block.name)
    kind: BlockType = "reasoning" if isinstance(block, ReasoningBlock) else "text"
    return BlockStart(index, kind)


def _delta(index: int, block: Block, piece: str) -> Chunk:
    if isinstance(block, ToolCallBlock):
        return ToolCallDelta(index, block.id, piece)
    if isinstance(block, ReasoningBlock):
        return ReasoningDelta(index, piece)
    return TextDelta(index, piece)


def _said(block: Block) -> str:
    if isinstance(block, ToolCallBlock):
        return block.arguments
    return block.text if isinstance(block, (TextBlock, ReasoningBlock)) else ""


def _pieces(text: str, rng: random.Random) -> Iterator[str]:
    """`text` in pieces of one or two words; a piece does not go on after a sentence's end."""
    held = ""
    for word in _WORD.findall(text):
        if held:
            yield held + word
            held = ""
        elif _SENTENCE_END.search(word) or rng.random() < _ALONE:
            yield word
        else:
            held = word
    if held:
        yield held


class _Meter:
    """Estimates the tokens of requests, looking at each message of a growing history once."""

    def __init__(self) -> None:
        self._seen = 0
        self._last: Message | None = None
        self._tokens = 0

    def read(self, request: ModelRequest) -> tuple[int, int]:
        """Tokens of `request` that are new, and those that were counted before."""
        messages, cached = request.messages, self._tokens
        total = len(messages)
        if 0 < self._seen <= total and messages[self._seen - 1] == self._last:
            chars = sum(map(_message_chars, islice(reversed(messages), total - self._seen)))
        else:
            cached = 0
            chars = sum(map(_message_chars, islice(reversed(messages), _NEWEST_COUNTED)))
            chars += len(request.system or "")
            chars += sum(len(msgspec.json.encode(tool)) for tool in request.tools)
        fresh = _tokens(chars)
        self._seen, self._tokens = total, cached + fresh
        self._last = messages[-1] if total else None
        return fresh, cached


def _message_chars(message: Message) -> int:
    return sum(map(_chars, message.content))


def _chars(block: Block) -> int:
    if isinstance(block, ToolCallBlock):
        return len(block.name) + len(block.arguments)
    if isinstance(block, ToolResultBlock):
        return sum(map(_chars, block.content))
    if isinstance(block, (ImageBlock, OpaqueBlock)):
        return _IMAGE_CHARS
    return len(block.text)


def _tokens(chars: int) -> int:
    return math.ceil(chars / _CHARS_PER_TOKEN)
