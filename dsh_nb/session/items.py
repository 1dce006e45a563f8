"""What was said and done in a log, one item after the other, without ids, times and streaming.

Reads: messages, session.events. Feeds: session.compare, tables.diff.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dsh_nb.messages import (
    Block,
    ImageBlock,
    ReasoningBlock,
    ResultContent,
    TextBlock,
    ToolCallBlock,
)
from dsh_nb.session.events import (
    AssistantMessage,
    ContextMessage,
    Failure,
    RequestHeader,
    SessionEvent,
    SteeringMessage,
    StepStart,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
)

__all__ = ["Item", "items_of"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was said or done.

    Attributes:
        turn: Its turn, from 1; 0 before the first.
        step: Its step, from 1; 0 before the first of the turn.
        what: ``prompt``, ``context``, ``steering``, ``model``, ``system``, ``tools``,
            ``options``, ``thinking``, ``text``, ``image``, ``tool_call``, ``tool_result``,
            ``opaque``, ``error`` or ``end``.
        name: The tool of a call or result, the source of a context; else ``""``.
        text: What it says.
    """

    turn: int
    step: int
    what: str
    name: str
    text: str


def items_of(log: Iterable[SessionEvent]) -> Iterator[Item]:
    """What was said and done in `log`, in order; queued messages belong to the turn they start."""
    reading = _Reading()
    for event in log:
        yield from reading.feed(event)


class _Reading:
    """Where a log is, folded event by event."""

    def __init__(self) -> None:
        self._turn = 0
        self._step = 0
        self._open = False
        self._names: dict[str, str] = {}
        self._header: RequestHeader | None = None

    def feed(self, event: SessionEvent) -> Iterator[Item]:
        data = event.data
        if isinstance(data, TurnStart):
            self._turn, self._step, self._open = data.turn, 0, True
        elif isinstance(data, StepStart):
            self._step = data.step
        elif isinstance(data, (UserMessage, ContextMessage, SteeringMessage)):
            yield from self._said(data)
        elif isinstance(data, RequestHeader):
            yield from self._asked(data)
        elif isinstance(data, AssistantMessage):
            yield from (self._block(block, data.interrupted) for block in data.content)
        elif isinstance(data, ToolResult):
            yield self._result(data)
        elif isinstance(data, Failure):
            yield self._item("error", _coded(data.message, data.code))
        elif isinstance(data, TurnEnd):
            yield self._item("end", _ending(data))
            self._open = False

    def _item(self, what: str, text: str, name: str = "") -> Item:
        return Item(self._turn, self._step, what, name, text)

    def _said(self, data: UserMessage | ContextMessage | SteeringMessage) -> Iterator[Item]:
        what = _SAID[type(data)]
        name = "" if data.source.kind == "user" else data.source.name or data.source.kind
        if self._open:
            yield self._item(what, _text(data.content), name)
        else:
            yield Item(self._turn + 1, 0, what, name, _text(data.content))

    def _asked(self, data: RequestHeader) -> Iterator[Item]:
        """What is new in the requests from here on."""
        before, self._header = self._header, data
        tools = "\n".join(f"{tool.name}: {tool.description}" for tool in data.tools)
        if before is None or before.model != data.model:
            yield self._item("model", data.model)
        if (before and before.system) != data.system:
            yield self._item("system", data.system or "")
        if (before.tools if before else ()) != data.tools:
            yield self._item("tools", tools)
        if (before.options if before else {}) != data.options:
            yield self._item("options", _json(data.options))

    def _block(self, block: Block, cut: bool) -> Item:
        if isinstance(block, ToolCallBlock):
            self._names[block.id] = block.name
            return self._item("tool_call", _arguments(block.arguments), block.name)
        if isinstance(block, ReasoningBlock):
            return self._item("thinking", block.text)
        if isinstance(block, TextBlock):
            return self._item("text", block.text + (" … (cut)" if cut else ""))
        if isinstance(block, ImageBlock):
            return self._item("image", _image(block))
        return self._item("opaque", _json(msgspec.to_builtins(block)))

    def _result(self, data: ToolResult) -> Item:
        outcome = "" if data.outcome == "ok" else f"({data.outcome}) "
        text = outcome + _text(data.content)
        return self._item("tool_result", text, self._names.get(data.call_id, ""))


_SAID: dict[type, str] = {
    UserMessage: "prompt",
    ContextMessage: "context",
    SteeringMessage: "steering",
}


def _text(content: Sequence[ResultContent]) -> str:
    return "\n".join(
        block.text if isinstance(block, TextBlock) else _image(block) for block in content
    )


def _image(block: ImageBlock) -> str:
    digest = hashlib.sha256(block.url.encode()).hexdigest()[:8]
    return f"({block.mime_type or 'image'} {digest})"


def _arguments(text: str) -> str:
    """Arguments such that their layout does not matter."""
    try:
        return _json(json.loads(text)) if text.strip() else "{}"
    except (ValueError, RecursionError):
        return text


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _ending(data: TurnEnd) -> str:
    reason = data.reason
    said = _coded(reason.reason or reason.message or "", reason.code)
    return f"{reason.kind}: {said}" if said else reason.kind


def _coded(message: str, code: str | None) -> str:
    return " ".join(filter(None, (message, f"({code})" if code else "")))
