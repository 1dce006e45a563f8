"""What is said: blocks, chunks, messages, their sources and their token counts.

Feeds: session, llm, tools, agent.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

__all__ = [
    "Block",
    "BlockEnd",
    "BlockStart",
    "BlockType",
    "Chunk",
    "Finish",
    "FinishReason",
    "ImageBlock",
    "JsonObject",
    "Message",
    "OpaqueBlock",
    "ReasoningBlock",
    "ReasoningDelta",
    "ResultContent",
    "Retry",
    "Source",
    "TextBlock",
    "TextDelta",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolResultBlock",
    "ToolSchema",
    "Usage",
    "UsageChunk",
    "clean_chunk",
    "clean_text",
    "lossless",
    "text_of",
]

JsonObject = dict[str, Any]
"""A JSON object as `json.loads` makes it. ``Any``: what a provider or plugin says in it."""

BlockType = Literal["text", "reasoning", "tool-call", "image", "opaque"]


class _Said(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", tag_field="type"
):
    """Base of what is said: immutable, camelCase in JSON, invisible to the cyclic collector."""


class TextBlock(_Said, frozen=True, tag="text"):
    """Text.

    Attributes:
        text: The text.
        cache: True asks the provider to cache the request up to this block.
        extra: Provider fields that must come back unchanged, for example citations.
    """

    text: str
    cache: bool = False
    extra: JsonObject | None = None


class ReasoningBlock(_Said, frozen=True, tag="reasoning"):
    """What the model thought before it answered.

    Attributes:
        text: The thinking as shown; may be empty where the provider hides it.
        signature: The provider's seal, sent back byte for byte; ``None`` for thinking that no
            provider sealed (such a block is shown and never sent).
        redacted: The encrypted thinking of a redacted block; the rest is empty then.
        extra: Provider fields that must come back unchanged.
    """

    text: str
    signature: str | None = None
    redacted: str | None = None
    extra: JsonObject | None = None


class ToolCallBlock(_Said, frozen=True, tag="tool-call"):
    """The model's request to run a tool; `arguments` is the raw JSON text as it was streamed."""

    id: str
    name: str
    arguments: str
    extra: JsonObject | None = None


class ImageBlock(_Said, frozen=True, tag="image"):
    """A picture: `url` is a ``data:`` URL or one that the provider can fetch."""

    url: str
    mime_type: str | None = None
    cache: bool = False


ResultContent = TextBlock | ImageBlock
"""What a tool result may hold."""


class ToolResultBlock(_Said, frozen=True, tag="tool-result"):
    """What a tool call came to, as the model is told."""

    tool_call_id: str
    content: tuple[ResultContent, ...]
    is_error: bool = False
    cache: bool = False


class OpaqueBlock(_Said, frozen=True, tag="opaque"):
    """A block of a kind that dsh_nb does not read, kept verbatim and sent back to its provider.

    Attributes:
        provider: Name of the adapter that made it; other adapters leave it out.
        value: The block as the provider gave it.
    """

    provider: str
    value: JsonObject


