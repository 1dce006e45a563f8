"""The lock: one writer for each session file, whoever runs it.

Reads: errors. Feeds: plugins.persistence.file.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from pathlib import Path

from dsh_nb.errors import SessionTakenError

__all__ = ["Lock", "is_locked", "lock"]

_UNSUPPORTED = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}
_FAR = 1 << 30  # Windows locks bytes, and the owner at the front must stay readable


class Lock:
    """A held lock. The system lets go of it when the process dies, however it dies."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    def release(self) -> None:
        """Let go of it; twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if _is_at(self._path, fd):
            self._path.unlink(missing_ok=True)
        os.close(fd)


def lock(path: Path) -> Lock:
    """Lock the session file `path`, without waiting. Where files cannot be locked, nothing is.

    Raises:
        SessionTakenError: A process that lives has the lock. The text says which.
        OSError: The lock file beside the session file cannot be written.
    """
    beside = _beside(path)
    while True:
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        if not _try(fd):
            owner = _owner(fd)
            os.close(fd)
            if not _is_orphaned(owner):
                raise SessionTakenError(
                    f"session file {str(path)!r} is written by {_told(owner)}; end that kernel or "
                    "dispose its agent, or go on from a fork"
                )
            beside.unlink(missing_ok=True)  # a child that was forked keeps a dead process's lock
        elif _is_at(beside, fd):
            _write_owner(fd)
            return Lock(beside, fd)
        else:
            os.close(fd)  # it was released, and its file removed, while this one was opened


def is_locked(path: Path) -> bool:
    """Whether a process that lives, this one included, is writing the session file `path`."""
    try:
        fd = os.open(_beside(path), os.O_RDWR)
    except OSError:
        return False
    try:
        owner = _owner(fd)
        return bool(owner) and not _is_orphaned(owner) and not _try(fd)
    finally:
        os.close(fd)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _try(fd: int) -> bool:
    """Lock an open file; True also where the file system has no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt  # it is not there elsewhere

            os.lseek(fd, _FAR, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # it is not there on Windows

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _UNSUPPORTED
    return True


def _is_at(path: Path, fd: int) -> bool:
    """Whether `path` still names the open file."""
    try:
        there, ours = path.stat(), os.fstat(fd)
    except OSError:
        return False
    return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)


def _write_owner(fd: int) -> None:
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time() * 1000)}
    try:
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, json.dumps(owner).encode())
    except OSError:
        pass  # on a full disk the lock holds all the same, and only does not say whose it is


def _owner(fd: int) -> dict[str, object]:
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        owner = json.loads(os.read(fd, 4096))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_orphaned(owner: dict[str, object]) -> bool:
    """Whether the process that took the lock is known to be dead."""
    pid = owner.get("pid")
    if sys.platform == "win32" or owner.get("host") != socket.gethostname():
        return False
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _told(owner: dict[str, object]) -> str:
    pid, since = owner.get("pid"), owner.get("since")
    if pid == os.getpid():
        return "this kernel, in another context"
    if not isinstance(since, int):
        return "another process"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(since / 1000))
    return f"process {pid} on {owner.get('host')}, since {when}"
