"""What an agent, a saved session and an imported log have in common: their tables.

Reads: session.session, tables. Feeds: tables.columns, tables.spans, notebook.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING

from dsh_nb.session.session import Session
from dsh_nb.tables.chunks import chunks
from dsh_nb.tables.events import events
from dsh_nb.tables.messages import messages
from dsh_nb.tables.steps import steps
from dsh_nb.tables.tool_calls import tool_calls
from dsh_nb.tables.turns import turns
from dsh_nb.tables.usage import usage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Record", "Recorded", "start_text"]


class Record(ABC):
    """Anything with a session, read as DataFrames; each reading makes a new one."""

    __slots__ = ()

    @property
    @abstractmethod
    def session(self) -> Session:
        """The log: a sequence of events."""

    @property
    def events(self) -> pd.DataFrame:
        """The log as a DataFrame, a row per session event; see `dsh_nb.tables.events`."""
        return events(self.session)

    @property
    def chunks(self) -> pd.DataFrame:
        """A row per streamed chunk; see `dsh_nb.tables.chunks`."""
        return chunks(self.session)

    @property
    def messages(self) -> pd.DataFrame:
        """A row per block of what was said; see `dsh_nb.tables.messages`."""
        return messages(self.session)

    @property
    def turns(self) -> pd.DataFrame:
        """A row per turn; see `dsh_nb.tables.turns`."""
        return turns(self.session)

    @property
    def steps(self) -> pd.DataFrame:
        """A row per model request; see `dsh_nb.tables.steps`."""
        return steps(self.session)

    @property
    def tool_calls(self) -> pd.DataFrame:
        """A row per tool call; see `dsh_nb.tables.tool_calls`."""
        return tool_calls(self.session)

    @property
    def usage(self) -> pd.DataFrame:
        """A row per message that a provider billed; see `dsh_nb.tables.usage`."""
        return usage(self.session)


class Recorded(Record):
    """A session that nothing is appended to any more, with its tables.

    Args:
        session: The session.
    """

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def session(self) -> Session:
        """The log: a sequence of events."""
        return self._session

    def __repr__(self) -> str:
        return f"<Recorded {self.session.id!r} " + ", ".join(self._facts()) + ">"

    def _repr_markdown_(self) -> str:
        id = self.session.id.replace("`", "'").replace("\n", " ")
        return " · ".join([f"**Session** `{id}`", *self._facts()])

    def _repr_html_(self) -> str:
        id = escape(self.session.id)
        return " · ".join([f"<b>Session</b> <code>{id}</code>", *self._facts()])

    def _facts(self) -> list[str]:
        """Turns, events, tokens, cost and start, in words; without what is unknown."""
        session, billed = self.session, self.usage
        said = [_number(session.turn, "turn"), _number(len(session), "event")]
        if len(billed):
            tokens = billed.filter(like="_tokens").sum().sum()
            said.append(_number(int(tokens), "token"))
            if billed["cost"].notna().all():
                said.append(f"{billed['cost'].sum():.4f} US dollars")
        started = start_text(session)
        return [*said, started] if started else said


def start_text(session: Session) -> str:
    """When `session` began; ``""`` for one without times, as some logs of others are."""
    if not len(session) or not session[0].time:
        return ""
    import pandas as pd

    return f"{pd.Timestamp(session[0].time, unit='ms'):%Y-%m-%d %H:%M} UTC"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
