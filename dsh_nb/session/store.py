"""The session store: creates and holds the live sessions of a context.

Reads: core, session.session. Feeds: agent, plugins, notebook.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from pydantic import BaseModel, ConfigDict

from dsh_nb.core import Context, Disposer, Emit, Parallel, Service, ServiceKey
from dsh_nb.errors import SessionTakenError
from dsh_nb.messages import JsonObject
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.repair import closing_events
from dsh_nb.session.session import Session, now_ms

__all__ = ["SESSIONS", "SESSION_CREATED", "SESSION_EVENT", "SESSION_FLUSH", "SessionStore"]

SESSION_CREATED: Emit[Session] = Emit("session/created")
"""A session was created. Mode: emit. Fired with the session, its seed already in it."""

SESSION_EVENT: Emit[Session, SessionEvent] = Emit("session/event")
"""An event was appended. Mode: emit. Fired after the append, in log order; a listener that raises
ends the turn that appended, the event stays."""

SESSION_FLUSH: Parallel[Session] = Parallel("session/flush")
"""A turn has ended and the log should reach its disk. Mode: parallel. A failure is logged."""


class SessionStore(Service):
    """Holds sessions by id.

    Attributes:
        clock: Gives the time of events, Unix epoch in milliseconds; tests replace it.
    """

    class Config(BaseModel):
        """What the store can be told.

        Attributes:
            check: True to hold each appended event against the log invariants.
        """

        model_config = ConfigDict(extra="forbid")
        check: bool = False

    def __init__(self, ctx: Context, config: SessionStore.Config | None = None) -> None:
        super().__init__(ctx)
        self._check = config.check if config else False
        self.clock: Callable[[], int] = now_ms
        self._live: dict[str, Session] = {}
        self._owned: dict[str, Disposer] = {}

    def create(
        self,
        id: str | None = None,
        seed: Iterable[SessionEvent] = (),
        *,
        header: JsonObject | None = None,
        ctx: Context | None = None,
    ) -> Session:
        """A new live session; `close` lets go of it.

        Args:
            id: Its id; ``None`` for a fresh one.
            seed: Events that it begins with, copied; an open turn at their end is closed. They
                derive the same messages, and the next turn goes on with their numbers.
            header: Metadata that is not an event.
            ctx: Whose fiber owns it: the session is closed with it; the store's by default.

        Raises:
            SessionTakenError: A live session has that id. Nothing was created.
        """
        self.ctx.check_thread("sessions.create")
        name = id if id is not None else secrets.token_hex(6)
        if name in self._live:
            raise SessionTakenError(
                f"session {name!r} is live already; close it first, or choose another id"
            )
        events = [*seed]
        events += closing_events(events)
        session = Session(name, events, header=header, check=self._check, clock=self.clock)
        emit = self.ctx.emit
        session.listen(lambda session, event: emit(SESSION_EVENT, session, event))
        self._live[name] = session
        self._owned[name] = (ctx or self.ctx).fiber.effect(
            lambda: self._live.pop(name, None), f"session {name}"
        )
        self.ctx.emit(SESSION_CREATED, session)
        return session

    def close(self, id: str) -> None:
        """Let go of a session; its log stays readable. Closing twice is harmless."""
        undo = self._owned.pop(id, None)
        if undo is not None:
            undo()

    def get(self, id: str) -> Session | None:
        """The live session of that id."""
        return self._live.get(id)

    def list(self) -> list[Session]:
        """The live sessions, oldest first."""
        return [*self._live.values()]


SESSIONS: ServiceKey[SessionStore] = ServiceKey("sessions")
SessionStore.provides = SESSIONS
