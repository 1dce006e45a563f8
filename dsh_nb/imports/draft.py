"""A session in the making: events of our vocabulary, kept to the invariants of a log.

Reads: messages, session.assembler, session.events, session.history, imports.fields,
imports.report.
Feeds: imports.dsh, imports.claude_code.
"""

from __future__ import annotations

from array import array

from dsh_nb.imports.fields import LAST_TIME
from dsh_nb.imports.report import ImportReport
from dsh_nb.messages import (
    Block,
    Chunk,
    JsonObject,
    Retry,
    Source,
    TextBlock,
    ToolCallBlock,
    UsageChunk,
)
from dsh_nb.session.assembler import BlockAssembler
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    EventData,
    SessionEvent,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnReason,
    TurnStart,
    TurnTrigger,
    UsageReport,
    UserContent,
    UserMessage,
)
from dsh_nb.session.history import INTERRUPTED, NOT_STARTED

__all__ = ["Draft"]

_LOST = TurnReason("aborted", "the log goes on without the end of this turn")


class Draft:
    """Appends events with their original times; what is out of place is refused or mended.

    Turns and steps are numbered anew from 1. A turn or step that another one follows without
    having ended is closed first; at the end of the log, what is open stays open.

    Args:
        tool: Prefix of the types of events that only the other tool knows.
        report: Takes what is unknown or mended.

    Attributes:
        events: The events so far; their ``seq`` is given by the session made of them.
        lines: The number of the line that each event came from.
        turn: Number of the newest turn.
        step: Number of the open step; 0 when none is.
        in_turn: Whether a turn is open.
        said: Whether the open step has its message.
        calls: Calls of the open step without a result, with whether each has started.
        time: Of the newest event, Unix milliseconds.
    """

    def __init__(self, tool: str, report: ImportReport) -> None:
        self.events: list[SessionEvent] = []
        self.lines = array("Q")
        self.turn = self.step = self.time = 0
        self.in_turn = self.said = False
        self.calls: dict[str, bool] = {}
        self._tool, self._report = tool, report
        self._steps = 0
        self._turn_at = 0
        self._streamed = False
        self._assembler = BlockAssembler()

    def add(self, type: str, data: EventData | JsonObject, time: int | None, line: int) -> None:
        """Append an event; without a sound time of its own it has that of the one before."""
        if time is None or not 0 < time <= LAST_TIME:
            time = self.time
        self.time = time
        self.events.append(SessionEvent(0, time, type, data))
        self.lines.append(line)

    def foreign(self, type: str, data: JsonObject, time: int | None, line: int) -> None:
        """Append what only the other tool knows, whole, as an event of its own type."""
        self._report.count_foreign(type)
        self.add(f"{self._tool}/{type}", data, time, line)

    def begin_turn(self, trigger: TurnTrigger, time: int | None, line: int) -> None:
        """Open the next turn."""
        if self.in_turn:
            self._report.note(line, f"turn {self.turn} has no end; one was added")
            self.end_turn(_LOST, self.time, line)
        self.turn, self.in_turn, self._steps = self.turn + 1, True, 0
        self._turn_at = len(self.events)
        self.add("turn/start", TurnStart(self.turn, trigger), time, line)

    def prompt(
        self, content: tuple[UserContent, ...], source: Source, time: int | None, line: int
    ) -> None:
        """Add what a person said: before its turn while nothing was answered, else as steering."""
        if not self.in_turn:
            self.add("user/message", UserMessage(content, source), time, line)
        elif self._steps > 1 or self._streamed or self.said:
            self.add("steering/message", SteeringMessage(self.turn, content, source), time, line)
        else:
            self._insert(content, source, time, line)

    def _insert(
        self, content: tuple[UserContent, ...], source: Source, time: int | None, line: int
    ) -> None:
        """Put a message where ours stand: before the start of the turn that takes it."""
        start = self.events[self._turn_at]
        if start.data.trigger.kind == "continuation":
            data = TurnStart(self.turn, TurnTrigger("message", source))
            self.events[self._turn_at] = SessionEvent(0, start.time, start.type, data)
        stamp = start.time if time is None else time
        event = SessionEvent(0, stamp, "user/message", UserMessage(content, source))
        self.events.insert(self._turn_at, event)
        self.lines.insert(self._turn_at, line)
        self._turn_at += 1

    def end_turn(self, reason: TurnReason, time: int | None, line: int) -> bool:
        """Close the turn, and its step first; False when none is open."""
        if not self.in_turn:
            return False
        self.end_step(time, line)
        self.in_turn = False
        self.add("turn/end", TurnEnd(self.turn, reason), time, line)
        return True

    def begin_step(self, time: int | None, line: int) -> None:
        """Open the next step of the turn, and a turn first when none is open."""
        if not self.in_turn:
            self.begin_turn(TurnTrigger("continuation"), time, line)
        self.end_step(self.time, line)
        self._steps += 1
        self.step, self.said, self._streamed, self.calls = self._steps, False, False, {}
        self._assembler = BlockAssembler()
        self.add("step/start", StepStart(self.turn, self.step), time, line)

    def end_step(self, time: int | None, line: int) -> bool:
        """Close the step; its calls without a result get one. False when no step is open."""
        if not self.step:
            return False
        for call_id, started in [*self.calls.items()]:
            self._report.note(line, f"call {call_id!r} has no result; one was added")
            text = (TextBlock(INTERRUPTED if started else NOT_STARTED),)
            outcome = "interrupted" if started else "not started"
            self.result(call_id, text, True, outcome, time, line)
        self.add("step/end", StepEnd(self.turn, self.step), time, line)
        self.step, self.said, self._streamed = 0, False, False
        return True

    def chunk(self, chunk: Chunk, time: int | None, line: int) -> bool:
        """Add a piece of the stream; False when no message is being streamed."""
        if not self.step or self.said:
            return False
        self._streamed = True
        self._assembler.feed(chunk)
        self.add("assistant/chunk", AssistantChunk(self.turn, self.step, chunk), time, line)
        return True

    def retry(self, chunk: Retry, time: int | None, line: int) -> bool:
        """Withdraw what was streamed in this step, and bill it; False when no stream is open."""
        if not self.step or self.said:
            return False
        attempt, spent = self._assembler.attempt, self._assembler.usage
        if spent is not None:
            self.usage(spent, time, line, interrupted=True, attempt=attempt)
        return self.chunk(
            Retry(attempt, chunk.message, chunk.code, chunk.delay_seconds), time, line
        )

    @property
    def attempt(self) -> int:
        """Which attempt of the step is streaming, from 1."""
        return self._assembler.attempt

    @property
    def streamed_usage(self) -> UsageChunk | None:
        """The newest counts in the stream of the open step."""
        return self._assembler.usage

    def message(
        self,
        content: tuple[Block, ...],
        time: int | None,
        line: int,
        *,
        interrupted: bool = False,
        stop_reason: str | None = None,
    ) -> bool:
        """Add what the model said; False when no step is open, or it has its message already."""
        if not self.step or self.said:
            return False
        content = _distinct_calls(content)
        chunks = self._assembler
        if stop_reason is None and chunks.reason is not None:
            stop_reason = chunks.reason.kind
        streamed = chunks.visible() if interrupted else chunks.blocks()
        said = AssistantMessage(
            self.turn, self.step, content, interrupted, stop_reason, streamed != content
        )
        self.said = True
        self.calls = {block.id: False for block in content if isinstance(block, ToolCallBlock)}
        self.add("assistant/message", said, time, line)
        return True

    def usage(
        self,
        spent: UsageChunk,
        time: int | None,
        line: int,
        *,
        interrupted: bool = False,
        attempt: int | None = None,
    ) -> bool:
        """Add what a message was billed; False when no step is open."""
        if not self.step:
            return False
        report = UsageReport(
            self.turn,
            self.step,
            spent.usage,
            spent.message_id,
            spent.model,
            interrupted,
            self.attempt if attempt is None else attempt,
        )
        self.add("usage", report, time, line)
        return True

    def call(self, call_id: str, name: str, arguments: str, time: int | None, line: int) -> bool:
        """Start a call; False when the message of the step does not ask for it."""
        if self.calls.get(call_id) is not False:
            return False
        self.calls[call_id] = True
        data = ToolStart(self.turn, self.step, call_id, name, arguments)
        self.add("tool/call", data, time, line)
        return True

    def result(
        self,
        call_id: str,
        content: tuple[UserContent, ...],
        is_error: bool,
        outcome: str,
        time: int | None,
        line: int,
    ) -> bool:
        """Answer a call; False when it is not open."""
        if call_id not in self.calls:
            return False
        del self.calls[call_id]
        data = ToolResult(self.turn, self.step, call_id, content, is_error, outcome)
        self.add("tool/result", data, time, line)
        return True


def _distinct_calls(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """`content` without the second call of one id: a message answers each id once."""
    ids = [block.id for block in content if isinstance(block, ToolCallBlock)]
    if len(set(ids)) == len(ids):
        return content
    seen: set[str] = set()
    kept: list[Block] = []
    for block in content:
        if isinstance(block, ToolCallBlock):
            if block.id in seen:
                continue
            seen.add(block.id)
        kept.append(block)
    return tuple(kept)
