"""The events of a log as a DataFrame.

Reads: messages, session.events. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dsh_nb.messages import FinishReason, JsonObject, lossless, text_of
from dsh_nb.session.events import EventData, SessionEvent, TurnReason

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EVENT_COLUMNS", "events"]

REASONS = ("completed", "aborted", "error", "disposed")
ROLES = ("user", "assistant", "tool")

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
    name = session if session is not None else getattr(log, "id", None)
    rows = _Rows()
    for event in log:
        rows.add(event)
    return _frame(rows.columns, name)


class _Rows:
    """Fills the columns; turn and tool names carry over to the events that do not name them."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {
            name: [] for name in EVENT_COLUMNS if name != "session"
        }
        self._turn: int | None = None
        self._last_turn = 0
        self._waiting: list[int] = []
        self._tools: dict[str, str] = {}

    def add(self, event: SessionEvent) -> None:
        data, columns = event.data, self.columns
        typed = isinstance(data, EventData)
        columns["seq"].append(event.seq)
        columns["time"].append(event.time)
        columns["type"].append(event.type)
        columns["turn"].append(self._turn_of(event, data))
        columns["step"].append(getattr(data, "step", None) or None)
        columns["call_id"].append(getattr(data, "call_id", None))
        columns["role"].append(_ROLE_OF.get(event.type))
        columns["tool"].append(self._tool_of(data))
        columns["text"].append(_text(data) if typed else None)
        columns["reason"].append(data.reason.kind if event.type == "turn/end" and typed else None)
        columns["is_error"].append(getattr(data, "is_error", None))
        columns["data"].append(_plain(data))

    def _turn_of(self, event: SessionEvent, data: object) -> int | None:
        turn = getattr(data, "turn", None)
        if event.type == "turn/start":
            self._turn = self._last_turn = int(turn or 0)
            self._take_waiting()
        elif event.type == "turn/end":
            self._turn = None
        elif event.type == "user/message":
            self._waiting.append(len(self.columns["turn"]))
            return self._last_turn + 1
        return turn if isinstance(turn, int) else self._turn

    def _take_waiting(self) -> None:
        """Give the messages to the turn that took them: a part of a log may begin anywhere."""
        for row in self._waiting:
            self.columns["turn"][row] = self._turn
        self._waiting = []

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


def _frame(columns: dict[str, list[Any]], session: str | None) -> pd.DataFrame:
    """The frame, with each column's dtype declared and nothing inferred."""
    import pandas as pd

    series: dict[str, Any] = {
        "session": pd.array([session] * len(columns["seq"]), dtype=_text_dtype())
    }
    for name, values in columns.items():
        series[name] = _column(values, EVENT_COLUMNS[name])
    return pd.DataFrame(series, columns=list(EVENT_COLUMNS))


def _column(values: list[Any], holds: str) -> Any:  # Any: whatever pandas takes as a column
    import numpy as np
    import pandas as pd

    if holds == "text":
        return pd.array(values, dtype=_text_dtype())
    if holds == "time":
        stamps = np.array(values, dtype="datetime64[ms]").astype("datetime64[us]")
        return pd.DatetimeIndex(stamps).tz_localize("UTC")
    if holds == "role":
        return pd.Categorical(values, categories=list(ROLES))
    if holds == "reason":
        return pd.Categorical(values, categories=list(REASONS))
    if holds == "object":
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    made: Any = pd.array  # Any: its overloads want literal names of dtypes
    return made(values, dtype=holds)


def _text_dtype() -> Any:  # Any: a dtype or its name
    """Text as pandas stores it by default: ``str`` from 3.0 on, ``string`` before."""
    import pandas as pd

    return "str" if int(pd.__version__.split(".")[0]) >= 3 else "string"
