"""Blocks, chunks, sources, counts and reasons of the DeepSeek Harness as ours.

Reads: messages, session.events, imports.fields. Feeds: imports.dsh, imports.dsh_stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dsh_nb.imports.fields import as_count, as_list, as_object, as_text, json_text
from dsh_nb.messages import (
    Block,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ImageBlock,
    JsonObject,
    OpaqueBlock,
    ReasoningBlock,
    ReasoningDelta,
    Source,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolSchema,
    Usage,
    UsageChunk,
)
from dsh_nb.session.events import TurnReason, UserContent

__all__ = [
    "block_of",
    "blocks_of",
    "chunk_of",
    "outcome_of",
    "reason_of",
    "said_of",
    "schema_of",
    "source_of",
    "spent_of",
]

_OUTCOMES = {
    "TOOL_NOT_STARTED": "not started",
    "TOOL_OUTCOME_UNKNOWN": "interrupted",
    "ABORTED": "interrupted",
    "DENIED": "denied",
    "PERMISSION_DENIED": "denied",
    "APPROVAL_DENIED": "denied",
}
_BLOCK_TYPES = ("text", "reasoning", "tool-call", "image", "opaque")


def blocks_of(content: object) -> tuple[Block, ...]:
    """What a message of the model holds."""
    if isinstance(content, str):
        return (TextBlock(content),)
    return tuple(block_of(as_object(block)) for block in as_list(content))


def block_of(block: JsonObject) -> Block:
    """One block; of a kind that is not ours it is kept verbatim."""
    match block.get("type"):
        case "text":
            return TextBlock(as_text(block.get("text")))
        case "reasoning":
            signature = block.get("signature")
            return ReasoningBlock(
                as_text(block.get("text")), signature if isinstance(signature, str) else None
            )
        case "tool-call":
            name, arguments = as_text(block.get("name")), as_text(block.get("arguments"))
            return ToolCallBlock(as_text(block.get("id")), name, arguments)
        case "image":
            return _image(block) or OpaqueBlock("dsh", block)
    return OpaqueBlock("dsh", block)


def _image(block: JsonObject) -> ImageBlock | None:
    url, mime_type = block.get("url"), block.get("mimeType")
    if not isinstance(url, str):
        return None
    return ImageBlock(url, mime_type if isinstance(mime_type, str) else None)


def said_of(content: object) -> tuple[UserContent, ...]:
    """What people, plugins and tools said; a block of another kind as its JSON."""
    if isinstance(content, str):
        return (TextBlock(content),)
    return tuple(_said(block) for block in as_list(content))


def _said(block: object) -> UserContent:
    found = block_of(as_object(block))
    return found if isinstance(found, (TextBlock, ImageBlock)) else TextBlock(json_text(block))


def source_of(source: object, id: object = None) -> Source:
    """Who a message comes from."""
    fields = as_object(source)
    name = fields.get("plugin") or fields.get("name")
    return Source(
        as_text(fields.get("kind")) or "user",
        name if isinstance(name, str) else None,
        id if isinstance(id, str) else None,
    )


def spent_of(usage: object, model: object = None, message_id: object = None) -> UsageChunk | None:
    """Token counts that do not overlap; theirs count the reasoning as output, too."""
    if not isinstance(usage, dict):
        return None
    output, reasoning = as_count(usage.get("outputTokens")), as_count(usage.get("reasoningTokens"))
    counts = Usage(
        as_count(usage.get("inputTokens")),
        max(output - reasoning, 0),
        as_count(usage.get("cacheReadTokens")),
        as_count(usage.get("cacheWriteTokens")),
        reasoning,
    )
    return UsageChunk(
        counts,
        message_id if isinstance(message_id, str) else None,
        model if isinstance(model, str) else None,
    )


def outcome_of(is_error: bool, code: str) -> str:
    """What a call came to, by the code of its error."""
    return _OUTCOMES.get(code, "error") if is_error else "ok"


def schema_of(tool: object) -> ToolSchema:
    """What the model was told of a tool."""
    fields = as_object(tool)
    name, description = as_text(fields.get("name")), as_text(fields.get("description"))
    return ToolSchema(name, description, as_object(fields.get("parameters")))


def reason_of(reason: JsonObject) -> TurnReason:
    """Why a turn ended, in our four kinds; theirs stands in the reason or code."""
    kind = as_text(reason.get("kind"))
    inner = reason.get("reason")
    why = as_text(as_object(inner).get("kind")) if isinstance(inner, dict) else as_text(inner)
    if kind in ("completed", "disposed"):
        return TurnReason(kind)  # type: ignore[arg-type]  # one of the two, which mypy forgets
    if kind == "aborted":
        return TurnReason("disposed") if why == "disposed" else TurnReason("aborted", why or None)
    if kind == "error":
        failure = as_object(reason.get("error")) or reason
        code = as_text(failure.get("code")) or None
        return TurnReason("error", message=as_text(failure.get("message")), code=code)
    if kind == "max-tokens":
        text = "the answer reached the output limit of the request"
        return TurnReason("error", message=text, code="MAX_TOKENS")
    return TurnReason("aborted", kind or None)


def chunk_of(chunk: JsonObject) -> Chunk | None:
    """One piece of a stream; None for a kind that is not ours."""
    make = _CHUNKS.get(as_text(chunk.get("type")))
    return make(chunk) if make is not None else None


def _block_start(chunk: JsonObject) -> BlockStart | None:
    kind = chunk.get("blockType")
    if kind not in _BLOCK_TYPES:
        return None
    id, name = chunk.get("id"), chunk.get("name")
    return BlockStart(
        as_count(chunk.get("index")),
        kind,
        id if isinstance(id, str) else None,
        name if isinstance(name, str) else None,
    )


def _text_delta(chunk: JsonObject) -> TextDelta:
    return TextDelta(as_count(chunk.get("index")), as_text(chunk.get("text")))


def _reasoning_delta(chunk: JsonObject) -> ReasoningDelta:
    return ReasoningDelta(as_count(chunk.get("index")), as_text(chunk.get("text")))


def _call_delta(chunk: JsonObject) -> ToolCallDelta:
    name = chunk.get("name")
    return ToolCallDelta(
        as_count(chunk.get("index")),
        as_text(chunk.get("id")),
        as_text(chunk.get("argumentsDelta")),
        name if isinstance(name, str) else None,
    )


def _block_end(chunk: JsonObject) -> BlockEnd:
    return BlockEnd(as_count(chunk.get("index")), block_of(as_object(chunk.get("block"))))


def _usage(chunk: JsonObject) -> UsageChunk | None:
    return spent_of(chunk.get("usage"))


def _finish(chunk: JsonObject) -> Finish:
    reason = as_object(chunk.get("reason"))
    failure = as_object(reason.get("failure")) or reason
    return Finish(
        FinishReason(
            as_text(reason.get("kind")) or "error",
            as_text(failure.get("message")) or None,
            as_text(failure.get("code")) or None,
        )
    )


_CHUNKS: Mapping[str, Callable[[JsonObject], Chunk | None]] = {
    "block-start": _block_start,
    "text-delta": _text_delta,
    "reasoning-delta": _reasoning_delta,
    "tool-call-delta": _call_delta,
    "block-end": _block_end,
    "usage": _usage,
    "finish": _finish,
}
