"""What a model call is: the request, and what an adapter must do with it.

Reads: messages. Feeds: llm.service, the adapters, agent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import msgspec

from dsh_nb.errors import LlmError
from dsh_nb.messages import Chunk, FinishReason, JsonObject, Message, ToolSchema

__all__ = ["Adapter", "ModelRequest", "closing", "failure_of"]

T = TypeVar("T")


class ModelRequest(msgspec.Struct, frozen=True):
    """One call to a model.

    Attributes:
        model: Name of the model.
        messages: The history, read-only; it may be long, so read what is new and copy nothing.
        system: The system text; ``None`` for none.
        tools: The tools that may be called, in the order sent.
        options: Sampling and provider options by their wire names.
    """

    model: str
    messages: Sequence[Message]
    system: str | None = None
    tools: tuple[ToolSchema, ...] = ()
    options: JsonObject = {}


class Adapter(Protocol):
    """Speaks to one kind of model.

    Attributes:
        name: Name of the adapter; blocks that only it understands carry it.
    """

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """The answer as chunks: usage before the finish, nothing after it.

        Raises:
            LlmError: The call failed; so does a finish of kind ``error`` or ``aborted``.
        """
        ...


def failure_of(reason: FinishReason | None) -> LlmError | None:
    """What a stream that ended so failed with; None when it ended properly.

    Args:
        reason: That of its finish; ``None`` when the stream just ended.
    """
    if reason is None:
        return LlmError(
            "the model's stream ended before the answer was complete; the part that came is kept, "
            "and none of its tool calls was run",
            code="STREAM_ENDED",
        )
    if reason.kind not in ("error", "aborted"):
        return None
    said = reason.message or f"the model call ended with {reason.kind}"
    return LlmError(said, code=reason.code or reason.kind.upper())


@asynccontextmanager
async def closing(stream: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """`stream`, closed at the end when it can be: an adapter must not wait for the collector."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
