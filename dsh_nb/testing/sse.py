"""Content blocks as the events of a stream, and back.

Reads: messages. Feeds: testing.replies, testing.server, tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dsh_nb.messages import JsonObject

__all__ = ["block_parts", "blocks_in", "encode_json", "error_body", "sse_event"]

_DATA = re.compile(rb"^data: ?(\{.*\})\r?$", re.MULTILINE)


def blocks_in(events: Iterable[bytes], *, with_open_text: bool = False) -> list[JsonObject]:
    """The content blocks that a client has in full after `events`, in the order of their ends.

    A tool input that is no JSON stays as it was in the block's start.

    Args:
        events: Whole server-sent events.
        with_open_text: Whether texts that have not ended come after the others, as far as they go.
    """
    open_blocks: dict[object, JsonObject] = {}
    inputs: dict[object, str] = {}
    done = []
    for data in _payloads(events):
        index = data.get("index")
        if data.get("type") == "content_block_start":
            open_blocks[index] = dict(data["content_block"])
        elif index not in open_blocks:
            continue
        elif data["type"] == "content_block_delta":
            if data["delta"]["type"] == "input_json_delta":
                inputs[index] = inputs.get(index, "") + data["delta"]["partial_json"]
            else:
                _grow(open_blocks[index], data["delta"])
        elif data["type"] == "content_block_stop":
            block = open_blocks.pop(index)
            done.append(_with_input(block, inputs.pop(index, "")))
    still_open = open_blocks.values() if with_open_text else ()
    return [*done, *(block for block in still_open if block["type"] == "text")]


def _payloads(events: Iterable[bytes]) -> Iterator[JsonObject]:
    for event in events:
        for text in _DATA.findall(event):
            with suppress(ValueError):  # what a client cannot read makes no block
                yield json.loads(text)


def _grow(block: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key != "type":
            old = block.get(key)
            block[key] = old + value if isinstance(old, str) else value


def _with_input(block: JsonObject, text: str) -> JsonObject:
    try:
        return {**block, "input": json.loads(text)} if text else block
    except ValueError:
        return block


def block_parts(block: JsonObject, pieces: int) -> Iterator[JsonObject]:
    """How `block` travels: its start, then its deltas; `pieces` is the most of one kind."""
    if block["type"] == "text":
        cited: JsonObject = {"citations": []} if "citations" in block else {}
        yield {**block, "text": "", **cited}
        yield from _deltas("text_delta", "text", block["text"], pieces)
        for citation in block.get("citations") or ():
            yield {"type": "citations_delta", "citation": citation}
    elif block["type"] == "thinking":
        yield {**block, "thinking": "", "signature": ""}
        yield from _deltas("thinking_delta", "thinking", block["thinking"], pieces)
        if "signature" in block:
            yield {"type": "signature_delta", "signature": block["signature"]}
    elif "input" in block or "input_json" in block:
        yield {**{key: block[key] for key in block if key != "input_json"}, "input": {}}
        yield {"type": "input_json_delta", "partial_json": ""}
        yield from _deltas("input_json_delta", "partial_json", _input_text(block), pieces)
    else:
        yield block


def _input_text(block: JsonObject) -> str:
    """Its input as JSON text; nothing for an empty one, as the API does it."""
    if "input_json" in block:
        return str(block["input_json"])
    return json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""


def _deltas(kind: str, key: str, text: str, pieces: int) -> Iterator[JsonObject]:
    size = max(1, -(-len(text) // pieces))
    for at in range(0, len(text), size):
        yield {"type": kind, key: text[at : at + size]}


def sse_event(data: JsonObject) -> bytes:
    """`data` as a server-sent event of its type."""
    return f"event: {data['type']}\n".encode() + b"data: " + encode_json(data) + b"\n\n"


def encode_json(data: JsonObject) -> bytes:
    """`data` as JSON in UTF-8."""
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair travels as an escape only
        return json.dumps(data).encode()


def error_body(type: str, message: str) -> JsonObject:
    """An error in the API's form."""
    return {"type": "error", "error": {"type": type, "message": message}}
