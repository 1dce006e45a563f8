"""What the table of events costs: ``python -m tests.bench.tables [--events N] [--pairs N]``.

Each measurement is a process of its own, the two of a pair one after the other. From a file: the
table over the fastest known way to the same columns (msgspec in batches, typed lines, columns of
pandas), CPU and peak memory beyond the imports. In memory: the table of a session over loading
that session from the same file.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from dsh_nb import tables
from dsh_nb.messages import TextBlock, TextDelta, ToolCallBlock, ToolCallDelta, Usage
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.session import Session
from dsh_nb.testing import FakeClock, LogBuilder

GOALS = {"cpu": 1.5, "memory": 2.0, "live": 1.0}
TABLES = ("events", "chunks", "messages", "turns", "steps", "tool_calls", "usage", "spans")
WORDS = "the of and to in is that it was for on are as with his they at be this have".split()


def log() -> Iterator[SessionEvent]:
    """An endless session in which nearly all events are single tokens."""
    rng, builder = random.Random(7), LogBuilder(FakeClock(step_ms=12))
    number = 0
    while True:
        builder.user("what is 1 + 2? Think before you answer, and use the tool").turn()
        for _ in range(rng.randint(1, 4)):
            builder.step()
            words = rng.randint(60, 400)
            for _ in range(words):
                builder.chunk(TextDelta(0, f"{rng.choice(WORDS)} "))
            number += 1
            call = f"toolu_{number:016x}"
            for piece in ('{"a"', ": 1", ', "b"', ": 2}"):
                builder.chunk(ToolCallDelta(1, call, piece, "add"))
            asked = ToolCallBlock(call, "add", '{"a": 1, "b": 2}')
            builder.says(TextBlock("word " * words), asked, usage=Usage(100, words))
            builder.call(call).result(call, "3").end_step()
        builder.end_turn()
        yield from builder.events
        builder.events = []


def write(path: Path, events: int) -> None:
    """A file of plain JSON lines."""
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for seq, event in enumerate(islice(log(), events)):
            file.write(encode(msgspec.structs.replace(event, seq=seq)) + b"\n")


class Piece(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A chunk, read for its text alone."""

    text: str | None = None
    arguments_delta: str | None = None


class Reason(msgspec.Struct, frozen=True, gc=False):
    """Why a turn ended."""

    kind: str | None = None
    message: str | None = None


