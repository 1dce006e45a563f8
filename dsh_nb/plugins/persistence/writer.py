"""The thread that writes: neither a slow disk holds the loop up, nor a blocked loop the disk.

Reads: session.session. Feeds: plugins.persistence.service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from dsh_nb.session.session import Session

__all__ = ["Writer"]

_LONGEST_DELAY = 30.0


class Writer:
    """Saves each marked session within `every_seconds`, or at once when that is asked.

    Args:
        save: Called on the thread with the session and whether the disk must have it and whether
            it is the last time; says whether all is saved. It must not raise.
        every_seconds: How long a mark may wait. After a failure it is longer, each time.

    Attributes:
        marked: The sessions that have something to save.
    """

    def __init__(self, save: Callable[[Session, bool, bool], bool], every_seconds: float) -> None:
        self.marked: set[Session] = set()
        self._save = save
        self._every = self._delay = every_seconds
        self._wake = threading.Condition()
        self._asked: list[tuple[Session, Future[None]]] = []
        self._hurry = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()

    def mark(self, session: Session) -> None:
        """Save `session` soon."""
        if session not in self.marked:  # looked at without the lock: it is the hot path
            self._add(session)

    def hurry(self, session: Session) -> None:
        """Save `session` at once."""
        with self._wake:
            self._hurry = True
        self._add(session)

    def flush(self, session: Session) -> Future[None]:
        """Save `session` at once, to the disk; done when it was tried."""
        tried: Future[None] = Future()
        if self._ended.done():
            tried.set_result(None)
            return tried
        with self._wake:
            self._asked.append((session, tried))
        self._add(session)
        return tried

    def close(self, sessions: Iterable[Session]) -> Future[None]:
        """Save `sessions` a last time and end the thread; done when it has."""
        with self._wake:
            self._closing = True
            self.marked.update(sessions)
            self._wake.notify()
            if self._thread is None and self.marked:
                self._start()
        if self._thread is None and not self._ended.done():
            self._ended.set_result(None)
        return self._ended

    def join(self, timeout: float) -> None:
        """Wait for the thread's end."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _add(self, session: Session) -> None:
        with self._wake:
            self.marked.add(session)
            self._wake.notify()
            if self._thread is None and not self._closing:
                self._start()

    def _start(self) -> None:
        # a daemon: a disk that does not answer must not keep the kernel from ending
        self._thread = threading.Thread(target=self._run, name="dsh:persistence", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._round():
            pass
        self._ended.set_result(None)

    def _round(self) -> bool:
        """Wait for marks and save them; whether it was the last time."""
        with self._wake:
            self._wake.wait_for(lambda: self.marked or self._is_urgent())
            self._wake.wait_for(self._is_urgent, timeout=self._delay)
            marked, self.marked = self.marked, set()
            asked, self._asked = self._asked, []
            self._hurry, closing = False, self._closing
        synced = {session for session, _ in asked}
        failed = {one for one in marked if not self._save(one, one in synced, closing)}
        for _, tried in asked:
            if tried.set_running_or_notify_cancel():
                tried.set_result(None)
        self._delay = min(self._delay * 2, _LONGEST_DELAY) if failed else self._every
        with self._wake:
            self.marked |= failed
        return closing

    def _is_urgent(self) -> bool:
        return self._hurry or self._closing or bool(self._asked)
