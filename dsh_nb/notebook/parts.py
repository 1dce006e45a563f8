"""What a turn is made of, as a person sees it: frozen parts in the order of their happening.

Reads: messages. Feeds: notebook.transcript, notebook.cards, notebook.prose, notebook.static.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dsh_nb.messages import JsonObject, Source, Usage

__all__ = [
    "EndPart",
    "ErrorPart",
    "ImagePart",
    "Part",
    "RetryPart",
    "TextPart",
    "ThinkingPart",
    "ToolPart",
    "ToolState",
    "UserPart",
]

ToolState = Literal[
    "waiting for approval", "running", "done", "failed", "interrupted", "denied", "not started"
]
"""How far a tool call came."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: `url` is a ``data:`` URL or an address, `alt` says in words what it is."""

    url: str
    alt: str = "image"


@dataclass(frozen=True, slots=True)
class UserPart:
    """What was said to the model.

    Attributes:
        text: The text; pictures are parts of their own.
        kind: ``user`` started the turn, ``steering`` joined it, ``context`` came along.
        source: Who said it.
    """

    text: str
    kind: Literal["user", "steering", "context"] = "user"
    source: Source = field(default_factory=Source)


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """What the model thought.

    Attributes:
        text: The thinking; ``""`` where the provider hides it.
        open: True while it is being streamed.
        seconds: How long it was streamed; ``None`` when nobody watched.
    """

    text: str
    open: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """What the model answered, as Markdown.

    Attributes:
        text: The Markdown.
        open: True while it is being streamed.
        interrupted: True when the stream was cut here.
    """

    text: str
    open: bool = False
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPart:
    """A tool call and what it came to.

    Attributes:
        call_id: The provider's id of the call.
        name: The tool.
        arguments: The arguments as indented JSON; the raw text when they are not JSON.
        state: How far it came; ``not started`` also while it waits for its turn.
        seconds: From call, or from the decision about it, to result; ``None`` without both.
        since: When its state began, Unix epoch in milliseconds; ``None`` when it has ended.
        progress: What it last reported while it runs: a share from 0 to 1, or words.
        note: What a person decided about it; ``""`` when nobody was asked.
        content: The text that the model was given; ``""`` before the result.
        images: The pictures that the model was given.
        display: What the person sees instead, a MIME bundle; ``None`` when the content says it all.
        overflow_chars: Length of the whole text when the content holds only its head and tail;
            else 0.
        settled: True when there is a result.
    """

    call_id: str
    name: str
    arguments: str = ""
    state: ToolState = "not started"
    seconds: float | None = None
    since: int | None = None
    progress: float | str = ""
    note: str = ""
    content: str = ""
    images: tuple[ImagePart, ...] = ()
    display: JsonObject | None = None
    overflow_chars: int = 0
    settled: bool = False


@dataclass(frozen=True, slots=True)
class RetryPart:
    """An attempt that failed; what it had streamed is withdrawn.

    Attributes:
        message: What went wrong.
        attempt: Which attempt it was, from 1.
    """

    message: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """Something that failed outside of a tool."""

    message: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class EndPart:
    """The end of the turn.

    Attributes:
        kind: ``completed``, ``aborted``, ``error`` or ``disposed``.
        reason: Why, in words; ``""`` when nobody said.
        seconds: From its start to its end.
        usage: Tokens of all its requests.
        steps: How many requests it made.
        cost: Their price in US dollars; ``None`` when the price of a model is not known.
    """

    kind: str
    reason: str = ""
    seconds: float | None = None
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    cost: float | None = None


Part = UserPart | ThinkingPart | TextPart | ToolPart | ImagePart | RetryPart | ErrorPart | EndPart
"""One thing that a person sees of a turn."""