Block = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock | ImageBlock | OpaqueBlock
"""One piece of a message."""


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Tokens that one message was billed for; the five counts do not overlap.

    Attributes:
        input_tokens: Prompt tokens neither read from nor written to a cache.
        output_tokens: Tokens of the answer without those of the reasoning.
        cache_read_tokens: Prompt tokens read from the provider's cache.
        cache_write_tokens: Prompt tokens written to it.
        reasoning_tokens: Tokens of the reasoning, where the provider tells them apart; else 0,
            and they are counted in `output_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class BlockStart(_Said, frozen=True, tag="block-start"):
    """A block begins; `id` and `name` are those of a tool call."""

    index: int
    block_type: BlockType
    id: str | None = None
    name: str | None = None


class TextDelta(_Said, frozen=True, tag="text-delta"):
    """More text of block `index`."""

    index: int
    text: str


class ReasoningDelta(_Said, frozen=True, tag="reasoning-delta"):
    """More thinking of block `index`."""

    index: int
    text: str


class ToolCallDelta(_Said, frozen=True, tag="tool-call-delta"):
    """More of a tool call's raw JSON arguments."""

    index: int
    id: str
    arguments_delta: str
    name: str | None = None


class BlockEnd(_Said, frozen=True, tag="block-end"):
    """A block is complete; `block` is the whole of it."""

    index: int
    block: Block


class UsageChunk(_Said, frozen=True, tag="usage"):
    """The newest token counts of this message; they replace the earlier ones."""

    usage: Usage
    message_id: str | None = None
    model: str | None = None


class FinishReason(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Why the model stopped.

    Attributes:
        kind: ``stop``, ``tool-calls``, ``max-tokens``, ``aborted``, ``error``, ``refusal``,
            ``pause-turn``, or a reason that only the provider knows.
        message: What happened, for ``error``, ``refusal`` and unknown kinds.
        code: The provider's error type or refusal category.
    """

    kind: str
    message: str | None = None
    code: str | None = None


class Finish(_Said, frozen=True, tag="finish"):
    """The stream ended properly; nothing follows."""

    reason: FinishReason


class Retry(_Said, frozen=True, tag="retry"):
    """An attempt failed: all it streamed is withdrawn, and another attempt follows.

    Attributes:
        attempt: Number of the failed attempt, from 1.
        message: What went wrong.
        code: What failed, for programs.
        delay_seconds: How long the next attempt waits.
    """

    attempt: int
    message: str
    code: str
    delay_seconds: float = 0.0


Chunk = (
    TextDelta | ReasoningDelta | ToolCallDelta | BlockStart | BlockEnd | UsageChunk | Finish | Retry
)
"""One piece of a model's stream."""


class Source(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Who a message comes from.

    Attributes:
        kind: ``user``, ``agent``, ``plugin``, or a kind of a plugin's own.
        name: Which one, where that matters.
        id: Id of the message, unique in its session: one id is delivered once.
    """

    kind: str = "user"
    name: str | None = None
    id: str | None = None


class ToolSchema(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the model is told of a tool; `parameters` is a JSON schema with an object root."""

    name: str
    description: str
    parameters: JsonObject


class Message(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One message of the history that a model is shown."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]


def text_of(content: tuple[Block, ...]) -> str:
    """The text blocks of `content`, joined; results, calls, images and thinking left out."""
    return "".join(block.text for block in content if isinstance(block, TextBlock))


def clean_text(text: str) -> str:
    """`text` as valid Unicode: surrogate pairs become their character, lone halves U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_chunk(chunk: Chunk) -> Chunk:
    """`chunk` with valid Unicode and lossless JSON in it; itself when it has them already."""
    kind = type(chunk)
    if kind is TextDelta or kind is ReasoningDelta:
        if chunk.text.isascii():  # type: ignore[union-attr]  # both have text
            return chunk
    elif kind is ToolCallDelta and chunk.arguments_delta.isascii():  # type: ignore[union-attr]
        return chunk
    try:
        if _decode_chunk(msgspec.json.encode(chunk)) == chunk:
            return chunk
    except (UnicodeEncodeError, TypeError, msgspec.DecodeError):
        pass  # what is wrong is mended below, or raised by it
    plain = lossless(msgspec.to_builtins(chunk), "chunk")
    cleaned: Chunk = msgspec.convert(plain, type=Chunk)
    return cleaned


_decode_chunk = msgspec.json.Decoder(Chunk).decode


def lossless(
    value: object, path: str = "data"
) -> Any:  # Any: JSON is recursive, callers know the shape
    """A deep copy of `value` if it is plain JSON, so that memory and disk hold the same.

    Returns:
        The copy; tuples became lists, text valid Unicode.

    Raises:
        TypeError: Something is not JSON (a class instance, a key that is not text). The text
            names the path.
        ValueError: A number is NaN or infinite, or a list contains itself.
    """
    try:
        return _copy(value, path)
    except RecursionError:
        raise ValueError(
            f"{path} is nested too deeply or contains itself; pass plain JSON"
        ) from None


def _copy(value: object, path: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(str.__str__(value))  # str() would give the name of an enum's member
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value!r}, which JSON cannot hold; use None or text")
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_copy(item, f"{path}[{n}]") for n, item in enumerate(value)]
    if isinstance(value, dict):
        return {_key(key, path): _copy(item, f"{path}.{key}") for key, item in value.items()}
    raise TypeError(
        f"{path} is a {type(value).__name__}, not JSON; pass text, numbers, lists or dicts"
    )


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{path} has the key {key!r}, not text; pass text keys")
    return clean_text(key)
