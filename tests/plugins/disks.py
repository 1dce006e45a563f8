"""Children of the tests of persistence, for what must not happen to the tests' own process.

``python -m tests.plugins.disks NAME FOLDER`` runs one of the functions below; each prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from dsh_nb.core import CORE_ERROR, Context
from dsh_nb.messages import Source
from dsh_nb.plugins.persistence import PERSISTENCE_STATUS, PersistenceConfig, persistence
from dsh_nb.session.events import TurnEnd, TurnReason, TurnStart, TurnTrigger
from dsh_nb.session.store import SESSION_FLUSH, SESSIONS, SessionStore


class Saving:
    """A context with a session that is saved, and what was told of failures."""

    def __init__(self, folder: Path, every_seconds: float = 0.02) -> None:
        self.ctx, self.told = Context(), list[str]()
        self.states: list[str | None] = []
        self.ctx.plugin(SessionStore)
        config = PersistenceConfig(folder=folder, every_seconds=every_seconds)
        self.ctx.plugin(persistence, config)
        self.ctx.on(CORE_ERROR, lambda error, doing: self.told.append(str(error)))
        self.ctx.on(PERSISTENCE_STATUS, lambda session, problem: self.states.append(problem))
        self.session = self.ctx.get(SESSIONS).create("main")

    def turn(self, text: str = "hi") -> None:
        """A turn without a step."""
        number = self.session.turn + 1
        self.session.append(
            "user/message", {"content": [{"type": "text", "text": text}], "source": {}}
        )
        self.session.append("turn/start", TurnStart(number, TurnTrigger("message", Source())))
        self.session.append("turn/end", TurnEnd(number, TurnReason("completed")))

    async def flush(self) -> None:
        """What the loop does after a turn."""
        await self.ctx.parallel(SESSION_FLUSH, self.session)
        await asyncio.sleep(0)  # what the thread posted is told


async def full(folder: Path) -> dict[str, object]:
    """The disk is full in the midst of a line, and later it is not."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    saving = Saving(folder)
    saving.turn()
    await saving.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    saving.turn("x" * 20_000)
    await saving.flush()
    saving.turn()
    await saving.flush()
    full_bytes = (folder / "main.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    saving.turn()
    await saving.flush()
    await saving.ctx.dispose()
    return {
        "bytes": full_bytes,
        "told": saving.told,
        "states": saving.states,
        "events": len(saving.session),
    }


async def readonly(folder: Path) -> dict[str, object]:
    """The folder may not be written by this user, and later it may."""
    os.chmod(folder, 0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    saving = Saving(folder)
    saving.turn()
    await saving.flush()
    if os.getuid() == 0:
        os.seteuid(0)
    os.chmod(folder, 0o755)
    saving.turn()
    await saving.flush()
    await saving.ctx.dispose()
    return {"told": saving.told, "states": saving.states, "events": len(saving.session)}


async def append(folder: Path) -> dict[str, object]:
    """One of several processes that use one folder and one id."""
    saving = Saving(folder, every_seconds=0)
    for number in range(20):
        saving.session.append("note/made", {"n": number, "text": "y" * 100_000})
        await asyncio.sleep(0.002)
    await saving.ctx.dispose()
    return {}


async def leave(folder: Path) -> dict[str, object]:
    """Python ends with nothing disposed, as a kernel does."""
    saving = Saving(folder, every_seconds=60)
    saving.session.append("user/message", {"content": [], "source": {}})
    return {"events": len(saving.session)}


async def hold(folder: Path) -> dict[str, object]:
    """A kernel that has a session open until it is killed."""
    saving = Saving(folder)
    saving.turn()
    await saving.flush()
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    await asyncio.sleep(60)
    return {}


def main() -> None:
    """Run what was asked for."""
    name, folder = sys.argv[1:]
    work = {"full": full, "readonly": readonly, "append": append, "leave": leave, "hold": hold}
    sys.stdout.write(json.dumps(asyncio.run(work[name](Path(folder)))))


if __name__ == "__main__":
    main()
