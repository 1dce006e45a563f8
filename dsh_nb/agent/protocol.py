"""What an agent is to everyone else, and the live events around it.

Reads: core, messages, session, llm.protocol. Feeds: agent.loop, plugins, notebook.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

from dsh_nb.core import Context, Emit, Waterfall
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import Block, Chunk, FinishReason, Source
from dsh_nb.session.events import TurnReason, UserContent
from dsh_nb.session.session import Session

__all__ = [
    "AGENT_CREATED",
    "AGENT_DISPOSED",
    "AGENT_ERROR",
    "AGENT_QUEUED",
    "AGENT_REQUEST",
    "AGENT_STATUS",
    "AGENT_STEERING",
    "AGENT_STEP_END",
    "AGENT_STEP_RESULT",
    "AGENT_STEP_START",
    "AGENT_STREAM_CHUNK",
    "AGENT_TURN_CONTINUATION",
    "AGENT_TURN_END",
    "AGENT_TURN_START",
    "Agent",
    "Continuation",
    "Said",
    "Status",
    "StepResult",
]

Status = Literal["idle", "running", "disposed"]
Said = str | UserContent | Sequence[UserContent]
"""What a person or program may say to an agent: text, a block, or several blocks."""


class Agent(Protocol):
    """A live agent. `send`, `steer`, `inject`, `abort` and `dispose` are safe from any thread.

    Attributes:
        id: Its name, unique among the live agents of its context.
        session: Its log.
        status: ``idle``, ``running`` or ``disposed``.
        ctx: The context it lives on.
    """

    id: str
    session: Session
    status: Status
    ctx: Context

    def send(self, said: Said, source: Source | None = None) -> str:
        """Queue a message for the next turn, and start one when idle; returns the message's id."""
        ...

    def steer(self, said: Said, source: Source | None = None) -> str:
        """Put a message between the steps of the running turn; when idle, the same as `send`."""
        ...

    def inject(self, said: Said, source: Source | None = None) -> None:
        """Add context that the next request shows, without starting anything."""
        ...

    def abort(self, reason: str | None = None) -> None:
        """End the running turn; nothing happens when idle."""
        ...

    def dispose(self) -> Awaitable[None]:
        """End the agent; what is awaited is done when nothing of it is left."""
        ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a turn would do after a step.

    Attributes:
        turn: The turn.
        step: The step that has just ended.
        go_on: The default: there were tool calls, steering came in, or the model paused.
    """

    turn: int
    step: int
    go_on: bool


class StepResult(msgspec.Struct, frozen=True):
    """What the model said in a step, before it is logged.

    Attributes:
        content: The blocks; what a listener returns is what is logged, run and sent back.
        reason: Why the model stopped.
    """

    content: tuple[Block, ...]
    reason: FinishReason


AGENT_CREATED: Emit[Agent] = Emit("agent/created")
"""An agent was registered. Mode: emit."""

AGENT_DISPOSED: Emit[Agent] = Emit("agent/disposed")
"""An agent is gone. Mode: emit."""

AGENT_STATUS: Emit[Agent, Status] = Emit("agent/status")
"""Its status changed. Mode: emit. Never the same twice in a row; ``disposed`` is the last."""

AGENT_QUEUED: Emit[Agent, Source, bool] = Emit("agent/queued")
"""A message arrived. Mode: emit. Fired with its source, and True when it is steering."""

AGENT_TURN_START: Emit[Agent, int] = Emit("agent/turn-start")
"""A turn began. Mode: emit. Fired after ``turn/start`` was logged."""

AGENT_TURN_END: Emit[Agent, int, TurnReason] = Emit("agent/turn-end")
"""A turn ended. Mode: emit. Fired after ``turn/end`` was logged."""

AGENT_STEP_START: Emit[Agent, int, int] = Emit("agent/step-start")
"""A step began. Mode: emit. Fired with turn and step, after ``step/start`` was logged."""

AGENT_STEP_END: Emit[Agent, int, int] = Emit("agent/step-end")
"""A step ended. Mode: emit. Fired with turn and step, after ``step/end`` was logged."""

AGENT_STREAM_CHUNK: Emit[Agent, int, int, Chunk] = Emit("agent/stream-chunk")
"""A chunk was logged. Mode: emit. The hottest live event there is: do little."""

AGENT_STEERING: Emit[Agent, int, Source] = Emit("agent/steering")
"""A steering message joined the turn. Mode: emit. Fired after ``steering/message`` was logged."""

AGENT_ERROR: Emit[Agent, BaseException] = Emit("agent/error")
"""A step, a listener or a flush failed. Mode: emit. Fired after ``error`` was logged."""

AGENT_REQUEST: Waterfall[Agent, ModelRequest, ModelRequest] = Waterfall("agent/request")
"""Change the request before the model is called.

Mode: waterfall. Fired once a step, after the prompt was assembled. Return: the request to send.
Default: the request as assembled. One without a model fails the step.
"""

AGENT_STEP_RESULT: Waterfall[Agent, StepResult, StepResult] = Waterfall("agent/step-result")
"""Change what the model said before it is logged and its calls run.

Mode: waterfall. Fired once a step whose stream ended properly. Return: what to log.
Default: what the chunks say.
"""

AGENT_TURN_CONTINUATION: Waterfall[Agent, Continuation, bool] = Waterfall("agent/turn-continuation")
"""Decide whether the turn takes another step.

Mode: waterfall. Fired after each step. Return: True to go on. Default: ``go_on``.
Steering that arrives meanwhile is always shown to the model, whatever is returned.
"""
