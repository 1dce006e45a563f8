"""The bytes of a streamed Messages API answer as chunks.

Reads: messages, llm.anthropic.blocks. Feeds: llm.anthropic.adapter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from dsh_nb.errors import LlmError
from dsh_nb.llm.anthropic.blocks import PROVIDER
from dsh_nb.messages import (
    Block,
    BlockEnd,
    BlockStart,
    BlockType,
    Chunk,
    Finish,
    FinishReason,
    JsonObject,
    OpaqueBlock,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    UsageChunk,
    clean_text,
    lossless,
)

__all__ = ["STOP_REASONS", "MessageStream"]

STOP_REASONS: dict[str, tuple[str, str | None]] = {
    "end_turn": ("stop", None),
    "stop_sequence": ("stop", None),
    "tool_use": ("tool-calls", None),
    "max_tokens": ("max-tokens", "the answer reached the output limit of the request"),
    "model_context_window_exceeded": ("max-tokens", "the answer filled the model's context window"),
    "pause_turn": ("pause-turn", None),
    "refusal": ("refusal", "the model refused to answer"),
}
"""Every ``stop_reason`` known: the kind of `FinishReason`, and a line for people. One that is not
here keeps its own name as the kind, which no loop takes for a finished answer."""


class _Delta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    citation: JsonObject | None = None
    stop_reason: str | None = None
    stop_details: JsonObject | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: JsonObject | None = None
    message: JsonObject | None = None
    usage: JsonObject | None = None
    error: JsonObject | None = None


class _Open:
    """A block that is being streamed: what it started as, and its pieces."""

    __slots__ = ("id", "kind", "pieces", "signature", "start")

    def __init__(self, start: JsonObject) -> None:
        self.start = start
        self.kind = str(start.get("type"))
        self.id = str(start.get("id", ""))
        self.pieces: list[str] = []
        self.signature = str(start.get("signature", ""))


_decode = msgspec.json.Decoder(_Event).decode
_KNOWN = {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
}
_READ = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
}
_TYPES: dict[str, BlockType] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool-call",
}


class MessageStream:
    """Turns the bytes of one answer, however they are cut, into chunks.

    Attributes:
        ended: True when the message stopped properly; only then does `finish` mean anything.
    """

    def __init__(self) -> None:
        self.ended = False
        self._rest = b""
        self._open: dict[int, _Open] = {}
        self._usage: JsonObject = {}
        self._message: JsonObject = {}
        self._stop: _Delta | None = None

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """The chunks that `data`, the next bytes of the body, completes.

        Raises:
            LlmError: The server sent an ``error`` event, or an event that cannot be read.
        """
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if self._rest:
            data = (self._rest + data).replace(b"\r\n", b"\n")
        events = data.split(b"\n\n")
        self._rest = events.pop()
        for raw in events:
            event = _read(raw)
            if event is None:
                continue
            if event.type == "content_block_delta":
                chunk = self._delta(event, raw)
                if chunk is not None:
                    yield chunk
            else:
                yield from self._other(event)

    def close(self) -> Iterator[Chunk]:
        """The chunks of a last event that lacks its blank line; the body has ended."""
        if self._rest.strip():
            yield from self.feed(b"\n\n")

    def finish(self) -> Finish:
        """Why the model stopped."""
        delta = self._stop or _Delta()
        reason = delta.stop_reason or ""
        kind, message = STOP_REASONS.get(
            reason, (reason, f"the model stopped for a reason that is not known here: {reason!r}")
        )
        details = delta.stop_details or {}
        if kind == "refusal" and details.get("explanation"):
            message = f"{message}: {details['explanation']}"
        category = details.get("category")
        return Finish(FinishReason(kind, message, str(category) if category else None))

    def usage(self) -> UsageChunk:
        """The newest counts; each report replaces what it names, nothing is added up."""
        return UsageChunk(_usage(self._usage), self._message.get("id"), self._message.get("model"))

    def _delta(self, event: _Event, raw: bytes) -> Chunk | None:
        block, delta, index = self._open.get(event.index), event.delta, event.index
        if block is None or delta is None:
            return None
        kind = delta.type
        if kind == "text_delta" and block.kind == "text":
            block.pieces.append(delta.text)
            return TextDelta(index, delta.text)
        if kind == "input_json_delta" and block.kind == "tool_use":
            block.pieces.append(delta.partial_json)
            return ToolCallDelta(index, block.id, delta.partial_json)
        if kind == "thinking_delta" and block.kind == "thinking":
            block.pieces.append(delta.thinking)
            return ReasoningDelta(index, delta.thinking)
        if kind == "signature_delta":
            block.signature += delta.signature
        elif kind == "citations_delta":
            block.start["citations"] = [*(block.start.get("citations") or ()), delta.citation]
        else:
            _merge(block, _plain(raw)["delta"])
        return None

    def _other(self, event: _Event) -> Iterator[Chunk]:
        if event.type == "content_block_start" and event.content_block is not None:
            yield from self._start(event.index, event.content_block)
        elif event.type == "content_block_stop":
            block = self._open.pop(event.index, None)
            if block is not None:
                yield BlockEnd(event.index, _finished(block))
        elif event.type == "message_start" and event.message is not None:
            self._message = event.message
            self._set_usage(event.message.get("usage"))
            yield self.usage()
        elif event.type == "message_delta":
            self._set_usage(event.usage)
            self._stop = event.delta
            yield self.usage()
        elif event.type == "message_stop":
            self.ended = self._stop is not None and self._stop.stop_reason is not None
        elif event.type == "error":
            raise _stream_error(event.error or {})

    def _start(self, index: int, start: JsonObject) -> Iterator[Chunk]:
        block = self._open[index] = _Open(start)
        kind = _TYPES.get(block.kind, "opaque")
        call = (block.id, str(start.get("name", ""))) if kind == "tool-call" else (None, None)
        yield BlockStart(index, kind, *call)
        text = str(start.get(block.kind) or "")
        if text and block.kind in ("text", "thinking"):
            block.pieces.append(text)
            yield TextDelta(index, text) if kind == "text" else ReasoningDelta(index, text)

    def _set_usage(self, report: JsonObject | None) -> None:
        for key, value in (report or {}).items():
            if value is not None:
                self._usage[key] = value


def _read(raw: bytes) -> _Event | None:
    """The event in one SSE record; None for what is not one of the API's."""
    line = raw.find(b"\n")
    if raw.startswith(b"event: ") and raw.startswith(b"data: ", line + 1):
        data = raw[line + 7 :]
        try:
            if b"\n" not in data and not raw.startswith(b"event: error\n"):
                return _decode(data)
        except msgspec.DecodeError:
            pass  # what is wrong with it is found out below
    return _read_slowly(raw)


