"""The vocabulary of the session log: one struct for the data of each event type.

Reads: messages. Feeds: session.session, agent, tables, notebook.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dsh_nb.messages import (
    Block,
    Chunk,
    ImageBlock,
    JsonObject,
    Message,
    ResultContent,
    Source,
    TextBlock,
    ToolSchema,
    Usage,
)

__all__ = [
    "EVENT_TYPES",
    "AssistantChunk",
    "AssistantMessage",
    "ContextMessage",
    "EventData",
    "Failure",
    "RequestHeader",
    "RequestMessages",
    "SessionEvent",
    "SteeringMessage",
    "StepEnd",
    "StepStart",
    "ToolLate",
    "ToolResult",
    "ToolStart",
    "TurnEnd",
    "TurnReason",
    "TurnStart",
    "TurnTrigger",
    "UsageReport",
    "UserContent",
    "UserMessage",
]

UserContent = TextBlock | ImageBlock
"""What people, plugins and the inbox may say."""


class EventData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of the typed data of an event: immutable, camelCase in JSON."""


class SessionEvent(msgspec.Struct, frozen=True, gc=False):
    """One durable fact of a session.

    Attributes:
        seq: Position in the log, from 0.
        time: Unix epoch in milliseconds.
        type: ``subject/verb``; see `EVENT_TYPES` for those that dsh_nb itself writes.
        data: The struct of that type, or plain JSON for a type that a plugin made up.
    """

    seq: int
    time: int
    type: str
    data: Any  # an EventData for known types, JSON otherwise; narrowed by isinstance where read

    def __repr__(self) -> str:
        return f"SessionEvent({self.seq}, {self.type!r}, {self.data!r})"


class UserMessage(EventData, frozen=True):
    """``user/message``: a queued message that the next turn takes."""

    content: tuple[UserContent, ...]
    source: Source


class ContextMessage(EventData, frozen=True):
    """``context/message``: context that joins the history without starting anything."""

    content: tuple[UserContent, ...]
    source: Source


class SteeringMessage(EventData, frozen=True):
    """``steering/message``: a message that joined the running turn."""

    turn: int
    content: tuple[UserContent, ...]
    source: Source


class TurnTrigger(EventData, frozen=True):
    """What started a turn; `source` is that of the first message, none for a continuation."""

    kind: Literal["message", "continuation"]
    source: Source | None = None


class TurnStart(EventData, frozen=True):
    """``turn/start``."""

    turn: int
    trigger: TurnTrigger


class TurnReason(EventData, frozen=True):
    """Why a turn ended.

    Attributes:
        kind: ``completed``, ``aborted``, ``error`` or ``disposed``.
        reason: What the person or program that aborted said.
        message: What went wrong, of an error.
        code: What went wrong, for programs: ``MAX_TOKENS``, ``REFUSAL``, ``STREAM_ENDED``, the
            provider's error type, ….
    """

    kind: Literal["completed", "aborted", "error", "disposed"]
    reason: str | None = None
    message: str | None = None
    code: str | None = None


class TurnEnd(EventData, frozen=True):
    """``turn/end``."""

    turn: int
    reason: TurnReason


class StepStart(EventData, frozen=True):
    """``step/start``."""

    turn: int
    step: int


class StepEnd(EventData, frozen=True):
    """``step/end``."""

    turn: int
    step: int


class RequestHeader(EventData, frozen=True):
    """``request/header``: what a request says besides the messages, logged when it changes.

    Attributes:
        model: Name of the model.
        system: The system text; ``None`` when there is none.
        tools: The tool schemas, in the order sent.
        options: Sampling and provider options by their wire names, for example
            ``max_tokens`` or ``temperature``.
    """

    turn: int
    step: int
    model: str
    system: str | None = None
    tools: tuple[ToolSchema, ...] = ()
    options: JsonObject = {}


class RequestMessages(EventData, frozen=True):
    """``request/messages``: the messages of a step whose request a listener rewrote."""

    turn: int
    step: int
    messages: tuple[Message, ...]


class AssistantChunk(EventData, frozen=True):
    """``assistant/chunk``: one piece of the stream."""

    turn: int
    step: int
    chunk: Chunk


class AssistantMessage(EventData, frozen=True):
    """``assistant/message``: what the model said in a step.

    Attributes:
        interrupted: True when the stream did not end properly; the content is what was visible.
        stop_reason: The kind of `FinishReason` the stream ended with; ``None`` when it was cut.
        rewritten: True when an ``agent/step-result`` listener changed what the chunks say.
    """

    turn: int
    step: int
    content: tuple[Block, ...]
    interrupted: bool = False
    stop_reason: str | None = None
    rewritten: bool = False


class UsageReport(EventData, frozen=True):
    """``usage``: what a message was billed.

    Attributes:
        interrupted: True when the stream was cut, so that the counts are the last ones seen.
        attempt: Which attempt of the step it was, from 1.
    """

    turn: int
    step: int
    usage: Usage
    message_id: str | None = None
    model: str | None = None
    interrupted: bool = False
    attempt: int = 1


class ToolStart(EventData, frozen=True):
    """``tool/call``: a call is about to run; `arguments` is the raw JSON text."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class ToolResult(EventData, frozen=True):
    """``tool/result``: the single outcome of a call. Without a ``tool/call`` it never started.

    Attributes:
        content: What the model is told.
        is_error: True when it failed, was interrupted or never started.
        outcome: ``ok``, ``error``, ``denied``, ``interrupted`` or ``not started``.
        display: What the person sees, a MIME bundle; ``None`` when the content says it all.
        overflow: The whole text when `content` holds only its head and tail.
    """

    turn: int
    step: int
    call_id: str
    content: tuple[ResultContent, ...]
    is_error: bool
    outcome: str = "ok"
    display: JsonObject | None = None
    overflow: str | None = None


class ToolLate(EventData, frozen=True):
    """``tool/late``: what a call came to after it was given up; the model is not told."""

    turn: int
    step: int
    call_id: str
    content: tuple[ResultContent, ...]
    is_error: bool = False


class Failure(EventData, frozen=True):
    """``error``: something failed; turn and step are those it belongs to (step 0: none)."""

    turn: int
    step: int
    message: str
    code: str | None = None


EVENT_TYPES: dict[str, type[EventData]] = {
    "user/message": UserMessage,
    "context/message": ContextMessage,
    "steering/message": SteeringMessage,
    "turn/start": TurnStart,
    "turn/end": TurnEnd,
    "step/start": StepStart,
    "step/end": StepEnd,
    "request/header": RequestHeader,
    "request/messages": RequestMessages,
    "assistant/chunk": AssistantChunk,
    "assistant/message": AssistantMessage,
    "usage": UsageReport,
    "tool/call": ToolStart,
    "tool/result": ToolResult,
    "tool/late": ToolLate,
    "error": Failure,
}
"""The types that dsh_nb writes, with the struct of their data."""
