"""Logs of other tools, read into sessions.

Reads: errors, session.session, imports.claude_code, imports.detect, imports.dsh, imports.lines,
imports.report. Feeds: notebook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path

from dsh_nb.errors import SessionError
from dsh_nb.imports.claude_code import read_claude_code
from dsh_nb.imports.claude_path import Spent
from dsh_nb.imports.detect import LogFormat, format_of
from dsh_nb.imports.dsh import read_dsh
from dsh_nb.imports.lines import Line, read_lines
from dsh_nb.imports.report import ImportReport
from dsh_nb.session.session import Session

__all__ = ["ImportedLog", "read_file", "read_folder", "read_log"]

_NAMES = ("*.jsonl", "*.jsonl.zstd", "*.jsonl.zst", "*.ndjson")
_GENERATION = re.compile(r"^session(?:\.v(\d+))?\.jsonl(?:\.zstd?)?$")


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """What one file of another tool holds.

    Attributes:
        session: The log, or of a tree of messages the path to the newest one.
        branches: The other paths of that tree. Each holds only what is its own, so that nothing
            is counted twice; its header says whose `parent` it leaves and ``at`` which event.
        sidechains: The logs of sub-agents; the header says whose they are (``parent``), and
            where it can be told, for which call (``callId``) and ``at`` which event.
        report: What became of each line.
    """

    session: Session
    branches: tuple[Session, ...]
    sidechains: tuple[Session, ...]
    report: ImportReport

    @property
    def sessions(self) -> tuple[Session, ...]:
        """All of them, the main one first."""
        return (self.session, *self.branches, *self.sidechains)


def read_log(path: str | PathLike[str]) -> Session:
    """The session that a log of the DeepSeek Harness or of Claude Code tells of.

    Turns and steps are numbered, and the original time of each line is kept. What only the other
    tool knows is an event of a type such as ``dsh/todo/write`` or ``claude-code/system``. A log
    that ends in mid-turn stays so. Branches and sub-agents are left to `read_file`.

    Args:
        path: A file, plain or compressed with zstd.

    Returns:
        The session; ``header["import"]`` says what became of the lines, and the rest of the
        header holds what the log tells of itself: title, created, cwd, model, …; of a fork the
        ``parent``, and how many events are ``inherited`` from it.

    Raises:
        OSError: The file cannot be read.
        SessionError: It is a folder, none of its lines is of a known format, or it is compressed
            and backports.zstd is not installed.
    """
    return read_file(path).session


def read_file(path: str | PathLike[str]) -> ImportedLog:
    """All that a file of another tool holds: as `read_log`, with branches, sub-agents, report.

    Raises:
        OSError, SessionError: As `read_log`.
    """
    return _read(Path(path), set())


def read_folder(path: str | PathLike[str]) -> list[ImportedLog]:
    """The logs below a folder, oldest first.

    Files of sub-agents join the session that called them. Of several generations of one dsh
    session the newest is read. The usage of a message that several files hold is counted once,
    in the file that sorts first. Files that are no log of a known format are left out.

    Raises:
        OSError: A file cannot be read.
        SessionError: It is not a folder.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise SessionError(f"{str(path)!r} is not a folder; pass the file to read_log")
    spent: Spent = set()
    logs = [log for file in _files(folder) if (log := _known(file, spent)) is not None]
    joined = _joined(logs)
    return sorted(joined, key=lambda log: log.session[0].time if len(log.session) else 0)


def _files(folder: Path) -> list[Path]:
    """The log files below a folder, each session's newest generation alone."""
    newest: dict[Path, tuple[int, Path]] = {}
    for file in sorted({file for name in _NAMES for file in folder.rglob(name)}):
        found = _GENERATION.match(file.name)
        key, version = (file.parent, int(found[1] or 0)) if found else (file, 0)
        if key not in newest or version > newest[key][0]:
            newest[key] = (version, file)
    return [file for _, file in newest.values() if file.is_file()]


def _known(file: Path, spent: Spent) -> ImportedLog | None:
    try:
        return _read(file, spent)
    except SessionError:
        return None


def _joined(logs: list[ImportedLog]) -> list[ImportedLog]:
    """Each file of a sub-agent with the session that called it, where that is there."""
    mains = {log.session.id: log for log in logs if "parent" not in log.session.header}
    kept = []
    for log in logs:
        header = log.session.header
        owner = mains.get(header.get("parent", ""))
        if header.get("kind") != "sidechain" or owner is None:
            kept.append(log)
            continue
        sidechains = (*owner.sidechains, *log.sessions)
        mains[owner.session.id] = ImportedLog(
            owner.session, owner.branches, sidechains, owner.report
        )
    return [mains.get(log.session.id, log) for log in kept]


def _read(path: Path, spent: Spent) -> ImportedLog:
    if path.is_dir():
        raise SessionError(f"{str(path)!r} is a folder; pass it to read_folder")
    report = ImportReport(str(path))
    lines = read_lines(path, report)
    found, begun = _begin(lines)
    if found is None:
        raise SessionError(
            f"{str(path)!r} is no log of a known format; pass a session log of dsh or a "
            "transcript of Claude Code"
        )
    if found == "dsh_nb":
        raise SessionError(f"{str(path)!r} is a session file of dsh_nb; pass it to dsh_nb.load")
    sessions = _sessions(found, chain(begun, lines), report, _stem(path), spent)
    for session in sessions:
        session.header["import"] = report.as_json()
    main, *others = sessions
    branches = tuple(one for one in others if one.header.get("kind") == "branch")
    sidechains = tuple(one for one in others if one.header.get("kind") == "sidechain")
    return ImportedLog(main, branches, sidechains, report)


def _begin(lines: Iterator[Line]) -> tuple[LogFormat | None, list[Line]]:
    """The format, and the lines read to tell it."""
    begun: list[Line] = []
    for line in lines:
        begun.append(line)
        found = format_of([line])
        if found is not None:
            return found, begun
    return None, begun


def _sessions(
    found: LogFormat, lines: Iterator[Line], report: ImportReport, name: str, spent: Spent
) -> list[Session]:
    report.format = found
    if found == "dsh":
        return [read_dsh(lines, report, name)]
    return read_claude_code(lines, report, name, spent)


def _stem(path: Path) -> str:
    """The name of the file without what says its format."""
    return re.sub(r"(\.v\d+)?\.(jsonl|ndjson)(\.zstd?)?$", "", path.name) or path.name
