"""Content blocks and token counts of Claude Code's messages as ours.

Reads: messages, session.events, imports.fields. Feeds: imports.claude_code, imports.claude_tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dsh_nb.imports.fields import as_count, as_list, as_object, as_text, json_text
from dsh_nb.messages import (
    Block,
    ImageBlock,
    JsonObject,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    Usage,
)
from dsh_nb.session.events import UserContent

__all__ = [
    "STOP_REASONS",
    "UserSaid",
    "block_of",
    "counts_of",
    "result_ids",
    "said_of",
    "text_in",
    "user_said",
]

STOP_REASONS: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "pause_turn": "pause-turn",
}
"""Their stop reasons by the name we have for them; others keep theirs."""


class UserSaid(NamedTuple):
    """The content of a user line: what was said, and the raw results of tools."""

    content: tuple[UserContent, ...]
    results: tuple[JsonObject, ...]


def block_of(block: object) -> Block:
    """One block of the model's; of a kind that is not ours it is kept verbatim."""
    if isinstance(block, str):
        return TextBlock(block)
    fields = as_object(block)
    make = _BLOCKS.get(as_text(fields.get("type")))
    return make(fields) if make is not None else OpaqueBlock("anthropic", _whole(block))


def _whole(block: object) -> JsonObject:
    return block if isinstance(block, dict) else {"value": block}


def _text(block: JsonObject) -> TextBlock:
    extra = {key: value for key, value in block.items() if key not in ("type", "text") and value}
    return TextBlock(as_text(block.get("text")), extra=extra or None)


def _thinking(block: JsonObject) -> ReasoningBlock:
    signature = block.get("signature")
    return ReasoningBlock(
        as_text(block.get("thinking")), signature if isinstance(signature, str) else None
    )


def _redacted(block: JsonObject) -> ReasoningBlock:
    return ReasoningBlock("", redacted=as_text(block.get("data")))


def _call(block: JsonObject) -> ToolCallBlock:
    arguments = json_text(block["input"]) if "input" in block else ""
    return ToolCallBlock(as_text(block.get("id")), as_text(block.get("name")), arguments)


def _image(block: JsonObject) -> Block:
    source = as_object(block.get("source"))
    kind, mime_type = source.get("type"), as_text(source.get("media_type")) or None
    if kind == "base64" and isinstance(source.get("data"), str):
        return ImageBlock(f"data:{mime_type or 'image/png'};base64,{source['data']}", mime_type)
    if kind == "url" and isinstance(source.get("url"), str):
        return ImageBlock(source["url"], mime_type)
    return OpaqueBlock("anthropic", block)


_BLOCKS: Mapping[str, Callable[[JsonObject], Block]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _call,
    "image": _image,
}


def said_of(content: object) -> tuple[UserContent, ...]:
    """What a person or a tool said; a block of another kind as its JSON."""
    if isinstance(content, str):
        return (TextBlock(content),)
    if content is not None and not isinstance(content, list):
        return (TextBlock(json_text(content)),)
    return tuple(_said(block) for block in as_list(content))


def _said(block: object) -> UserContent:
    found = block_of(block)
    return found if isinstance(found, (TextBlock, ImageBlock)) else TextBlock(json_text(block))


def user_said(content: object) -> UserSaid:
    """The content of a user line, results apart."""
    if not isinstance(content, list):
        return UserSaid(said_of(content), ())
    results = tuple(block for block in content if _is_result(block))
    said = [block for block in content if not _is_result(block)] if results else content
    return UserSaid(said_of(said), results)


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def result_ids(content: object) -> list[str]:
    """Ids of the calls that a user line answers."""
    return [as_text(block.get("tool_use_id")) for block in as_list(content) if _is_result(block)]


def text_in(content: tuple[UserContent, ...]) -> str:
    """The first text of what was said, without space around it."""
    return next((block.text.strip() for block in content if isinstance(block, TextBlock)), "")


def counts_of(usage: JsonObject) -> Usage:
    """Token counts, which do not overlap in this format either."""
    return Usage(
        as_count(usage.get("input_tokens")),
        as_count(usage.get("output_tokens")),
        as_count(usage.get("cache_read_input_tokens")),
        as_count(usage.get("cache_creation_input_tokens")),
    )
