"""A file of events as their table, without a session in between.

Reads: session.events, session.files, tables.events. Feeds: notebook.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dsh_nb.session.events import EVENT_TYPES, SessionEvent
from dsh_nb.session.files import ReadReport, read_lines
from dsh_nb.tables.events import events

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["events_of_file", "scan"]

_BATCH = 1 << 18
"""Bytes that are decoded at once: more do not stay in the processor's cache."""


def events_of_file(path: str | os.PathLike[str], session: str | None = None) -> pd.DataFrame:
    """The table `events` of a file of JSON lines, faster than by way of a session.

    Args:
        path: A file with an event a line, ``{"seq": 0, "time": 0, "type": "…", "data": {…}}``, or
            a session file.
        session: Id of the session; by default the file's name without its suffix.

    Returns:
        The frame that `events` gives of the same log.

    Warns:
        UserWarning: Some lines are not events, and are left out.
    """
    report = ReadReport()
    frame = events(scan(path, report), Path(path).stem if session is None else session)
    if report.skipped:
        warnings.warn(f"{os.fspath(path)!r}: {report}", stacklevel=2)
    return frame


def scan(path: str | os.PathLike[str], report: ReadReport | None = None) -> Iterator[SessionEvent]:
    """The events of a file of JSON lines, one after the other; the file is never held whole.

    Args:
        path: As for `events_of_file`.
        report: Learns which lines are not events.
    """
    report = ReadReport() if report is None else report
    with open(path, "rb") as file:
        while batch := file.read(_BATCH):
            batch += file.readline()
            try:
                lines = _decode(batch)
            except msgspec.MsgspecError:  # a plugin's event, a packed run, a line that is cut
                yield from _one_by_one(batch, report)
                continue
            for line in lines:
                yield SessionEvent(line.seq, line.time, _TYPE_OF[type(line)], line.data)


def _one_by_one(batch: bytes, report: ReadReport) -> Iterator[SessionEvent]:
    lines = batch.splitlines(keepends=True)
    return (said for said in read_lines(lines, report) if isinstance(said, SessionEvent))


def _line(name: str, data: type) -> Any:  # Any: a class made here
    """The line of an event of type `name`, which picks the class: one pass decodes all of it."""
    fields = [("seq", int), ("time", int), ("data", data)]
    return msgspec.defstruct(
        f"{data.__name__}Line", fields, tag_field="type", tag=name, frozen=True, gc=False
    )


_LINES = {name: _line(name, data) for name, data in EVENT_TYPES.items()}
_TYPE_OF = {line: name for name, line in _LINES.items()}
_decode = msgspec.json.Decoder(reduce(or_, _LINES.values())).decode_lines
