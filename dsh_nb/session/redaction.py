"""Redaction: a log in which what must not be shared is replaced, such that it stays a log.

Reads: messages, session.events, session.masking, session.packing, session.session.
Feeds: notebook.export.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec

from dsh_nb.messages import (
    BlockStart,
    JsonObject,
    ReasoningBlock,
    Retry,
    ToolCallDelta,
    clean_text,
)
from dsh_nb.session.events import EVENT_TYPES, AssistantChunk, SessionEvent
from dsh_nb.session.masking import Masks, current_masks
from dsh_nb.session.packing import Delta, delta_text
from dsh_nb.session.session import Session

__all__ = ["MARK", "Redact", "Redaction", "redaction_of"]

MARK = "[redacted]"
"""Stands for what was found."""

Redact = str | re.Pattern[str] | Callable[[str], str]
"""What to replace: a text, what a pattern matches, or whatever a function changes."""

_WORD_FIELDS = frozenset(
    "block_type blockType decision format kind mime_type mimeType outcome role state status"
    " stop_reason stopReason type".split()
)
_WORDS = frozenset(
    "aborted agent approved assistant completed continuation denied disposed error image"
    " image/gif image/jpeg image/png image/webp interrupted max-tokens message ok opaque"
    " pause-turn plugin reasoning refusal stop text tool-call tool-calls tool-result user"
    " array boolean integer null number object string".split()
) | {"not started"}
"""The vocabulary of the log and of JSON schemas, which says nothing of anybody."""

_ID_FIELDS = frozenset(
    "call_id callId id message_id messageId session tool_call_id toolCallId".split()
)
_PICTURE = re.compile(
    r"(?:data:image/[a-z]+;base64,)?(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/\n]{64,}=*\s*"
)


def redaction_of(redact: Redact | Iterable[Redact] | bool | None) -> Redaction | None:
    """The redaction that a person asked for.

    Args:
        redact: What to replace besides secrets; True for secrets alone; None or False for a log
            as it is.

    Raises:
        TypeError: It is none of these.
        ValueError: A text is empty.
    """
    if redact is None or redact is False:
        return None
    if redact is True:
        return Redaction()
    if isinstance(redact, (str, re.Pattern)) or callable(redact):
        return Redaction(redact)
    if isinstance(redact, Iterable):
        return Redaction(*redact)
    raise TypeError(f"redact is {redact!r}; {_WHAT_IT_TAKES}")


class Redaction:
    """Replaces secrets, and what else must not be shared, wherever a log says it.

    Secrets are those that `current_masks` knows: keys of the environment, keys that agents were
    given, and texts in the form of a key. What is streamed is looked at whole, and cut again into
    as many chunks. Arguments of a call stay JSON. Ids that are replaced still tell apart. The
    words of the log itself stay (``completed``, ``tool-calls``), as do pictures: what one shows
    is not read. Thinking that was changed loses the provider's seal.

    Args:
        rules: Further texts, patterns and functions. A function gets a whole text and gives
            what stands in its place; it is asked once for each text.
        masks: What finds secrets.

    Raises:
        TypeError: A rule is of another kind.
        ValueError: A text is empty.
    """

    def __init__(self, *rules: Redact, masks: Masks | None = None) -> None:
        self._masks = current_masks() if masks is None else masks
        self._functions: list[Callable[[str], str]] = []
        self._patterns: list[re.Pattern[str]] = []
        texts: set[str] = set()
        for rule in rules:
            if isinstance(rule, str):
                texts |= _forms(rule)
            elif isinstance(rule, re.Pattern) and isinstance(rule.pattern, str):
                self._patterns.append(rule)
            elif callable(rule):
                self._functions.append(rule)
            else:
                raise TypeError(f"redact has {rule!r}; {_WHAT_IT_TAKES}")
        self._texts = sorted(texts, key=len, reverse=True)
        ahead = "|".join(map(re.escape, self._texts))  # finds those that overlap, too
        self._literal = re.compile(f"(?=({ahead}))")
        self._told: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._taken: set[str] = set()

    def session(self, session: Session) -> Session:
        """A copy of `session` without what must not be shared; the times are the same."""
        events = [*session]
        header: JsonObject = self.value(session.header)
        return Session(self._id(session.id), self.events(events), header=header)

    def events(self, events: Sequence[SessionEvent]) -> Iterator[SessionEvent]:
        """The events of a log, or of its beginning, without what must not be shared."""
        streamed = self._streamed(events)
        for position, event in enumerate(events):
            data = event.data
            if isinstance(data, AssistantChunk) and isinstance(data.chunk, Delta):
                chunk = self._delta(data.chunk, streamed.get(position))
                if chunk is not data.chunk:
                    data = msgspec.structs.replace(data, chunk=chunk)
            else:
                data = self.value(data)
            type = event.type if event.type in EVENT_TYPES else self.mask(event.type)
            unchanged = data is event.data and type == event.type
            yield event if unchanged else SessionEvent(event.seq, event.time, type, data)

    def text(self, text: str) -> str:
        """`text` after all rules; a text of which nothing is left is the marker."""
        if not text or _PICTURE.fullmatch(text):
            return text
        return self.mask(self._tell(text) if self._functions else text)

    def mask(self, text: str, *, patterns: bool = True) -> str:
        """`text` without the secrets and the texts, and without what the `patterns` match."""
        found = [*self._masks.spans(text)]
        if any(one in text for one in self._texts):
            found += [(*match.span(1), MARK) for match in self._literal.finditer(text)]
        for pattern in self._patterns if patterns else ():
            found += [(*match.span(), MARK) for match in pattern.finditer(text)]
        return "".join(_with_markers(text, found)) if found else text

    def arguments(self, text: str) -> str:
        """The arguments of a call, which are JSON as a text, after all rules; numbers too."""
        try:
            value = json.loads(text)
            redacted = self._json(value)
        except (ValueError, RecursionError):  # a call that was cut, or that is no JSON
            return self.text(text)
        if redacted != value:
            text = json.dumps(redacted, ensure_ascii=False)
        return self.mask(text)

    def value(self, value: Any, field: str = "") -> Any:  # Any: structs and JSON, the same back
        """`value`, a struct or JSON, with all its texts after all rules.

        Args:
            value: The value; itself comes back where nothing is to be replaced in a struct.
            field: Its name, which tells words and ids from texts.
        """
        if isinstance(value, str):
            return self._said(value, field)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, dict):
            return {self.mask(key): self._item(item, key) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._item(item) for item in value)
        return value

    def _item(self, value: Any, field: str = "") -> Any:  # Any: JSON, the same back or a text
        """What stands inside of JSON, where a number may be a text that must not be said."""
        return (
            self._number(value, patterns=False) if _is_number(value) else self.value(value, field)
        )

    def _number(self, value: float, *, patterns: bool) -> float | str:
        said = json.dumps(value)
        masked = self.mask(said, patterns=patterns)
        return value if masked == said else masked

    def _said(self, text: str, field: str) -> str:
        if field in _WORD_FIELDS and text in _WORDS:
            return text
        if field in _ID_FIELDS:
            return self._id(text)
        return self.arguments(text) if field == "arguments" else self.text(text)

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        redacted = {name: self.value(old, name) for name, old in fields.items()}
        if redacted == fields:
            return value
        if isinstance(value, ReasoningBlock) and redacted["text"] != value.text:
            redacted["signature"] = None  # it seals another text, and may tell this one
        return msgspec.structs.replace(value, **redacted)

    def _json(self, value: Any) -> Any:  # Any: JSON, the same comes back
        """Plain JSON in which numbers are looked at, too."""
        if isinstance(value, dict):
            return {self.mask(key): self._json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._json(item) for item in value]
        if _is_number(value):
            return self._number(value, patterns=True)
        return self.text(value) if isinstance(value, str) else value

    def _id(self, id: str) -> str:
        """What stands for an id: the same one each time, and another one for another id."""
        if id not in self._ids:
            redacted, number = self.text(id), 1
            stand_in = redacted
            while id and stand_in in self._taken:
                number += 1
                stand_in = f"{redacted}~{number}"
            self._taken.add(stand_in)
            self._ids[id] = stand_in
        return self._ids[id]

    def _tell(self, text: str) -> str:
        """What the functions make of a text; places that say the same must go on to do so."""
        if text not in self._told:
            told = text
            for function in self._functions:
                told = _asked(function, told)
            self._told[text] = told
        return self._told[text]

    def _delta(self, chunk: Delta, text: str | None) -> Delta:
        """A chunk with another text, where it has got one."""
        if isinstance(chunk, ToolCallDelta):
            id, name = self._id(chunk.id), self.value(chunk.name)
            said = chunk.arguments_delta if text is None else text
            changed = (id, said, name) != (chunk.id, chunk.arguments_delta, chunk.name)
            return ToolCallDelta(chunk.index, id, said, name) if changed else chunk
        return chunk if text is None else msgspec.structs.replace(chunk, text=text)

    def _streamed(self, events: Sequence[SessionEvent]) -> dict[int, str]:
        """The new texts of the chunks that get one, by position: each block is read whole."""
        texts: dict[int, str] = {}
        for is_call, positions in _blocks(events):
            pieces = [delta_text(events[one].data.chunk) for one in positions]
            joined = "".join(pieces)
            redacted = self.arguments(joined) if is_call else self.text(joined)
            if redacted != joined:
                texts.update(zip(positions, _cut_again(joined, redacted, pieces), strict=True))
        return texts


_Block = tuple[int, int, int, int]
_WHAT_IT_TAKES = "pass texts, compiled patterns of text, or functions from text to text"


def _forms(text: str) -> set[str]:
    """A text as it stands alone, and inside of JSON."""
    if not text:
        raise ValueError("redact has an empty text; pass what is to be replaced")
    return {text, msgspec.json.encode(text).decode()[1:-1], json.dumps(text)[1:-1]}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _asked(function: Callable[[str], str], text: str) -> str:
    said = function(text)
    if not isinstance(said, str):
        raise TypeError(f"the redact function gave {said!r}; it has to return text")
    return clean_text(said) or MARK


def _with_markers(text: str, found: Iterable[tuple[int, int, str]]) -> Iterator[str]:
    """`text` with a marker for each find; those that overlap have one together."""
    at, last = 0, 0
    for begin, end, marker in sorted(found):
        if begin == end:  # a pattern that matches nothing, too
            continue
        if begin >= last:
            yield text[at:begin]
            yield marker
        at = last = max(last, end)
    yield text[at:]


def _blocks(events: Sequence[SessionEvent]) -> Iterator[tuple[bool, list[int]]]:
    """Where the deltas of each block are, and whether it is a call."""
    blocks: dict[_Block, list[int]] = {}
    kinds: dict[_Block, bool] = {}
    attempt = 0
    for position, event in enumerate(events):
        data = event.data
        if not isinstance(data, AssistantChunk):
            continue
        chunk = data.chunk
        if isinstance(chunk, Delta):
            block = (data.turn, data.step, attempt, chunk.index)
            kinds.setdefault(block, isinstance(chunk, ToolCallDelta))
            blocks.setdefault(block, []).append(position)
        elif isinstance(chunk, BlockStart):
            block = (data.turn, data.step, attempt, chunk.index)
            kinds.setdefault(block, chunk.block_type == "tool-call")
        elif isinstance(chunk, Retry):
            attempt += 1
    return ((kinds[block], positions) for block, positions in blocks.items())


def _cut_again(old: str, new: str, pieces: Sequence[str]) -> Iterator[str]:
    """`new` in as many pieces as `old` was: the same where both are the same at either end."""
    before = _same(old, new)
    after = _same(old[before:][::-1], new[before:][::-1])
    room, width = len(new) - before - after, len(old) - before - after

    def moved(cut: int) -> int:
        if cut <= before:
            return cut
        if cut >= len(old) - after:
            return cut + len(new) - len(old)
        return before + (cut - before) * room // width

    cuts = accumulate(map(len, pieces), initial=0)
    return (new[begin:end] for begin, end in pairwise(map(moved, cuts)))


def _same(one: str, other: str) -> int:
    """How many characters are the same at the beginning of both."""
    for length, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return length
    return min(len(one), len(other))
