"""The events of a log as a DataFrame.

Reads: messages, session.events, tables.frame. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dsh_nb.messages import FinishReason, JsonObject, lossless, text_of
from dsh_nb.session.events import EventData, SessionEvent, TurnReason
from dsh_nb.tables.frame import TurnOf, frame_of, name_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EVENT_COLUMNS", "events"]

EVENT_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "seq": "Int64",
    "time": "time",
    "type": "text",
    "turn": "Int64",
    "step": "Int64",
    "call_id": "text",
    "role": "role",
    "tool": "text",
    "text": "text",
    "reason": "reason",
    "is_error": "boolean",
    "data": "object",
}
"""The columns, in order, each with what it holds."""

_ROLE_OF = {
    "user/message": "user",
    "context/message": "user",
    "steering/message": "user",
    "assistant/chunk": "assistant",
    "assistant/message": "assistant",
    "tool/call": "assistant",
    "tool/result": "tool",
    "tool/late": "tool",
}


def events(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per session event, in log order.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_events, 13)``; an empty log gives the same columns and dtypes:

        =========  ======================  =================================================
        column     dtype                   meaning
        =========  ======================  =================================================
        session    string                  id of the session
        seq        Int64                   position in the log, from 0
        time       datetime64[us, UTC]     when it was appended
        type       string                  ``subject/verb``
        turn       Int64                   its turn, from 1; a queued message has the coming one
        step       Int64                   its step, from 1; <NA> outside one
        call_id    string                  of tool events
        role       category                user, assistant or tool, of what was said
        tool       string                  name of the tool
        text       string                  what was said or streamed, a result's text, an error
        reason     category                why a turn ended
        is_error   boolean                 of results
        data       object                  the whole data as plain JSON
        =========  ======================  =================================================
    """
    rows = _Rows()
    for event in log:
        rows.add(event)
    return frame_of(rows.columns, EVENT_COLUMNS, name_of(log, session))


class _Rows:
    """Fills the columns; turn and tool names carry over to the events that do not name them."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {
            name: [] for name in EVENT_COLUMNS if name != "session"
        }
        self._turns = TurnOf(self.columns["turn"])
        self._tools: dict[str, str] = {}

    def add(self, event: SessionEvent) -> None:
        data, columns = event.data, self.columns
        typed = isinstance(data, EventData)
        columns["seq"].append(event.seq)
        columns["time"].append(event.time)
        columns["type"].append(event.type)
        turn = self._turns.feed(event)
        if event.type == "user/message":
            self._turns.wait()
        columns["turn"].append(turn)
        columns["step"].append(getattr(data, "step", None) or None)
        columns["call_id"].append(getattr(data, "call_id", None))
        columns["role"].append(_ROLE_OF.get(event.type))
        columns["tool"].append(self._tool_of(data))
        columns["text"].append(_text(data) if typed else None)
        columns["reason"].append(data.reason.kind if event.type == "turn/end" and typed else None)
        columns["is_error"].append(getattr(data, "is_error", None))
        columns["data"].append(_plain(data))

    def _tool_of(self, data: object) -> str | None:
        call_id = getattr(data, "call_id", None)
        if call_id is None:
            return None
        name = getattr(data, "name", None)
        if name is not None:
            self._tools[call_id] = name
        return self._tools.get(call_id)


def _text(data: Any) -> str | None:  # Any: the fields differ by type, and are asked for
    chunk = getattr(data, "chunk", None)
    if chunk is not None:
        text = getattr(chunk, "text", None) or getattr(chunk, "arguments_delta", None)
        return text if isinstance(text, str) else None
    content = getattr(data, "content", None)
    if content is not None:
        return text_of(content)
    reason = getattr(data, "reason", None)
    if isinstance(reason, (TurnReason, FinishReason)):
        return reason.message
    said = getattr(data, "message", None) or getattr(data, "arguments", None)
    return said if isinstance(said, str) else None


def _plain(data: object) -> JsonObject:
    """A copy, so that changing a frame does not change the log."""
    plain: JsonObject = lossless(msgspec.to_builtins(data))
    return plain
