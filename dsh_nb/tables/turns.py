"""The turns of a log as a DataFrame: how long each took, why it ended and what it cost.

Reads: messages, session.events, tables.bill, tables.frame, tables.waits. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsh_nb.messages import ToolCallBlock
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    EventData,
    RequestHeader,
    SessionEvent,
    StepStart,
    TurnEnd,
    TurnStart,
    UsageReport,
)
from dsh_nb.tables.bill import BILL_COLUMNS, Bill, bill_columns, price_of
from dsh_nb.tables.frame import frame_of, name_of, seconds_between
from dsh_nb.tables.waits import Waits

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TURN_COLUMNS", "turns"]

TURN_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "turn": "Int64",
    "started": "time",
    "seconds": "Float64",
    "steps": "Int64",
    "tool_calls": "Int64",
    "reason": "reason",
    **BILL_COLUMNS,
    "waiting_seconds": "Float64",
}
"""The columns, in order, each with what it holds."""


def turns(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per turn.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_turns, 13)``; an empty log gives the same columns and dtypes:

        ==================  ====================  ================================================
        column              dtype                 meaning
        ==================  ====================  ================================================
        session             string                id of the session
        turn                Int64                 its number, from 1
        started             datetime64[us, UTC]   when it started
        seconds             Float64               from its start to its end; <NA> while it runs
        steps               Int64                 the model requests it took
        tool_calls          Int64                 the calls the model asked for, run or not
        reason              category              why it ended: completed, aborted, error or
                                                  disposed; <NA> while it runs
        input_tokens        Int64                 as in `steps`, of all its steps
        output_tokens       Int64                 as in `steps`
        cache_read_tokens   Int64                 as in `steps`
        cache_write_tokens  Int64                 as in `steps`
        cost                Float64               US dollars; <NA> when a price is unknown or
                                                  nothing is billed
        waiting_seconds     Float64               for which a call of it waited for a person, two
                                                  at once counted once; <NA> while one waits
        ==================  ====================  ================================================
    """
    rows = _Turns()
    for event in log:
        if type(event.data) is not AssistantChunk:
            rows.feed(event)
    rows.end()
    return frame_of(_columns(rows.turns), TURN_COLUMNS, name_of(log, session))


@dataclass(slots=True)
class _Turn:
    started: int | None = None
    ended: int | None = None
    steps: int = 0
    tool_calls: int = 0
    reason: str | None = None
    waiting: float | None = 0.0
    bill: Bill = field(default_factory=Bill)


class _Turns:
    """The turns by number, in the order in which they appear."""

    def __init__(self) -> None:
        self.turns: dict[int, _Turn] = {}
        self._requested: str | None = None
        self._waits = Waits()
        self._open: _Turn | None = None

    def feed(self, event: SessionEvent) -> None:
        self._waits.feed(event)
        data = event.data
        number = getattr(data, "turn", None)
        if isinstance(data, EventData) and isinstance(number, int) and number:
            turn = self.turns.get(number)
            if turn is None:  # a part of a log may begin after its start
                turn = self.turns[number] = _Turn()
            self._take(turn, event, data)

    def end(self) -> None:
        """The log is over: what the open turn has waited so far."""
        if self._open is not None:
            self._open.waiting = self._waits.take()

    def _take(self, turn: _Turn, event: SessionEvent, data: EventData) -> None:
        if isinstance(data, TurnStart):
            turn.started, self._open = event.time, turn
            self._waits.take()
        elif isinstance(data, TurnEnd):
            turn.ended, turn.reason = event.time, data.reason.kind
            turn.waiting, self._open = self._waits.take(), None
        elif isinstance(data, StepStart):
            turn.steps += 1
        elif isinstance(data, AssistantMessage):
            turn.tool_calls += sum(isinstance(block, ToolCallBlock) for block in data.content)
        elif isinstance(data, RequestHeader):
            self._requested = data.model
        elif isinstance(data, UsageReport):
            turn.bill.add(data.usage, price_of(data, self._requested))


def _columns(turns: Mapping[int, _Turn]) -> dict[str, list[Any]]:
    rows = turns.values()
    return {
        "turn": list(turns),
        "started": [row.started for row in rows],
        "seconds": [seconds_between(row.started, row.ended) for row in rows],
        "steps": [row.steps for row in rows],
        "tool_calls": [row.tool_calls for row in rows],
        "reason": [row.reason for row in rows],
        **bill_columns(row.bill for row in rows),
        "waiting_seconds": [row.waiting for row in rows],
    }
