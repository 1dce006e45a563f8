"""Run the benchmarks: ``python -m tests.bench [name …] [--pairs N]``.

Each pair runs the bare loop and then the harness in this process, against a server in another;
the table has the median of the pair ratios of CPU time (user and system, all threads), with the
quartiles.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from tests.bench.peers import Bare, Harness
from tests.bench.persistence import persistence_cost
from tests.bench.steps import step_growth
from tests.bench.tables import tables_cost
from tests.bench.view import view_table

GOALS = {
    "burst": ("2,000 chunks in one burst", 0.4),
    "burst-aiohttp": ("2,000 chunks in one burst, aiohttp", 0.4),
    "paced": ("2,000 chunks, one a millisecond", 0.9),
    "paced-aiohttp": ("2,000 chunks, one a millisecond, aiohttp", 0.55),
    "steps": ("50 steps with a tool call each", 1.0),
    "agents": ("200 agents at once, 200 chunks each", 0.6),
    "long": ("20,000 chunks in one burst", 0.4),
}
SCENARIO = {"paced": "burst.paced"}


async def cpu(work: Callable[[], Awaitable[int]]) -> tuple[float, int]:
    """CPU seconds of `work`, and what it returned."""
    gc.collect()
    began = time.process_time()
    chars = await work()
    return time.process_time() - began, chars


async def measure(name: str, base: str, pairs: int) -> None:
    """Run one benchmark and print its line."""
    kind, _, transport = name.partition("-")
    bare, harness = Bare(base), Harness(base, transport or "httpx")
    scenario = SCENARIO.get(kind, kind)

    def work(peer: Bare | Harness) -> Callable[[], Awaitable[int]]:
        return lambda: peer.agents(200) if kind == "agents" else peer.turn(scenario)

    await bare.turn("empty")
    await harness.turn("empty")
    ratios = []
    for _ in range(pairs):
        theirs_cpu, theirs_chars = await cpu(work(bare))
        ours_cpu, ours_chars = await cpu(work(harness))
        assert ours_chars == theirs_chars, (ours_chars, theirs_chars)
        ratios.append(ours_cpu / theirs_cpu)
    await harness.close()
    title, goal = GOALS[name]
    low, middle, high = statistics.quantiles(ratios, n=4)
    mark = "ok" if middle <= goal else "OVER"
    print(
        f"{title:<45} {middle:5.2f}  [{low:.2f} to {high:.2f}]  goal {goal:<5} {mark}", flush=True
    )


def without_server(name: str, pairs: int) -> bool:
    """Run a benchmark that needs no server; False when there is none of that name."""
    if name == "tables":
        tables_cost(1_000_000, min(pairs, 3))
    elif name == "view":
        view_table()
    else:
        return False
    return True


async def run(names: list[str], base: str, pairs: int) -> None:
    """Run the benchmarks one after the other."""
    for name in names:
        if name == "growth":
            await step_growth()
        elif name == "persistence":
            await persistence_cost()
        else:
            await measure(name, base, pairs)


def main() -> None:
    """Start the server, run what was asked for, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "names", nargs="*", default=[*GOALS, "growth", "persistence", "tables", "view"]
    )
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    # A browser of its own, or processes of their own: they run before the server is there.
    given.names = [name for name in given.names if not without_server(name, given.pairs)]
    if not given.names:
        return
    command = [sys.executable, "-m", "tests.bench.server"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        print("CPU of dsh_nb over CPU of a bare loop on the SDK's typed events; medians, quartiles")
        asyncio.run(run(given.names, f"http://127.0.0.1:{port}", given.pairs))


if __name__ == "__main__":
    main()
