"""What can be looked at of any session in a notebook: tables, the timeline, the transcript.

Reads: session, tables, notebook.static, notebook.timeline, notebook.live.panel. Feeds:
notebook.agent, notebook.saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_nb.notebook.live.panel import session_parts
from dsh_nb.notebook.parts import Part
from dsh_nb.notebook.static import mimebundle
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.session.session import Session
from dsh_nb.tables.record import Record, Recorded

if TYPE_CHECKING:
    from dsh_nb.notebook.timeline import Timeline

__all__ = ["Log", "NotebookRecord", "Transcript"]


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


class Log(Recorded, NotebookRecord):
    """A session that is over, with its tables: a saved one, or one of another tool.

    Args:
        session: The session.
    """

    __slots__ = ()


def _parts_of(session: Session, turn: int) -> tuple[Part, ...]:
    transcript = TurnTranscript(turn)
    for event in session:
        transcript.feed(event)
    return transcript.parts()
