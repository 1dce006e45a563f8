"""What all tables share: declared columns, the frame made of them, and the turn an event is of.

Reads: session.events, session.session. Feeds: tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dsh_nb.session.events import SessionEvent
from dsh_nb.session.session import Session

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CATEGORIES",
    "Mostly",
    "TurnOf",
    "column_of",
    "frame_of",
    "many",
    "name_of",
    "seconds_between",
]

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "reason": ("completed", "aborted", "error", "disposed"),
    "role": ("user", "assistant", "tool"),
    "kind": ("text", "thinking", "tool_call", "tool_result", "image", "opaque"),
    "outcome": ("ok", "error", "denied", "interrupted", "not started", "running"),
    "span": ("turn", "step", "first token", "streaming", "retry", "tool", "approval"),
    "chunk": (
        "text-delta",
        "reasoning-delta",
        "tool-call-delta",
        "block-start",
        "block-end",
        "usage",
        "finish",
        "retry",
    ),
}
"""The closed sets; a column that holds one has all of its categories, whatever is in the log."""

_INT64 = range(-(2**63), 2**63)


class Mostly:
    """The values of a column that is `usual` in nearly all of its rows."""

    def __init__(self, usual: object) -> None:
        self._values = [usual]
        self._rows: list[int] = []

    def put(self, row: int, value: object) -> None:
        """Row `row`, counted from 0, has `value` instead."""
        self._rows.append(row)
        self._values.append(value)

    def column(self, holds: str, length: int) -> Any:  # Any: whatever pandas takes as a column
        """All `length` rows."""
        import numpy as np

        places = np.zeros(length, dtype="intp")
        places[self._rows] = np.arange(1, len(self._values))
        return column_of(self._values, holds).take(places)


def frame_of(
    columns: Mapping[str, list[Any] | Mostly],
    declared: Mapping[str, str],
    session: str | None,
) -> pd.DataFrame:
    """The frame, with each column's dtype declared and nothing inferred.

    Args:
        columns: The values of each declared column but ``session``, all of one length; at least
            one is a list.
        declared: The columns in order, each with what it holds: ``text``, ``time`` (Unix
            milliseconds), ``json``, a dtype of pandas, or a set of `CATEGORIES`.
        session: Id of the session, the same in each row.
    """
    import pandas as pd

    length = max(len(values) for values in columns.values() if isinstance(values, list))
    every = {"session": Mostly(session), **columns}
    series = {
        name: values.column(declared[name], length)
        if isinstance(values, Mostly)
        else column_of(values, declared[name])
        for name, values in every.items()
    }
    return pd.DataFrame(series, columns=list(declared), copy=False)


def column_of(values: list[Any], holds: str) -> Any:  # Any: whatever pandas takes as a column
    """`values` as a column that `holds` what `frame_of` lists."""
    import numpy as np
    import pandas as pd

    if holds == "text":
        return pd.array(values, dtype=_text_dtype())
    if holds == "time":
        stamps = np.array(values, dtype="datetime64[ms]").astype("datetime64[us]")
        return pd.DatetimeIndex(stamps).tz_localize("UTC")
    if holds in CATEGORIES:
        return pd.Categorical(values, categories=list(CATEGORIES[holds]))
    if holds == "json":
        from dsh_nb.tables.json_array import JsonArray  # a class of pandas

        return JsonArray.of(values)
    if holds == "Int64":
        return _counts(values)
    made: Any = pd.array  # Any: its overloads want literal names of dtypes
    return made(values, dtype=holds)


def _counts(values: list[Any]) -> Any:  # Any: as above
    """Exact integers; one that 64 bits do not hold is missing rather than wrong."""
    import pandas as pd

    try:
        return pd.array(values, dtype="Int64")
    except (OverflowError, TypeError):
        kept = [value if value is not None and value in _INT64 else None for value in values]
        return pd.array(kept, dtype="Int64")


def _text_dtype() -> Any:  # Any: a dtype or its name
    """Text as pandas stores it by default: ``str`` from 3.0 on, ``string`` before."""
    import pandas as pd

    return "str" if int(pd.__version__.split(".")[0]) >= 3 else "string"


def many(
    table: Callable[[Iterable[SessionEvent]], pd.DataFrame], sessions: Iterable[Session]
) -> pd.DataFrame:
    """One table over several sessions; the column ``session`` tells them apart.

    Args:
        table: Any of the tables of this room, for example `events`.
        sessions: The sessions, in the order in which their rows come.

    Returns:
        The rows of all of them, numbered from 0; no sessions give the same columns and dtypes.

    Example:
        >>> from dsh_nb.session import Session
        >>> from dsh_nb.tables import steps
        >>> many(steps, [Session("a"), Session("b")]).shape
        (0, 15)
    """
    import pandas as pd

    frames = [table(session) for session in sessions]
    return pd.concat(frames, ignore_index=True) if frames else table(())


def name_of(log: Iterable[SessionEvent], session: str | None) -> str | None:
    """The id that the caller gave, else that of `log`, if it has one."""
    return session if session is not None else getattr(log, "id", None)


def seconds_between(start: int | None, end: int | None) -> float | None:
    """Milliseconds as seconds; None when either is missing or the clock was set back between."""
    if start is None or end is None or end < start:
        return None
    return (end - start) / 1000


class TurnOf:
    """Tells the turn of each event: its own, else the open one; of a queued message the coming.

    Args:
        column: The turns of the rows so far. Those of messages that `wait` are put right when
            the turn that takes them starts: a part of a log may begin anywhere.
    """

    def __init__(self, column: list[int | None]) -> None:
        self._column = column
        self._turn: int | None = None
        self._last = 0
        self._waiting: list[int] = []

    def feed(self, event: SessionEvent) -> int | None:
        """The turn of the next event."""
        turn = getattr(event.data, "turn", None)
        if event.type == "turn/start":
            self._turn = self._last = int(turn or 0)
            self._take_waiting()
        elif event.type == "turn/end":
            self._turn = None
        elif event.type == "user/message":
            return self._last + 1
        return turn if isinstance(turn, int) else self._turn

    def wait(self) -> None:
        """The next row of the column waits for a turn to take it."""
        self._waiting.append(len(self._column))

    def _take_waiting(self) -> None:
        for row in self._waiting:
            self._column[row] = self._turn
        self._waiting = []
