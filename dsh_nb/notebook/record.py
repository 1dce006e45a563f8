"""What can be looked at of any session in a notebook: tables, the timeline, the transcript.

Reads: session, tables, notebook.export, notebook.static, notebook.timeline, notebook.wording,
notebook.live.panel, notebook.live.replay. Feeds: notebook.agent, notebook.load, notebook.saved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_nb.notebook.export import export_session
from dsh_nb.notebook.live.panel import session_parts
from dsh_nb.notebook.live.replay import Replay
from dsh_nb.notebook.parts import Part
from dsh_nb.notebook.static import mimebundle
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.notebook.wording import count
from dsh_nb.session.redaction import Redact
from dsh_nb.session.session import Session
from dsh_nb.tables.record import Record, Recorded

if TYPE_CHECKING:
    from dsh_nb.notebook.timeline import Timeline

__all__ = ["Log", "LogReport", "NotebookRecord", "Transcript"]

_TOLD = 3


class NotebookRecord(Record):
    """Anything with a session, in a notebook."""

    __slots__ = ()

    def timeline(self, turns: int | Sequence[int] | None = None) -> Timeline:
        """Where the time went, drawn; see `dsh_nb.notebook.timeline.timeline`.

        Args:
            turns: Only these turns, by number.
        """
        from dsh_nb.notebook.timeline import timeline

        return timeline(self.session, turns)

    def transcript(self, turn: int | None = None) -> Transcript:
        """What happened, as the cells showed it.

        Args:
            turn: Only this turn, by number.

        Raises:
            ValueError: The session has no such turn.
        """
        return Transcript(self.session, turn)

    def replay(self) -> Replay:
        """What happened, played again in the cell, with a slider, steps and keys.

        It costs nothing: no model is asked and no tool runs. See
        `dsh_nb.notebook.live.replay.Replay`.
        """
        return Replay(self.session)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        redact: Redact | Iterable[Redact] | bool | None = True,
        overwrite: bool = False,
    ) -> Path:
        """Write the session to a file that can be shared; its suffix says as what.

        ``.html`` is a page for any browser that loads nothing, ``.md`` is Markdown, ``.jsonl`` is
        a session file, which `dsh_nb.load` reads, and ``.parquet`` is the table `events`
        (``pip install dsh-nb[parquet]``). What pictures show is not redacted.

        Args:
            path: The file.
            redact: What to replace besides keys and known secrets, in all that was said: a text,
                a compiled pattern, a function from text to text, or several of them. None or
                False leaves everything as it is, secrets too.
            overwrite: Whether a file that is there is replaced.

        Returns:
            The file's path, absolute.

        Raises:
            ValueError: The suffix is none of these.
            FileExistsError: The file is there.
            TypeError: `redact` is something else.
            ImportError: Parquet needs pyarrow, which is not installed.
            OSError: It cannot be written. Whatever is raised, nothing was written.

        Example:
            >>> from dsh_nb.notebook.record import Log
            >>> from dsh_nb.session import Session
            >>> Log(Session("main")).export("main.txt")
            Traceback (most recent call last):
            ValueError: cannot export to '.txt'; name the file .html, .md, .jsonl or .parquet
        """
        return export_session(self.session, path, redact=redact, overwrite=overwrite)


class Transcript:
    """A session or a turn as a person reads it; the last line of a cell shows it."""

    def __init__(self, session: Session, turn: int | None = None) -> None:
        if turn is not None and not 1 <= turn <= session.turn:
            raise ValueError(f"turn is {turn!r}; session {session.id!r} has 1 to {session.turn}")
        self._parts = tuple(session_parts(session) if turn is None else _parts_of(session, turn))

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return mimebundle(self._parts)

    def __repr__(self) -> str:
        return f"<Transcript of {len(self._parts)} parts>"


@dataclass(frozen=True, slots=True)
class LogReport:
    """What became of the lines of a file.

    Attributes:
        path: The file; None for a session that was not read from one.
        format: ``dsh_nb``, ``dsh v4``, ``claude-code`` and so on.
        skipped: How many lines were not understood, and are not among the events.
        problems: Which they are, and why; the first hundred.
        notes: What was mended or is odd in the others.
        foreign: Types of events that only the other tool has, with how often each came.
    """

    path: Path | None = None
    format: str = "dsh_nb"
    skipped: int = 0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    foreign: Mapping[str, int] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """What was not understood, in a few words."""
        return f"{count(self.skipped, 'line')} not understood" if self.skipped else ""

    def __repr__(self) -> str:
        said = [_listed(self.summary or "every line understood", self.problems)]
        if self.notes:
            said.append(_listed(count(len(self.notes), "note"), self.notes))
        if self.foreign:
            events = count(sum(self.foreign.values()), "event")
            said.append(_listed(f"{events} that only its tool knows", [*self.foreign]))
        name = "session" if self.path is None else self.path.name
        return f"{name} ({self.format}): " + "\n  ".join(said)


class Log(Recorded, NotebookRecord):
    """A session that is over, with its tables: a saved one, or one of another tool.

    Args:
        session: The session.
        report: What became of the lines that it was read from.
        others: What the same file holds besides.
    """

    __slots__ = ("_others", "_report")

    def __init__(
        self, session: Session, report: LogReport | None = None, others: Iterable[Log] = ()
    ) -> None:
        super().__init__(session)
        self._report = report or LogReport()
        self._others = tuple(others)

    @property
    def report(self) -> LogReport:
        """What of the file was not understood; says it in words."""
        return self._report

    @property
    def others(self) -> tuple[Log, ...]:
        """Branches of the session and logs of its sub-agents, of which nothing is counted twice."""
        return self._others

    def __repr__(self) -> str:
        return f"<Log {self.session.id!r} " + ", ".join(self._facts()) + ">"

    def _facts(self) -> list[str]:
        others = f"{count(len(self.others), 'more log')} in `.others`" if self.others else ""
        return [*super()._facts(), *filter(None, (others, self.report.summary))]


def _listed(head: str, items: Sequence[str]) -> str:
    """`head` and the first of the items."""
    more = f"; and {len(items) - _TOLD} more" if len(items) > _TOLD else ""
    return f"{head}: {'; '.join(items[:_TOLD])}{more}" if items else head


def _parts_of(session: Session, turn: int) -> tuple[Part, ...]:
    transcript = TurnTranscript(turn)
    for event in session:
        transcript.feed(event)
    return transcript.parts()
