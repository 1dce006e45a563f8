"""The rules of the Messages API for one content block.

Reads: messages. Feeds: testing.message_rules, testing.validator.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import TypeGuard

from dsh_nb.messages import JsonObject

__all__ = ["OWN_KEYS", "THINKING_TYPES", "block_findings", "content_shape", "is_blocks", "objects"]

OWN_KEYS = {
    "text": frozenset({"type", "text", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "cache_control", "citations", "context", "title"}),
    "search_result": frozenset(
        {"type", "content", "source", "title", "cache_control", "citations"}
    ),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
}
"""What a client may say of itself; every other key must have come from the server."""

THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})
"""The blocks that only the server can make, and that end no message."""

_RESULT_TYPES = frozenset({"text", "image"})
_MAGIC = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)
_MEDIA_TYPES = frozenset(name for name, _ in _MAGIC)


def block_findings(blocks: list[JsonObject], path: str, *, echoed: bool = False) -> Iterator[str]:
    """What is wrong with each of `blocks` by itself.

    Args:
        blocks: Objects with a type; unknown types are left alone.
        path: Of the list.
        echoed: Whether the server may have made them, so that their keys are not judged here.
    """
    rules = {"text": _text, "image": _image, "tool_use": _tool_use, "tool_result": _tool_result}
    for at, block in enumerate(blocks):
        kind = block["type"]
        for key in sorted(block.keys() - OWN_KEYS.get(kind, block.keys())):
            if not echoed:
                yield f"{path}.{at}.{kind}.{key}: extra inputs are not permitted"
        if kind in rules:
            yield from rules[kind](block, f"{path}.{at}")
        content = block.get("content") if kind == "tool_result" else None
        if is_blocks(content, _RESULT_TYPES):
            yield from block_findings(content, f"{path}.{at}.content")


def content_shape(content: object, path: str) -> Iterator[str]:
    """Whether `content` is text or a list of blocks at all."""
    if isinstance(content, str):
        if not content.strip():
            yield f"{path}: text must not be blank"
    elif not isinstance(content, list) or not content:
        yield f"{path}: must be a string or a non-empty list of blocks"
    else:
        for at, block in enumerate(content):
            if not isinstance(block, dict) or not isinstance(block.get("type"), str):
                yield f"{path}.{at}: must be an object with a type"


def is_blocks(value: object, types: frozenset[str]) -> TypeGuard[list[JsonObject]]:
    """Whether `value` is a list of blocks of these `types`."""
    return isinstance(value, list) and all(
        isinstance(block, dict) and block.get("type") in types for block in value
    )


def objects(value: object) -> list[JsonObject]:
    """The objects in `value` if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(block: JsonObject, path: str) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str) or not text.strip():
        yield f"{path}.text: text must not be blank"


def _tool_use(block: JsonObject, path: str) -> Iterator[str]:
    name = block.get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= 200:
        yield f"{path}.name: must be a string of 1 to 200 characters"
    if not isinstance(block.get("input"), dict):
        yield f"{path}.input: must be an object"


def _tool_result(block: JsonObject, path: str) -> Iterator[str]:
    content = block.get("content", "")
    if not isinstance(block.get("is_error", False), bool):
        yield f"{path}.is_error: must be a boolean"
    if isinstance(content, str) and content and not content.strip():
        yield f"{path}.content: text must not be blank"
    elif not isinstance(content, str) and not is_blocks(content, _RESULT_TYPES):
        yield f"{path}.content: must be a string or a list of text and image blocks"
    elif block.get("is_error") and any(part["type"] != "text" for part in objects(content)):
        yield f"{path}.content: all content must be text if is_error is true"


def _image(block: JsonObject, path: str) -> Iterator[str]:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict) or kind not in ("base64", "url", "file"):
        yield f"{path}.source.type: must be base64, url or file"
    elif kind == "file":
        if not isinstance(source.get("file_id"), str):
            yield f"{path}.source.file_id: must be a string"
    elif kind == "url":
        if not str(source.get("url")).startswith("https://"):
            yield f"{path}.source.url: only https URLs are supported"
    elif source.get("media_type") not in _MEDIA_TYPES:
        yield f"{path}.source.media_type: must be one of {', '.join(sorted(_MEDIA_TYPES))}"
    else:
        yield from _image_bytes(source, f"{path}.source")


def _image_bytes(source: JsonObject, path: str) -> Iterator[str]:
    try:
        content = base64.b64decode(str(source.get("data")), validate=True)
    except (binascii.Error, ValueError):
        yield f"{path}.data: must be base64"
        return
    actual = next((name for name, magic in _MAGIC if magic.match(content)), None)
    if actual != source["media_type"]:
        yield f"{path}.media_type: says {source['media_type']}, but the bytes are {actual}"
