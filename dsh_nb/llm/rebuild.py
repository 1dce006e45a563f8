"""Rebuilding from the log what each step asked of the model.

Reads: session, llm.protocol. Feeds: llm.recorded, testing, notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    RequestHeader,
    RequestMessages,
    SessionEvent,
    StepEnd,
    StepStart,
)
from dsh_nb.session.history import History

__all__ = ["StepRequest", "rebuild_requests"]

_ANSWERS = (AssistantChunk, AssistantMessage)


class StepRequest(NamedTuple):
    """The request of one step, as it was sent."""

    turn: int
    step: int
    request: ModelRequest
    answered: bool = True


def rebuild_requests(
    events: Iterable[SessionEvent], *, unanswered: bool = False
) -> Iterator[StepRequest]:
    """The request of each step that was answered, in order.

    The header is the newest one logged; the messages are those of the log before the step's first
    chunk, or the ones logged for it when a listener rewrote them. Encoded by the adapter, a
    request is byte for byte what was sent.

    Args:
        events: A log, or a prefix of one.
        unanswered: True to give the steps that ended before the first chunk too. The log does not
            tell whether their requests were sent.
    """
    told = (*_ANSWERS, StepEnd) if unanswered else _ANSWERS
    history = History()
    header: RequestHeader | None = None
    rewritten: RequestMessages | None = None
    asked: StepStart | None = None
    for event in events:
        data = event.data
        if isinstance(data, StepStart):
            asked, rewritten = data, None
        elif isinstance(data, RequestHeader):
            header = data
        elif isinstance(data, RequestMessages):
            rewritten = data
        elif isinstance(data, told) and asked and header:
            messages = rewritten.messages if rewritten else history.view()
            request = ModelRequest(
                header.model, messages, header.system, header.tools, header.options
            )
            yield StepRequest(asked.turn, asked.step, request, isinstance(data, _ANSWERS))
            asked = None
        history.feed(event)
