"""Blocks as the Messages API writes them, and back.

Reads: messages. Feeds: llm.anthropic.wire, llm.anthropic.stream.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from dsh_nb.messages import (
    Block,
    ImageBlock,
    JsonObject,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)

__all__ = ["PROVIDER", "WireBlocks", "tool_input", "wire_blocks"]

PROVIDER = "anthropic"
"""Name of the adapter, which its opaque blocks carry."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)

_UNSEEN = "[a picture, which the user sees and this model cannot]"


class WireBlocks(NamedTuple):
    """The blocks of a message on the wire, and which of them asked for a cache mark."""

    blocks: list[JsonObject]
    cached: list[int]


def wire_blocks(message: Message, *, images: bool) -> WireBlocks:
    """What of `message` can be sent: unsealed thinking and foreign blocks are left out.

    Thinking at the end of a message (its answer was cut) is left out too, for the API refuses it.

    Args:
        message: The message.
        images: False to say where a picture was in place of it.
    """
    blocks: list[JsonObject] = []
    cached: list[int] = []
    for block in message.content:
        wired = _wire_block(block, images)
        if wired is None:
            continue
        if getattr(block, "cache", False):
            cached.append(len(blocks))
        blocks.append(wired)
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    return WireBlocks(blocks, cached)


def tool_input(arguments: str) -> msgspec.Raw | JsonObject:
    """The arguments of a call as they were streamed; ``{}`` when they are no JSON object."""
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return msgspec.Raw(arguments.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    return {}


def _wire_block(block: Block, images: bool) -> JsonObject | None:
    if isinstance(block, TextBlock):
        return (
            {"type": "text", "text": block.text, **(block.extra or {})}
            if block.text.strip()
            else None
        )
    if isinstance(block, ReasoningBlock):
        return _wire_reasoning(block)
    if isinstance(block, ToolCallBlock):
        call: JsonObject = {"type": "tool_use", "id": block.id, "name": block.name}
        return {**call, "input": tool_input(block.arguments), **(block.extra or {})}
    if isinstance(block, ToolResultBlock):
        return _wire_result(block, images)
    if isinstance(block, ImageBlock):
        return _wire_image(block) if images else {"type": "text", "text": _UNSEEN}
    return block.value if block.provider == PROVIDER else None


def _wire_reasoning(block: ReasoningBlock) -> JsonObject | None:
    extra = block.extra or {}
    if block.redacted is not None:
        return {"type": "redacted_thinking", "data": block.redacted, **extra}
    if block.signature is None:
        return None
    return {"type": "thinking", "thinking": block.text, "signature": block.signature, **extra}


def _wire_result(block: ToolResultBlock, images: bool) -> JsonObject:
    parts = (_wire_block(part, images) for part in block.content)
    content = [wired for wired in parts if wired is not None]
    result: JsonObject = {"type": "tool_result", "tool_use_id": block.tool_call_id}
    if content:
        result["content"] = content
    if block.is_error:
        result["is_error"] = True
    return result


def _wire_image(block: ImageBlock) -> JsonObject:
    if block.url.startswith("https://"):
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    head, _, payload = block.url.partition(",")
    if head.startswith("data:") and head.endswith(";base64"):
        kind = _media_type(payload)
        if kind is not None:
            source = {"type": "base64", "media_type": kind, "data": payload}
            return {"type": "image", "source": source}
    return {
        "type": "text",
        "text": f"[an image that cannot be sent was left out: {block.url[:60]}]",
    }


def _media_type(payload: str) -> str | None:
    """What the picture is by its own bytes; what it was called may be wrong."""
    try:
        start = base64.b64decode(payload[:64], validate=True)
    except (binascii.Error, ValueError):
        return None
    for magic, kind in _MAGIC:
        if start.startswith(magic):
            return kind
    return "image/webp" if start[:4] == b"RIFF" and start[8:12] == b"WEBP" else None