class Fields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All that the columns need of any event's data, in one struct."""

    turn: int | None = None
    step: int | None = None
    call_id: str | None = None
    name: str | None = None
    chunk: Piece | None = None
    content: tuple[Any, ...] | None = None
    arguments: str | None = None
    message: str | None = None
    reason: Reason | None = None
    is_error: bool | None = None


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line, its data kept as text too."""

    seq: int
    time: int
    type: str
    data: msgspec.Raw


ROLES = {
    "assistant/chunk": "assistant",
    "assistant/message": "assistant",
    "tool/call": "assistant",
    "tool/result": "tool",
    "user/message": "user",
}
ROLE_CODES = {None: -1, "user": 0, "assistant": 1, "tool": 2}


def by_hand(path: Path) -> pd.DataFrame:
    """The fastest known way: batches, structs, lists of columns; the data stays JSON text."""
    lines = msgspec.json.Decoder(Line).decode_lines
    fields = msgspec.json.Decoder(Fields).decode
    columns: dict[str, list[Any]] = {
        name: [] for name in "seq time type turn step call_id role tool text reason error".split()
    }
    raw: list[bytes] = []
    names: dict[str, str] = {}
    with path.open("rb") as file:
        while batch := file.read(1 << 20):
            rows = lines(batch + file.readline())
            said = [fields(row.data) for row in rows]
            columns["seq"] += [row.seq for row in rows]
            columns["time"] += [row.time for row in rows]
            columns["type"] += [sys.intern(row.type) for row in rows]
            columns["turn"] += [one.turn for one in said]
            columns["step"] += [one.step for one in said]
            columns["call_id"] += [one.call_id for one in said]
            columns["role"] += [ROLE_CODES[ROLES.get(row.type)] for row in rows]
            for one in said:
                if one.call_id and one.name:
                    names[one.call_id] = one.name
            columns["tool"] += [names.get(one.call_id) if one.call_id else None for one in said]
            columns["text"] += [text_of(one) for one in said]
            columns["reason"] += [one.reason.kind if one.reason else None for one in said]
            columns["error"] += [one.is_error for one in said]
            raw += [bytes(row.data) for row in rows]
    return assembled(columns, raw)


def text_of(said: Fields) -> str | None:
    """The text of an event."""
    if said.chunk is not None:
        return said.chunk.text or said.chunk.arguments_delta
    if said.content is not None:
        return "".join(block.get("text", "") for block in said.content)
    return said.arguments or said.message


def assembled(columns: dict[str, list[Any]], raw: list[bytes]) -> pd.DataFrame:
    """The frame, each column in the cheapest way there is."""
    length = len(raw)
    data = np.empty(length, dtype=object)
    data[:] = raw
    roles = ["user", "assistant", "tool"]
    codes: Any = np.array(columns["role"], dtype="int8")  # Any: the stubs want a Series
    whole: Any = {
        "session": pd.array(np.full(length, "s", dtype=object), dtype="str"),
        "seq": pd.array(np.array(columns["seq"]), dtype="Int64"),
        "time": pd.DatetimeIndex(np.array(columns["time"], dtype="datetime64[ms]"), tz="UTC"),
        "type": pd.array(columns["type"], dtype="str"),
        "turn": pd.array(columns["turn"], dtype="Int64"),
        "step": pd.array(columns["step"], dtype="Int64"),
        "call_id": pd.array(columns["call_id"], dtype="str"),
        "role": pd.Categorical.from_codes(codes, pd.Index(roles)),
        "tool": pd.array(columns["tool"], dtype="str"),
        "text": pd.array(columns["text"], dtype="str"),
        "reason": pd.Categorical(columns["reason"]),
        "is_error": pd.array(columns["error"], dtype="boolean"),
        "data": data,
    }
    return pd.DataFrame(whole, copy=False)


def peak() -> float:
    """The most memory that this process had so far, in MB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def took(work: Callable[[], object]) -> float:
    """CPU seconds of `work`."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measured(way: str, path: Path) -> dict[str, float]:
    """What one way costs, in this process."""
    import_module("dsh_nb.tables.json_array")  # imports are not counted
    before = peak()
    if way == "live":
        loaded: list[Session] = []
        load = took(lambda: loaded.append(Session("s", tables.scan(path))))
        return {"load": load} | {
            name: took(partial(getattr(tables, name), loaded[0])) for name in TABLES
        }
    read = by_hand if way == "by hand" else tables.events_of_file
    return {"cpu": took(lambda: read(path)), "memory": peak() - before}


def apart(way: str, path: Path) -> dict[str, float]:
    """`measured` in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.tables", "--way", way, "--file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def tables_cost(events: int, pairs: int) -> None:
    """Print the ratios, medians of the pairs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        write(path, events)
        ours, theirs, live = [], [], []
        for _ in range(pairs):
            theirs.append(apart("by hand", path))
            ours.append(apart("ours", path))
            live.append(apart("live", path))
    for name in ("cpu", "memory"):
        ratios = [one[name] / other[name] for one, other in zip(ours, theirs, strict=True)]
        unit = "s" if name == "cpu" else "MB"
        absolute = [statistics.median(run[name] for run in runs) for runs in (ours, theirs)]
        of = f"({absolute[0]:.2f} and {absolute[1]:.2f} {unit})"
        say(f"{events:,} lines to events, {name}", statistics.median(ratios), GOALS[name], of)
    for name in TABLES:
        ratio = statistics.median(run[name] / run["load"] for run in live)
        say(f"a session to {name}, over loading it", ratio, GOALS["live"], "")


def say(title: str, ratio: float, goal: float, absolute: str) -> None:
    """Print a line."""
    mark = "ok" if ratio <= goal else "OVER"
    print(f"{title:<45} {ratio:5.2f}  goal {goal:<5} {mark}  {absolute}".rstrip(), flush=True)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(measured(given.way, given.file)))
    else:
        tables_cost(given.events, given.pairs)


if __name__ == "__main__":
    main()
