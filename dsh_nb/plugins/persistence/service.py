"""The service ``persistence``: what is saved, and how a saved session goes on.

Reads: core, errors, session, agent.protocol, plugins.persistence. Feeds: plugins.persistence.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from dsh_nb.agent.protocol import Agent
from dsh_nb.core import Context, Emit, ServiceKey
from dsh_nb.errors import ContextError, SessionError, SessionTakenError
from dsh_nb.plugins.persistence.file import FileLostError, SessionFile, named
from dsh_nb.plugins.persistence.folder import SavedSession, find, saved_sessions
from dsh_nb.plugins.persistence.journal import Journal
from dsh_nb.plugins.persistence.writer import Writer
from dsh_nb.session.events import SessionEvent, TurnEnd
from dsh_nb.session.files import SavedLog, read_session
from dsh_nb.session.session import Session
from dsh_nb.session.store import SESSIONS

__all__ = ["PERSISTENCE", "PERSISTENCE_STATUS", "Persistence", "PersistenceConfig"]

PERSISTENCE_STATUS: Emit[Session, str | None] = Emit("persistence/status")
"""A session cannot be saved, or can be again. Mode: emit. Fired with the session and the problem;
with None when all of it is saved."""

_PATIENCE_SECONDS = 5.0
_EXIT_SECONDS = 2.0  # Jupyter kills a kernel that takes longer than 2.5

log = logging.getLogger("dsh_nb")


class PersistenceConfig(BaseModel):
    """Where and how sessions are saved.

    Attributes:
        folder: Where; relative to the working directory at the time of mounting.
        every_seconds: A running step reaches its file this often.
        fsync: True to wait at the end of a turn until the disk has it, so that it survives a
            power cut too; the end of the process it survives in any case.
        mask: True to write a marker for each secret.
    """

    model_config = ConfigDict(extra="forbid")
    folder: Path = Path(".dsh/sessions")
    every_seconds: float = Field(default=1.0, ge=0)
    fsync: bool = True
    mask: bool = True


class Persistence:
    """Saves the sessions of a context, and gives saved ones back.

    Attributes:
        folder: Where they are, absolute.
    """

    def __init__(self, ctx: Context, config: PersistenceConfig) -> None:
        self.folder = Path(os.path.abspath(config.folder.expanduser()))
        self._ctx = ctx
        self._config = config
        self._writer = Writer(self._save, config.every_seconds)
        self._journals: dict[Session, Journal] = {}
        self._ended: set[Session] = set()
        self._problems: dict[Session, str] = {}
        self._resumed: dict[str, tuple[SessionFile, SavedLog]] = {}
        self._pid = os.getpid()
        atexit.register(self._exit)

    # -- what people call ---------------------------------------------------------------------

    def saved(self) -> list[SavedSession]:
        """The saved sessions, the newest first; told from the ends of their files."""
        return saved_sessions(self.folder)

    def read(self, id: str) -> SavedLog:
        """What the file of a session holds, with a report of what it does not.

        Raises:
            SessionError: There is none, or it is no session.
            OSError: It cannot be read.
        """
        return named(read_session(find(self.folder, id)))

    def load(self, id: str) -> Session:
        """A saved session, to look at; nothing that is appended to it is saved.

        Raises:
            SessionError: There is none, or it is no session.
            OSError: It cannot be read.
        """
        return self.read(id).session()

    def resume(self, id: str) -> SavedLog:
        """Take a saved session for this kernel, and mend the end of its file.

        Create the session with the header's id, these events as its seed and the header's
        `header`; what it appends goes to the same file. `release` instead gives it back.

        Raises:
            SessionTakenError: It is live here, or another kernel writes it.
            SessionError: There is none, or it is no session.
            OSError: It cannot be read or mended.
        """
        self._ctx.check_thread("persistence.resume")
        path = find(self.folder, id)
        self._check_not_live(id, path)
        self.release(id)
        file, read = SessionFile.resume(path)
        self._resumed[read.header.id] = (file, read)
        return read

    def release(self, id: str) -> None:
        """Give back a session that was resumed and not created. Twice is harmless."""
        waiting = self._resumed.pop(id, None)
        if waiting is not None:
            waiting[0].close()

    def let_go(self, session: Session) -> None:
        """Write a live session a last time and give its file free, before this returns.

        For who resumes it elsewhere in this kernel at once. What it logs later is not saved.

        Raises:
            TimeoutError: The disk does not answer. It is given free when it does.
        """
        if session in self._journals:
            self._ended.add(session)
            self._writer.flush(session).result(_PATIENCE_SECONDS)

    def path_of(self, session: Session) -> Path | None:
        """The file of a live session; None while it has none."""
        journal = self._journals.get(session)
        return journal.path if journal else None

    def problem_of(self, session: Session) -> str | None:
        """Why a live session is not saved; None when it is, or is about to be."""
        return self._problems.get(session)

    # -- what the live events call ------------------------------------------------------------

    def created(self, session: Session) -> None:
        """Save `session` from now on."""
        journal = Journal(session, self.folder, mask=self._config.mask)
        file, read = self._resumed.pop(session.id, (None, None))
        if file is not None and read is not None:
            if _begins_with(session, read):
                session.header = {**read.header.header, **session.header}
                journal.go_on(file, len(read.events), read.header)
            else:
                file.close()
        self._journals[session] = journal
        if len(session):
            self._writer.mark(session)

    def heard(self, session: Session, event: SessionEvent) -> None:
        """Remember that `session` has more; its end of a turn is written at once."""
        if session not in self._writer.marked:
            self._writer.mark(session)
        if type(event.data) is TurnEnd:
            self._writer.hurry(session)

    async def flush(self, session: Session) -> None:
        """Wait until `session` is on the disk; a disk that does not answer is not waited for."""
        tried = asyncio.wrap_future(self._writer.flush(session))
        await asyncio.wait({tried}, timeout=_PATIENCE_SECONDS)

    def agent_ended(self, agent: Agent) -> None:
        """Finish with the session of an agent, once the store has let go of it."""
        self._ctx.loop.call_soon(self._finish, agent.session)

    def close(self) -> Awaitable[None] | None:
        """Write what is not written and close all files."""
        atexit.unregister(self._exit)
        for id in [*self._resumed]:
            self.release(id)
        ended = self._writer.close([*self._journals])
        return None if ended.done() else self._wait(asyncio.wrap_future(ended))

    # -- the thread of the writer -------------------------------------------------------------

    def _save(self, session: Session, sync: bool, closing: bool) -> bool:
        journal = self._journals.get(session)
        if journal is None:
            return True
        ended = closing or session in self._ended
        sync = self._config.fsync and (sync or ended)
        saved = self._try(session, lambda: journal.save(final=ended, sync=sync))
        if closing or (ended and saved):
            journal.close()
            self._journals.pop(session, None)
            self._ended.discard(session)
        return saved

    def _try(self, session: Session, save: Callable[[], None]) -> bool:
        try:
            try:
                save()
            except FileLostError as error:
                self._tell(session, error, "all of it is written anew")
                save()
        except Exception as error:  # whatever it is, the thread goes on
            first, problem = not self._problems, str(error) or repr(error)
            if first:
                self._tell(session, error, "what is missing is written when it can be")
            if self._problems.get(session) != problem:
                self._post(lambda: self._ctx.emit(PERSISTENCE_STATUS, session, problem))
            self._problems[session] = problem
            return False
        if self._problems.pop(session, None) is not None:
            self._post(lambda: self._ctx.emit(PERSISTENCE_STATUS, session, None))
        return True

    def _tell(self, session: Session, error: Exception, then: str) -> None:
        told = SessionError(f"session {session.id!r} is not saved: {error}; {then}")
        told.__cause__ = error
        self._post(lambda: self._ctx.report(told, "saving"))

    def _post(self, call: Callable[[], None]) -> None:
        """Run `call` on the context's thread, where there is still one."""

        def run() -> None:
            try:
                call()
            except Exception as error:
                self._ctx.report(error, "a listener of persistence/status")

        with contextlib.suppress(ContextError, RuntimeError):  # the loop is gone; `_exit` tells
            self._ctx.post(run)

    # -- the end ------------------------------------------------------------------------------

    async def _wait(self, ended: asyncio.Future[None]) -> None:
        await asyncio.wait({ended}, timeout=_PATIENCE_SECONDS)
        self._writer.join(_EXIT_SECONDS if ended.done() else 0)

    def _exit(self) -> None:
        """Write what is not written when Python ends; a child that was forked has no part in it."""
        if os.getpid() != self._pid:
            return
        self._writer.close([*self._journals])
        self._writer.join(_EXIT_SECONDS)
        for session, problem in self._problems.items():
            log.error("session %r is not saved: %s", session.id, problem)

    def _is_live(self, session: Session) -> bool:
        """Whether the store still holds it; without a store nobody can tell that it does not."""
        provided = self._ctx.provides(SESSIONS.name)
        return not provided or self._ctx.get(SESSIONS).get(session.id) is session

    def _finish(self, session: Session) -> None:
        """Save a session a last time, unless it is live."""
        if session in self._journals and not self._is_live(session):
            self._ended.add(session)
            self._writer.hurry(session)

    def _check_not_live(self, id: str, path: Path) -> None:
        """Raise when a live session has that file; finish with one that was let go of."""
        for session, journal in [*self._journals.items()]:
            if journal.path != path:
                continue
            if self._is_live(session):
                raise SessionTakenError(
                    f"session {id!r} is live in this kernel; use it, or dispose its agent first"
                )
            self.let_go(session)


def _begins_with(session: Session, read: SavedLog) -> bool:
    """Whether `session` goes on where the file ends."""
    count = len(read.events)
    ends = {0, count - 1} if count else ()
    return len(session) >= count and all(session[one] == read.events[one] for one in ends)


PERSISTENCE: ServiceKey[Persistence] = ServiceKey("persistence")
