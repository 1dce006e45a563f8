"""The tool calls of a log: what they came to, how long they took and how long they waited."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dsh_nb.messages import ImageBlock, TextBlock, ToolCallBlock
from dsh_nb.session.events import ToolResult
from dsh_nb.tables import messages, tool_calls, turns
from dsh_nb.testing import FakeClock, LogBuilder

START = pd.Timestamp(1_700_000_000_000, unit="ms", tz="UTC")


def asks(*ids: str, clock: FakeClock | None = None) -> LogBuilder:
    log = LogBuilder(clock or FakeClock(step_ms=0)).user("hi").turn().step()
    return log.says(*(ToolCallBlock(one, "add", f'{{"id": "{one}"}}') for one in ids))


def outcomes(log: LogBuilder) -> list[Any]:
    return tool_calls(log.events)["outcome"].tolist()


def test_call_tells_what_was_asked_what_came_of_it_and_when() -> None:
    clock = FakeClock(step_ms=0)
    log = asks("c1", clock=clock)
    clock.advance(1)
    log.call("c1", "add", '{"edited": 1}')
    clock.advance(2)
    log.add("approval/asked", {"callId": "c1"})
    clock.advance(4)
    log.add("approval/decided", {"callId": "c1", "edited": True})
    clock.advance(0.5)
    frame = tool_calls(log.result("c1", "3").events, "s1")

    assert frame.loc[0].to_dict() == {
        "session": "s1",
        "call_id": "c1",
        "turn": 1,
        "step": 1,
        "tool": "add",
        "arguments": '{"id": "c1"}',
        "result": "3",
        "started": START + pd.Timedelta(seconds=1),
        "seconds": 6.5,
        "waiting_seconds": 4.0,
        "outcome": "ok",
        "edited": True,
    }


@pytest.mark.parametrize(
    ("outcome", "is_error", "told"),
    [
        ("ok", False, "ok"),
        ("ok", True, "error"),
        ("error", True, "error"),
        ("denied", True, "denied"),
        ("interrupted", True, "interrupted"),
        ("not started", True, "not started"),
        ("a plugin's own", False, "ok"),
        ("a plugin's own", True, "error"),
    ],
)
def test_outcome_is_one_of_a_closed_set(outcome: str, is_error: bool, told: str) -> None:
    log = asks("c1").add("tool/result", ToolResult(1, 1, "c1", (), is_error, outcome))

    assert outcomes(log) == [told]


def test_call_without_a_result_runs_while_its_step_is_open() -> None:
    log = asks("c1", "c2").call("c1")

    frame = tool_calls(log.events)

    assert frame["outcome"].tolist() == ["running", "running"]
    assert frame["seconds"].isna().tolist() == [True, True]
    assert frame["started"].isna().tolist() == [False, True]


@pytest.mark.parametrize("goes_on", ["end_step", "end_turn", "step", "turn"])
def test_call_without_a_result_was_interrupted_or_never_started_once_the_log_goes_on(
    goes_on: str,
) -> None:
    log = asks("c1", "c2").call("c1")
    getattr(log, goes_on)()

    assert outcomes(log) == ["interrupted", "not started"]


def test_waiting_of_two_calls_at_once_counts_once_for_the_turn() -> None:
    clock = FakeClock(step_ms=0)
    log = asks("c1", "c2", clock=clock).call("c1").call("c2")
    log.add("approval/asked", {"callId": "c1"}).add("approval/asked", {"callId": "c2"})
    clock.advance(2)
    log.add("approval/decided", {"callId": "c1"})
    clock.advance(3)
    waiting = tool_calls(log.events)["waiting_seconds"]
    log.result("c2").end_step().end_turn()

    assert (waiting[0], waiting.isna().tolist()) == (2.0, [False, True])
    assert tool_calls(log.events)["waiting_seconds"].tolist() == [2.0, 5.0]
    assert tool_calls(log.events)["edited"].tolist() == [False, False]
    assert turns(log.events)["waiting_seconds"].tolist() == [5.0]
    assert turns(log.events)["tool_calls"].tolist() == [2]


def test_nobody_decides_and_the_turn_ends_the_waiting() -> None:
    clock = FakeClock(step_ms=0)
    log = asks("c1", clock=clock).add("approval/asked", {"callId": "c1"})
    open_turn = turns(log.events)["waiting_seconds"].isna().tolist()
    clock.advance(3)
    log.end_turn("aborted")
    log.user("more").turn().end_turn()

    assert open_turn == [True]
    assert turns(log.events)["waiting_seconds"].tolist() == [3.0, 0.0]


@pytest.mark.parametrize("data", [{}, {"callId": None}, {"callId": ["c1"]}, {"callId": "c9"}])
def test_approval_events_of_no_call_change_nothing(data: dict[str, Any]) -> None:
    log = asks("c1").add("approval/asked", data).add("approval/decided", {**data, "edited": True})

    frame = tool_calls(log.result("c1").events)

    assert (frame["waiting_seconds"].tolist(), frame["edited"].tolist()) == ([0.0], [False])


def test_messages_have_a_row_per_block_with_its_call_and_tool() -> None:
    log = LogBuilder().context("early", "clock").user("hi").turn().step()
    log.says("Let me.", ToolCallBlock("c1", "add", "{}"))
    picture = ImageBlock("data:image/png;base64,AA==")
    log.add("tool/result", ToolResult(1, 1, "c1", (TextBlock("3"), picture), False))
    log.steer("hurry").end_step().end_turn()
    frame = messages(log.events)

    rows = frame.drop(columns=["session", "seq"]).astype(object).to_numpy().tolist()
    assert [[None if pd.isna(value) else value for value in row] for row in rows] == [
        [None, None, "user", "text", "early", None, None, "clock"],
        [1, None, "user", "text", "hi", None, None, "user"],
        [1, 1, "assistant", "text", "Let me.", None, None, None],
        [1, 1, "assistant", "tool_call", "{}", "c1", "add", None],
        [1, 1, "tool", "tool_result", "3", "c1", "add", None],
        [1, 1, "tool", "image", None, "c1", "add", None],
        [1, None, "user", "text", "hurry", None, None, "user"],
    ]
    assert [log.events[seq].type.split("/")[0] for seq in frame["seq"]] == [
        *("context", "user", "assistant", "assistant", "tool", "tool", "steering"),
    ]
