"""The spans of a log as a DataFrame: what the time of each turn and step went into.

Reads: messages, session.events, tables.frame. Feeds: notebook.timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
    TurnEnd,
    TurnStart,
)
from dsh_nb.tables.frame import frame_of, name_of, seconds_between

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SPAN_COLUMNS", "spans"]

SPAN_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "turn": "Int64",
    "step": "Int64",
    "kind": "span",
    "lane": "Int64",
    "label": "text",
    "started": "time",
    "seconds": "Float64",
}
"""The columns, in order, each with what it holds."""


def spans(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per stretch of time, in the order in which they began to be known.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_spans, 8)``; an empty log gives the same columns and dtypes:

        =======  ====================  ====================================================
        column   dtype                 meaning
        =======  ====================  ====================================================
        session  string                id of the session
        turn     Int64                 its turn, from 1
        step     Int64                 its step, from 1; <NA> of a whole turn
        kind     category              see below
        lane     Int64                 0, and more for calls that run beside one another
        label    string                why the turn ended, the model, the tool, what failed
        started  datetime64[us, UTC]   when it started
        seconds  Float64               how long; <NA> while it goes on, and when the clock
                                       was set back in between
        =======  ====================  ====================================================

        The kinds: ``turn`` and ``step``, from start to end. In a step, ``first token``: from the
        request to the first text, thinking or call that was streamed; ``streaming``: from there
        to the last chunk; ``retry``: an attempt that failed, from its request, and the delay after
        it; ``tool``: from a call to its result, or to the end of the step where it has none;
        ``approval``: what a call waited for a person, in the lane of the call.

        The model's seconds of a step are its ``first token``, ``streaming`` and ``retry``; those
        of its tools are its ``tool``, waiting included, and of calls that ran at once they add up.
    """
    rows = _Spans()
    for event in log:
        take = _TAKES.get(type(event.data))
        if take is not None:
            take(rows, event, event.data)
    return frame_of(_columns(rows.spans), SPAN_COLUMNS, name_of(log, session))


@dataclass(slots=True)
class _Span:
    turn: int | None
    step: int | None
    kind: str
    started: int
    label: str | None = None
    lane: int = 0
    ended: int | None = None


class _Spans:
    """The spans so far, and those that are open."""

    def __init__(self) -> None:
        self.spans: list[_Span] = []
        self._model: str | None = None
        self._turn: _Span | None = None
        self._step: _Span | None = None
        self._waiting: _Span | None = None
        self._streaming: _Span | None = None
        self._calls: dict[str, _Span] = {}
        self._asked: dict[str, _Span] = {}

    def _add(self, span: _Span) -> _Span:
        self.spans.append(span)
        return span

    def turn_start(self, event: SessionEvent, data: TurnStart) -> None:
        self._turn = self._add(_Span(data.turn, None, "turn", event.time))

    def turn_end(self, event: SessionEvent, data: TurnEnd) -> None:
        self._close_step(event.time)
        if self._turn is not None:
            self._turn.ended, self._turn.label = event.time, data.reason.kind
        self._turn = None

    def header(self, event: SessionEvent, data: RequestHeader) -> None:
        self._model = data.model
        if self._step is not None:
            self._step.label = data.model

    def step_start(self, event: SessionEvent, data: StepStart) -> None:
        self._close_step(event.time)
        place = (data.turn, data.step)
        self._step = self._add(_Span(*place, "step", event.time, self._model))
        self._waiting = self._add(_Span(*place, "first token", event.time))

    def step_end(self, event: SessionEvent, data: StepEnd) -> None:
        self._close_step(event.time)

    def chunk(self, event: SessionEvent, data: AssistantChunk) -> None:
        if self._streaming is not None:
            self._streaming.ended = event.time
        if isinstance(data.chunk, Retry):
            self._retry(event, data.chunk)
        elif type(data.chunk) in _TOKENS and self._streaming is None and self._waiting is not None:
            self._waiting.ended = event.time
            place = (self._waiting.turn, self._waiting.step)
            streaming = _Span(*place, "streaming", event.time, ended=event.time)
            self._waiting, self._streaming = None, self._add(streaming)

    def _retry(self, event: SessionEvent, chunk: Retry) -> None:
        """The attempt so far becomes one span, and the next attempt begins after the delay."""
        step = self._step
        if step is None:
            return
        failed = next(
            span for span in reversed(self.spans) if span.step and span.kind == "first token"
        )
        failed.kind, failed.label = "retry", chunk.message
        failed.ended = event.time + round(chunk.delay_seconds * 1000)
        if self._streaming is not None:
            self.spans.remove(self._streaming)
        self._streaming = None
        place = (step.turn, step.step)
        self._waiting = self._add(_Span(*place, "first token", failed.ended))

    def message(self, event: SessionEvent, data: AssistantMessage) -> None:
        self._model_done(event.time)

    def _model_done(self, time: int) -> None:
        if self._waiting is not None:
            self._waiting.ended = max(time, self._waiting.started)
        self._waiting = self._streaming = None

    def call(self, event: SessionEvent, data: ToolStart) -> None:
        self._calls[data.call_id] = self._add(
            _Span(data.turn, data.step, "tool", event.time, data.name, self._lane())
        )

    def _lane(self) -> int:
        """The first lane in which no call runs."""
        taken = {span.lane for span in (*self._calls.values(), *self._asked.values())}
        return next(lane for lane in range(len(taken) + 1) if lane not in taken)

    def result(self, event: SessionEvent, data: ToolResult) -> None:
        for running in (self._calls, self._asked):
            span = running.pop(data.call_id, None)
            if span is not None:
                span.ended = event.time

    def plugin_event(self, event: SessionEvent, data: Mapping[str, object]) -> None:
        call_id = data.get("callId")
        if not isinstance(call_id, str):
            return
        if event.type == "approval/asked" and self._turn is not None:
            self._ask(event, call_id)
        elif event.type == "approval/decided" and call_id in self._asked:
            self._asked.pop(call_id).ended = event.time

    def _ask(self, event: SessionEvent, call_id: str) -> None:
        call, at = self._calls.get(call_id), self._step or self._turn
        if at is not None:
            lane = call.lane if call else self._lane()
            label = call.label if call else None
            self._asked[call_id] = self._add(
                _Span(at.turn, at.step, "approval", event.time, label, lane)
            )

    def _close_step(self, time: int) -> None:
        self._model_done(time)
        for span in (*self._calls.values(), *self._asked.values()):
            span.ended = time
        self._calls, self._asked = {}, {}
        if self._step is not None:
            self._step.ended = time
        self._step = None


_TOKENS = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})

_TAKES: dict[type, Callable[[_Spans, SessionEvent, Any], None]] = {  # Any: each its own type
    AssistantChunk: _Spans.chunk,
    AssistantMessage: _Spans.message,
    RequestHeader: _Spans.header,
    StepEnd: _Spans.step_end,
    StepStart: _Spans.step_start,
    ToolResult: _Spans.result,
    ToolStart: _Spans.call,
    TurnEnd: _Spans.turn_end,
    TurnStart: _Spans.turn_start,
    dict: _Spans.plugin_event,
}


def _columns(spans: list[_Span]) -> dict[str, list[Any]]:
    return {
        "turn": [span.turn or None for span in spans],
        "step": [span.step or None for span in spans],
        "kind": [span.kind for span in spans],
        "lane": [span.lane for span in spans],
        "label": [span.label for span in spans],
        "started": [span.started for span in spans],
        "seconds": [seconds_between(span.started, span.ended) for span in spans],
    }
