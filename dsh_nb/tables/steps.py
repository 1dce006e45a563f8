"""The steps of a log as a DataFrame: how long each model request took, and what it cost.

Reads: messages, session.events, tables.bill, tables.frame. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsh_nb.messages import ReasoningDelta, Retry, TextDelta, ToolCallDelta
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    RequestHeader,
    SessionEvent,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    UsageReport,
)
from dsh_nb.tables.bill import BILL_COLUMNS, Bill, bill_columns, price_of
from dsh_nb.tables.frame import frame_of, name_of, seconds_between

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STEP_COLUMNS", "steps"]

STEP_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "turn": "Int64",
    "step": "Int64",
    "started": "time",
    "seconds": "Float64",
    "first_token_seconds": "Float64",
    "decode_tokens_per_second": "Float64",
    "model": "text",
    "stop_reason": "text",
    "attempts": "Int64",
    **BILL_COLUMNS,
}
"""The columns, in order, each with what it holds."""


def steps(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per step: one model request and the tool calls it asked for.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_steps, 15)``; an empty log gives the same columns and dtypes:

        ========================  ===================  ==========================================
        column                    dtype                meaning
        ========================  ===================  ==========================================
        session                   string               id of the session
        turn                      Int64                its turn, from 1
        step                      Int64                its number in the turn, from 1
        started                   datetime64[us, UTC]  when it started
        seconds                   Float64              from its start to its end, tools included;
                                                       <NA> while it runs
        first_token_seconds       Float64              time to first token: from its start to the
                                                       first text, thinking or call streamed by
                                                       the last attempt
        decode_tokens_per_second  Float64              output and reasoning tokens of the last
                                                       attempt, over the time from its first
                                                       token to its last chunk
        model                     string               that answered, else that was asked
        stop_reason               string               why the model stopped; <NA> when cut
        attempts                  Int64                1, and one more for each retry
        input_tokens              Int64                neither read from nor written to a cache;
                                                       all tokens are those of all attempts, and
                                                       <NA> while nothing is billed
        output_tokens             Int64                of the answer; the reasoning's, where told
                                                       apart, are in `usage`
        cache_read_tokens         Int64                read from the cache
        cache_write_tokens        Int64                written to the cache
        cost                      Float64              US dollars, all attempts; <NA> when a
                                                       price is unknown or nothing is billed
        ========================  ===================  ==========================================
    """
    rows = _Steps()
    for event in log:
        take = _TAKES.get(type(event.data))
        if take is not None and event.data.step:
            take(rows, event, event.data)
    return frame_of(_columns(rows.steps), STEP_COLUMNS, name_of(log, session))


@dataclass(slots=True)
class _Step:
    model: str | None
    started: int | None = None
    ended: int | None = None
    first_token: int | None = None
    last_chunk: int | None = None
    stop_reason: str | None = None
    attempts: int = 1
    decoded: int | None = None
    bill: Bill = field(default_factory=Bill)

    @property
    def decode_rate(self) -> float | None:
        seconds = seconds_between(self.first_token, self.last_chunk)
        return self.decoded / seconds if self.decoded and seconds else None


class _Steps:
    """The steps by turn and number, in the order in which they appear."""

    def __init__(self) -> None:
        self.steps: dict[tuple[int, int], _Step] = {}
        self._requested: str | None = None

    def _of(self, turn: int, step: int) -> _Step:
        """The step; a part of a log may begin after its start."""
        found = self.steps.get((turn, step))
        if found is None:
            found = self.steps[turn, step] = _Step(self._requested)
        return found

    def start(self, event: SessionEvent, data: StepStart) -> None:
        self._of(data.turn, data.step).started = event.time

    def end(self, event: SessionEvent, data: StepEnd) -> None:
        self._of(data.turn, data.step).ended = event.time

    def header(self, event: SessionEvent, data: RequestHeader) -> None:
        self._requested = self._of(data.turn, data.step).model = data.model

    def chunk(self, event: SessionEvent, data: AssistantChunk) -> None:
        step = self._of(data.turn, data.step)
        kind = type(data.chunk)
        if kind is Retry:
            step.attempts += 1
            step.first_token = step.last_chunk = step.decoded = None
            return
        step.last_chunk = event.time
        if step.first_token is None and kind in _TOKENS:
            step.first_token = event.time

    def message(self, event: SessionEvent, data: AssistantMessage) -> None:
        self._of(data.turn, data.step).stop_reason = data.stop_reason

    def usage(self, event: SessionEvent, data: UsageReport) -> None:
        step = self._of(data.turn, data.step)
        step.bill.add(data.usage, price_of(data, self._requested))
        step.model = data.model or step.model
        step.decoded = data.usage.output_tokens + data.usage.reasoning_tokens

    def call(self, event: SessionEvent, data: ToolStart | ToolResult) -> None:
        self._of(data.turn, data.step)


_TOKENS = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})

_TAKES: dict[type, Callable[[_Steps, SessionEvent, Any], None]] = {  # Any: each its own type
    StepStart: _Steps.start,
    StepEnd: _Steps.end,
    RequestHeader: _Steps.header,
    AssistantChunk: _Steps.chunk,
    AssistantMessage: _Steps.message,
    UsageReport: _Steps.usage,
    ToolStart: _Steps.call,
    ToolResult: _Steps.call,
}


def _columns(steps: Mapping[tuple[int, int], _Step]) -> dict[str, list[Any]]:
    rows = steps.values()
    return {
        "turn": [turn for turn, _ in steps],
        "step": [step for _, step in steps],
        "started": [row.started for row in rows],
        "seconds": [seconds_between(row.started, row.ended) for row in rows],
        "first_token_seconds": [seconds_between(row.started, row.first_token) for row in rows],
        "decode_tokens_per_second": [row.decode_rate for row in rows],
        "model": [row.model for row in rows],
        "stop_reason": [row.stop_reason for row in rows],
        "attempts": [row.attempts for row in rows],
        **bill_columns(row.bill for row in rows),
    }
