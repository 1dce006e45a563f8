"""The fold of session events into the parts of one turn.

Reads: messages, session.events, notebook.parts, notebook.streaming, notebook.wording,
tables. Feeds: notebook.live, notebook.static, notebook.turn, notebook.display.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from dsh_nb.messages import (
    Block,
    ImageBlock,
    JsonObject,
    ReasoningBlock,
    Retry,
    Source,
    TextBlock,
    ToolCallBlock,
    Usage,
    text_of,
)
from dsh_nb.notebook.parts import (
    EndPart,
    ErrorPart,
    ImagePart,
    Part,
    RetryPart,
    TextPart,
    ThinkingPart,
    UserPart,
)
from dsh_nb.notebook.streaming import CallEntry, StreamedBlock, StreamedStep
from dsh_nb.notebook.wording import decision_note
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    Failure,
    SessionEvent,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnReason,
    TurnStart,
    UsageReport,
    UserContent,
    UserMessage,
)
from dsh_nb.tables.prices import cost_of

__all__ = ["Part", "TurnTranscript"]

_Fold = Callable[[Any, int], None]  # Any: the struct of the event type that the fold is for


class TurnTranscript:
    """One turn as a person sees it, kept up to date one session event at a time.

    Attributes:
        turn: Number of the turn; 0 while the next turn is awaited.
        usage: Tokens of its requests so far.
        began: When it began, Unix epoch in milliseconds; ``None`` before.
        steps: Its requests so far.
        text: Text of the model's last message; ``""`` when it said nothing.
        reason: Why it ended; ``None`` before.
        settled: So many of the `entries`, from the first, will not change any more.
    """

    def __init__(self, turn: int | None = None) -> None:
        """Follow turn number `turn`, or whichever turn begins next."""
        self.turn = turn or 0
        self.usage = Usage()
        self.steps = 0
        self.text = ""
        self.reason: TurnReason | None = None
        self.settled = 0
        self._waits_for_any = turn is None
        self.began: int | None = None
        self._costs: list[float | None] = []
        self._entries: list[Part | StreamedBlock | CallEntry] = []
        self._step = StreamedStep(0)
        self._calls: dict[tuple[int, str], CallEntry] = {}
        self._boundaries: dict[type, _Fold] = {
            UserMessage: self._user,
            ContextMessage: self._context,
            TurnEnd: self._forget,
            TurnStart: self._start,
        }
        self._folds: dict[type, _Fold] = {
            AssistantChunk: self._chunk,
            AssistantMessage: self._message,
            ContextMessage: self._context,
            Failure: self._failure,
            StepEnd: self._step_end,
            StepStart: self._step_start,
            SteeringMessage: self._steering,
            ToolResult: self._result,
            ToolStart: self._call,
            TurnEnd: self._end,
            UsageReport: self._usage,
        }

    @property
    def begun(self) -> bool:
        """Whether the turn has begun."""
        return self.began is not None

    @property
    def cost(self) -> float | None:
        """The price of its requests in US dollars; None when that of one is not known."""
        known = [cost for cost in self._costs if cost is not None]
        return sum(known) if known and len(known) == len(self._costs) else None

    @property
    def ended(self) -> bool:
        """Whether the turn has ended."""
        return self.reason is not None

    def feed(self, event: SessionEvent) -> None:
        """Take the next event of the log; one that is not of this turn changes nothing.

        The cost does not depend on how much was streamed before.
        """
        if self.ended:
            return
        data = event.data
        if isinstance(data, dict):
            self._decision(event.type, data, event.time)
            return
        folds = self._folds if self.begun else self._boundaries
        fold = folds.get(type(data))
        if fold is not None and (not self.begun or getattr(data, "turn", self.turn) == self.turn):
            fold(data, event.time)

    @property
    def entries(self) -> Sequence[Part | StreamedBlock | CallEntry]:
        """What the parts are read from: some are parts, the others still change."""
        return self._entries if self.begun or self._waits_for_any else ()

    def progress(self, step: int, call_id: str, value: float | str) -> None:
        """Note what a running call reports; the log does not hold it."""
        call = self._calls.get((step, call_id))
        if call is not None:
            call.report(value)

    def parts(self) -> tuple[Part, ...]:
        """What there is to see, in order; nothing of a turn by number before it begins."""
        if not (self.begun or self._waits_for_any):
            return ()
        return tuple(part for entry in self._entries for part in _read(entry))

    def _user(self, data: UserMessage, time: int) -> None:
        self._say(data.content, "user", data.source)

    def _context(self, data: ContextMessage, time: int) -> None:
        self._say(data.content, "context", data.source)

    def _steering(self, data: SteeringMessage, time: int) -> None:
        self._say(data.content, "steering", data.source)

    def _say(
        self,
        content: Sequence[UserContent],
        kind: Literal["user", "steering", "context"],
        source: Source,
    ) -> None:
        text = "\n\n".join(block.text for block in content if isinstance(block, TextBlock))
        if text:
            self._entries.append(UserPart(text, kind, source))
        alt = f"image from {source.name or source.kind}"
        self._entries.extend(
            ImagePart(block.url, alt) for block in content if isinstance(block, ImageBlock)
        )

    def _start(self, data: TurnStart, time: int) -> None:
        if not self._waits_for_any and data.turn != self.turn:
            self._entries.clear()  # what was said before it belongs to that turn
            return
        self.turn = data.turn
        self.began = time

    def _forget(self, data: TurnEnd, time: int) -> None:
        self._entries.clear()  # context of the turn that ran before this one

    def _step_start(self, data: StepStart, time: int) -> None:
        self.steps += 1
        self.settled = len(self._entries)
        self._step = StreamedStep(len(self._entries))

    def _step_end(self, data: StepEnd, time: int) -> None:
        self._replace(list(self._step.leftovers()))

    def _chunk(self, data: AssistantChunk, time: int) -> None:
        if isinstance(data.chunk, Retry):
            self._replace([RetryPart(data.chunk.message, data.chunk.attempt)])
            return
        block = self._step.feed(data.chunk, time)
        if block is not None:
            self._entries.append(block)

    def _message(self, data: AssistantMessage, time: int) -> None:
        self.text = text_of(data.content)
        seconds = self._step.thinking_seconds()
        entries = [
            entry for block in data.content for entry in self._said(data.step, block, seconds)
        ]
        if data.interrupted:
            _mark_interrupted(entries)
        self._replace(entries)

    def _said(
        self, step: int, block: Block, seconds: Iterator[float | None]
    ) -> Iterator[Part | CallEntry]:
        if isinstance(block, TextBlock) and block.text:
            yield TextPart(block.text)
        elif isinstance(block, ReasoningBlock):
            yield ThinkingPart(block.text, seconds=next(seconds, None))
        elif isinstance(block, ToolCallBlock):
            call = self._calls[step, block.id] = CallEntry(block.id, block.name, block.arguments)
            yield call
        elif isinstance(block, ImageBlock):
            yield ImagePart(block.url, "image from the model")

    def _replace(self, entries: Sequence[Part | CallEntry]) -> None:
        """Put `entries` in the place of what the step has streamed, and leave the rest."""
        first = self._step.first
        rest = [entry for entry in self._entries[first:] if not isinstance(entry, StreamedBlock)]
        self._entries[first:] = [*entries, *rest]
        self._step = StreamedStep(first + len(entries))

    def _call(self, data: ToolStart, time: int) -> None:
        self._entry(data.step, data.call_id, data.name).start(data.name, data.arguments, time)

    def _result(self, data: ToolResult, time: int) -> None:
        self._entry(data.step, data.call_id, "unknown tool").settle(data, time)

    def _entry(self, step: int, call_id: str, name: str) -> CallEntry:
        call = self._calls.get((step, call_id))
        if call is None:
            call = self._calls[step, call_id] = CallEntry(call_id, name, "")
            self._entries.append(call)
        return call

    def _decision(self, type: str, data: JsonObject, time: int) -> None:
        """A call waits for a person, or waits no longer."""
        step, call_id = data.get("step"), data.get("callId")
        if data.get("turn") != self.turn:
            return
        if not isinstance(step, int) or not isinstance(call_id, str):
            return
        if type == "approval/asked":
            self._entry(step, call_id, str(data.get("tool"))).ask(time)
        elif type == "approval/decided":
            changed = data.get("arguments") if data.get("edited") else None
            approved = data.get("outcome") == "approved"
            entry = self._entry(step, call_id, "unknown tool")
            entry.decide(approved, decision_note(data), changed, time)

    def _usage(self, data: UsageReport, time: int) -> None:
        counts = zip(
            msgspec.structs.astuple(self.usage), msgspec.structs.astuple(data.usage), strict=True
        )
        self.usage = Usage(*(before + more for before, more in counts))
        self._costs.append(cost_of(data.usage, data.model))

    def _failure(self, data: Failure, time: int) -> None:
        self._entries.append(ErrorPart(data.message, data.code))

    def _end(self, data: TurnEnd, time: int) -> None:
        self._replace(list(self._step.leftovers()))
        for call in self._calls.values():
            call.give_up()
        reason = self.reason = data.reason
        seconds = None if self.began is None else (time - self.began) / 1000
        said = reason.reason or reason.message or reason.code or ""
        self._entries.append(EndPart(reason.kind, said, seconds, self.usage, self.steps, self.cost))


def _mark_interrupted(entries: list[Part | CallEntry]) -> None:
    """The last text is where the stream was cut."""
    for position, entry in reversed(list(enumerate(entries))):
        if isinstance(entry, TextPart):
            entries[position] = TextPart(entry.text, interrupted=True)
            return


def _read(entry: Part | StreamedBlock | CallEntry) -> Iterator[Part]:
    if isinstance(entry, StreamedBlock):
        part = entry.part()
        if part is not None:
            yield part
    else:
        yield entry.part() if isinstance(entry, CallEntry) else entry
