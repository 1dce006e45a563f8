"""A request as the bytes of a Messages API call; each message is encoded once per session.

Reads: messages, session.history, llm.protocol, llm.anthropic.blocks. Feeds: llm.anthropic.adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dsh_nb.llm.anthropic.blocks import wire_blocks
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import JsonObject, Message, ToolSchema
from dsh_nb.session.history import HistoryView

__all__ = ["DEFAULT_MAX_TOKENS", "WireHistory", "encode_request"]

DEFAULT_MAX_TOKENS = 16_000
_MAX_MARKS = 4
_MARK: JsonObject = {"type": "ephemeral"}

_encode = msgspec.json.Encoder().encode


class _Group(NamedTuple):
    """Messages of one role in a row: one message on the wire."""

    role: str
    blocks: list[JsonObject]

    def encoded(self) -> bytes:
        return _encode({"role": self.role, "content": self.blocks})


class _Spot(NamedTuple):
    """Where a cache mark may go: a group, and a block of it."""

    group: int
    block: int


class WireHistory:
    """A fold of messages into encoded wire messages; the API wants neighbours of one role joined.

    Attributes:
        count: How many messages it has taken.
        images: Whether pictures are sent.
    """

    images = True

    def __init__(self) -> None:
        self.count = 0
        self.groups: list[_Group] = []
        self.encoded: list[bytes] = []
        self.asked: list[_Spot] = []

    def feed(self, message: Message) -> None:
        """Take the next message."""
        self.count += 1
        blocks, cached = wire_blocks(message, images=self.images)
        if not blocks:
            return
        if not self.groups or self.groups[-1].role != message.role:
            self.groups.append(_Group(message.role, []))
            self.encoded.append(b"")
        group = self.groups[-1]
        last = len(self.groups) - 1
        self.asked += [_Spot(last, len(group.blocks) + position) for position in cached]
        group.blocks.extend(blocks)
        self.encoded[-1] = b""

    def extended(self, tail: Sequence[Message]) -> WireHistory:
        """This history with `tail` after it; itself when there is none."""
        if not tail:
            return self
        longer = type(self)()
        longer.groups, longer.encoded = [*self.groups], [*self.encoded]
        longer.asked = [*self.asked]
        if longer.groups:
            longer.groups[-1] = _Group(longer.groups[-1].role, [*longer.groups[-1].blocks])
        for message in tail:
            longer.feed(message)
        return longer

    def encode(self, marks: Sequence[_Spot]) -> bytes:
        """The messages as a JSON array, with a cache mark at each of `marks`."""
        self._encode_new()
        if not marks:
            return b"[" + b",".join(self.encoded) + b"]"
        parts = [*self.encoded]
        for group in {spot.group for spot in marks}:
            blocks = [*self.groups[group].blocks]
            for spot in marks:
                if spot.group == group:
                    blocks[spot.block] = {**blocks[spot.block], "cache_control": _MARK}
            parts[group] = _Group(self.groups[group].role, blocks).encoded()
        return b"[" + b",".join(parts) + b"]"

    def spots(self) -> list[_Spot]:
        """Where marks are wanted: as asked for, and at the two newest user messages."""
        newest = list(range(len(self.groups) - 1, max(-1, len(self.groups) - 5), -1))
        users = [n for n in newest if self.groups[n].role == "user"][:2]
        wanted = {*self.asked, *(_Spot(n, len(self.groups[n].blocks) - 1) for n in users)}
        return sorted(wanted)

    def _encode_new(self) -> None:
        for position in range(len(self.encoded) - 1, -1, -1):
            if self.encoded[position]:
                break
            self.encoded[position] = self.groups[position].encoded()


class _TextHistory(WireHistory):
    """For a model that takes no pictures."""

    images = False


def encode_request(request: ModelRequest, *, cache: bool = True, images: bool = True) -> bytes:
    """The body of the Messages API call for `request`; the same request gives the same bytes.

    Args:
        request: What to send.
        cache: True to mark tools, system and the newest messages for the prompt cache. At most
            four marks are sent, the last ones win.
        images: False to say where a picture was in place of it.
    """
    history = _wire_history(request.messages, WireHistory if images else _TextHistory)
    system_marks = (1 if request.tools else 0) + (1 if request.system else 0)
    marks = (history.spots() if cache else [])[-_MAX_MARKS:]
    head_marks = min(system_marks, _MAX_MARKS - len(marks)) if cache else 0
    head: JsonObject = {"model": request.model, "max_tokens": DEFAULT_MAX_TOKENS}
    head.update(request.options)
    head["stream"] = True
    if request.system:
        head["system"] = _system(request.system, marked=head_marks > 0)
    if request.tools:
        head["tools"] = _tools(request.tools, marked=head_marks > (1 if request.system else 0))
    return b'{"messages":' + history.encode(marks) + b"," + _encode(head)[1:]


def _wire_history(messages: Sequence[Message], kind: type[WireHistory]) -> WireHistory:
    if isinstance(messages, HistoryView):
        return messages.folded(kind, kind).extended(messages.open_tail)
    return kind().extended(messages)


def _system(text: str, *, marked: bool) -> list[JsonObject]:
    block: JsonObject = {"type": "text", "text": text}
    return [{**block, "cache_control": _MARK} if marked else block]


def _tools(schemas: Sequence[ToolSchema], *, marked: bool) -> list[JsonObject]:
    """The tools by name, so that their bytes do not depend on who registered first."""
    tools: list[JsonObject] = [
        {"name": one.name, "description": one.description, "input_schema": one.parameters}
        for one in sorted(schemas, key=lambda one: one.name)
    ]
    if marked:
        tools[-1] = {**tools[-1], "cache_control": _MARK}
    return tools
