"""The rules of the Messages API for a request, as strict as the API itself.

Reads: messages. Feeds: testing.server, tests.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeGuard

from dsh_nb.messages import JsonObject

__all__ = ["validate_request"]

_TOP_KEYS = frozenset(
    "cache_control container context_management diagnostics inference_geo max_tokens mcp_servers "
    "messages metadata model output_config service_tier speed stop_sequences stream system "
    "temperature thinking tool_choice tools top_k top_p user_profile_id workspace_id".split()
)
_TOOL_KEYS = frozenset(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples "
    "input_schema name strict type".split()
)
# What a client may say of itself; every other key must have come from the server.
_BLOCK_KEYS = {
    "text": frozenset({"type", "text", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
}
_USER_TYPES = frozenset({"text", "image", "tool_result", "document", "search_result"})
_RESULT_TYPES = frozenset({"text", "image"})
_ASSISTANT_TYPES = frozenset({"text", "tool_use"})
_THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_MARKS = 4
_LEAST_BUDGET_TOKENS = 1024
_MAGIC = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)
_MEDIA_TYPES = frozenset(name for name, _ in _MAGIC)


def validate_request(
    body: object, *, raw: bytes | None = None, sent_blocks: Sequence[JsonObject] = ()
) -> list[str]:
    """What the Messages API would refuse in a request, the gravest finding first.

    Args:
        body: The parsed request; anything may be in it.
        raw: Its bytes as they travelled; checked for strict JSON in UTF-8 where given.
        sent_blocks: Every block that the server has sent so far, in order. Thinking and blocks
            of unknown type must equal one of these, and keys seen here may be sent back.

    Returns:
        One line for each broken rule, opened by the path of what breaks it. Empty: the request
        is valid. Later rules are not looked at while the request has not the right shape.
    """
    if problem := _encoding_problem(body, raw):
        return [problem]
    if not isinstance(body, dict):
        return ["body: must be an object"]
    shape = list(_shape(body.get("messages")))
    deeper = () if shape else _message_rules(body["messages"], sent_blocks)
    return [
        *shape,
        *_numbers(body),
        *_system(body.get("system")),
        *_tools(body.get("tools", [])),
        *deeper,
        *_marks(body),
    ]


def _encoding_problem(body: object, raw: bytes | None) -> str | None:
    try:
        parsed = body if raw is None else json.loads(raw.decode("utf-8"), parse_constant=_refuse)
        json.dumps(parsed, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        return f"body: not strict JSON in UTF-8: {error}"
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _numbers(body: JsonObject) -> Iterator[str]:
    """The parameters besides messages, system and tools."""
    for key in sorted(body.keys() - _TOP_KEYS):
        yield f"{key}: extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: must be a non-empty string"
    if not _is_int(body.get("max_tokens")) or body["max_tokens"] < 1:
        yield "max_tokens: must be a positive integer"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: must be a boolean"
    temperature = body.get("temperature", 1)
    if not _is_number(temperature) or not 0 <= temperature <= 1:
        yield "temperature: must be a number from 0 to 1"
    yield from _thinking(body.get("thinking", {"type": "disabled"}), body.get("max_tokens"))


def _thinking(thinking: object, max_tokens: object) -> Iterator[str]:
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in ("enabled", "disabled", "adaptive"):
        yield "thinking.type: must be enabled, disabled or adaptive"
    elif kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not _is_int(budget) or budget < _LEAST_BUDGET_TOKENS:
            yield f"thinking.budget_tokens: must be at least {_LEAST_BUDGET_TOKENS}"
        elif _is_int(max_tokens) and budget >= max_tokens:
            yield "thinking.budget_tokens: must be less than max_tokens"


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _system(system: object) -> Iterator[str]:
    if system is None or isinstance(system, str):
        if system is not None and not system.strip():
            yield "system: text must not be blank"
    elif not _is_blocks(system, frozenset({"text"})):
        yield "system: must be a string or a list of text blocks"
    else:
        yield from _blocks(system, "system", _BLOCK_KEYS)


def _is_blocks(value: object, types: frozenset[str]) -> TypeGuard[list[JsonObject]]:
    return isinstance(value, list) and all(
        isinstance(block, dict) and block.get("type") in types for block in value
    )


def _tools(tools: object) -> Iterator[str]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield "tools: must be a list of objects"
        return
    seen: set[object] = set()
    for at, tool in enumerate(tools):
        yield from _tool(tool, f"tools.{at}")
        name = str(tool.get("name"))
        if name in seen:
            yield f"tools.{at}.name: tool names must be unique, {name!r} is there twice"
        seen.add(name)


def _tool(tool: JsonObject, path: str) -> Iterator[str]:
    name = tool.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        yield f"{path}.name: must match ^{_TOOL_NAME.pattern}$"
    if tool.get("type", "custom") != "custom":
        return  # a tool that the provider runs: its own keys, and no schema
    for key in sorted(tool.keys() - _TOOL_KEYS):
        yield f"{path}.{key}: extra inputs are not permitted"
    if not isinstance(tool.get("description", ""), str):
        yield f"{path}.description: must be a string"
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{path}.input_schema.type: must be 'object'"
    elif schema.keys() & {"anyOf", "oneOf", "allOf"}:
        yield f"{path}.input_schema: does not support oneOf, allOf or anyOf at the top level"


def _shape(messages: object) -> Iterator[str]:
    """Whether the other rules can be asked at all: the types of messages, contents and blocks."""
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            yield f"messages.{at}.role: must be 'user' or 'assistant'"
        else:
            for key in sorted(message.keys() - {"role", "content"}):
                yield f"messages.{at}.{key}: extra inputs are not permitted"
            yield from _content_shape(message.get("content"), f"messages.{at}.content")


def _content_shape(content: object, path: str) -> Iterator[str]:
    if isinstance(content, str):
        if not content.strip():
            yield f"{path}: text must not be blank"
    elif not isinstance(content, list) or not content:
        yield f"{path}: must be a string or a non-empty list of blocks"
    else:
        for at, block in enumerate(content):
            if not isinstance(block, dict) or not isinstance(block.get("type"), str):
                yield f"{path}.{at}: must be an object with a type"


def _message_rules(messages: list[JsonObject], sent: Sequence[JsonObject]) -> Iterator[str]:
    keys = {kind: known.union(*_sent_keys(sent, kind)) for kind, known in _BLOCK_KEYS.items()}
    yield from _order(messages)
    for at, message in enumerate(messages):
        path = f"messages.{at}.content"
        yield from _roles(message, path)
        yield from _blocks(_content(message), path, keys)
    yield from _ids(messages)
    yield from _pairs(messages)
    yield from _sent_back(messages, sent)


def _sent_keys(sent: Sequence[JsonObject], kind: str) -> Iterator[set[str]]:
    return (set(block) for block in sent if block.get("type") == kind)


def _content(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _of_type(message: JsonObject, kind: str) -> list[JsonObject]:
    return [block for block in _content(message) if block["type"] == kind]


def _order(messages: list[JsonObject]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield "messages.0.role: the first message must be from the user"
    if messages[-1]["role"] != "user" and not _is_paused(messages[-1]):
        yield "messages: the last message must be from the user"


def _is_paused(message: JsonObject) -> bool:
    done = {block.get("tool_use_id") for block in _content(message)}
    return any(block.get("id") not in done for block in _of_type(message, "server_tool_use"))


def _roles(message: JsonObject, path: str) -> Iterator[str]:
    """Which blocks a message of that role may hold; what the server sent is looked at elsewhere."""
    content = _content(message)
    if message["role"] == "assistant":
        if content[-1]["type"] in _THINKING_TYPES:
            yield f"{path}: the final block of an assistant message must not be thinking"
        return
    results_over = False
    for at, block in enumerate(content):
        if block["type"] not in _USER_TYPES:
            yield f"{path}.{at}.type: {block['type']!r} is no block of a user message"
        elif block["type"] == "tool_result" and results_over:
            yield f"{path}.{at}: tool_result blocks must come first, before any other block"
        results_over = results_over or block["type"] != "tool_result"


def _blocks(blocks: list[JsonObject], path: str, keys: dict[str, frozenset[str]]) -> Iterator[str]:
    rules = {"text": _text, "image": _image, "tool_use": _tool_use, "tool_result": _tool_result}
    for at, block in enumerate(blocks):
        kind = block["type"]
        if kind in rules:
            for key in sorted(block.keys() - keys[kind]):
                yield f"{path}.{at}.{kind}.{key}: extra inputs are not permitted"
            yield from rules[kind](block, f"{path}.{at}")
        content = block.get("content") if kind == "tool_result" else None
        if _is_blocks(content, _RESULT_TYPES):
            yield from _blocks(content, f"{path}.{at}.content", keys)


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
    if not isinstance(content, str) and not _is_blocks(content, _RESULT_TYPES):
        yield f"{path}.content: must be a string or a list of text and image blocks"
    elif block.get("is_error") and any(part["type"] != "text" for part in _objects(content)):
        yield f"{path}.content: all content must be text if is_error is true"


def _image(block: JsonObject, path: str) -> Iterator[str]:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict) or kind not in ("base64", "url", "file"):
        yield f"{path}.source.type: must be base64, url or file"
    elif kind != "base64":
        place = "url" if kind == "url" else "file_id"
        if not isinstance(source.get(place), str):
            yield f"{path}.source.{place}: must be a string"
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


def _ids(messages: list[JsonObject]) -> Iterator[str]:
    seen: set[str] = set()
    for at, message in enumerate(messages):
        for block in _of_type(message, "tool_use"):
            name = block.get("id")
            if not isinstance(name, str) or not _ID.fullmatch(name):
                yield f"messages.{at}: tool_use.id must match ^{_ID.pattern}$, not {name!r}"
            elif name in seen:
                yield f"messages.{at}: tool_use ids must be unique, {name!r} is there twice"
            else:
                seen.add(name)


def _pairs(messages: list[JsonObject]) -> Iterator[str]:
    """Each call is answered in the next message, and each result answers the message before."""
    opening: JsonObject = {"role": "user", "content": []}
    closing = [opening] if _is_paused(messages[-1]) else []
    for at, (before, message) in enumerate(pairwise([opening, *messages, *closing])):
        calls = [] if before["role"] == "user" else _of_type(before, "tool_use")
        results = [] if message["role"] != "user" else _of_type(message, "tool_result")
        asked = [block.get("id") for block in calls]
        answered = [block.get("tool_use_id") for block in results]
        for name in asked:
            if name not in answered:
                yield f"messages.{at}: no tool_result for the tool_use {name!r} right before"
        for place, name in enumerate(answered):
            if name not in asked:
                yield f"messages.{at}: no tool_use right before for the tool_result of {name!r}"
            elif name in answered[:place]:
                yield f"messages.{at}: more than one tool_result for {name!r}"


def _sent_back(messages: list[JsonObject], sent: Sequence[JsonObject]) -> Iterator[str]:
    """What the client cannot make up must be what it got: the same blocks in the same order."""
    rest = map(_canonical, sent)
    everything = [_canonical(block) for block in sent]
    for at, message in enumerate(messages):
        for place, block in enumerate(_content(message) if message["role"] != "user" else ()):
            if block["type"] in _ASSISTANT_TYPES or _canonical(block) in rest:
                continue  # `in` has moved the iterator past the block
            known = _canonical(block) in everything
            what = "comes in another order than it was sent" if known else "was never sent so"
            yield f"messages.{at}.content.{place}: the {block['type']} block {what}"
            return


def _canonical(block: JsonObject) -> str:
    """JSON that is equal where values and key sets are; the client may add a cache mark."""
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return json.dumps(bare, sort_keys=True)


def _marks(body: JsonObject) -> Iterator[str]:
    places = [body, *_objects(body.get("tools")), *_objects(body.get("system"))]
    for message in _objects(body.get("messages")):
        for block in _objects(message.get("content")):
            places += [block, *_objects(block.get("content"))]
    marked = [place for place in places if place.get("cache_control") is not None]
    if len(marked) > _MOST_MARKS:
        yield f"cache_control: at most {_MOST_MARKS} blocks may be marked, found {len(marked)}"
    for place in marked:
        mark = place["cache_control"]
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            yield "cache_control.type: must be 'ephemeral'"
        if place.get("type") in _THINKING_TYPES:
            yield "cache_control: thinking blocks cannot be marked"


def _objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
