"""What is in a folder of sessions, and what this kernel has live of it; read when it changes.

Reads: errors, messages, session, tables, plugins.persistence, notebook.agent.
Feeds: notebook.saved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from dsh_nb.errors import SessionError
from dsh_nb.messages import text_of
from dsh_nb.notebook.agent import live_agents
from dsh_nb.plugins.persistence import PERSISTENCE, SavedSession
from dsh_nb.plugins.persistence.folder import saved_sessions
from dsh_nb.plugins.persistence.lock import is_locked
from dsh_nb.session.events import RequestHeader, TurnEnd, TurnStart, UsageReport, UserMessage
from dsh_nb.session.files import ReadReport, SessionHeader, header_of, read_lines
from dsh_nb.session.session import Session
from dsh_nb.tables.bill import price_of

__all__ = ["Listing", "Row", "Spent", "Stamp", "stamp_of"]

Stamp = tuple[int, int] | None
"""Size and time of a file; None when it is not there."""

_TYPE_WITHIN = 120  # bytes of a line in which its type stands


class Spent(NamedTuple):
    """What the requests of a session were billed.

    Attributes:
        tokens: Of all kinds; None when nothing was billed.
        cost: US dollars; None when nothing was billed or a price is unknown.
    """

    tokens: int | None = None
    cost: float | None = None


class Row(NamedTuple):
    """A session of the folder.

    Attributes:
        saved: What there is to say of it.
        live: The session itself, where it is live in this kernel.
    """

    saved: SavedSession
    live: Session | None = None


class Listing:
    """The sessions of a folder, the newest first, those included that are live in this kernel.

    Args:
        folder: Where they are, absolute.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: tuple[object, list[SavedSession]] | None = None
        self._spent: dict[Path, tuple[Stamp, Spent]] = {}

    def rows(self) -> list[Row]:
        """One row per session; of a live one what has happened so far."""
        files = self._files()
        live = self._live(files)
        rows = [Row(_described(id, self.folder, session), session) for id, session in live.items()]
        rows += [Row(one) for one in files if one.id not in live]
        return sorted(rows, key=lambda row: row.saved.updated, reverse=True)

    def spent(self, row: Row) -> Spent:
        """Tokens and cost of a session; of the lines of a file only those that bill are read."""
        saved = row.saved
        if row.live is not None:
            return _spent(event.data for event in row.live)
        stamp = stamp_of(saved.path)
        known = self._spent.get(saved.path)
        if known is None or known[0] != stamp:
            known = self._spent[saved.path] = (stamp, _spent_in(saved.path))
        return known[1]

    def _live(self, files: list[SavedSession]) -> dict[str, Session]:
        """The sessions that this kernel saves here, by the id of their files."""
        live: dict[str, Session] = {}
        for agent in live_agents().values():
            if not agent.ctx.provides(PERSISTENCE.name):
                continue
            session, saver = agent.session, agent.ctx.get(PERSISTENCE)
            path = saver.path_of(session)
            if saver.folder == self.folder and (path is not None or len(session)):
                id = next((one.id for one in files if one.path == path), session.id)
                live[id] = session
        return live

    def _files(self) -> list[SavedSession]:
        stamp = _stamps(self.folder)
        if self._read is None or self._read[0] != stamp:
            self._read = (stamp, saved_sessions(self.folder))
        return [_settled(one) for one in self._read[1]]


def stamp_of(path: Path) -> Stamp:
    """What changes when a file does."""
    try:
        said = path.stat()
    except OSError:
        return None
    return said.st_size, said.st_mtime_ns


def _stamps(folder: Path) -> object:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ()
    return tuple((name, stamp_of(folder / name)) for name in names)


def _settled(saved: SavedSession) -> SavedSession:
    """`saved` as it is now: a kernel may die, or go on, and the file stays the same."""
    if saved.status not in ("running", "interrupted"):
        return saved
    return replace(saved, status="running" if is_locked(saved.path) else "interrupted")


def _described(id: str, folder: Path, session: Session) -> SavedSession:
    """The row of a live session."""
    header = header_of(session)
    data = [event.data for event in session]
    models = (one.model for one in reversed(data) if isinstance(one, RequestHeader))
    first = (text_of(one.content) for one in data if isinstance(one, UserMessage))
    return SavedSession(
        id,
        folder / id,
        header.title or " ".join(next(first, "").split()),
        header.created,
        session[-1].time if len(session) else 0,
        next(models, header.model),
        len(session),
        session.turn,
        _status(data),
    )


def _status(data: list[object]) -> str:
    for one in reversed(data):
        if isinstance(one, TurnEnd):
            return one.reason.kind
        if isinstance(one, TurnStart):
            return "running"
    return "new"


def _spent_in(path: Path) -> Spent:
    try:
        with path.open("rb") as file:
            bills = (line for line in file if _bills(line[:_TYPE_WITHIN]))
            said = read_lines(bills, ReadReport())
            return _spent(one.data for one in said if not isinstance(one, SessionHeader))
    except (OSError, SessionError):
        return Spent()


def _bills(begin: bytes) -> bool:
    return b'"usage"' in begin or b'"request/header"' in begin


def _spent(data: Iterable[object]) -> Spent:
    tokens: int | None = None
    prices: list[float | None] = []
    requested: str | None = None
    for one in data:
        if isinstance(one, RequestHeader):
            requested = one.model
        elif isinstance(one, UsageReport):
            tokens = (tokens or 0) + sum(msgspec.structs.astuple(one.usage))
            prices.append(price_of(one, requested))
    known = [price for price in prices if price is not None]
    return Spent(tokens, sum(known) if known and len(known) == len(prices) else None)
