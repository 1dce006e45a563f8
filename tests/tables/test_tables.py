"""What all tables have in common: their dtypes, their keys, and any log they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.llm.scripted import ScriptedModel, call, fail, say, think
from dsh_nb.messages import Retry, TextDelta, ToolCallBlock, Usage
from dsh_nb.session import Session
from dsh_nb.tables import chunks, events, many, messages, steps, tool_calls, turns, usage
from dsh_nb.testing import LogBuilder, running_agent

Table = Callable[..., pd.DataFrame]
TABLES: list[Table] = [chunks, events, messages, steps, tool_calls, turns, usage]
TEXT = "str" if pd.__version__ >= "3" else "string"
TIME = "datetime64[us, UTC]"
BILL = {
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cache_read_tokens": "Int64",
    "cache_write_tokens": "Int64",
}
DTYPES: dict[Table, dict[str, str]] = {
    chunks: {
        "session": TEXT,
        "seq": "Int64",
        "time": TIME,
        "turn": "Int64",
        "step": "Int64",
        "attempt": "Int64",
        "index": "Int64",
        "kind": "category",
        "text": TEXT,
    },
    messages: {
        "session": TEXT,
        "seq": "Int64",
        "turn": "Int64",
        "step": "Int64",
        "role": "category",
        "kind": "category",
        "text": TEXT,
        "call_id": TEXT,
        "tool": TEXT,
        "source": TEXT,
    },
    turns: {
        "session": TEXT,
        "turn": "Int64",
        "started": TIME,
        "seconds": "Float64",
        "steps": "Int64",
        "tool_calls": "Int64",
        "reason": "category",
        **BILL,
        "cost": "Float64",
        "waiting_seconds": "Float64",
    },
    steps: {
        "session": TEXT,
        "turn": "Int64",
        "step": "Int64",
        "started": TIME,
        "seconds": "Float64",
        "first_token_seconds": "Float64",
        "decode_tokens_per_second": "Float64",
        "model": TEXT,
        "stop_reason": TEXT,
        "attempts": "Int64",
        **BILL,
        "cost": "Float64",
    },
    tool_calls: {
        "session": TEXT,
        "call_id": TEXT,
        "turn": "Int64",
        "step": "Int64",
        "tool": TEXT,
        "arguments": TEXT,
        "result": TEXT,
        "started": TIME,
        "seconds": "Float64",
        "waiting_seconds": "Float64",
        "outcome": "category",
        "edited": "boolean",
    },
    usage: {
        "session": TEXT,
        "turn": "Int64",
        "step": "Int64",
        "message_id": TEXT,
        "model": TEXT,
        **BILL,
        "reasoning_tokens": "Int64",
        "cost": "Float64",
        "estimated": "boolean",
    },
}


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


def whole() -> LogBuilder:
    """A turn with a call, and an open one whose call runs."""
    log = LogBuilder().context("early").user("hi").turn().step().chunk(TextDelta(0, "Let me"))
    log.says("Let me see.", ToolCallBlock("c1", "add", "{}")).call("c1").add("my/event", {"a": 1})
    log.result("c1").end_step().step().says("3").end_step().end_turn()
    return log.user("more").turn().step().says(ToolCallBlock("c2", "add", "{}")).call("c2")


@pytest.mark.rule("S2")
@pytest.mark.parametrize(
    "log",
    [LogBuilder(), whole(), LogBuilder().add("my/event", {"turn": 9, "callId": None})],
    ids="empty whole unknown".split(),
)
@pytest.mark.parametrize("table", DTYPES)
def test_any_log_has_the_same_columns_and_dtypes(table: Table, log: LogBuilder) -> None:
    frame = table(log.events, "s1")

    assert list(dtypes(frame).items()) == list(DTYPES[table].items())
    assert set(frame["session"]) <= {"s1"}
    assert list(frame.index) == list(range(len(frame)))


@pytest.mark.parametrize("table", TABLES)
def test_sessions_together_keep_dtypes_and_are_told_apart(table: Table) -> None:
    first, empty, second = (
        Session("a", whole().events),
        Session("b"),
        Session("c", whole().events),
    )
    joined, none = many(table, [first, empty, second]), many(table, [])

    assert dtypes(joined) == dtypes(none) == dtypes(table(first))
    assert len(none) == 0
    assert list(joined["session"]) == ["a"] * len(table(first)) + ["c"] * len(table(second))
    assert list(joined.index) == list(range(len(joined)))


@pytest.mark.parametrize("table", DTYPES)
async def test_live_and_copied_sessions_give_the_same_frame(table: Table) -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    model = ScriptedModel([[think("hm"), call("add", a=1)], say("1"), fail("busy", code="x")])
    async with running_agent(model, tools=[add]) as test:
        await test.say("hi")
        await test.say("again")
        frame = table(test.agent.session)

        assert dtypes(frame) == DTYPES[table]
        assert len(frame) > 0
        pd.testing.assert_frame_equal(frame, table(Session("main", test.log)))


@pytest.mark.parametrize("table", TABLES)
def test_a_number_that_64_bits_do_not_hold_is_missing_and_nothing_else_is(table: Table) -> None:
    log = whole().end_step().step().says("x", usage=Usage(2**80, 2**53 + 1))

    frame = table(log.events)

    assert len(frame) >= len(table(whole().events))
    if table is usage:
        assert frame["input_tokens"].isna().tolist() == [False, False, False, True]
        assert frame["output_tokens"].tolist() == [5, 5, 5, 2**53 + 1]


@pytest.mark.parametrize("table", TABLES)
def test_any_part_of_a_log_is_a_frame(table: Table) -> None:
    log = whole().events

    shapes = [dtypes(table(log[start:])) for start in range(len(log) + 1)]

    assert shapes == [dtypes(table(log))] * len(shapes)


STEPS = st.lists(st.lists(st.sampled_from("ok error open skip retry".split()), max_size=3))


@given(st.lists(STEPS, max_size=3), st.integers(0, 40), st.integers(0, 10))
@settings(max_examples=60)
def test_joins_on_the_keys_lose_and_double_no_row(
    plan: list[list[list[str]]], start: int, left_out: int
) -> None:
    log = log_of(plan).events[start:]
    log = log[: len(log) - left_out] if left_out else log
    asked, took, turned = tool_calls(log, "s"), steps(log, "s"), turns(log, "s")

    joined = asked.merge(took, on=["session", "turn", "step"], validate="many_to_one")
    joined = joined.merge(turned, on=["session", "turn"], validate="many_to_one")

    assert joined["call_id"].tolist() == asked["call_id"].tolist()
    assert asked["call_id"].is_unique
    assert took.merge(turned, on=["session", "turn"]).shape[0] == len(took)


def log_of(plan: list[list[list[str]]]) -> LogBuilder:
    """A log with a turn per list, a step per list in it, and its calls."""
    log, number = LogBuilder(), 0
    for turn in plan:
        log.user("go").turn()
        for step in turn:
            log.step()
            ids = [f"c{number + n}" for n in range(len(step))]
            number += len(step)
            if "retry" in step:
                log.chunk(Retry(1, "busy", "x"))
            log.says("so", *(ToolCallBlock(one, "add", "{}") for one in ids))
            for call_id, what in zip(ids, step, strict=True):
                finish(log, call_id, what)
            log.end_step()
        log.end_turn()
    return log


def finish(log: LogBuilder, call_id: str, what: str) -> Any:
    if what in {"ok", "error", "open"}:
        log.call(call_id)
    if what in {"ok", "error", "skip"}:
        log.result(call_id, is_error=what == "error")
