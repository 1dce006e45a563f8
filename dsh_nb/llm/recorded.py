"""The recorded model: answers from a session's log, and fails when the request is another one.

Reads: messages, session, llm.protocol, llm.rebuild. Feeds: notebook, testing.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime

from dsh_nb.errors import LlmError, RecordingError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.rebuild import StepRequest, rebuild_requests
from dsh_nb.messages import (
    Block,
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    Message,
    ToolResultBlock,
    ToolSchema,
    UsageChunk,
)
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    Failure,
    SessionEvent,
    StepStart,
    TurnEnd,
    TurnReason,
    UsageReport,
)
from dsh_nb.session.history import HistoryView

__all__ = ["RecordedModel"]


class _Answer:
    """What was recorded of one step: chunks with their times, and how it failed if it did."""

    def __init__(self, began: int) -> None:
        self.began = began
        self.chunks: list[tuple[int, Chunk]] = []
        self.message: AssistantMessage | None = None
        self.usage: UsageReport | None = None
        self.failure: Failure | None = None
        self.aborted: TurnReason | None = None

    def ended_by(self, reason: TurnReason) -> None:
        """Note how the turn ended after this step: what was aborted is to be aborted again."""
        if reason.kind == "aborted" and not _finished(self) and self._interrupted():
            self.aborted = reason

    def _interrupted(self) -> bool:
        return self.message is None or self.message.interrupted

    def timed_chunks(self) -> list[tuple[int, Chunk]]:
        """The chunks; made from the message where the log keeps none."""
        if self.chunks or self.message is None:
            return self.chunks
        made: list[Chunk] = [BlockEnd(*pair) for pair in enumerate(self.message.content)]
        if self.usage is not None:
            made.append(UsageChunk(self.usage.usage, self.usage.message_id, self.usage.model))
        if not self.message.interrupted:
            made.append(Finish(FinishReason(self.message.stop_reason or "stop")))
        return [(self.began, chunk) for chunk in made]


class RecordedModel:
    """Answers each request with what the log says was answered, in order.

    Args:
        events: The log of a session.
        pace: 1.0 for the time that the model took, 2.0 for half of it, 0 for no waiting.
        name: Name of the adapter.
        strict_results: False to answer also where a tool gave another result than it did then,
            such as a picture that another version of matplotlib draws with other bytes. What was
            said and called must be the same in any case.
    """

    def __init__(
        self,
        events: Iterable[SessionEvent],
        *,
        pace: float = 0.0,
        name: str = "recorded",
        strict_results: bool = True,
    ) -> None:
        self.name = name
        log = [*events]
        self._requests = [*rebuild_requests(log, unanswered=True)]
        self._answers = _answers(log)
        self._pace = pace
        self._next = 0
        self._compared = _Compared(strict_results)
        self._began = log[0].time if log else 0

    @property
    def models(self) -> list[str]:
        """The models that the recording was made with, in order of appearance."""
        return list(dict.fromkeys(one.request.model for one in self._requests if one.answered))

    @property
    def notice(self) -> str:
        """That the answers are recorded, and from when, for people; Markdown."""
        day = f" on {datetime.fromtimestamp(self._began / 1000, UTC):%Y-%m-%d}" * bool(self._began)
        names = ", ".join(f"`{name}`" for name in self.models) or "no model"
        times = "" if self._pace == 1 else f"{self._pace:g} times "
        pace = f"at {times}the pace at which they came" if self._pace else "at once"
        return (
            f"A recording: {names} gave these answers{day}, and they are played {pace}. No model "
            "is asked; the tools run. Another prompt or tool needs a live model: pass another "
            "`model=`."
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """The recorded answer to `request`.

        Raises:
            RecordingError: The request is not the one that was recorded, or nothing more was
                recorded. The text says what differs.
            LlmError: The recorded call failed; the same message and code.
        """
        step = self._take(request)
        answer = self._answers[step.turn, step.step]
        before = answer.began
        for time, chunk in answer.timed_chunks():
            await asyncio.sleep(max(0, time - before) / 1000 / self._pace if self._pace else 0)
            before = time
            yield chunk
        if answer.aborted is not None:  # unless somebody has aborted it this time too
            yield Finish(FinishReason("aborted", answer.aborted.reason))
        if answer.failure is not None:
            code = answer.failure.code or "ERROR"
            raise LlmError(answer.failure.message, code=code, final=True)

    def _take(self, request: ModelRequest) -> StepRequest:
        for position in range(self._next, len(self._requests)):
            step = self._requests[position]
            difference = _difference(step.request, request, self._compared)
            if not difference:
                self._next = position + 1
                return step
            if step.answered:  # of the others the log does not tell whether they were asked
                raise RecordingError(
                    f"the request differs from the recorded one of turn {step.turn}, step "
                    f"{step.step}: {difference}; run the same inputs, or use a live model"
                )
        raise RecordingError(
            f"the recording ends after {len(self._requests)} steps and a further one was asked "
            "for; record it anew, or use a live model"
        )


def _answers(log: Sequence[SessionEvent]) -> dict[tuple[int, int], _Answer]:
    answers: dict[tuple[int, int], _Answer] = {}
    newest: _Answer | None = None
    for event in log:
        data = event.data
        if isinstance(data, StepStart):
            newest = answers[data.turn, data.step] = _Answer(event.time)
            continue
        if isinstance(data, TurnEnd) and newest is not None:
            newest.ended_by(data.reason)
            newest = None
        answer = answers.get((getattr(data, "turn", 0), getattr(data, "step", 0)))
        if answer is None:
            continue
        if isinstance(data, AssistantChunk):
            answer.chunks.append((event.time, data.chunk))
        elif isinstance(data, AssistantMessage):
            answer.message = data
        elif isinstance(data, UsageReport):
            answer.usage = data
        elif isinstance(data, Failure) and not _finished(answer):
            answer.failure = data
    return answers


def _finished(answer: _Answer) -> bool:
    """Whether the model's part was whole, so that a later failure is not the model's."""
    return any(type(chunk) is Finish for _, chunk in answer.chunks)


class _Count:
    """A fold that tells one history from another, and from itself after messages were dropped."""

    def __init__(self) -> None:
        self.count = 0

    def feed(self, message: Message) -> None:
        self.count += 1


class _Compared:
    """How many messages of two growing histories are known to be the same: each is read once."""

    def __init__(self, strict_results: bool) -> None:
        self._strict_results = strict_results
        self._folds: tuple[_Count, ...] = ()
        self._known = 0

    def difference(self, recorded: Sequence[Message], asked: Sequence[Message]) -> str:
        """What differs first; ``""`` when nothing does."""
        folds, settled = self._settled(recorded, asked)
        same = len(folds) == len(self._folds) and all(map(operator.is_, folds, self._folds))
        known = self._known if same else 0
        for position in range(known, min(len(recorded), len(asked))):
            then, now = recorded[position], asked[position]
            if then != now and (self._strict_results or _said(then) != _said(now)):
                return f"message {position} was {_short(then)} and is {_short(now)}"
        if len(recorded) != len(asked):
            return f"there were {len(recorded)} messages and are {len(asked)}"
        self._folds, self._known = folds, settled
        return ""

    def _settled(
        self, recorded: Sequence[Message], asked: Sequence[Message]
    ) -> tuple[tuple[_Count, ...], int]:
        """What tells the two histories, and how many of their messages will not change."""
        if not (isinstance(recorded, HistoryView) and isinstance(asked, HistoryView)):
            return (), 0
        folds = recorded.folded(self, _Count), asked.folded(self, _Count)
        return folds, min(len(one) - len(one.open_tail) for one in (recorded, asked))


def _said(message: Message) -> tuple[Block, ...]:
    """The blocks of a message, the results of tools without what is in them."""
    return tuple(
        ToolResultBlock(block.tool_call_id, ()) if isinstance(block, ToolResultBlock) else block
        for block in message.content
    )


def _difference(recorded: ModelRequest, asked: ModelRequest, compared: _Compared) -> str:
    """What differs first between two requests; ``""`` when nothing does."""
    for field in ("model", "system", "options"):
        then, now = getattr(recorded, field), getattr(asked, field)
        if then != now:
            return f"{field} was {_short(then)} and is {_short(now)}"
    if recorded.tools != asked.tools:
        return _difference_of_tools(recorded.tools, asked.tools)
    return compared.difference(recorded.messages, asked.messages)


def _difference_of_tools(then: Sequence[ToolSchema], now: Sequence[ToolSchema]) -> str:
    before, after = [one.name for one in then], [one.name for one in now]
    if before != after:
        return f"tools was {_short(before)} and is {_short(after)}"
    old, new = next(pair for pair in zip(then, now, strict=True) if pair[0] != pair[1])
    return f"tool {old.name!r} was {_short(old)} and is {_short(new)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-80:]}"
