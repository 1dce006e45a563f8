"""The rules of the Messages API for the messages of a request and how they follow one another.

Reads: messages, testing.block_rules. Feeds: testing.echo_rules, testing.validator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from dsh_nb.messages import JsonObject
from dsh_nb.testing.block_rules import THINKING_TYPES, block_findings, content_shape

__all__ = ["Placed", "assistant_runs", "message_findings", "message_shape", "open_server_calls"]

_USER_TYPES = frozenset({"text", "image", "tool_result", "document", "search_result"})
_ID = re.compile(r"[a-zA-Z0-9_-]+")


class Placed(NamedTuple):
    """A block and the path to it."""

    path: str
    block: JsonObject


def message_shape(messages: object) -> Iterator[str]:
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
            yield from content_shape(message.get("content"), f"messages.{at}.content")


def message_findings(messages: list[JsonObject]) -> Iterator[str]:
    """What is wrong with `messages`, which have the right shape, by themselves."""
    yield from _order(messages)
    for at, message in enumerate(messages):
        path = f"messages.{at}.content"
        yield from _roles(message, path)
        yield from block_findings(_content(message), path, echoed=message["role"] == "assistant")
    yield from _ids(messages)
    yield from _pairs(messages)
    yield from _server_calls(messages)


def assistant_runs(messages: list[JsonObject]) -> list[list[Placed]]:
    """The blocks of each assistant message; the API takes neighbours for one message."""
    runs: list[list[Placed]] = []
    role_before = ""
    for at, message in enumerate(messages):
        placed = [
            Placed(f"messages.{at}.content.{place}", block)
            for place, block in enumerate(_content(message))
        ]
        if message["role"] == "assistant" and role_before == "assistant":
            runs[-1] += placed
        elif message["role"] == "assistant":
            runs.append(placed)
        role_before = message["role"]
    return runs


def open_server_calls(blocks: list[JsonObject]) -> list[JsonObject]:
    """The calls of tools that the server runs whose result does not come later in `blocks`."""
    still_open: dict[str, JsonObject] = {}
    for block in blocks:
        still_open.pop(str(block.get("tool_use_id", "")), None)
        if block["type"].endswith("_tool_use"):
            still_open[str(block.get("id"))] = block
    return [*still_open.values()]


def _content(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _of_type(message: JsonObject, kind: str) -> list[JsonObject]:
    return [block for block in _content(message) if block["type"] == kind]


def _order(messages: list[JsonObject]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield "messages.0.role: the first message must be from the user"
    if messages[-1]["role"] != "user" and not _is_paused(messages):
        yield "messages: the last message must be from the user"


def _is_paused(messages: list[JsonObject]) -> bool:
    if messages[-1]["role"] == "user":
        return False
    return bool(open_server_calls([block for _, block in assistant_runs(messages)[-1]]))


def _roles(message: JsonObject, path: str) -> Iterator[str]:
    """Which blocks a message of that role may hold; what the server sent is looked at elsewhere."""
    content = _content(message)
    if message["role"] == "assistant":
        if content[-1]["type"] in THINKING_TYPES:
            yield f"{path}: the final block of an assistant message must not be thinking"
        return
    results_over = False
    for at, block in enumerate(content):
        if block["type"] not in _USER_TYPES:
            yield f"{path}.{at}.type: {block['type']!r} is no block of a user message"
        elif block["type"] == "tool_result" and results_over:
            yield f"{path}.{at}: tool_result blocks must come first, before any other block"
        results_over = results_over or block["type"] != "tool_result"


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
    closing = [opening] if _is_paused(messages) else []
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


def _server_calls(messages: list[JsonObject]) -> Iterator[str]:
    """Only the last message may wait for what the server does, or one with a call of the client's.

    Beside such a call the server waits, too, and gives its own result with a later message.
    """
    runs = assistant_runs(messages)
    for at, run in enumerate(runs if messages[-1]["role"] == "user" else runs[:-1]):
        if at == len(runs) - 1 and _calls_client(run):
            return
        later = {
            name for _, block in chain(*runs[at + 1 :]) if _calls_client(run) for name in _on(block)
        }
        still_open = open_server_calls([block for _, block in run])
        for path, block in run:
            if any(block is one for one in still_open) and str(block.get("id")) not in later:
                call = f"{block['type']} {block.get('id')!r}"
                yield f"{path}: no result for the {call} in its message"


def _calls_client(run: list[Placed]) -> bool:
    return any(block["type"] == "tool_use" for _, block in run)


def _on(block: JsonObject) -> Iterator[str]:
    """Ids of the server's call that `block` answers, and of the one that it is made by."""
    caller = block.get("caller")
    yield str(block.get("tool_use_id", ""))
    yield str(caller.get("tool_id", "")) if isinstance(caller, dict) else ""
