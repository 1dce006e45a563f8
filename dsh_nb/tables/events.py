"""The events of a log as a DataFrame.

Reads: messages, session.events, tables.frame. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dsh_nb.messages import Chunk, ReasoningDelta, TextDelta, ToolCallDelta, text_of
from dsh_nb.session.events import AssistantChunk, EventData, SessionEvent, TurnReason
from dsh_nb.tables.frame import Mostly, TurnOf, frame_of, name_of

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
    "data": "json",
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
        data       json                    the whole data as plain JSON; a cell reads as a dict of
                                           its own, which may be changed
        =========  ======================  =================================================
    """
    rows = _Rows()
    for event in log:
        rows.add(event)
    return frame_of(rows.columns(), EVENT_COLUMNS, name_of(log, session))


_OF_CHUNKS: Mapping[str, str | None] = {
    "type": "assistant/chunk",
    "call_id": None,
    "role": "assistant",
    "tool": None,
    "reason": None,
    "is_error": None,
}
"""The columns that say the same of each chunk."""


class _Rows:
    """Fills the columns; turn and tool names carry over to the events that do not name them."""

    def __init__(self) -> None:
        names = [name for name in EVENT_COLUMNS if name not in {"session", *_OF_CHUNKS}]
        self._full: dict[str, list[Any]] = {name: [] for name in names}
        self._other = {name: Mostly(usual) for name, usual in _OF_CHUNKS.items()}
        self._seq, self._time, self._turn, self._step, self._text, self._data = (
            column.append for column in self._full.values()
        )
        self._turns = TurnOf(self._full["turn"])
        self._tools: dict[str, str] = {}

    def add(self, event: SessionEvent) -> None:
        data = event.data
        if type(data) is AssistantChunk:
            self._turn(data.turn)
            self._step(data.step or None)
            self._text(_streamed(data.chunk))
        else:
            self._add_other(event, data, len(self._full["seq"]))
        self._seq(event.seq)
        self._time(event.time)
        self._data(data)

    def _add_other(self, event: SessionEvent, data: Any, row: int) -> None:  # Any: fields differ
        typed = isinstance(data, EventData)
        turn = self._turns.feed(event)
        if event.type == "user/message":
            self._turns.wait()
        self._turn(turn)
        self._step(getattr(data, "step", None) or None)
        self._text(_text(data) if typed else None)
        said = (
            event.type,
            getattr(data, "call_id", None),
            _ROLE_OF.get(event.type),
            self._tool_of(data),
            data.reason.kind if event.type == "turn/end" and typed else None,
            getattr(data, "is_error", None),
        )
        for column, value in zip(self._other.values(), said, strict=True):
            column.put(row, value)

    def columns(self) -> dict[str, list[Any] | Mostly]:
        """All columns but ``session``."""
        return {**self._full, **self._other}

    def _tool_of(self, data: object) -> str | None:
        call_id = getattr(data, "call_id", None)
        if call_id is None:
            return None
        name = getattr(data, "name", None)
        if name is not None:
            self._tools[call_id] = name
        return self._tools.get(call_id)


def _streamed(chunk: Chunk) -> str | None:
    kind = type(chunk)
    if kind is TextDelta or kind is ReasoningDelta:
        return chunk.text  # type: ignore[union-attr]  # both have text
    return chunk.arguments_delta if isinstance(chunk, ToolCallDelta) else None


def _text(data: Any) -> str | None:  # Any: the fields differ by type, and are asked for
    content = getattr(data, "content", None)
    if content is not None:
        return text_of(content)
    reason = getattr(data, "reason", None)
    if isinstance(reason, TurnReason):
        return reason.message
    said = getattr(data, "message", None) or getattr(data, "arguments", None)
    return said if isinstance(said, str) else None
