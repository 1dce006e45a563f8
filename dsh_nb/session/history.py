"""The history that a model is shown, derived from the log one event at a time.

Reads: messages, session.decisions, session.events. Feeds: session.session, llm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Protocol, TypeVar, overload

import msgspec

from dsh_nb.messages import (
    Block,
    Message,
    OpaqueBlock,
    ReasoningBlock,
    ResultContent,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from dsh_nb.session.decisions import Decisions
from dsh_nb.session.events import (
    AssistantMessage,
    ContextMessage,
    SessionEvent,
    SteeringMessage,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnStart,
    UserMessage,
)

__all__ = ["INTERRUPTED", "NOT_STARTED", "Fold", "History", "HistoryView", "derive_messages"]

INTERRUPTED = (
    "This call was interrupted while it ran. Its outcome is unknown and its effects may have "
    "happened: check before you repeat it."
)
NOT_STARTED = "This call was never started: the turn was interrupted before its turn came."
_LOST_START = "(The messages before this one are not in this log.)"
_GO_ON = "Continue."


class Fold(Protocol):
    """Something made of messages, one after the other."""

    count: int

    def feed(self, message: Message) -> None:
        """Take the next message, and count it."""


F = TypeVar("F", bound=Fold)


class HistoryView(Sequence[Message]):
    """The history at one moment: a prefix of the messages that only grow, and an open tail.

    It copies nothing, and later appends do not change it.
    """

    __slots__ = ("_base", "_folds", "_length", "_tail")

    def __init__(
        self,
        base: list[Message],
        length: int,
        tail: tuple[Message, ...],
        folds: dict[object, Fold],
    ) -> None:
        self._base, self._length, self._tail, self._folds = base, length, tail, folds

    def __len__(self) -> int:
        return self._length + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self[n] for n in range(*index.indices(len(self))))
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"message {index!r} of {len(self)}")
        if position < self._length:
            return self._base[position]
        return self._tail[position - self._length]

    def __iter__(self) -> Iterator[Message]:
        for position in range(self._length):
            yield self._base[position]
        yield from self._tail

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # compares by value like a list

    def __repr__(self) -> str:
        return f"<HistoryView of {len(self)} messages>"

    def folded(self, key: object, make: Callable[[], F]) -> F:
        """A fold over the settled messages, kept with the session and fed only what is new.

        An adapter encodes each message once this way. The fold covers the first
        ``fold.count`` messages of this view; the rest (`open_tail`) may still change.

        Args:
            key: Tells the folds of one session apart.
            make: Makes an empty fold.
        """
        fold = self._folds.get(key)
        if fold is None or fold.count > self._length:
            fold = self._folds[key] = make()
        for position in range(fold.count, self._length):
            fold.feed(self._base[position])
        return fold  # type: ignore[return-value]  # `key` is its maker's own

    @property
    def open_tail(self) -> tuple[Message, ...]:
        """The messages at the end that the next event may still change."""
        return self._tail


class History:
    """Folds events into messages; each costs only what is new.

    A tool call and its result are never apart: results wait until the last one of their message
    is there, and what else arrives meanwhile waits behind them. A view taken earlier shows the
    missing results as interrupted, or as what is known of a call that waits for a person.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._folds: dict[object, Fold] = {}
        self._calls: dict[str, ToolResultBlock | None] = {}
        self._started: set[str] = set()
        self._decisions = Decisions()
        self._waiting: list[Message] = []
        self._turn_begin = 0
        self._begin = -1
        self._in_turn = False

    def feed(self, event: SessionEvent) -> None:
        """Take the next event of the log."""
        data = event.data
        if isinstance(data, AssistantMessage):
            self._assistant(data)
        elif isinstance(data, ToolStart):
            self._started.add(data.call_id)
        elif isinstance(data, ToolResult):
            self._result(data)
        elif isinstance(data, UserMessage):
            self._user(data)
        elif isinstance(data, (ContextMessage, SteeringMessage)):
            self._say(_envelope(data))
        elif isinstance(data, TurnStart):
            self._turn_started(data)
        elif isinstance(data, TurnEnd):
            self._turn_ended(data)
        else:
            self._decisions.feed(event)

    def view(self) -> HistoryView:
        """The history now."""
        return HistoryView(self._messages, len(self._messages), self._open_tail(), self._folds)

    def _user(self, data: UserMessage) -> None:
        self._close_calls()
        if not self._in_turn and self._begin < 0:
            self._begin = len(self._messages)
        self._say(data.content)

    def _turn_started(self, data: TurnStart) -> None:
        self._close_calls()
        self._turn_begin = self._begin if self._begin >= 0 else len(self._messages)
        self._in_turn = True
        if data.trigger.kind == "continuation" and self._ends_with_assistant():
            self._say(_enclosed("context", "harness", (TextBlock(_GO_ON),)))

    def _turn_ended(self, data: TurnEnd) -> None:
        self._in_turn, self._begin = False, -1
        if data.reason.code == "REFUSAL":
            self._withdraw_refused()

    def _withdraw_refused(self) -> None:
        """Drop a refused exchange, which would be refused again; views keep the old list."""
        self._messages = self._messages[: self._turn_begin]
        self._folds = {}
        self._calls, self._waiting = {}, []

    def _assistant(self, data: AssistantMessage) -> None:
        self._close_calls()
        content = tuple(block for block in data.content if not _blank(block))
        if not content:
            return
        self._put(Message("assistant", content))
        calls = [block.id for block in content if isinstance(block, ToolCallBlock)]
        self._calls = dict.fromkeys(calls)
        self._started.clear()
        self._decisions = Decisions()

    def _result(self, data: ToolResult) -> None:
        if self._calls.get(data.call_id, data) is not None:
            return  # an answer to no open call cannot be shown to a provider
        content = _visible(data.content)
        self._calls[data.call_id] = ToolResultBlock(data.call_id, content, data.is_error)
        if all(result is not None for result in self._calls.values()):
            self._close_calls()

    def _say(self, content: tuple[Block, ...]) -> None:
        shown = tuple(block for block in content if not _blank(block))
        if not shown:
            return
        message = Message("user", shown)
        if self._calls:
            self._waiting.append(message)
        else:
            self._put(message)

    def _put(self, message: Message) -> None:
        if message.role == "assistant":
            if not self._messages:
                self._messages.append(Message("user", (TextBlock(_LOST_START),)))
        elif self._ends_with_assistant():
            self._drop_unanswered_server_calls()
        self._messages.append(message)

    def _drop_unanswered_server_calls(self) -> None:
        """A paused message that was never resumed must not keep a server's call without answer.

        What resumed a paused message is one message with it for the provider.
        """
        start = len(self._messages)
        while start and self._messages[start - 1].role == "assistant":
            start -= 1
        said = self._messages[start:]
        answered = {_answers(block) for message in said for block in message.content}
        contents = [
            tuple(block for block in message.content if _calls_server(block) in (None, *answered))
            for message in said
        ]
        kept = [Message("assistant", content) for content in contents if content]
        if kept != said:
            self._messages = [*self._messages[:start], *kept]
            self._folds = {}

    def _close_calls(self) -> None:
        self._messages.extend(self._open_tail())
        self._calls, self._waiting = {}, []

    def _open_tail(self) -> tuple[Message, ...]:
        """One user message for each result, in call order, then what waited behind them."""
        results = [
            Message("user", (result or self._missing(call_id),))
            for call_id, result in self._calls.items()
        ]
        return (*results, *self._waiting)

    def _missing(self, call_id: str) -> ToolResultBlock:
        ending = self._decisions.ending(call_id)
        if ending is not None:
            return ToolResultBlock(call_id, (TextBlock(ending.text),), ending.is_error)
        text = INTERRUPTED if call_id in self._started else NOT_STARTED
        return ToolResultBlock(call_id, (TextBlock(text),), is_error=True)

    def _ends_with_assistant(self) -> bool:
        return bool(self._messages) and self._messages[-1].role == "assistant" and not self._calls


