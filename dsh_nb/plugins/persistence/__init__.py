"""Persistence: every session of a context is saved to a file as it grows, and can go on from it."""

from __future__ import annotations

from dsh_nb.agent.protocol import AGENT_DISPOSED
from dsh_nb.core import Context
from dsh_nb.plugins.persistence.folder import SavedSession
from dsh_nb.plugins.persistence.service import (
    PERSISTENCE,
    PERSISTENCE_STATUS,
    Persistence,
    PersistenceConfig,
)
from dsh_nb.session.store import SESSION_CREATED, SESSION_EVENT, SESSION_FLUSH, SESSIONS

__all__ = [
    "PERSISTENCE",
    "PERSISTENCE_STATUS",
    "Persistence",
    "PersistenceConfig",
    "SavedSession",
    "persistence",
]


def persistence(ctx: Context, config: PersistenceConfig) -> None:
    """Listen to the session's events, and provide the service ``persistence``.

    Mount it before the loop: what agents log as they are disposed is saved then too. Sessions
    that are live already are saved as well. A session without an event has no file.
    """
    service = Persistence(ctx, config)
    ctx.fiber.effect(service.close, "session files")
    ctx.on(SESSION_CREATED, service.created)
    ctx.on(SESSION_EVENT, service.heard)
    ctx.on(SESSION_FLUSH, service.flush)
    ctx.on(AGENT_DISPOSED, service.agent_ended)
    ctx.provide(PERSISTENCE, service)
    if ctx.provides(SESSIONS.name):
        for session in ctx.get(SESSIONS).list():
            service.created(session)


persistence.Config = PersistenceConfig  # type: ignore[attr-defined]  # a plugin's declaration
