"""What saving costs: CPU for each chunk beyond the append itself, and bytes in the file."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from dsh_nb.core import Context
from dsh_nb.messages import TextDelta
from dsh_nb.plugins.persistence import PersistenceConfig, persistence
from dsh_nb.session.events import AssistantChunk, StepStart, TurnEnd, TurnReason
from dsh_nb.session.files import encode_events, read_session
from dsh_nb.session.session import Session
from dsh_nb.session.store import SESSION_EVENT, SESSION_FLUSH, SESSIONS, SessionStore

CHUNKS = 20_000
TURNS = 5
GOAL_MICROSECONDS = 3.0


def chunks() -> list[AssistantChunk]:
    """Most are a word long, as tokens are."""
    rng = random.Random(1)
    words = "the quick brown fox asks for the task, and runs home 42 times.".split()
    return [AssistantChunk(1, 1, TextDelta(0, f"{rng.choice(words)} ")) for _ in range(CHUNKS)]


async def run(folder: Path | None) -> tuple[float, Session]:
    """CPU seconds of appending with one listener, and with the file where `folder` is given."""
    ctx, said = Context(), chunks()
    ctx.plugin(SessionStore)
    ctx.on(SESSION_EVENT, lambda session, event: None)
    if folder is not None:
        config = PersistenceConfig(folder=folder, every_seconds=0.02)
        await ctx.plugin(persistence, config)
    session = ctx.get(SESSIONS).create()
    began = time.process_time()
    for turn in range(1, TURNS + 1):
        session.append("turn/start", {"turn": turn, "trigger": {"kind": "continuation"}})
        session.append("step/start", StepStart(turn, 1))
        for position, chunk in enumerate(said):
            session.append_chunk(chunk)
            if not position % 1_000:
                await asyncio.sleep(0)
        session.append("turn/end", TurnEnd(turn, TurnReason("completed")))
        await ctx.parallel(SESSION_FLUSH, session)
    await ctx.dispose()
    return time.process_time() - began, session


async def persistence_cost(pairs: int = 9) -> None:
    """Print the median difference of the pairs, and what the file costs in bytes and to read."""
    extra, alone = [], []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as name:
            without, _ = await run(None)
            with_file, session = await run(Path(name))
            (path,) = [Path(name, one) for one in os.listdir(name)]
            began = time.process_time()
            log = read_session(path)
            reading = time.process_time() - began
            size = path.stat().st_size
        assert log.events == [*session]
        extra.append((with_file - without) / len(session) * 1e6)
        alone.append(without / len(session) * 1e6)
    low, middle, high = statistics.quantiles(extra, n=4)
    mark = "ok" if middle <= GOAL_MICROSECONDS else "OVER"
    print(
        f"{'saving, µs of CPU an event beyond the append':<45} {middle:5.2f}  "
        f"[{low:.2f} to {high:.2f}]  goal {GOAL_MICROSECONDS:<5} {mark}; "
        f"the append with one listener {statistics.median(alone):.2f}"
    )
    _sizes(session, size, reading)


def _sizes(session: Session, size: int, reading: float) -> None:
    events = [*session]
    plain = len(msgspec.json.Encoder().encode_lines(events))
    text = sum(len(one.data.chunk.text) for one in events if one.type == "assistant/chunk")
    began = time.process_time()
    encode_events(events)
    encoding = time.process_time() - began
    print(
        f"{'size of the file over a line for each chunk':<45} {size / plain:5.3f}  "
        f"({size / len(events):.1f} B an event, {plain / len(events):.0f} unpacked, "
        f"{text / len(events):.1f} of text)"
    )
    print(
        f"{'encoding and reading, µs an event':<45} {encoding / len(events) * 1e6:5.2f}  and "
        f"{reading / len(events) * 1e6:.2f} ({encoding / size * 1e9:.0f} ms a MB written)",
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(persistence_cost())
