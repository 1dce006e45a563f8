"""Logs from files: sessions of dsh_nb, of the DeepSeek Harness and of Claude Code.

Reads: errors, session.files, imports, notebook.record.
Feeds: notebook.saved, the package root.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from dsh_nb.errors import SessionError
from dsh_nb.imports import ImportedLog, ImportReport, read_file, read_folder
from dsh_nb.imports.detect import format_of
from dsh_nb.imports.lines import read_lines
from dsh_nb.imports.zstd import ZSTD_MAGIC
from dsh_nb.notebook.record import Log, LogReport
from dsh_nb.session.files import SavedLog, read_session

__all__ = ["load", "load_all", "log_of"]

_OURS = "*.jsonl"
_MOST = 100


def load(path: str | os.PathLike[str]) -> Log:
    """The session that a file holds, with its tables, timeline and transcript.

    Lines that are not understood are left out or are events of their own type; ``.report`` of
    what comes back says which. Branches and sub-agents of a Claude Code transcript are its
    ``.others``. The file stays as it is.

    Args:
        path: A session file of dsh_nb, a session log of dsh (plain or compressed with zstd), or
            a Claude Code transcript.

    Raises:
        OSError: It cannot be read.
        SessionError: It is a folder, or none of these.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        raise SessionError(f"{str(path)!r} is a folder; pass it to dsh_nb.load_all")
    if _is_ours(file):
        return log_of(read_session(file))
    try:
        return _imported(read_file(file))
    except SessionError as error:
        raise _not_a_log(file, error) from error


def load_all(folder: str | os.PathLike[str]) -> list[Log]:
    """The sessions of all files below a folder, oldest first; what is no log is left out.

    Args:
        folder: Where they are. Files are read as `load` does; those of sub-agents are among the
            ``.others`` of their session, and of several generations of a dsh log the newest
            is read.

    Raises:
        OSError: A file cannot be read.
        SessionError: It is not a folder.

    Warns:
        UserWarning: A session file of dsh_nb cannot be read, and is left out.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise SessionError(f"{str(folder)!r} is not a folder; pass a file to dsh_nb.load")
    logs = [*_own(place), *map(_imported, read_folder(place))]
    return sorted(logs, key=lambda log: log.session[0].time if len(log.session) else 0)


def log_of(saved: SavedLog) -> Log:
    """A session file that was read, as a log."""
    report = saved.report
    skipped = tuple(str(one) for one in report.problems if one.kind != "gap")
    gaps = tuple(str(one) for one in report.problems if one.kind == "gap")
    said = LogReport(saved.path, "dsh_nb", report.skipped, skipped, gaps)
    return Log(saved.session(), said)


def _own(folder: Path) -> Iterator[Log]:
    for file in sorted(folder.rglob(_OURS)):
        try:
            if file.is_file() and _is_ours(file):
                yield log_of(read_session(file))
        except SessionError as error:
            warnings.warn(f"left out: {error}", stacklevel=3)


def _is_ours(file: Path) -> bool:
    """Whether dsh_nb wrote the file, by the first line that tells.

    Where the header is lost, the order of the keys says whose an event is.
    """
    try:
        for line in read_lines(file, ImportReport(str(file))):
            found = format_of([line])
            if found is not None:
                return found == "dsh_nb" or next(iter(line.value)) == "seq"
    except SessionError:  # it is compressed and cannot be opened; reading it says so
        pass
    return False


def _imported(log: ImportedLog) -> Log:
    report = log.report
    said = LogReport(
        Path(report.path),
        report.format,
        len(report.skipped),
        _texts(report.skipped),
        _texts(report.notes),
        dict(report.foreign),
    )
    others = [Log(one, said) for one in (*log.branches, *log.sidechains)]
    return Log(log.session, said, others)


def _texts(notes: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(note) for _, note in zip(range(_MOST), notes, strict=False))


def _not_a_log(file: Path, error: SessionError) -> SessionError:
    """What a file is not, and what it looks like."""
    with file.open("rb") as opened:
        begin = opened.read(4096)
    if begin.startswith(ZSTD_MAGIC):
        return error
    looks = "a binary file" if b"\0" in begin else "text of another kind"
    return SessionError(
        f"{str(file)!r} is {looks if begin.strip() else 'empty'}, no session log; pass a session "
        "file of dsh_nb, a session log of dsh or a Claude Code transcript"
    )
