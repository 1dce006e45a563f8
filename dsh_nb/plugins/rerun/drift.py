"""Drift: where a rerun differs from its recording, and in what.

Reads: messages, session.events, llm.protocol. Feeds: plugins.rerun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any

import msgspec

from dsh_nb.errors import DriftError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import Source, text_of
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    SessionEvent,
    ToolResult,
    TurnEnd,
    TurnReason,
)

__all__ = ["drift", "event_drift", "request_drift", "same"]

_MOST_LINES = 24
_MOST_CHARS = 200


def drift(turn: int, step: int, what: str, expected: str, got: str) -> DriftError:
    """The error that says what differs, with the lines that do."""
    return DriftError(turn, step, what, expected, got, "\n".join(_changes(expected, got)))


def same(recorded: SessionEvent, now: SessionEvent) -> bool:
    """Whether two events say the same but for time, ids of messages and what people see."""
    if recorded.type != now.type:
        return False
    return recorded.data == now.data or _facts(recorded) == _facts(now)


def event_drift(
    place: tuple[int, int], recorded: SessionEvent | None, now: SessionEvent | None
) -> DriftError:
    """The error that tells how two events differ; None where one has no counterpart."""
    one = recorded or now
    assert one is not None  # what has no counterpart has one on the other side
    what = _WHAT.get(one.type, f"the event {one.type!r}")
    if recorded is None or now is None or recorded.type != now.type:
        what = "what happens next"
    turn = getattr(one.data, "turn", place[0])
    step = getattr(one.data, "step", place[1] if turn == place[0] else 0)
    return drift(turn, step, what, _text(recorded), _text(now))


def request_drift(
    place: tuple[int, int], recorded: ModelRequest, now: ModelRequest
) -> DriftError | None:
    """The error that tells what differs first between two requests; None when nothing does."""
    for field in ("model", "system", "options"):
        then, new = getattr(recorded, field), getattr(now, field)
        if then != new:
            return drift(*place, f"the {field} of the request", _shown(then), _shown(new))
    if recorded.tools != now.tools:
        old, new = ([_shown(one) for one in request.tools] for request in (recorded, now))
        return drift(*place, "what the request says of tools", "\n".join(old), "\n".join(new))
    for position, (then, new) in enumerate(zip(recorded.messages, now.messages, strict=False)):
        if then != new:
            what = f"message {position} of the request"
            return drift(*place, what, _shown(then), _shown(new))
    if len(recorded.messages) != len(now.messages):
        what = "the number of messages in the request"
        return drift(*place, what, str(len(recorded.messages)), str(len(now.messages)))
    return None


_WHAT = {
    "user/message": "the message",
    "context/message": "the context",
    "steering/message": "the steering",
    "request/header": "what the request says besides the messages",
    "request/messages": "what a listener made of the messages",
    "assistant/message": "what the model said",
    "tool/result": "the result of a tool call",
    "turn/end": "how the turn ends",
    "error": "what went wrong",
}


def _facts(event: SessionEvent) -> object:
    data = event.data
    if isinstance(data, ToolResult):
        return msgspec.structs.replace(data, display=None)
    if isinstance(data, TurnEnd) and data.reason.kind == "disposed":
        return TurnEnd(data.turn, TurnReason("aborted"))
    return _without_id(data)


def _without_id(data: Any) -> object:  # Any: the data of any event
    source = getattr(data, "source", None)
    if isinstance(source, Source):
        return msgspec.structs.replace(data, source=msgspec.structs.replace(source, id=None))
    trigger = getattr(data, "trigger", None)
    return data if trigger is None else msgspec.structs.replace(data, trigger=_without_id(trigger))


def _text(event: SessionEvent | None) -> str:
    if event is None:
        return ""
    data = event.data
    if isinstance(data, ToolResult):
        return f"{data.call_id}, {data.outcome}:\n{text_of(data.content)}"
    if isinstance(data, AssistantMessage):
        return "\n".join(_shown(block) for block in data.content)
    if isinstance(data, AssistantChunk):
        return f"{event.type}: {_shown(data.chunk)}"
    return f"{event.type}: {_shown(_facts(event))}"


def _shown(value: object) -> str:
    """Text as it is, everything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _changes(expected: str, got: str) -> Iterator[str]:
    """A small diff: lines that begin with ``-`` were recorded, those with ``+`` came instead."""
    lines = unified_diff(expected.splitlines(), got.splitlines(), lineterm="", n=1)
    changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    for line in changes[:_MOST_LINES]:
        yield _around(line, changes)
    if len(changes) > _MOST_LINES:
        yield f"  … {len(changes) - _MOST_LINES} more lines"


def _around(line: str, changes: Sequence[str]) -> str:
    """`line`, shortened to what stands around its first difference from the lines beside it."""
    if len(line) <= _MOST_CHARS:
        return line
    others = [one for one in changes if one[:1] != line[:1] and one[:1] in "-+"]
    start = max((_common(line[1:], one[1:]) for one in others), default=0)
    begin = 1 + max(0, start - _MOST_CHARS // 4)
    end = begin + _MOST_CHARS
    before, after = "…" if begin > 1 else "", "…" if end < len(line) else ""
    return f"{line[0]}{before}{line[begin:end]}{after}"


def _common(one: str, other: str) -> int:
    """Length of the beginning that two lines share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
