"""Closing a log that ends inside a turn, so that it can go on.

Reads: session.assembler, session.decisions, session.events, session.history.
Feeds: session.store, agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dsh_nb.messages import TextBlock, ToolCallBlock
from dsh_nb.session.assembler import BlockAssembler
from dsh_nb.session.decisions import Decisions, Ending
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    EventData,
    SessionEvent,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnReason,
    TurnStart,
)
from dsh_nb.session.history import INTERRUPTED, NOT_STARTED

__all__ = ["OpenStep", "closing_events"]

CUT = "the log ends inside this turn"


class OpenStep:
    """What is open in the step that a log is in, folded event by event.

    Attributes:
        turn: The open turn; 0 when none is.
        step: The open step; 0 when none is.
        said: True when the step has its message.
        assembler: The chunks of the step so far.
        calls: Ids of the calls that have no result, with whether each was started.
        decisions: What is known of those that waited for a person.
    """

    def __init__(self) -> None:
        self.turn = 0
        self.step = 0
        self._begin_step(0)

    def _begin_step(self, step: int) -> None:
        self.step = step
        self.said = False
        self.assembler = BlockAssembler()
        self.calls: dict[str, bool] = {}
        self.decisions = Decisions()

    def feed(self, event: SessionEvent) -> None:
        """Take the next event."""
        data = event.data
        if isinstance(data, AssistantChunk):
            self.assembler.feed(data.chunk)
        elif isinstance(data, TurnStart):
            self.turn = data.turn
        elif isinstance(data, StepStart):
            self._begin_step(data.step)
        elif isinstance(data, AssistantMessage):
            self.said = True
            calls = [block.id for block in data.content if isinstance(block, ToolCallBlock)]
            self.calls = dict.fromkeys(calls, False)
        elif isinstance(data, ToolStart):
            self.calls[data.call_id] = True
        elif isinstance(data, ToolResult):
            self.calls.pop(data.call_id, None)
        elif isinstance(data, StepEnd):
            self._begin_step(0)
        elif isinstance(data, TurnEnd):
            self.turn = 0
        else:
            self.decisions.feed(event)

    def close_message(self, append: Callable[[str, EventData], object]) -> None:
        """Log what was visible of a message whose stream was cut, if anything was."""
        content = self.assembler.visible()
        if not self.step or self.said or not content:
            return
        append("assistant/message", AssistantMessage(self.turn, self.step, content, True))
        calls = [block.id for block in content if isinstance(block, ToolCallBlock)]
        self.said, self.calls = True, dict.fromkeys(calls, False)

    def close_calls(
        self, append: Callable[[str, EventData], object], not_started: str = NOT_STARTED
    ) -> None:
        """Log a result for each call that has none: as far as is known, what it came to.

        Args:
            append: Logs an event.
            not_started: What the model is told of a call whose turn did not come.
        """
        for call_id, started in [*self.calls.items()]:
            unknown = Ending("interrupted", INTERRUPTED)
            ending = unknown if started else Ending("not started", not_started)
            ending = self.decisions.ending(call_id) or ending
            content = (TextBlock(ending.text),)
            result = ToolResult(
                self.turn, self.step, call_id, content, ending.is_error, ending.outcome
            )
            append("tool/result", result)
        self.calls = {}


def closing_events(events: Sequence[SessionEvent]) -> list[SessionEvent]:
    """What closes an open turn at the end of `events`; nothing when none is open.

    The text that was streamed stays as an interrupted message, each open call gets a result that
    says whether it had started, or waited for a person, and the turn ends as aborted. An approval
    that was given before the cut lets nothing run after it. Times are that of the last event.
    """
    open_step = OpenStep()
    for event in events:
        open_step.feed(event)
    closing: list[SessionEvent] = []
    if not open_step.turn:
        return closing
    first, time = len(events), events[-1].time

    def append(type: str, data: EventData) -> None:
        closing.append(SessionEvent(first + len(closing), time, type, data))

    if open_step.step:
        open_step.close_message(append)
        open_step.close_calls(append)
        append("step/end", StepEnd(open_step.turn, open_step.step))
    append("turn/end", TurnEnd(open_step.turn, TurnReason("aborted", CUT)))
    return closing
