"""The five dispatch modes, and pipes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dsh_nb.core import Bail, Context, Emit, Parallel, Pipe, Proceed, ProceedPipe, Serial, Waterfall
from dsh_nb.errors import ProceedTwiceError

TOLD: Emit[str] = Emit("test/told")
ALL: Parallel[list[str]] = Parallel("test/all")
ASKED: Serial[int, str] = Serial("test/asked")
BAILED: Bail[int, str] = Bail("test/bailed")
AROUND: Waterfall[str, str] = Waterfall("test/around")
STREAM: Pipe[int, int] = Pipe("test/stream")


@pytest.mark.rule("C6")
async def test_emit_calls_in_order_and_raises_to_the_emitter() -> None:
    ctx, heard = Context(), []
    ctx.on(TOLD, lambda text: heard.append(f"a {text}"))
    ctx.on(TOLD, lambda text: heard.append(f"b {text}"))
    ctx.on(TOLD, lambda text: heard.append(f"first {text}"), prepend=True)
    ctx.emit(TOLD, "x")

    def broken(text: str) -> None:
        raise RuntimeError(text)

    ctx.on(TOLD, broken)
    with pytest.raises(RuntimeError, match="boom"):
        ctx.emit(TOLD, "boom")
    assert heard[:3] == ["first x", "a x", "b x"]


@pytest.mark.rule("C6")
async def test_parallel_waits_for_all_and_raises_afterwards() -> None:
    ctx = Context()
    seen: list[str] = []

    async def slow(list_: list[str]) -> None:
        list_.append("slow")

    def broken(list_: list[str]) -> None:
        raise RuntimeError("disk")

    ctx.on(ALL, broken)
    ctx.on(ALL, slow)

    with pytest.raises(RuntimeError, match="disk"):
        await ctx.parallel(ALL, seen)
    assert seen == ["slow"]


@pytest.mark.rule("C6")
async def test_serial_and_bail_stop_at_the_first_answer() -> None:
    ctx, asked = Context(), []

    def nothing(n: int) -> None:
        asked.append("nothing")

    def no(n: int) -> bool:
        asked.append("no")
        return False

    async def yes(n: int) -> str:
        asked.append("yes")
        return f"yes {n}"

    def late(n: int) -> str:
        asked.append("late")
        return "late"

    for listener in (nothing, no):
        ctx.on(ASKED, listener)
        ctx.on(BAILED, listener)
    ctx.on(ASKED, yes)
    ctx.on(ASKED, late)
    ctx.on(BAILED, late)

    assert await ctx.serial(ASKED, 1) == "yes 1"
    assert ctx.bail(BAILED, 1) == "late"
    assert asked == ["nothing", "no", "yes", "nothing", "no", "late"]


@pytest.mark.rule("C6")
async def test_waterfall_wraps_in_registration_order_and_may_change_or_answer() -> None:
    ctx = Context()

    async def outer(text: str, proceed: Proceed[str]) -> str:
        return f"<{await proceed(text + '!')}>"

    async def inner(text: str, proceed: Proceed[str]) -> str:
        return "short" if text == "stop!" else f"[{await proceed()}]"

    ctx.on(AROUND, outer)
    ctx.on(AROUND, inner)

    assert await ctx.waterfall(AROUND, str.upper, "go") == "<[GO!]>"
    assert await ctx.waterfall(AROUND, str.upper, "stop") == "<short>"


@pytest.mark.rule("C6")
async def test_pipe_wraps_streams() -> None:
    ctx = Context()

    async def count(n: int) -> AsyncIterator[int]:
        for value in range(n):
            yield value

    async def doubled(n: int, proceed: ProceedPipe[int]) -> AsyncIterator[int]:
        async for value in proceed():
            yield value * 2

    ctx.on(STREAM, doubled)

    assert [value async for value in ctx.pipe(STREAM, count, 3)] == [0, 2, 4]


@pytest.mark.rule("C7")
async def test_listeners_that_come_or_go_change_the_next_dispatch() -> None:
    ctx, heard = Context(), []

    def added(text: str) -> None:
        heard.append(f"added {text}")

    def first(text: str) -> None:
        heard.append(f"first {text}")
        undo()
        ctx.on(TOLD, added)

    undo = ctx.on(TOLD, first)
    ctx.emit(TOLD, "1")
    ctx.emit(TOLD, "2")

    assert heard == ["first 1", "added 2"]


@pytest.mark.rule("C7")
async def test_calling_one_proceed_twice_is_an_error_and_again_is_not() -> None:
    ctx = Context()

    async def twice(text: str, proceed: Proceed[str]) -> str:
        await proceed()
        return await proceed()

    async def deliberate(text: str, proceed: Proceed[str]) -> str:
        return await proceed.again()() + await proceed.again()()

    undo = ctx.on(AROUND, twice)
    with pytest.raises(ProceedTwiceError, match=r"'test/around' called proceed\(\) twice"):
        await ctx.waterfall(AROUND, str.upper, "a")
    undo()
    ctx.on(AROUND, deliberate)

    assert await ctx.waterfall(AROUND, str.upper, "a") == "AA"


@pytest.mark.rule("C6")
def test_type_checker_finds_a_listener_with_the_wrong_payload(tmp_path: Path) -> None:
    source = tmp_path / "listeners.py"
    source.write_text(
        "from dsh_nb.core import Context, Emit, Proceed, ServiceKey, Waterfall\n"
        "TOLD: Emit[str, int] = Emit('told')\n"
        "AROUND: Waterfall[str, int] = Waterfall('around')\n"
        "KEY: ServiceKey[str] = ServiceKey('key')\n"
        "ctx = Context()\n"
        "def good(text: str, n: int) -> None: ...\n"
        "def bad(text: bytes, n: int) -> None: ...\n"
        "async def around(text: str, proceed: Proceed[int]) -> int: return await proceed()\n"
        "async def wrong(text: str, proceed: Proceed[int]) -> str: return ''\n"
        "ctx.on(TOLD, good)\n"
        "ctx.on(AROUND, around)\n"
        "ctx.on(TOLD, bad)  # line 12\n"
        "ctx.on(AROUND, wrong)  # line 13\n"
        "ctx.emit(TOLD, 'x', 'y')  # line 14\n"
        "n: int = ctx.get(KEY)  # line 15\n"
    )

    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(source)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])

    at_fault = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    assert at_fault == {12, 13, 14, 15}, found.stdout