def derive_messages(events: Sequence[SessionEvent]) -> HistoryView:
    """The history of a whole log."""
    history = History()
    for event in events:
        history.feed(event)
    return history.view()


def _envelope(data: ContextMessage | SteeringMessage) -> tuple[Block, ...]:
    tag = "context" if isinstance(data, ContextMessage) else "steering"
    return _enclosed(tag, data.source.name or data.source.kind, data.content)


def _enclosed(tag: str, source: str, content: Sequence[Block]) -> tuple[Block, ...]:
    """`content` between tags; the tags join the text next to them where there is one."""
    shown = [block for block in content if not _blank(block)]
    if not shown:
        return ()
    opening, closing = f'<{tag} source="{escape(source)}">', f"</{tag}>"
    if len(shown) == 1 and isinstance(shown[0], TextBlock):
        return (msgspec.structs.replace(shown[0], text=f"{opening}{shown[0].text}{closing}"),)
    return (TextBlock(opening), *shown, TextBlock(closing))


def _blank(block: Block) -> bool:
    if isinstance(block, TextBlock):
        return not block.text.strip()
    if isinstance(block, ReasoningBlock):
        return not (block.text or block.signature or block.redacted)
    return False


def _visible(content: tuple[ResultContent, ...]) -> tuple[ResultContent, ...]:
    shown = tuple(block for block in content if not _blank(block))
    return shown or (TextBlock("(no result)"),)


def _calls_server(block: Block) -> str | None:
    """Id of the server-side call that a block of the provider's makes, if it makes one."""
    if isinstance(block, OpaqueBlock) and str(block.value.get("type")).endswith("_tool_use"):
        return str(block.value.get("id"))
    return None


def _answers(block: Block) -> str | None:
    if isinstance(block, OpaqueBlock) and "tool_use_id" in block.value:
        return str(block.value["tool_use_id"])
    return None
