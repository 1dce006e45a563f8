"""One session's file on the disk: claimed under a free name, locked, appended to, repaired.

Reads: errors, session.files, plugins.persistence.names, plugins.persistence.lock.
Feeds: plugins.persistence.journal.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import msgspec

from dsh_nb.errors import SessionTakenError
from dsh_nb.plugins.persistence.lock import Lock, lock
from dsh_nb.plugins.persistence.names import file_name, file_names
from dsh_nb.session.files import SavedLog, encode_events, read_session

__all__ = ["FileLostError", "SessionFile", "named"]

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class FileLostError(OSError):
    """The file is not as it was left: it was deleted, replaced, or written by something else."""


class SessionFile:
    """An open, locked file. Its `append` writes all or nothing.

    Attributes:
        path: Where it is.
        id: The id that the session is saved under.
    """

    def __init__(self, path: Path, id: str, held: Lock) -> None:
        self.path = path
        self.id = id
        self._held = held
        self._fd = os.open(path, _FLAGS)
        self._bytes = os.fstat(self._fd).st_size

    @classmethod
    def create(cls, folder: Path, id: str) -> SessionFile:
        """A new file for the session `id`; the id gets a number when it was used before.

        Raises:
            OSError: It cannot be made.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for free, name in file_names(id):
            path = folder / name
            try:
                held = lock(path)
            except SessionTakenError:
                continue
            try:
                os.close(os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666))
                return cls(path, free, held)
            except FileExistsError:
                held.release()
            except OSError:
                held.release()
                raise
        raise AssertionError("the numbers never end")

    @classmethod
    def resume(cls, path: Path) -> tuple[SessionFile, SavedLog]:
        """The file `path` as it can be appended to, and what it holds.

        A torn last line is cut off. When events are missing in the middle, the file is written
        anew without the gap, and the damaged one is kept beside it.

        Raises:
            SessionTakenError: Another process writes it.
            OSError: It cannot be read or repaired.
            SessionError: It holds no session.
        """
        held = lock(path)
        try:
            log = named(_repaired(read_session(path)))
            return cls(path, log.header.id, held), log
        except BaseException:
            held.release()
            raise

    def append(self, lines: bytes) -> None:
        """Append whole lines in one write.

        Raises:
            FileLostError: The file is not as it was left.
            OSError: They could not be written; the file is as before.
        """
        self._check()
        try:
            written = os.write(self._fd, lines)
            while written < len(lines):  # the next write says what is wrong, if anything is
                written += os.write(self._fd, memoryview(lines)[written:])
        except OSError:
            os.ftruncate(self._fd, self._bytes)
            raise
        self._bytes += len(lines)

    def sync(self) -> None:
        """Wait until the disk has it."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):  # a file system without it
                raise

    def close(self) -> None:
        """Close and unlock it; twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self._held.release()

    def _check(self) -> None:
        ours = os.fstat(self._fd)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            raise FileLostError(f"{str(self.path)!r} was deleted while its session ran") from None
        if (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev):
            raise FileLostError(f"{str(self.path)!r} was replaced while its session ran")
        if there.st_size != self._bytes:
            raise FileLostError(f"{str(self.path)!r} was changed by something else")


def named(log: SavedLog) -> SavedLog:
    """`log` under the id that its file is found by, which differs when a person renamed it."""
    if file_name(log.header.id) == log.path.name:
        return log
    header = msgspec.structs.replace(log.header, id=log.path.stem)
    return SavedLog(log.path, header, log.events, log.report)


def _repaired(log: SavedLog) -> SavedLog:
    """`log`, its file such that more can be appended."""
    report = log.report
    misplaced = any(event.seq != seq for seq, event in enumerate(log.events))
    if misplaced or not report.whole_bytes:
        return _rewritten(log)
    with log.path.open("r+b") as file:
        if report.unended:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(report.whole_bytes)
    return log


def _rewritten(log: SavedLog) -> SavedLog:
    """Write what is whole to a new file in its place; events are counted anew."""
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(log.events)]
    path, half = log.path, log.path.with_name(f".{log.path.name}.half")
    with half.open("wb") as file:
        file.write(log.header.encode() + encode_events(events))
        file.flush()
        os.fsync(file.fileno())
    path.replace(path.with_name(f"{path.name}.damaged-{time.time_ns() // 1_000_000}"))
    half.replace(path)
    return SavedLog(path, log.header, events, log.report)
