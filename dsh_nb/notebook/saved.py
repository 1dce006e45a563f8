"""The saved sessions: a table that shows itself, and each session by its id.

Reads: errors, session, tables, plugins.persistence, notebook.grid, notebook.listing,
notebook.load, notebook.record, notebook.search. Feeds: the package root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_nb.errors import SessionError
from dsh_nb.notebook.grid import Grid, grid_of
from dsh_nb.notebook.listing import Listing, Row, stamp_of
from dsh_nb.notebook.literal import code_span, line_text
from dsh_nb.notebook.load import load
from dsh_nb.notebook.record import Log
from dsh_nb.notebook.sanitise import escape
from dsh_nb.notebook.search import may_hold, places
from dsh_nb.notebook.wording import count
from dsh_nb.plugins.persistence import SavedSession
from dsh_nb.session.session import Session
from dsh_nb.tables.frame import column_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SAVED_COLUMNS", "STATUSES", "SavedSessions", "sessions"]

SAVED_COLUMNS: Mapping[str, str] = {
    "id": "text",
    "title": "text",
    "started": "time",
    "turns": "Int64",
    "tokens": "Int64",
    "cost": "Float64",
    "model": "text",
}
"""The columns of `SavedSessions.frame`, in order, each with what it holds; ``status`` is last."""

STATUSES = (
    "completed",
    "aborted",
    "error",
    "disposed",
    "running",
    "interrupted",
    "new",
    "unreadable",
)
"""The categories of ``status``."""

_HEADINGS = {
    "id": "id",
    "title": "title",
    "started": "started (UTC)",
    "turns": "turns",
    "tokens": "tokens",
    "cost": "cost",
    "model": "model",
    "status": "status",
}
_MORE = "… and {} in sessions.frame"
# MathJax would read prices in titles as maths.
_FRAME = '<div class="mathjax_ignore tex2jax_ignore">{}</div>'
_SMALL = '<div style="font-size:0.85em;opacity:0.8;padding:0.3em 0">{}</div>'
_SHOWN = 25
_TITLE = 60


class SavedSessions:
    """The sessions that are saved in a folder, the newest first; a cell's last line shows them.

    ``sessions[id]`` is the log of one: with its tables, timeline and transcript. The beginning of
    an id is enough where only one begins so. Of a session that is live in this kernel it is what
    has happened so far, whatever has reached the file. Files are read again only when they have
    changed.

    Args:
        folder: Where they are; relative to the working directory of the moment.
    """

    def __init__(self, folder: str | os.PathLike[str] = ".dsh/sessions") -> None:
        self._folder = Path(folder)
        self._listing = Listing(self.folder)
        self._read: tuple[object, Log] | None = None

    @property
    def folder(self) -> Path:
        """Where they are, absolute."""
        return Path(os.path.abspath(self._folder.expanduser()))

    def at(self, folder: str | os.PathLike[str]) -> SavedSessions:
        """The sessions that are saved in another folder."""
        return SavedSessions(folder)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per saved session, the newest first.

        A frame of shape ``(n_sessions, 8)``; an empty folder gives the same columns and dtypes:

        =======  ==================  ============================================================
        column   dtype               meaning
        =======  ==================  ============================================================
        id       string              what ``sessions[id]`` and ``Agent.resume(id)`` take
        title    string              its title, else how its first message begins; of a file
                                     that cannot be read, why
        started  datetime64[us, UTC] when it was made
        turns    Int64               how many it has
        tokens   Int64               of all its requests; <NA> when none was billed
        cost     Float64             US dollars; <NA> when nothing was billed or a price is unknown
        model    string              the one it asked last
        status   category            how its last turn ended: completed, aborted, error or
                                     disposed; running, or interrupted where its kernel died;
                                     new without a turn; unreadable
        =======  ==================  ============================================================
        """
        import pandas as pd

        here = self._here()
        rows = here.rows()
        saved, spent = [row.saved for row in rows], [here.spent(row) for row in rows]
        columns: dict[str, list[object]] = {
            "id": [one.id for one in saved],
            "title": [one.problem or one.title for one in saved],
            "started": [one.created or None for one in saved],
            "turns": [None if one.status == "unreadable" else one.turns for one in saved],
            "tokens": [one.tokens for one in spent],
            "cost": [one.cost for one in spent],
            "model": [one.model for one in saved],
        }
        frame = pd.DataFrame(
            {name: column_of(columns[name], holds) for name, holds in SAVED_COLUMNS.items()}
        )
        frame["status"] = pd.Categorical([one.status for one in saved], categories=[*STATUSES])
        return frame

    def search(self, text: str) -> pd.DataFrame:
        """The places where `text` is said, the newest session first; capitals do not matter.

        What cannot be read is left out.

        Args:
            text: What is looked for, literally.

        Returns:
            The columns session, seq, turn, type and text: what was found, with what is around it.

        Raises:
            ValueError: The text is blank.
        """
        return places(self._holding(text), text)

    def __getitem__(self, id: str) -> Log:
        """The log of a session.

        Args:
            id: Its id, or the beginning of it.

        Raises:
            SessionError: There is none, several begin so, or it cannot be read.
            OSError: Its file cannot be read.
        """
        rows = {row.saved.id: row for row in self._rows()}
        return self._log(rows[self._whole(id, [*rows])])

    def __contains__(self, id: object) -> bool:
        return id in self._ids()

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids())

    def __len__(self) -> int:
        return len(self._ids())

    def _ipython_key_completions_(self) -> list[str]:
        return self._ids()

    def __repr__(self) -> str:
        return f"<SavedSessions {len(self)} in {str(self.folder)!r}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        frame, where = self.frame, str(self.folder)
        length = len(frame)
        said = f"{count(length, 'saved session') if length else 'No saved session'} in"
        note = _MORE.format(count(length - _SHOWN, "more session")) if length > _SHOWN else ""
        grid = _grid(frame.head(_SHOWN)) if length else None
        plain = [f"{said} {where}", grid.plain() if grid else "", note]
        markdown = [f"{said} {code_span(where)}", grid.markdown() if grid else "", line_text(note)]
        html = [
            _SMALL.format(f"{said} <code>{escape(where)}</code>"),
            f'<div style="overflow-x:auto">{grid.html()}</div>' if grid else "",
            _SMALL.format(note) if note else "",
        ]
        return {
            "text/html": _FRAME.format("".join(html)),
            "text/markdown": "\n\n".join(filter(None, markdown)),
            "text/plain": "\n".join(filter(None, plain)),
        }

    def _rows(self) -> list[Row]:
        return self._here().rows()

    def _ids(self) -> list[str]:
        return [row.saved.id for row in self._rows()]

    def _here(self) -> Listing:
        """The listing of the folder of the moment."""
        if self._listing.folder != self.folder:
            self._listing = Listing(self.folder)
        return self._listing

    def _whole(self, id: str, ids: list[str]) -> str:
        """The one of `ids` that `id` is, or begins."""
        if not isinstance(id, str):
            raise TypeError(f"the session's id is {id!r}; pass text, for example one of the table")
        if id in ids:
            return id
        begun = [one for one in ids if id and one.startswith(id)]
        if len(begun) == 1:
            return begun[0]
        if begun:
            raise SessionError(
                f"{id!r} begins the ids of {len(begun)} sessions; pass more of {_either(begun)}"
            )
        begins = {one[: len(id)]: one for one in ids}
        alike = get_close_matches(id, begins, 3) if id else []
        near = [one for one in ids if id and id in one] or [begins[one] for one in alike]
        hint = f"did you mean {_either(near)}" if near else "dsh_nb.sessions lists them"
        raise SessionError(f"no session {id!r} is saved in {str(self.folder)!r}; {hint}")

    def _log(self, row: Row) -> Log:
        """The log of a row, under the id that the table has for it; the newest one is kept."""
        if row.live is not None:
            return Log(row.live)
        stamp = (row.saved.path, stamp_of(row.saved.path))
        if self._read is None or self._read[0] != stamp:
            log = load(row.saved.path)
            log.session.id = row.saved.id
            self._read = (stamp, log)
        return self._read[1]

    def _holding(self, text: str) -> Iterator[Session]:
        """The sessions that may say `text`."""
        for row in self._rows():
            try:
                if row.live is not None or _may_hold(row.saved, text):
                    yield self._log(row).session
            except (OSError, SessionError):
                continue


def _may_hold(saved: SavedSession, text: str) -> bool:
    if saved.status == "unreadable":
        return False
    with saved.path.open("rb") as lines:
        return may_hold(lines, text)


def _grid(frame: pd.DataFrame) -> Grid:
    return grid_of(frame.assign(title=[_short(title) for title in frame["title"]]), _HEADINGS)


def _short(title: str) -> str:
    return title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"


def _either(ids: Sequence[str]) -> str:
    more = f" or {len(ids) - 5} more" if len(ids) > 5 else ""
    return ", ".join(map(repr, ids[:5])) + more


sessions = SavedSessions()
"""The sessions of ``.dsh/sessions`` below the working directory."""
