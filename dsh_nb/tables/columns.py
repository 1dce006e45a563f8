"""Columns of one's own: a table, and what a function says of each of its rows.

Reads: messages, session.events, tables.frame, tables.record. Feeds: notebook.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dsh_nb.messages import lossless
from dsh_nb.session.events import SessionEvent
from dsh_nb.tables.frame import column_of
from dsh_nb.tables.record import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "ExtendedTable", "Table", "extend"]

_HOLDS: Mapping[str, str] = {
    "string": "text",
    "Int64": "Int64",
    "Float64": "Float64",
    "boolean": "boolean",
    "time": "time",
    "json": "json",
}


class Table(Protocol):
    """Any of the tables of this room, for example `steps`."""

    def __call__(self, log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
        """The frame of a log."""


class ExtendedTable(Protocol):
    """A table with columns of one's own; it reads agents and saved sessions too."""

    def __call__(
        self, log: Record | Iterable[SessionEvent], session: str | None = None
    ) -> pd.DataFrame:
        """The frame of a log."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column more.

    Attributes:
        name: Its name, one that Python takes for a variable.
        of: Gives its value in a row, which has the row's columns as attributes (``row.seconds``),
            <NA> where the table has no value. It says None or <NA> where there is none; a
            Timestamp is a ``time``.
        dtype: What it holds, in an empty log too: ``string``, ``Int64``, ``Float64``,
            ``boolean``, ``time`` (Unix milliseconds) or ``json``.

    Raises:
        ValueError: The name or the dtype is none of these.
    """

    name: str
    of: Callable[[Any], object]  # Any: a row has the attributes of its table
    dtype: str = "string"

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise ValueError(
                f"column name {self.name!r} is not one for a row's attribute; "
                "pass letters, digits and underscores, a letter first"
            )
        if self.dtype not in _HOLDS:
            known = ", ".join(_HOLDS)
            raise ValueError(f"column {self.name!r} has dtype {self.dtype!r}; pass one of {known}")


def extend(table: Table, *columns: Column) -> ExtendedTable:
    """`table` with columns of one's own, as a table: of any log, and in `many`.

    A row in which a function fails, or says what its dtype cannot hold, has a missing value; one
    warning a column tells how many there were, and what went wrong in the first.

    Args:
        table: Any table; also one that was extended before.
        columns: What is added, in this order; a function sees the columns before its own.

    Raises:
        ValueError: When the table is read: it has a column of that name already.

    Example:
        >>> from dsh_nb.session import Session
        >>> from dsh_nb.tables import Column, extend, many, steps
        >>> slow = Column("slow", lambda step: step.seconds > 10, "boolean")
        >>> slow_steps = extend(steps, slow)
        >>> many(slow_steps, [Session("a"), Session("b")]).dtypes["slow"]
        BooleanDtype
    """

    def extended(log: Record | Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
        frame = table(log.session if isinstance(log, Record) else log, session)
        for column in columns:
            if column.name in frame:
                raise ValueError(f"the table has a column {column.name!r}; pass another name")
            frame[column.name] = _filled(column, frame)
        return frame

    return extended


def _filled(column: Column, frame: pd.DataFrame) -> Any:  # Any: whatever pandas takes as a column
    """The column's values; what fails is missing, and warned of once."""
    failed: list[tuple[int, Exception]] = []
    values: list[object] = []
    for number, row in enumerate(_rows(frame)):
        try:
            values.append(_fit(column, column.of(row)))
        except Exception as error:  # a person's function; told below
            values.append(None)
            failed.append((number, error))
    if failed:
        number, first = failed[0]
        warnings.warn(
            f"column {column.name!r} is missing in {len(failed)} of {len(values)} rows, first in "
            f"row {number}: {type(first).__name__}: {first}",
            stacklevel=3,
        )
    return column_of(values, _HOLDS[column.dtype])


def _rows(frame: pd.DataFrame) -> Iterator[Any]:  # Any: a class made here
    """The rows, with values of Python and <NA> for whatever is missing."""
    import pandas as pd

    columns = [
        [pd.NA if missing else value for value, missing in zip(values, gaps, strict=True)]
        for values, gaps in ((frame[name].tolist(), frame[name].isna()) for name in frame)
    ]
    row = namedtuple("Row", map(str, frame))  # type: ignore[misc]  # its fields are the table's
    return map(row._make, zip(*columns, strict=True))


def _fit(column: Column, value: object) -> object:
    """`value` as the column takes it, None when it is missing.

    Raises:
        TypeError: It is not of the column's dtype.
    """
    import numpy as np
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if column.dtype == "json":
        return lossless(msgspec.to_builtins(value))
    if column.dtype == "time" and isinstance(value, pd.Timestamp):
        return value.value // 1_000_000
    kind, right = _KIND_OF[column.dtype], isinstance(value, (bool, np.bool_))
    if right != (column.dtype == "boolean") or not (right or isinstance(value, kind)):
        raise TypeError(f"{value!r} is not {column.dtype}")
    return value


_KIND_OF: Mapping[str, type] = {
    "string": str,
    "Int64": Integral,
    "Float64": Real,
    "boolean": bool,
    "time": Integral,
}
"""What a value of each dtype is an instance of."""
