"""The folder of saved sessions: what is in it, told from the beginning and the end of each file.

Reads: errors, messages, session, plugins.persistence.names, plugins.persistence.lock.
Feeds: plugins.persistence.service.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsh_nb.errors import SessionError
from dsh_nb.messages import text_of
from dsh_nb.plugins.persistence.lock import is_locked
from dsh_nb.plugins.persistence.names import SUFFIX, file_name
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    RequestHeader,
    SessionEvent,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_nb.session.files import ReadReport, SessionHeader, read_lines

__all__ = ["SavedSession", "find", "saved_sessions"]

_HEAD = 1 << 16
_TAIL = 1 << 14
_LONGEST_TAIL = 1 << 24
_LONGEST_TITLE = 80
_IN_TURN = (
    AssistantChunk,
    AssistantMessage,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnStart,
)


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session in the folder.

    Attributes:
        id: What `load` and `resume` take.
        path: Its file.
        title: Its title, or how its first message begins.
        created: Unix epoch in milliseconds; 0 when the file does not say.
        updated: The time of its last event.
        model: The model it asked last, as far as the ends of the file tell.
        events: How many events it has.
        turns: How many turns it has.
        status: ``completed``, ``aborted``, ``error`` or ``disposed``, as its last turn ended;
            ``running`` in a process that lives; ``interrupted`` in one that died; ``new`` without
            a turn; ``unreadable``.
        size_bytes: Length of the file.
        problem: Why it is unreadable.
    """

    id: str
    path: Path
    title: str = ""
    created: int = 0
    updated: int = 0
    model: str | None = None
    events: int = 0
    turns: int = 0
    status: str = "new"
    size_bytes: int = 0
    problem: str | None = None


def saved_sessions(folder: Path) -> list[SavedSession]:
    """The sessions of `folder`, the newest first; none when it is not there."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = [folder / one for one in names if one.endswith(SUFFIX) and not one.startswith(".")]
    return sorted(map(_saved, paths), key=lambda one: one.updated, reverse=True)


def find(folder: Path, id: str) -> Path:
    """The file of the session `id`.

    Raises:
        SessionError: There is none.
    """
    path = folder / file_name(id)
    if path.is_file():
        return path
    renamed = f"{id}{SUFFIX}"  # by a person; looked up in the listing, for an id is no path
    if folder.is_dir() and renamed in os.listdir(folder):
        return folder / renamed
    raise SessionError(
        f"no session {id!r} in {str(folder)!r}; see the ids that saved() lists, or pass the folder"
    )


def _saved(path: Path) -> SavedSession:
    try:
        size = path.stat().st_size
        head, tail = _ends(path, size)
    except (OSError, SessionError) as error:
        return SavedSession(path.stem, path, status="unreadable", problem=str(error))
    if size and not head and not tail:
        problem = "no line of it is of a session"
        return SavedSession(path.stem, path, size_bytes=size, status="unreadable", problem=problem)
    return _described(path, size, head, tail)


def _ends(path: Path, size: int) -> tuple[list[_Said], list[_Said]]:
    """What the beginning of a file says, and its end: as much of it as says how its turns are."""
    head = _read(path, 0, _HEAD)
    if size <= _HEAD:
        return head, head
    length = _TAIL
    while True:
        tail = _read(path, size - length, length)
        if _state(tail) is not None or length >= min(size, _LONGEST_TAIL):
            return head, tail
        length = min(length * 16, size)


def _read(path: Path, start: int, length: int) -> list[_Said]:
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read(length).splitlines(keepends=True)
    return [*read_lines(lines[1:] if start else lines, ReadReport())]


def _described(path: Path, size: int, head: Sequence[_Said], tail: Sequence[_Said]) -> SavedSession:
    headers = [one for one in (*head, *tail) if isinstance(one, SessionHeader)]
    events = [one for one in (*head, *tail) if isinstance(one, SessionEvent)]
    header = headers[-1] if headers else None
    turn, status = _state(tail) or _state(head) or (0, "new")
    if status == "open":
        status = "running" if is_locked(path) else "interrupted"
    named = header is not None and file_name(header.id) == path.name
    return SavedSession(
        header.id if header is not None and named else path.stem,
        path,
        (header.title if header else None) or _title(events),
        header.created if header else 0,
        max((event.time for event in events[-1:]), default=header.created if header else 0),
        _model(events) or (header.model if header else None),
        events[-1].seq + 1 if events else 0,
        turn,
        status,
        size,
    )


_Said = SessionHeader | SessionEvent


def _state(said: Sequence[_Said]) -> tuple[int, str] | None:
    """The newest turn and how it is; None when nothing is said of a turn."""
    for one in reversed(said):
        data = getattr(one, "data", None)
        if isinstance(data, TurnEnd):
            return data.turn, data.reason.kind
        if isinstance(data, _IN_TURN):
            return data.turn, "open"
    return None


def _title(events: Iterable[SessionEvent]) -> str:
    for event in events:
        if isinstance(event.data, UserMessage):
            words = text_of(event.data.content).split()
            title = " ".join(words)
            return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"
    return ""


def _model(events: Sequence[SessionEvent]) -> str | None:
    headers = (event.data for event in reversed(events) if isinstance(event.data, RequestHeader))
    return next((header.model for header in headers), None)
