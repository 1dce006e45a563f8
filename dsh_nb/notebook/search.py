"""The places in sessions where a text occurs.

Reads: messages, session, tables.frame. Feeds: notebook.saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dsh_nb.messages import Retry
from dsh_nb.session.events import AssistantChunk, AssistantMessage, SessionEvent, StepStart
from dsh_nb.session.packing import Delta, delta_text
from dsh_nb.session.session import Session
from dsh_nb.tables.frame import TurnOf, column_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PLACE_COLUMNS", "may_hold", "places"]

PLACE_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "seq": "Int64",
    "turn": "Int64",
    "type": "text",
    "text": "text",
}
"""The columns, in order, each with what it holds."""

_AROUND = 60
_NO_TEXT = frozenset(
    "block_type id kind mime_type outcome redacted role signature stop_reason call_id"
    " message_id tool_call_id".split()
)


def places(sessions: Iterable[Session], text: str) -> pd.DataFrame:
    """One row per session event that says `text`, in log order; capitals do not matter.

    A streamed text is found in its message; in the chunks only where the message is missing.

    Args:
        sessions: The sessions, in the order in which their rows come.
        text: What is looked for, literally.

    Returns:
        A frame of shape ``(n_places, 5)``; with no places it has the same columns and dtypes:

        =======  ======  =============================================
        column   dtype   meaning
        =======  ======  =============================================
        session  string  id of the session
        seq      Int64   position in its log
        turn     Int64   its turn; <NA> outside one
        type     string  of the event
        text     string  where it is first said, and what is around it
        =======  ======  =============================================

    Raises:
        ValueError: The text is blank.
    """
    import pandas as pd

    pattern = _pattern(text)
    rows = [(one.id, *place) for one in sessions for place in _Places(pattern).of(one)]
    columns = zip(*rows, strict=True) if rows else [()] * len(PLACE_COLUMNS)
    return pd.DataFrame(
        {
            name: column_of([*values], holds)
            for (name, holds), values in zip(PLACE_COLUMNS.items(), columns, strict=True)
        }
    )


def may_hold(lines: Iterable[bytes], text: str) -> bool:
    """Whether a session file may say `text`, told without reading what its lines mean.

    A text may stand in pieces in the lines of chunks; its message has it whole.

    Raises:
        ValueError: The text is blank.
    """
    inside = _pattern(msgspec.json.encode(text).decode()[1:-1])
    last = b""
    for last in lines:
        if inside.search(last.decode("utf-8", "replace")):
            return True
    return b'"turn/end"' not in last  # the message of what was streamed last may be missing


class _Place(NamedTuple):
    seq: int
    turn: int | None
    type: str
    text: str


class _Places:
    """Looks for one pattern in one log."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._streamed: dict[int, list[SessionEvent]] = {}

    def of(self, session: Session) -> Iterator[_Place]:
        turns = TurnOf([])
        turn: int | None = None
        for event in session:
            data = event.data
            if type(data) is AssistantChunk:
                self._stream(event)
                continue
            if isinstance(data, StepStart):
                yield from self._left(turn)
            elif isinstance(data, AssistantMessage):
                self._streamed.clear()
            turn = turns.feed(event)
            excerpt = self._excerpt(_texts(data))
            if excerpt is not None:
                yield _Place(event.seq, turn, event.type, excerpt)
        yield from self._left(turn)

    def _stream(self, event: SessionEvent) -> None:
        chunk = event.data.chunk
        if isinstance(chunk, Delta):
            self._streamed.setdefault(chunk.index, []).append(event)
        elif isinstance(chunk, Retry):
            self._streamed.clear()

    def _left(self, turn: int | None) -> Iterator[_Place]:
        """Places in what was streamed and has no message."""
        for events in self._streamed.values():
            texts = [delta_text(event.data.chunk) for event in events]
            joined = "".join(texts)
            found = self._pattern.search(joined)
            if found is not None:
                ends = accumulate(map(len, texts))
                event = next(
                    one for one, end in zip(events, ends, strict=True) if end > found.start()
                )
                yield _Place(event.seq, turn, event.type, _around(joined, found))
        self._streamed.clear()

    def _excerpt(self, texts: Iterable[str]) -> str | None:
        for text in texts:
            found = self._pattern.search(text)
            if found is not None:
                return _around(text, found)
        return None


def _pattern(text: str) -> re.Pattern[str]:
    if not text.strip():
        raise ValueError(f"the text to search for is {text!r}; pass words")
    return re.compile(re.escape(text), re.IGNORECASE)


def _texts(value: Any) -> Iterator[str]:  # Any: structs and JSON
    """What somebody said in `value`; no words of the log, no ids, no pictures."""
    if isinstance(value, str):
        if not value.startswith("data:"):
            yield value
        return
    for part in _parts(value):
        yield from _texts(part)


def _parts(value: Any) -> Iterator[Any]:  # Any: as above
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name not in _NO_TEXT)
        yield from (getattr(value, name) for name in names)
    elif isinstance(value, dict):
        yield from (item for name, item in value.items() if not name.startswith("image/"))
    elif isinstance(value, (list, tuple)):
        yield from value


def _around(text: str, found: re.Match[str]) -> str:
    """What was found with some of what is around it, on one line."""
    begin, end = max(0, found.start() - _AROUND), found.end() + _AROUND
    said = " ".join(text[begin:end].split())
    return f"{'…' if begin else ''}{said}{'…' if end < len(text) else ''}"
