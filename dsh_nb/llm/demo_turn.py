"""What the demo model reads of a history: the newest turn, from its end backwards.

Reads: messages. Feeds: llm.demo.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple

from dsh_nb.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    text_of,
)

__all__ = ["Called", "Note", "Turn", "read_turn"]

_MESSAGES_AT_MOST = 500
_ENVELOPE = re.compile(
    r'<(?P<tag>steering|context)(?: source="(?P<source>[^"]*)")?[^>]*>(?P<text>.*?)</(?P=tag)>',
    re.DOTALL,
)


class Note(NamedTuple):
    """A steering message: its text, and who sent it."""

    text: str
    source: str


class Called(NamedTuple):
    """A call of the turn with what it came to.

    Attributes:
        tool: Name of the tool.
        arguments: The raw arguments.
        text: Text of the result.
        images: How many pictures the result holds.
        is_error: Whether it failed.
    """

    tool: str
    arguments: str
    text: str = ""
    images: int = 0
    is_error: bool = False

    @property
    def signature(self) -> str:
        """The call as Python would write it."""
        try:
            given = json.loads(self.arguments or "{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return f"{self.tool}({self.arguments})"
        shown = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
        return f"{self.tool}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The newest turn of a history.

    Attributes:
        prompt: What started it.
        images: How many pictures came with the prompt.
        notes: The steering messages since, in order.
        fresh: Those of them that came after the assistant's last message.
        steps: The calls so far, by step.
        news: The calls whose results no answer has passed on yet.
        answered: Whether the assistant has answered in this turn, in words and without a call.
        prompt_before: The prompt of the turn before; ``""`` when there is none.
        said_before: The assistant's last words of the turn before.
        is_first: Whether this is the first turn.
    """

    prompt: str
    images: int
    notes: tuple[Note, ...]
    fresh: tuple[Note, ...]
    steps: tuple[tuple[Called, ...], ...]
    news: tuple[Called, ...]
    answered: bool
    prompt_before: str
    said_before: str
    is_first: bool


def read_turn(messages: Sequence[Message]) -> Turn:
    """The newest turn of `messages`, of which only the tail is read."""
    begin = _begin(messages, len(messages))
    body = [messages[place] for place in range(begin, len(messages))]
    prompts = [message for message in body if _is_prompt(message)]
    earlier = [messages[place] for place in range(_begin(messages, begin), begin)]
    spoken = [place for place, message in enumerate(body) if message.role == "assistant"]
    answers = [place for place in spoken if not _calls_of(body[place])]
    results = _results_of(body)
    steps = [(place, _called(body[place], results)) for place in spoken if _calls_of(body[place])]
    return Turn(
        prompt=_joined(prompts),
        images=sum(isinstance(block, ImageBlock) for m in prompts for block in m.content),
        notes=_notes(body),
        fresh=_notes(body[max(spoken, default=-1) + 1 :]),
        steps=tuple(step for _, step in steps),
        news=tuple(c for place, step in steps if place > max(answers, default=-1) for c in step),
        answered=bool(answers),
        prompt_before=_joined([message for message in earlier if _is_prompt(message)]),
        said_before="".join(text_of(m.content) for m in earlier[-1:] if m.role == "assistant"),
        is_first=begin == 0,
    )


def _begin(messages: Sequence[Message], end: int) -> int:
    """Where the newest turn of ``messages[:end]`` begins: at the first of its prompts."""
    prompted = False
    for place in range(end - 1, max(end - _MESSAGES_AT_MOST, 0) - 1, -1):
        message = messages[place]
        if prompted and (message.role == "assistant" or _answers(message)):
            return place + 1
        prompted = prompted or _is_prompt(message)
    return max(end - _MESSAGES_AT_MOST, 0)


def _is_prompt(message: Message) -> bool:
    if message.role != "user" or _answers(message):
        return False
    text = text_of(message.content)
    return bool(_plain(text)) or not _ENVELOPE.search(text)


def _answers(message: Message) -> bool:
    return any(isinstance(block, ToolResultBlock) for block in message.content)


def _plain(text: str) -> str:
    """`text` without what stands in envelopes."""
    return _ENVELOPE.sub("", text).strip()


def _joined(messages: Sequence[Message]) -> str:
    texts = [_plain(text_of(message.content)) for message in messages]
    return "\n".join(text for text in texts if text)


def _notes(messages: Sequence[Message]) -> tuple[Note, ...]:
    return tuple(
        Note(found["text"].strip(), unescape(found["source"] or "user"))
        for message in messages
        if message.role == "user"
        for found in _ENVELOPE.finditer(text_of(message.content))
        if found["tag"] == "steering" and found["text"].strip()
    )


def _calls_of(message: Message) -> list[ToolCallBlock]:
    return [block for block in message.content if isinstance(block, ToolCallBlock)]


def _results_of(messages: Sequence[Message]) -> dict[str, ToolResultBlock]:
    blocks = [block for message in messages for block in message.content]
    return {block.tool_call_id: block for block in blocks if isinstance(block, ToolResultBlock)}


def _called(message: Message, results: Mapping[str, ToolResultBlock]) -> tuple[Called, ...]:
    return tuple(
        _came_to(block, results.get(block.id, ToolResultBlock(block.id, ())))
        for block in _calls_of(message)
    )


def _came_to(block: ToolCallBlock, result: ToolResultBlock) -> Called:
    texts = [content.text for content in result.content if isinstance(content, TextBlock)]
    images = len(result.content) - len(texts)
    return Called(block.name, block.arguments, "\n".join(texts), images, result.is_error)
