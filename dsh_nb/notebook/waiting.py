"""What waits for a person, and what they said that no step has taken yet.

Reads: agent, messages, plugins.ask_user, plugins.permission, notebook.arguments. Feeds:
notebook.agent.
"""

from __future__ import annotations

from collections.abc import Iterable

from dsh_nb.agent.inbox import Inbox, InboxMessage
from dsh_nb.core import Context
from dsh_nb.messages import ImageBlock, JsonObject
from dsh_nb.notebook.arguments import as_json
from dsh_nb.plugins.ask_user import QUESTIONS, Question
from dsh_nb.plugins.permission import PERMISSION, Ask

__all__ = ["progress_value", "questions", "waiting"]

PROGRESS_CHARS = 200
"""Longest words of a tool's progress that are shown."""


def waiting(ctx: Context, agent_id: str, inbox: Inbox, turn: int | None = None) -> JsonObject:
    """What a view shows beside the blocks, as `Shown.status` holds it.

    Args:
        ctx: The agent's context.
        agent_id: The agent.
        inbox: Its inbox.
        turn: Only what belongs to this turn; ``None`` for all, queued messages too.
    """
    asks = [
        ask
        for ask in ctx.get(PERMISSION).pending()
        if ask.agent == agent_id and turn in (None, ask.turn)
    ]
    messages = [*inbox.steering, *(inbox.queued if turn is None else ())]
    return {
        "pending": _said(messages),
        "asks": [_ask(ask) for ask in asks],
        "questions": [
            _question(one)
            for one in questions(ctx)
            if one.agent == agent_id and turn in (None, one.turn)
        ],
    }


def questions(ctx: Context) -> tuple[Question, ...]:
    """The questions that wait for an answer, oldest first; none where no plugin asks any."""
    return ctx.get(QUESTIONS).pending() if ctx.provides(QUESTIONS.name) else ()


def progress_value(value: object) -> float | str:
    """What a tool reports: a share from 0 to 1, or words."""
    if isinstance(value, float) and 0 <= value <= 1:
        return value
    return str(value)[:PROGRESS_CHARS]


def _said(messages: Iterable[InboxMessage]) -> list[JsonObject]:
    return [{"id": one.source.id, "text": _words(one)} for one in messages]


def _words(message: InboxMessage) -> str:
    return " ".join(
        "[image]" if isinstance(block, ImageBlock) else block.text for block in message.content
    )


def _question(question: Question) -> JsonObject:
    return {
        "id": question.id,
        "question": question.text,
        "options": [*question.options],
        "freeText": question.free_text,
    }


def _ask(ask: Ask) -> JsonObject:
    return {
        "id": ask.id,
        "callId": ask.call_id,
        "tool": ask.tool,
        "arguments": as_json(ask.arguments, indent=2),
        "exact": str(ask.rule(True)),
        "always": str(ask.rule("tool")),
    }
