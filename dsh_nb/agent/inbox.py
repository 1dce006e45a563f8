"""The inbox: what has arrived and no step has consumed.

Reads: messages, session.events. Feeds: agent.loop, agent.loop_agent.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from dsh_nb.messages import ImageBlock, Source, TextBlock, clean_text
from dsh_nb.session.events import UserContent

__all__ = ["Inbox", "InboxMessage", "inbox_message", "user_content"]


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message on its way into the log; ``source.id`` is its identity."""

    content: tuple[UserContent, ...]
    source: Source


class Inbox:
    """Two queues, first in first out: messages that start turns, and steering."""

    def __init__(self) -> None:
        self.queued: list[InboxMessage] = []
        self.steering: list[InboxMessage] = []
        self._ids: set[str] = set()

    def put(self, message: InboxMessage, *, steering: bool = False) -> bool:
        """Add a message; False when one of its id was added before, which is then left alone."""
        assert message.source.id is not None
        if message.source.id in self._ids:
            return False
        self._ids.add(message.source.id)
        (self.steering if steering else self.queued).append(message)
        return True

    def drain_queued(self) -> list[InboxMessage]:
        """Take every queued message, oldest first; the coming turn owns them from now on."""
        drained, self.queued = self.queued, []
        return drained

    def drain_steering(self) -> list[InboxMessage]:
        """Take every steering message, oldest first."""
        drained, self.steering = self.steering, []
        return drained

    def take_back(self, id: str) -> bool:
        """Take a queued message back; False when it is not waiting."""
        before = len(self.queued)
        self.queued = [message for message in self.queued if message.source.id != id]
        return len(self.queued) < before

    def steering_to_queued(self) -> None:
        """What came too late for the turn starts the next one, behind what waits already."""
        self.queued += self.drain_steering()


def inbox_message(said: object, source: Source | None) -> InboxMessage:
    """What was said, checked, with an id.

    Raises:
        TypeError: It is not text or content blocks.
        ValueError: It is blank.
    """
    given = source or Source()
    if given.id is None:
        given = msgspec.structs.replace(given, id=secrets.token_hex(6))
    return InboxMessage(user_content(said), given)


def user_content(said: object) -> tuple[UserContent, ...]:
    """`said` as content blocks.

    Raises:
        TypeError: It is not text or content blocks.
        ValueError: It is blank.
    """
    blocks = _blocks(said)
    if not any(isinstance(block, ImageBlock) or block.text.strip() for block in blocks):
        raise ValueError(f"the prompt {said!r} is blank; say something")
    return tuple(
        msgspec.structs.replace(block, text=clean_text(block.text))
        if isinstance(block, TextBlock)
        else block
        for block in blocks
    )


def _blocks(said: object) -> list[UserContent]:
    if isinstance(said, str):
        return [TextBlock(str.__str__(said))]  # str() would give the name of an enum's member
    if isinstance(said, (TextBlock, ImageBlock)):
        return [said]
    if isinstance(said, Sequence) and said and not isinstance(said, (bytes, bytearray)):
        blocks = [block for part in said for block in _blocks(part)]
        return blocks
    raise TypeError(
        f"the prompt is {said!r:.200}, a {type(said).__name__}; pass text, a TextBlock or "
        "ImageBlock, or a list of them"
    )
