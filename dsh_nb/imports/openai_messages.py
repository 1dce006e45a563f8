"""Message lists of OpenAI's chat completions as sessions.

Reads: messages, session.session, session.events, imports.draft, imports.fields, imports.report.
Feeds: notebook.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count

from dsh_nb.imports.draft import Draft
from dsh_nb.imports.fields import as_list, as_object, as_text, json_text
from dsh_nb.imports.report import ImportReport
from dsh_nb.messages import (
    Block,
    ImageBlock,
    JsonObject,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolCallBlock,
    lossless,
)
from dsh_nb.session.events import (
    ContextMessage,
    RequestHeader,
    TurnReason,
    TurnTrigger,
    UserContent,
)
from dsh_nb.session.session import Session

__all__ = ["session_of_messages"]

_COMPLETED = TurnReason("completed")
_CUT = TurnReason("aborted", "no answer followed")
_NOT_OF_ID = re.compile(r"[^a-zA-Z0-9_-]")  # what providers refuse in the id of a call


def session_of_messages(
    messages: Iterable[Mapping[str, object]],
    *,
    id: str,
    header: JsonObject | None = None,
    model: str = "",
    time: int = 0,
    failed: Callable[[str], bool] | None = None,
) -> Session:
    """The session that a list of chat-completions messages tells of.

    What a user says begins a turn, each message of the assistant is a step of it, and tool
    messages are the results of its calls, matched by id. An id that comes again gets a number, so
    that each call of the session has its own. System messages before the first answer are the
    system text; later ones are context. The list says no times and no usage: every event has the
    same time, and `usage` is empty. Messages of other roles are events of a type such as
    ``openai/critic``; what was mended is in the header under ``import``.

    Args:
        messages: As the API takes and gives them, with ``role``, ``content`` and so on.
        id: Id of the session.
        header: Metadata of the session, for example a reward.
        model: Name of the model that answered, where it is known.
        time: When it was, Unix milliseconds.
        failed: Whether the text of a tool message tells a failure, which the format does not say;
            by default none does.

    Raises:
        TypeError, ValueError: A message is not JSON.

    Example:
        >>> said = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "5"}]
        >>> session_of_messages(said, id="sum").turn
        1
    """
    report = ImportReport(id, format="openai-messages")
    reader = _Reader(Draft("openai", report), report, model, time, failed or _never)
    for number, message in enumerate(messages, 1):
        reader.take(number, lossless(dict(message), f"message {number}"))
    reader.end()
    report.lines = report.held = reader.line
    report.events = len(reader.draft.events)
    about = {**(header or {}), "import": report.as_json()}
    return Session(id, reader.draft.events, header=about)


class _Reader:
    """Takes the messages one after the other.

    Attributes:
        draft: The session in the making.
        line: Number of the newest message.
    """

    def __init__(
        self,
        draft: Draft,
        report: ImportReport,
        model: str,
        time: int,
        failed: Callable[[str], bool],
    ) -> None:
        self.draft = draft
        self.line = 0
        self._report = report
        self._model, self._time, self._failed = model, time, failed
        self._system: list[str] = []
        self._answered = False
        self._prompt: Source | None = None
        self._ids: set[str] = set()
        self._open: dict[str, deque[str]] = {}

    def take(self, number: int, message: JsonObject) -> None:
        """The next message."""
        self.line = number
        match message.get("role"):
            case "system" | "developer" if not self._answered:
                self._system.append(_text(message.get("content")))
            case "system" | "developer":
                self._context(message)
            case "user":
                self._user(message)
            case "assistant":
                self._assistant(message)
            case "tool" | "function":
                self._tool(message)
            case role:
                self.draft.foreign(as_text(role) or "unknown", message, self._time, number)

    def end(self) -> None:
        """Say that the list ends here."""
        self._end_turn()

    def _context(self, message: JsonObject) -> None:
        content = _content(message.get("content"))
        if content:
            data = ContextMessage(content, Source("system"))
            self.draft.add("context/message", data, self._time, self.line)

    def _user(self, message: JsonObject) -> None:
        content = _content(message.get("content"))
        self._end_turn()
        if not content:
            self._report.note(self.line, "is a blank message of the user and was left out")
            return
        source = Source("user", as_text(message.get("name")) or None)
        self._prompt = self._prompt or source
        self.draft.prompt(content, source, self._time, self.line)

    def _assistant(self, message: JsonObject) -> None:
        if not self.draft.in_turn:
            trigger = TurnTrigger("message" if self._prompt else "continuation", self._prompt)
            self.draft.begin_turn(trigger, self._time, self.line)
        self.draft.begin_step(self._time, self.line)
        self._header()
        self._answered, self._prompt = True, None
        calls = [*self._calls(message)]
        stop = "tool-calls" if calls else "stop"
        said = (*_said(message), *calls)
        self.draft.message(said, self._time, self.line, stop_reason=stop)
        for call in calls:
            self.draft.call(call.id, call.name, call.arguments, self._time, self.line)

    def _header(self) -> None:
        """Log what the first request said besides its messages, where the list tells."""
        system = "\n\n".join(filter(None, self._system)) or None
        if not self._answered and (system or self._model):
            place = RequestHeader(self.draft.turn, self.draft.step, self._model, system)
            self.draft.add("request/header", place, self._time, self.line)

    def _calls(self, message: JsonObject) -> Iterator[ToolCallBlock]:
        """The calls that a message asks for, each with an id that no other one of the session has.

        Which ids a tool message may mean from now on is kept in ``_open``.
        """
        self._open = {}
        for call in _asked(message):
            made = as_object(call.get("function"))
            given, name = as_text(call.get("id")), as_text(made.get("name"))
            own = self._own_id(given or "call")
            self._open.setdefault(given, deque()).append(own)
            arguments = as_text(made.get("arguments"))
            yield ToolCallBlock(own, name or "unnamed", arguments)

    def _own_id(self, given: str) -> str:
        name = _NOT_OF_ID.sub("_", given)
        numbered = (f"{name}_{number}" for number in count(2))
        own = next(one for one in chain([name], numbered) if one not in self._ids)
        self._ids.add(own)
        return own

    def _tool(self, message: JsonObject) -> None:
        waiting = self._open.get(as_text(message.get("tool_call_id")))
        if not waiting:
            self._report.note(self.line, "answers no open call; it is an event of its own")
            self.draft.foreign("tool", message, self._time, self.line)
            return
        content = _content(message.get("content")) or (TextBlock("(no output)"),)
        is_error = self._failed(_text(message.get("content")))
        outcome = "error" if is_error else "ok"
        self.draft.result(waiting.popleft(), content, is_error, outcome, self._time, self.line)

    def _end_turn(self) -> None:
        """Close the turn: it is complete where its last step asked for nothing."""
        if self.draft.in_turn:
            reason = _CUT if self._open else _COMPLETED
            self.draft.end_turn(reason, self._time, self.line)
        self._open = {}


def _never(text: str) -> bool:
    return False


def _asked(message: JsonObject) -> list[JsonObject]:
    """The calls of a message; ``function_call`` is how the API's first form said one."""
    calls = [as_object(call) for call in as_list(message.get("tool_calls"))]
    single = as_object(message.get("function_call"))
    return [*calls, {"function": single}] if single else calls


def _said(message: JsonObject) -> Iterator[Block]:
    """Thinking, text and refusal of an answer."""
    thought = as_text(message.get("reasoning_content"))
    if thought.strip():
        yield ReasoningBlock(thought)
    yield from _content(message.get("content"))
    refusal = as_text(message.get("refusal"))
    if refusal.strip():
        yield TextBlock(refusal)


def _content(value: object) -> tuple[UserContent, ...]:
    """Text or parts as blocks, without those that are blank."""
    parts = [value] if isinstance(value, str) else as_list(value)
    return tuple(block for part in parts if (block := _block(part)) is not None)


def _block(part: object) -> UserContent | None:
    if isinstance(part, dict) and part.get("type") == "image_url":
        url = as_text(as_object(part.get("image_url")).get("url"))
        return ImageBlock(url) if url else None
    text = _part_text(part)
    return TextBlock(text) if text.strip() else None


def _part_text(part: object) -> str:
    """The text of a part; one that has none is told as JSON."""
    if isinstance(part, str):
        return part
    fields = as_object(part)
    known = fields.get("text", fields.get("refusal"))
    return known if isinstance(known, str) else json_text(part)


def _text(value: object) -> str:
    """Text or parts as one text."""
    blocks = _content(value)
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
