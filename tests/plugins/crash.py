"""Kill running turns at random moments, and resume: ``python -m tests.plugins.crash --kills N``.

Each child, forked from this process, runs scripted turns with tools and saves them; it is killed
in the midst of a stream, of a tool or between two turns. What it had flushed must be in its file,
and the session must go on with a history that the Messages API accepts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentLoop, AgentOptions
from dsh_nb.agent.loop_agent import LoopAgent
from dsh_nb.core import Context
from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.scripted import ScriptedModel, Step, call, pause, think
from dsh_nb.llm.service import LLM
from dsh_nb.plugins.persistence import PERSISTENCE, PersistenceConfig, persistence
from dsh_nb.session.check import check_log
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.files import SavedLog, read_session
from dsh_nb.session.store import SESSION_EVENT, SessionStore
from dsh_nb.testing import validate_request
from dsh_nb.tools.registry import TOOLS

EVERY_SECONDS = 0.05
SLACK_SECONDS = 0.3  # a busy machine may let the child's thread wait
LONGEST_LIFE_SECONDS = 0.7
EVENTS = 1 << 16
WORDS = "The counter stands at the number that the last call of the tool has returned. " * 3


class Shared:
    """Memory that outlives a killed child: what it had appended and flushed, and when."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16 + 8 * EVENTS)

    @property
    def flushed(self) -> int:
        """How many events were in the file when the newest turn had ended."""
        return int(struct.unpack_from("q", self._memory, 0)[0])

    @flushed.setter
    def flushed(self, count: int) -> None:
        struct.pack_into("q", self._memory, 0, count)

    @property
    def counter(self) -> int:
        """How often the tool has run."""
        return int(struct.unpack_from("q", self._memory, 8)[0])

    @counter.setter
    def counter(self, count: int) -> None:
        struct.pack_into("q", self._memory, 8, count)

    def appended(self, seq: int) -> None:
        """Note when the event `seq` was appended."""
        struct.pack_into("d", self._memory, 16 + 8 * seq, time.monotonic())

    def age(self, seq: int, moment: float) -> float:
        """How old the event `seq` was at `moment`; 0 when there was none."""
        appended = float(struct.unpack_from("d", self._memory, 16 + 8 * seq)[0])
        return moment - appended if appended else 0.0

    def older_than(self, moment: float) -> int:
        """How many events had been appended before `moment`."""
        count = 0
        while 0 < struct.unpack_from("d", self._memory, 16 + 8 * count)[0] < moment:
            count += 1
        return count


async def agent_on(
    ctx: Context, folder: Path, model: ScriptedModel, shared: Shared, id: str | None = None
) -> tuple[LoopAgent, SavedLog | None]:
    """An agent that saves to `folder`; it goes on with the session `id` where one is given."""
    ctx.plugin(SessionStore, {"check": True})
    ctx.plugin(persistence, PersistenceConfig(folder=folder, every_seconds=EVERY_SECONDS))
    await ctx.plugin(AgentLoop)
    ctx.get(LLM).register(model, [model.name])

    async def count() -> int:
        """Count."""
        shared.counter += 1
        await asyncio.sleep(random.random() / 50)
        return shared.counter

    ctx.get(TOOLS).register(count)
    saved = ctx.get(PERSISTENCE).resume(id) if id is not None else None
    agent = ctx.get(AGENT_LOOP).create(
        "main",
        AgentOptions(model=model.name),
        session_id=saved.header.id if saved else None,
        seed=saved.events if saved else (),
    )
    return agent, saved


def says(request: ModelRequest) -> Step:
    """Some thinking and some text, and often calls."""
    words = WORDS[: random.randrange(20, len(WORDS))]
    parts = [think(words[:40]), words, pause(random.random() / 50), words]
    return [*parts, *[call("count")] * random.choice([0, 1, 1, 3])]


async def live(folder: Path, shared: Shared) -> None:
    """Run turns until the end, which comes from outside."""
    ctx = Context()
    agent, _ = await agent_on(ctx, folder, ScriptedModel(says, pace=0.05), shared)
    ctx.on(SESSION_EVENT, lambda session, event: shared.appended(event.seq), prepend=True)
    while True:
        agent.send("count on")
        await agent.finished()
        shared.flushed = len(agent.session)


async def resumed(folder: Path, shared: Shared) -> tuple[SavedLog, list[SessionEvent], bytes]:
    """The log as it was resumed, as it is one turn later, and the request of that turn."""
    ctx, model = Context(), ScriptedModel(["Done."])
    try:
        agent, saved = await agent_on(ctx, folder, model, shared, "main")
        assert saved is not None
        agent.send("go on")
        await agent.finished()
        return saved, [*agent.session], encode_request(model.requests[0])
    finally:
        await ctx.dispose()


def killed(folder: Path, shared: Shared) -> float:
    """Start a child, kill it at a random moment, and return that moment."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(live(folder, shared))
        finally:
            os._exit(1)
    time.sleep(0.05 + random.random() * LONGEST_LIFE_SECONDS)
    moment = time.monotonic()
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the child ended by itself"
    return moment


def findings(folder: Path, shared: Shared, moment: float) -> list[str]:
    """What is not as it should be after a kill."""
    path = folder / "main.jsonl"
    if not path.exists():
        return ["nothing was saved"] if shared.older_than(moment - SLACK_SECONDS) else []
    events = read_session(path).events
    due = max(shared.flushed, shared.older_than(moment - EVERY_SECONDS - SLACK_SECONDS))
    found = [f"{len(events)} events of {due} were saved"] if len(events) < due else []
    check_log(events)
    ran = shared.counter
    saved, after, request = asyncio.run(resumed(folder, shared))
    check_log(after, ended=True)
    found += validate_request(json.loads(request))
    if shared.counter != ran:
        found.append("a call ran again")
    if saved.events != events or after[: len(events)] != events:
        found.append("the resumed session does not begin as its file did")
    if read_session(path).events != after or read_session(path).report:
        found.append("the file does not hold what the resumed session says")
    return found


def main() -> None:
    """Kill as often as was asked for; fail when anything is not as it should be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    given = parser.parse_args()
    random.seed(given.seed)
    failed, where, lost = 0, dict[str, int](), 0.0
    for number in range(given.kills):
        sys.stdout.flush()  # a child must not inherit what is not written yet
        with tempfile.TemporaryDirectory() as name:
            shared, folder = Shared(), Path(name)
            moment = killed(folder, shared)
            if (folder / "main.jsonl").exists():
                saved = read_session(folder / "main.jsonl").events
                kind = saved[-1].type if saved else "nothing"
                where[kind] = where.get(kind, 0) + 1
                lost = max(lost, shared.age(len(saved), moment))
            for finding in findings(folder, shared, moment):
                failed += 1
                sys.stdout.write(f"kill {number} of seed {given.seed}: {finding}\n")
    sys.stdout.write(
        f"{given.kills} kills, {failed} findings; the oldest event lost was {lost:.3f} s old, with "
        f"writes every {EVERY_SECONDS} s; files ended with {where}\n"
    )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
