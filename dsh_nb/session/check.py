"""The log invariants: what is true of every log, checked one event at a time.

Reads: messages, session.assembler, session.events. Feeds: session.session, testing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dsh_nb.errors import LogError
from dsh_nb.messages import ToolCallBlock, lossless
from dsh_nb.session.assembler import BlockAssembler
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    EventData,
    RequestHeader,
    SessionEvent,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
)

__all__ = ["LogChecker", "check_log"]


class LogChecker:
    """Checks each event against those before it, at a cost that does not grow with the log.

    Args:
        complete: False for logs of other programs, which need not hold request headers.
    """

    def __init__(self, *, complete: bool = True) -> None:
        self.seq = 0
        self.turn = 0
        self.step = 0
        self._complete = complete
        self._in_turn = False
        self._in_step = False
        self._header = False
        self._assembler = BlockAssembler()
        self._calls: dict[str, str] = {}
        self._seen_message = False

    def feed(self, event: SessionEvent) -> None:
        """Take the next event.

        Raises:
            LogError: It breaks an invariant. The checker is as it was before.
        """
        if event.seq != self.seq:
            raise self._error(event, f"has seq {event.seq!r}, not {self.seq}")
        self._check_data(event)
        check = _CHECKS.get(type(event.data))
        if check is not None:
            check(self, event, event.data)
        self.seq += 1

    def end(self) -> None:
        """Say that the log ends here.

        Raises:
            LogError: A turn is open.
        """
        if self._in_turn:
            raise LogError(f"turn {self.turn} never ended; repair the log before it is used")

    def _check_data(self, event: SessionEvent) -> None:
        data = event.data
        if isinstance(data, AssistantChunk):
            return  # the session cleans chunks, and each is part of a message that is checked
        plain = msgspec.to_builtins(data) if isinstance(data, EventData) else data
        try:
            same = lossless(plain, event.type) == _listed(plain)
        except (TypeError, ValueError) as error:
            raise self._error(event, f"is not lossless JSON: {error}") from error
        if not same:
            raise self._error(event, "holds text that is not valid Unicode")

    def _turn_start(self, event: SessionEvent, data: TurnStart) -> None:
        if self._in_turn:
            raise self._error(event, f"begins turn {data.turn} inside turn {self.turn}")
        if data.turn != self.turn + 1:
            raise self._error(event, f"begins turn {data.turn} after turn {self.turn}")
        self.turn, self.step, self._in_turn = data.turn, 0, True

    def _turn_end(self, event: SessionEvent, data: TurnEnd) -> None:
        if not self._in_turn or data.turn != self.turn:
            raise self._error(event, f"ends turn {data.turn}, which is not open")
        if self._in_step:
            raise self._error(event, f"ends turn {data.turn} while step {self.step} is open")
        self._in_turn = False

    def _step_start(self, event: SessionEvent, data: StepStart) -> None:
        if self._in_step or not self._in_turn or data.turn != self.turn:
            raise self._error(event, f"begins step {data.step} of turn {data.turn} out of place")
        if data.step != self.step + 1:
            raise self._error(event, f"begins step {data.step} after step {self.step}")
        self.step, self._in_step, self._seen_message = data.step, True, False
        self._assembler, self._calls = BlockAssembler(), {}

    def _step_end(self, event: SessionEvent, data: StepEnd) -> None:
        self._require_open(event, data.turn, data.step)
        unanswered = [call for call, state in self._calls.items() if state != "answered"]
        if unanswered:
            raise self._error(event, f"ends a step whose calls {unanswered} have no result")
        self._in_step = False

    def _chunk(self, event: SessionEvent, data: AssistantChunk) -> None:
        self._require_open(event, data.turn, data.step)
        if self._seen_message:
            raise self._error(event, "is a chunk after the message of its step")
        self._assembler.feed(data.chunk)

    def _message(self, event: SessionEvent, data: AssistantMessage) -> None:
        self._require_open(event, data.turn, data.step)
        if self._seen_message:
            raise self._error(event, "is a second message in its step")
        if self._complete and not self._header:
            raise self._error(event, "answers a request whose header was never logged")
        self._check_assembly(event, data)
        self._seen_message = True
        for block in data.content:
            if isinstance(block, ToolCallBlock):
                if block.id in self._calls:
                    raise self._error(event, f"has two calls with id {block.id!r}")
                self._calls[block.id] = "called"

    def _check_assembly(self, event: SessionEvent, data: AssistantMessage) -> None:
        if data.rewritten:
            return
        chunks = self._assembler
        said = chunks.visible() if data.interrupted else chunks.blocks()
        if said != data.content:
            raise self._error(event, "does not say what the chunks of its step say")

    def _call(self, event: SessionEvent, data: ToolStart) -> None:
        self._require_open(event, data.turn, data.step)
        if self._calls.get(data.call_id) != "called":
            raise self._error(event, f"starts call {data.call_id!r}, which is not waiting")
        self._calls[data.call_id] = "started"

    def _result(self, event: SessionEvent, data: ToolResult) -> None:
        self._require_open(event, data.turn, data.step)
        if self._calls.get(data.call_id) not in ("called", "started"):
            raise self._error(event, f"answers call {data.call_id!r}, which is not open")
        self._calls[data.call_id] = "answered"

    def _usage(self, event: SessionEvent, data: UsageReport) -> None:
        self._require_open(event, data.turn, data.step)
        if min(msgspec.structs.astuple(data.usage)) < 0:
            raise self._error(event, f"has a negative count: {data.usage!r}")

    def _steering(self, event: SessionEvent, data: SteeringMessage) -> None:
        if not self._in_turn or data.turn != self.turn:
            raise self._error(event, f"steers turn {data.turn}, which is not open")

    def _request(self, event: SessionEvent, data: RequestHeader) -> None:
        self._require_open(event, data.turn, data.step)
        self._header = True

    def _require_open(self, event: SessionEvent, turn: int, step: int) -> None:
        if not self._in_step or (turn, step) != (self.turn, self.step):
            raise self._error(event, f"belongs to turn {turn}, step {step}, which is not open")

    def _error(self, event: SessionEvent, problem: str) -> LogError:
        return LogError(f"event {event.seq} ({event.type}) {problem}", seq=event.seq)


_CHECKS: dict[type, Callable[[LogChecker, SessionEvent, Any], None]] = {  # Any: each its own type
    TurnStart: LogChecker._turn_start,
    TurnEnd: LogChecker._turn_end,
    StepStart: LogChecker._step_start,
    StepEnd: LogChecker._step_end,
    AssistantChunk: LogChecker._chunk,
    AssistantMessage: LogChecker._message,
    ToolStart: LogChecker._call,
    ToolResult: LogChecker._result,
    UsageReport: LogChecker._usage,
    SteeringMessage: LogChecker._steering,
    RequestHeader: LogChecker._request,
}


def check_log(
    events: Iterable[SessionEvent], *, complete: bool = True, ended: bool = False
) -> None:
    """Check a whole log.

    Args:
        events: The log.
        complete: False for logs of other programs, which need not hold request headers.
        ended: True when no turn may be open at the end.

    Raises:
        LogError: An invariant does not hold; it names the first event at fault.
    """
    checker = LogChecker(complete=complete)
    for event in events:
        checker.feed(event)
    if ended:
        checker.end()


def _listed(plain: object) -> object:
    """`plain` with tuples as lists, as JSON would give them back."""
    if isinstance(plain, dict):
        return {key: _listed(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_listed(value) for value in plain]
    return plain
