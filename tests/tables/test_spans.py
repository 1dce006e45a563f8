"""The spans of a log: what the time went into."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dsh_nb.messages import BlockStart, Retry, TextDelta, ToolCallBlock
from dsh_nb.tables import spans
from dsh_nb.testing import FakeClock, LogBuilder

DTYPES = {
    "session": "str" if pd.__version__ >= "3" else "string",
    "turn": "Int64",
    "step": "Int64",
    "kind": "category",
    "lane": "Int64",
    "label": "str" if pd.__version__ >= "3" else "string",
    "started": "datetime64[us, UTC]",
    "seconds": "Float64",
}


class Timed:
    """A log in which time passes only when it is told."""

    def __init__(self) -> None:
        self.clock = FakeClock(0, step_ms=0)
        self.log = LogBuilder(self.clock)

    def after(self, seconds: float) -> LogBuilder:
        self.clock.advance(seconds)
        return self.log

    def spans(self) -> list[tuple[Any, ...]]:
        """Step, kind, lane, label, start and seconds of each span."""
        return [
            tuple(None if pd.isna(one) else one for one in (*row[:4], row[4].timestamp(), row[5]))
            for row in spans(self.log.events)[
                ["step", "kind", "lane", "label", "started", "seconds"]
            ].itertuples(index=False)
        ]


def started() -> Timed:
    timed = Timed()
    timed.log.user("hi").turn().step()
    return timed


def test_step_is_waiting_then_streaming_then_its_tools() -> None:
    timed = started()
    timed.after(1).chunk(BlockStart(0, "text"))
    timed.after(1).chunk(TextDelta(0, "a"))
    timed.after(2).says("a", ToolCallBlock("c1", "add", "{}")).call("c1")
    timed.after(3).result("c1").end_step().end_turn()

    assert timed.spans() == [
        (None, "turn", 0, "completed", 0, 7),
        (1, "step", 0, "scripted", 0, 7),
        (1, "first token", 0, None, 0, 2),
        (1, "streaming", 0, None, 2, 2),
        (1, "tool", 0, "add", 4, 3),
    ]


def test_calls_that_run_at_once_have_lanes_and_free_ones_are_used_again() -> None:
    timed = started()
    timed.log.says("x").call("a", "one").call("b", "two")
    timed.after(1).result("a").call("c", "three").call("d", "four")
    timed.after(1).result("b").result("c").result("d").end_step()

    lanes = {row[3]: row[2] for row in timed.spans() if row[1] == "tool"}
    assert lanes == {"one": 0, "two": 1, "three": 0, "four": 2}


def test_failed_attempt_is_one_span_with_its_delay() -> None:
    timed = started()
    timed.after(1).chunk(TextDelta(0, "wrong"))
    timed.after(1).chunk(Retry(1, "busy", "x", delay_seconds=0.5))
    timed.after(0.5).chunk(Retry(2, "busy again", "x", delay_seconds=1))
    timed.after(2).chunk(TextDelta(0, "right"))
    timed.after(1).says("right").end_step()

    assert timed.spans()[2:] == [
        (1, "retry", 0, "busy", 0, 2.5),
        (1, "retry", 0, "busy again", 2.5, 1),
        (1, "first token", 0, None, 3.5, 1),
        (1, "streaming", 0, None, 4.5, 1),
    ]


def test_waiting_for_approval_lies_in_the_lane_of_its_call() -> None:
    timed = started()
    timed.log.says("x").call("a", "one").call("b", "rm").add("approval/asked", {"callId": "b"})
    timed.after(2).add("approval/decided", {"callId": "b", "outcome": "approved"})
    timed.after(1).result("a").result("b").end_step()

    assert [row for row in timed.spans() if row[1] == "approval"] == [
        (1, "approval", 1, "rm", 0, 2)
    ]


def test_what_goes_on_has_no_seconds_and_what_was_cut_ends_with_its_step() -> None:
    running, cut = started(), started()
    running.log.says("x").call("a")
    cut.log.says("x").call("a").add("approval/asked", {"callId": "a"})
    cut.after(2).end_turn("aborted")

    assert [row[5] for row in running.spans()] == [None, None, 0, None]
    assert [row[5] for row in cut.spans()] == [2, 2, 0, 2, 2]


def test_clock_that_was_set_back_gives_no_seconds() -> None:
    timed = started()
    timed.after(-5).says("x").end_step().end_turn()

    assert timed.spans()[0][5] is None


@pytest.mark.parametrize("start", range(12))
def test_any_part_of_a_log_has_the_same_dtypes(start: int) -> None:
    timed = started()
    timed.log.chunk(TextDelta(0, "a")).chunk(Retry(1, "busy", "x")).says("a").call("a")
    timed.log.add("approval/asked", {"callId": "a"}).result("a").end_step().end_turn()
    frame = spans(timed.log.events[start:], "s")

    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
