"""What a log tells a rerun: the events that must come again, and where somebody stopped a turn.

Reads: session, llm.protocol, llm.rebuild. Feeds: plugins.rerun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.rebuild import rebuild_requests
from dsh_nb.messages import ToolCallBlock, ToolSchema, text_of
from dsh_nb.session.events import (
    EVENT_TYPES,
    AssistantMessage,
    ContextMessage,
    Failure,
    RequestHeader,
    RequestMessages,
    SessionEvent,
    StepEnd,
    StepStart,
    ToolLate,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)
from dsh_nb.session.history import INTERRUPTED
from dsh_nb.session.repair import closing_events

__all__ = ["Compared", "Recording", "Stop"]


class Compared:
    """Tells of each event of a log, in order, whether a rerun must have it too.

    Events of plugins, late results, failures outside of turns and the last known counts of a
    stream that was cut depend on what is not in the log.
    """

    def __init__(self) -> None:
        self._in_turn = False

    def feed(self, event: SessionEvent) -> bool:
        """Take the next event."""
        data = event.data
        if isinstance(data, (TurnStart, TurnEnd)):
            self._in_turn = isinstance(data, TurnStart)
        if isinstance(data, Failure):
            return self._in_turn
        if isinstance(data, UsageReport):
            return not data.interrupted
        return event.type in EVENT_TYPES and not isinstance(data, ToolLate)


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a turn was stopped.

    Attributes:
        reason: What was said.
        finished: Ids of the calls that have to be finished by then.
        running: Ids of the calls that were running.
    """

    reason: str | None
    finished: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()


class Recording:
    """A log as a rerun needs it; a turn that is open at its end counts as stopped there.

    Args:
        log: The log.
        live: True when the tools run again: calls that waited for a person when their turn was
            stopped wait again then.

    Attributes:
        log: The whole log, closed.
        events: Those that must come again, in order.
        stops: Where turns were stopped, by the position in `events` of what closed them.
        requests: The request of each step, by turn and step.
        messages: What the model said, likewise.
        rewritten: The steps whose messages a listener rewrote.
        stopped_calls: Ids of the calls that were running when their turn was stopped.
        tools: What the model was told of tools, each by its newest schema.
        parallel: Names of the tools that ran at once with others.
    """

    def __init__(self, log: Iterable[SessionEvent], *, live: bool) -> None:
        whole = [*log]
        self.log = [*whole, *closing_events(whole)]
        compared = Compared()
        self.events = [event for event in self.log if compared.feed(event)]
        while self.events and isinstance(self.events[-1].data, UserMessage):
            self.events.pop()  # no turn has taken it
        self.stops = dict(_stops(self.events, live))
        self.requests: dict[tuple[int, int], ModelRequest] = {
            (one.turn, one.step): one.request for one in rebuild_requests(self.log, unanswered=True)
        }
        self.messages: dict[tuple[int, int], AssistantMessage] = {}
        self.rewritten: set[tuple[int, int]] = set()
        self.stopped_calls = {id for stop in self.stops.values() for id in stop.running}
        self.parallel: set[str] = set()
        tools: dict[str, ToolSchema] = {}
        calls: dict[str, str] = {}
        for data in (event.data for event in self.events):
            if isinstance(data, AssistantMessage):
                self.messages[data.turn, data.step] = data
            elif isinstance(data, RequestMessages):
                self.rewritten.add((data.turn, data.step))
            elif isinstance(data, RequestHeader):
                tools.update({schema.name: schema for schema in data.tools})
            elif isinstance(data, StepStart):
                calls = {}
            elif isinstance(data, ToolResult):
                calls.pop(data.call_id, None)
            elif isinstance(data, ToolStart):
                calls[data.call_id] = data.name
                if len(calls) > 1:
                    self.parallel.update(calls.values())
        self.tools = [*tools.values()]


def _stops(events: Sequence[SessionEvent], live: bool) -> Iterator[tuple[int, Stop]]:
    step = 0
    for position, event in enumerate(events):
        data = event.data
        if isinstance(data, (TurnStart, StepStart)):
            step = position
        elif isinstance(data, TurnEnd) and data.reason.kind in ("aborted", "disposed"):
            reason = data.reason.reason if data.reason.kind == "aborted" else None
            end = position - 1
            while isinstance(events[end].data, ContextMessage):
                end -= 1
            if isinstance(events[end].data, StepEnd):
                yield _stop(events, range(step, end), reason, live)
            else:
                yield position, Stop(reason)


def _stop(
    events: Sequence[SessionEvent], step: range, reason: str | None, live: bool
) -> tuple[int, Stop]:
    """Where what closed a step begins, and what must be done by then.

    Args:
        events: The events.
        step: The places of the step in them, without that of its end.
        reason: Why the turn was stopped.
        live: As in `Recording`.
    """
    waiting: list[str] = []
    for position in step:
        data = events[position].data
        if isinstance(data, AssistantMessage):
            if data.interrupted:
                return position, Stop(reason)
            waiting = [block.id for block in data.content if isinstance(block, ToolCallBlock)]
        elif isinstance(data, ToolResult):
            if waiting[:1] != [data.call_id] or _made_by_stop(data, live):
                left = [events[n].data for n in step if n >= position]
                return position, _running(left, reason, live)
            waiting.pop(0)
    return step.stop, Stop(reason)


def _running(left: Sequence[object], reason: str | None, live: bool) -> Stop:
    results = [data for data in left if isinstance(data, ToolResult)]
    made = {data.call_id for data in results if _made_by_stop(data, live)}
    return Stop(reason, frozenset(one.call_id for one in results) - made, frozenset(made))


def _made_by_stop(result: ToolResult, live: bool) -> bool:
    """Whether it is what the loop says of a call that a stop left without a result."""
    if result.outcome == "not started" or text_of(result.content) == INTERRUPTED:
        return True
    return live and result.outcome in ("denied", "interrupted")