def _read_slowly(raw: bytes) -> _Event | None:
    name, data = _fields(raw)
    if name and name not in _KNOWN:
        return None
    try:
        plain = json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        if not name:
            return None
        raise LlmError(
            f"the server sent a {name!r} event that is not JSON: {data[:200]!r}", code="BAD_STREAM"
        ) from None
    if name == "error":
        return _Event("error", error=_error_of(plain))
    if not isinstance(plain, dict) or plain.get("type") not in _KNOWN:
        return None
    try:
        return msgspec.convert(lossless(plain), _Event)
    except (msgspec.ValidationError, ValueError) as error:
        raise LlmError(
            f"the server sent an event that cannot be read: {error}", code="BAD_STREAM"
        ) from error


def _fields(raw: bytes) -> tuple[str, bytes]:
    """Name and data of an SSE record, by the lines that have them."""
    name, data = "", []
    for line in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.strip().decode("utf-8", "replace")
        elif field == b"data":
            data.append(value.removeprefix(b" "))
    return name, b"\n".join(data)


def _plain(raw: bytes) -> JsonObject:
    plain: JsonObject = lossless(json.loads(_fields(raw)[1].decode("utf-8", "replace")))
    return plain


def _finished(block: _Open) -> Block:
    """The whole block; what dsh_nb does not read of it rides along."""
    start, text = block.start, clean_text("".join(block.pieces))
    read = _READ.get(block.kind, set())
    extra = {key: value for key, value in start.items() if key not in read} or None
    if block.kind == "text":
        return TextBlock(text, extra=extra)
    if block.kind == "thinking":
        return ReasoningBlock(text, signature=block.signature, extra=extra)
    if block.kind == "redacted_thinking":
        return ReasoningBlock("", redacted=str(start.get("data", "")), extra=extra)
    if block.kind == "tool_use":
        given = json.dumps(start["input"]) if start.get("input") else ""
        return ToolCallBlock(block.id, str(start.get("name", "")), text or given, extra)
    if block.pieces:
        start["input"] = _joined_input(text)
    return OpaqueBlock(PROVIDER, start)


def _joined_input(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _merge(block: _Open, delta: JsonObject) -> None:
    """Add a delta of an unread kind to an unread block: text grows, the rest is set."""
    if block.kind in _READ:
        return
    if delta.get("type") == "input_json_delta":
        block.pieces.append(str(delta.get("partial_json", "")))
        return
    for key, value in delta.items():
        before = block.start.get(key)
        if key == "type" or value is None:
            continue
        both_text = isinstance(before, str) and isinstance(value, str)
        block.start[key] = before + value if both_text else value


def _usage(report: JsonObject) -> Usage:
    thinking = _count((report.get("output_tokens_details") or {}).get("thinking_tokens"))
    return Usage(
        input_tokens=_count(report.get("input_tokens")),
        output_tokens=max(0, _count(report.get("output_tokens")) - thinking),
        cache_read_tokens=_count(report.get("cache_read_input_tokens")),
        cache_write_tokens=_count(report.get("cache_creation_input_tokens")),
        reasoning_tokens=thinking,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _error_of(plain: object) -> JsonObject:
    """The error in an event named so; llama.cpp sends it without the envelope of the API."""
    error = plain.get("error", plain) if isinstance(plain, dict) else plain
    return lossless(error) if isinstance(error, dict) else {"message": str(error)}


def _stream_error(error: JsonObject) -> LlmError:
    code = str(error.get("type", "api_error"))
    return LlmError(
        f"the provider failed while it answered: {error.get('message', code)}",
        code=code,
        status=200,
    )
