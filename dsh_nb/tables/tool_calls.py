"""The tool calls of a log as a DataFrame: what was asked for, and what it came to.

Reads: messages, session.decisions, session.events, tables.frame, tables.waits. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsh_nb.messages import ToolCallBlock, text_of
from dsh_nb.session.decisions import Decisions
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    SessionEvent,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from dsh_nb.tables.frame import CATEGORIES, frame_of, name_of, seconds_between
from dsh_nb.tables.waits import Waits

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TOOL_CALL_COLUMNS", "tool_calls"]

TOOL_CALL_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "call_id": "text",
    "turn": "Int64",
    "step": "Int64",
    "tool": "text",
    "arguments": "text",
    "result": "text",
    "started": "time",
    "seconds": "Float64",
    "waiting_seconds": "Float64",
    "outcome": "outcome",
    "edited": "boolean",
}
"""The columns, in order, each with what it holds."""


def tool_calls(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per call in a message of the model, whether it ran or not.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_calls, 12)``; an empty log gives the same columns and dtypes:

        ===============  ====================  ==================================================
        column           dtype                 meaning
        ===============  ====================  ==================================================
        session          string                id of the session
        call_id          string                id of the call
        turn             Int64                 its turn, from 1
        step             Int64                 its step, from 1
        tool             string                name of the tool
        arguments        string                the raw JSON text that the model wrote
        result           string                text of what the model was told
        started          datetime64[us, UTC]   when it started; <NA> for one that never did
        seconds          Float64               from its start to its result, waiting included;
                                               <NA> without either
        waiting_seconds  Float64               for which it waited for a person; <NA> while it does
        outcome          category              ok, error, denied, interrupted, not started, or
                                               running; without a result, the last holds while its
                                               step is open, and then what else is known of it. One
                                               that was stopped before anybody approved it is
                                               denied; `result` says by whom or what
        edited           boolean               True when a person changed its arguments
        ===============  ====================  ==================================================
    """
    rows = _Calls()
    for event in log:
        if type(event.data) is not AssistantChunk:
            rows.feed(event)
    return frame_of(rows.columns(), TOOL_CALL_COLUMNS, name_of(log, session))


@dataclass(slots=True)
class _Call:
    call_id: str
    turn: int
    step: int
    tool: str | None = None
    arguments: str | None = None
    result: str | None = None
    started: int | None = None
    ended: int | None = None
    outcome: str | None = None


class _Calls:
    """The calls in the order in which they were asked for."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._of_id: dict[str, _Call] = {}
        self._open: list[_Call] = []
        self._waits = Waits()
        self._decisions = Decisions()

    def feed(self, event: SessionEvent) -> None:
        data = event.data
        self._waits.feed(event)
        self._decisions.feed(event)
        if isinstance(data, AssistantMessage):
            for block in data.content:
                if isinstance(block, ToolCallBlock):
                    self._ask(data, block)
        elif isinstance(data, ToolStart):
            call = self._of(data)
            call.started = event.time
            call.tool, call.arguments = call.tool or data.name, call.arguments or data.arguments
        elif isinstance(data, ToolResult):
            call = self._of(data)
            call.ended, call.result = event.time, text_of(data.content)
            call.outcome = _outcome(data)
        elif isinstance(data, (StepStart, StepEnd, TurnStart, TurnEnd)):
            self._give_up()

    def _ask(self, data: AssistantMessage, block: ToolCallBlock) -> None:
        self._add(_Call(block.id, data.turn, data.step, block.name, block.arguments))

    def _add(self, call: _Call) -> _Call:
        self._calls.append(call)
        self._open.append(call)
        self._of_id[call.call_id] = call
        return call

    def _of(self, data: ToolStart | ToolResult) -> _Call:
        """The call; a part of a log may begin after the message that asked for it."""
        found = self._of_id.get(data.call_id)
        return found or self._add(_Call(data.call_id, data.turn, data.step))

    def _give_up(self) -> None:
        for call in self._open:
            if call.outcome is None:
                ending = self._decisions.ending(call.call_id)
                unknown = "not started" if call.started is None else "interrupted"
                call.outcome = unknown if ending is None else ending.outcome
        self._open = []

    def columns(self) -> dict[str, list[Any]]:
        calls = self._calls
        return {
            "call_id": [call.call_id for call in calls],
            "turn": [call.turn or None for call in calls],
            "step": [call.step or None for call in calls],
            "tool": [call.tool for call in calls],
            "arguments": [call.arguments for call in calls],
            "result": [call.result for call in calls],
            "started": [call.started for call in calls],
            "seconds": [seconds_between(call.started, call.ended) for call in calls],
            "waiting_seconds": [self._waits.of_call(call.call_id) for call in calls],
            "outcome": [call.outcome or "running" for call in calls],
            "edited": [call.call_id in self._waits.edited for call in calls],
        }


def _outcome(data: ToolResult) -> str:
    """The outcome of a result; older logs and plugins may say only that it is an error."""
    if data.outcome not in CATEGORIES["outcome"] or data.outcome == "ok":
        return "error" if data.is_error else "ok"
    return data.outcome
