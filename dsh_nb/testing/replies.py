"""What the fake Messages API answers: the blocks, and how their bytes get to the client.

Reads: messages, testing.sse. Feeds: testing.server, tests.
"""

from __future__ import annotations

import base64
import random
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dsh_nb.messages import JsonObject
from dsh_nb.testing.sse import block_parts, blocks_in, encode_json, error_body, sse_event

__all__ = ["Hold", "Reply", "reply"]

_EVENT = re.compile(rb".+?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.DOTALL)
_USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 5,
}
_NOISE = b": a comment\n\nevent: weather_report\ndata: sunny, {not JSON\n\n"
_SMALL_WRITES = (1, 40)


@dataclass(frozen=True, slots=True)
class Hold:
    """A place in a reply where nothing is written for a while.

    Attributes:
        after_events: How many events are written before it; 0 holds back the head, too.
        seconds: The longest that it lasts; it ends early when the client goes.
        gate: Ends it when set.
    """

    after_events: int
    seconds: float
    gate: threading.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the fake server; made with `reply`, changed by methods that return copies.

    Events are counted without pings and noise. A reply that is not streamed, or is an error,
    counts as one event.

    Attributes:
        blocks: The content in wire form. A ``tool_use`` may hold ``input_json``, its input as
            JSON text that need not be valid, in place of ``input``.
        stop_reason: Any string, or ``None``.
        stop_details: The API's account of a refusal.
        usage: What the message has cost in the end; ``message_start`` tells it with one output
            token.
        usage_steps: The counts of several ``message_delta`` events, each in place of `usage`.
        message_id: Made anew for each request where ``None``.
        model: The request's where ``None``.
        status: The HTTP status.
        headers: Further HTTP headers.
        pieces: Into how many deltas each text, thinking and tool input is cut.
        body: The whole HTTP body where it is not made from the blocks.
        pace_seconds: The pause between two events.
        split_bytes: How many bytes go into a TCP write; ``None`` for an event each.
        split_seed: Makes writes of random, small sizes.
        holds: Where nothing is written for a while.
        ending: Where and how it ends before its time; see `cut`, `end` and `error_event`.
        pings: Whether a ``ping`` follows each event.
        noise: Whether it is full of what a client must skip.
    """

    blocks: tuple[JsonObject, ...] = ()
    stop_reason: str | None = "end_turn"
    stop_details: JsonObject | None = None
    usage: Mapping[str, object] = field(default_factory=lambda: dict(_USAGE))
    usage_steps: tuple[Mapping[str, object], ...] = ()
    message_id: str | None = None
    model: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: int = 2
    body: bytes | None = None
    pace_seconds: float = 0.0
    split_bytes: int | None = None
    split_seed: int | None = None
    holds: tuple[Hold, ...] = ()
    ending: tuple[int, Literal["cut", "end"], bytes] | None = None
    pings: bool = False
    noise: bool = False

    def split(self, split_bytes: int | None = None, *, seed: int | None = None) -> Reply:
        """Cut the body into writes of `split_bytes`, or of random sizes, anywhere in the bytes."""
        return replace(self, split_bytes=split_bytes, split_seed=seed)

    def pace(self, seconds: float) -> Reply:
        """Wait `seconds` after each event."""
        return replace(self, pace_seconds=seconds)

    def stall(self, after_events: int, seconds: float = 30.0) -> Reply:
        """Write nothing for `seconds` after that many events, or until the client goes."""
        return replace(self, holds=(*self.holds, Hold(after_events, seconds)))

    def gate(self, gate: threading.Event, after_events: int = 0) -> Reply:
        """Write nothing after that many events until `gate` is set."""
        return replace(self, holds=(*self.holds, Hold(after_events, float("inf"), gate)))

    def cut(self, after_events: int) -> Reply:
        """Close the socket after that many events, in the middle of the HTTP body."""
        return replace(self, ending=(after_events, "cut", b""))

    def end(self, after_events: int) -> Reply:
        """End the HTTP body after that many events as if all was said."""
        return replace(self, ending=(after_events, "end", b""))

    def error_event(
        self, after_events: int, type: str = "overloaded_error", message: str = "Overloaded"
    ) -> Reply:
        """Put an error into the stream after that many events, and end the body."""
        return replace(self, ending=(after_events, "end", sse_event(error_body(type, message))))

    def with_pings(self) -> Reply:
        """Add a ``ping`` after each event."""
        return replace(self, pings=True)

    def with_noise(self) -> Reply:
        """Add unknown events that are no JSON, comments, CRLF and a last ``data: [DONE]``."""
        return replace(self, noise=True)

    def events(self, model: str = "claude-test") -> tuple[bytes, ...]:
        """The body as server-sent events, whole and undisturbed."""
        if self.body is not None:
            return tuple(_EVENT.findall(self.body))
        return tuple(sse_event(data) for data in self._stream(model))

    def message(self, model: str = "claude-test") -> JsonObject:
        """The body of the answer to a request that does not stream."""
        last = self.usage_steps[-1] if self.usage_steps else {}
        content = blocks_in(self.events(model))
        return {**self._opening(model), "content": content} | {
            "stop_reason": self.stop_reason,
            "usage": {**self.usage, **last},
            **_given("stop_details", self.stop_details),
        }

    def writes(self, events: Sequence[bytes]) -> Iterator[bytes | Hold]:
        """What is done with `events`, one after the other: a TCP write, or a hold."""
        at, _, last_words = self.ending or (len(events), "end", b"")
        at = min(at, len(events))
        pending = b""
        for count, event in enumerate([*events[:at], last_words]):
            for hold in self._holds_at(count, at):
                yield from self._cut_up(pending)
                pending = b""
                yield hold
            pending += self._disturbed(event)
            if not self._is_split():
                yield from [pending] if pending else []
                pending = b""
        yield from self._cut_up(pending + (b"data: [DONE]\r\n\r\n" if self._ends_noisy() else b""))

    def _opening(self, model: str) -> JsonObject:
        return {
            "id": self.message_id or f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self.model or model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self.usage, "output_tokens": 1},
        }

    def _stream(self, model: str) -> Iterator[JsonObject]:
        yield {"type": "message_start", "message": self._opening(model)}
        for index, block in enumerate(self.blocks):
            start, *deltas = block_parts(block, self.pieces)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        *early, last = self.usage_steps or (self.usage,)
        for usage in early:
            delta = {"stop_reason": None, "stop_sequence": None}
            yield {"type": "message_delta", "delta": delta, "usage": dict(usage)}
        delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
        delta |= _given("stop_details", self.stop_details)
        yield {"type": "message_delta", "delta": delta, "usage": dict(last)}
        yield {"type": "message_stop"}

    def _holds_at(self, count: int, end: int) -> Iterator[Hold]:
        yield from (hold for hold in self.holds if min(hold.after_events, end) == count)
        if self.pace_seconds and 0 < count < end:
            yield Hold(count, self.pace_seconds)

    def _disturbed(self, event: bytes) -> bytes:
        if not event or self._is_json():
            return event
        before = _NOISE if self.noise else b""
        after = sse_event({"type": "ping"}) if self.pings else b""
        told = before + event + after
        return re.sub(rb"\r?\n", b"\r\n", told) if self.noise else told

    def _is_json(self) -> bool:
        return self.body is not None and self.body.startswith(b"{")

    def _ends_noisy(self) -> bool:
        return self.noise and self.ending is None and not self._is_json()

    def _is_split(self) -> bool:
        return self.split_bytes is not None or self.split_seed is not None

    def _cut_up(self, content: bytes) -> Iterator[bytes]:
        chance = random.Random(self.split_seed)
        while content:
            size = self.split_bytes or len(content)
            if self.split_seed is not None:
                size = chance.randint(*_SMALL_WRITES)
            yield content[:size]
            content = content[size:]


def _given(key: str, value: object) -> JsonObject:
    return {} if value is None else {key: value}


class _Builders:
    """The builders of replies, under one name."""

    def text(self, text: str, *, pieces: int = 2, stop_reason: str | None = "end_turn") -> Reply:
        """An answer of one text, in so many deltas."""
        block: JsonObject = {"type": "text", "text": text}
        return Reply(blocks=(block,), pieces=pieces, stop_reason=stop_reason)

    def thinking(
        self, thinking: str, *, text: str | None = None, signature: str | None = None
    ) -> Reply:
        """Thinking, sealed with random base64 unless `signature` is given, then `text`."""
        return Reply(blocks=(*_thought(thinking, signature), *_said(text)))

    def calls(
        self,
        *calls: tuple[str, JsonObject | str],
        text: str | None = None,
        thinking: str | None = None,
    ) -> Reply:
        """Tool calls, each a name and its input; a string is sent as raw JSON text.

        The ids are random; find them in the reply's `blocks`.
        """
        called = [_call(name, given) for name, given in calls]
        before = (*_thought(thinking, None), *_said(text))
        return Reply(blocks=(*before, *called), stop_reason="tool_use")

    def blocks(
        self,
        blocks: Iterable[JsonObject],
        *,
        stop_reason: str | None = "end_turn",
        stop_details: JsonObject | None = None,
    ) -> Reply:
        """Any blocks in wire form."""
        return Reply(blocks=tuple(blocks), stop_reason=stop_reason, stop_details=stop_details)

    def raw(self, body: bytes) -> Reply:
        """A body that goes out as it is: recorded events, or JSON."""
        return Reply(body=body)

    def error(
        self, status: int, type: str, message: str, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """An error in the API's form with its HTTP status; the server adds the request's id."""
        body = encode_json(error_body(type, message))
        return Reply(status=status, body=body, headers=dict(headers or {}))


def _thought(thinking: str | None, signature: str | None) -> list[JsonObject]:
    if thinking is None:
        return []
    seal = base64.b64encode(secrets.token_bytes(48)).decode() if signature is None else signature
    return [{"type": "thinking", "thinking": thinking, "signature": seal}]


def _said(text: str | None) -> list[JsonObject]:
    return [] if text is None else [{"type": "text", "text": text}]


def _call(name: str, given: JsonObject | str) -> JsonObject:
    key = "input_json" if isinstance(given, str) else "input"
    return {"type": "tool_use", "id": f"toolu_{secrets.token_hex(12)}", "name": name, key: given}


reply = _Builders()
"""Builds the replies of a script: ``reply.text("Hello")``, ``reply.calls(("add", {"a": 1}))``."""
