"""The steps, turns and usage of a log: times by a clock moved by hand, tokens and cost."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dsh_nb.messages import Finish, FinishReason, ReasoningDelta, Retry, TextDelta, Usage
from dsh_nb.session.events import AssistantMessage, Failure, UsageReport
from dsh_nb.tables import cost_of, steps, turns, usage
from dsh_nb.testing import FakeClock, LogBuilder

MODEL = "claude-sonnet-4-5"
START = pd.Timestamp(1_700_000_000_000, unit="ms", tz="UTC")
BILLED = Usage(1_000, 30, 200, 100, 10)
CUT = Usage(500, 2)


def row(frame: pd.DataFrame, n: int = 0) -> dict[str, Any]:
    """A row without its session and with None for what is missing."""
    values = {str(name): frame[name][n] for name in frame if name != "session"}
    return {name: None if pd.isna(value) else value for name, value in values.items()}


def retried(model: str | None = MODEL) -> LogBuilder:
    """One step in two attempts, both billed."""
    clock = FakeClock(step_ms=0)
    log = LogBuilder(clock).user("hi").turn().step()
    clock.advance(0.5)
    log.chunk(TextDelta(0, "wro")).add("usage", UsageReport(1, 1, CUT, "m1", model, True, 1))
    log.chunk(Retry(1, "busy", "overloaded"))
    clock.advance(1.5)
    log.chunk(ReasoningDelta(0, "hm"))
    clock.advance(4)
    log.chunk(Finish(FinishReason("stop")))
    log.add("assistant/message", AssistantMessage(1, 1, (), stop_reason="stop"))
    log.add("usage", UsageReport(1, 1, BILLED, "m2", model, False, 2))
    clock.advance(1)
    log.end_step()
    clock.advance(0.25)
    return log.end_turn()


def test_step_tells_its_times_by_the_last_attempt_and_its_cost_by_all() -> None:
    first, last = cost_of(CUT, MODEL), cost_of(BILLED, MODEL)

    assert first is not None
    assert last is not None
    assert row(steps(retried().events)) == {
        "turn": 1,
        "step": 1,
        "started": START,
        "seconds": 7.0,
        "first_token_seconds": 2.0,
        "decode_tokens_per_second": 10.0,
        "model": MODEL,
        "stop_reason": "stop",
        "attempts": 2,
        "input_tokens": 1_500,
        "output_tokens": 32,
        "cache_read_tokens": 200,
        "cache_write_tokens": 100,
        "cost": pytest.approx(first + last),
    }


def test_turn_tells_its_whole_time_tokens_and_cost() -> None:
    assert row(turns(retried().events)) == {
        "turn": 1,
        "started": START,
        "seconds": 7.25,
        "steps": 1,
        "tool_calls": 0,
        "reason": "completed",
        "input_tokens": 1_500,
        "output_tokens": 32,
        "cache_read_tokens": 200,
        "cache_write_tokens": 100,
        "cost": pytest.approx(float(steps(retried().events)["cost"][0])),
        "waiting_seconds": 0.0,
    }


def test_usage_has_a_row_per_report_and_says_which_is_estimated() -> None:
    frame = usage(retried().events)

    assert row(frame, 1) == {
        "turn": 1,
        "step": 1,
        "message_id": "m2",
        "model": MODEL,
        "input_tokens": 1_000,
        "output_tokens": 30,
        "cache_read_tokens": 200,
        "cache_write_tokens": 100,
        "reasoning_tokens": 10,
        "cost": pytest.approx(cost_of(BILLED, MODEL)),
        "estimated": False,
    }
    assert frame["estimated"].tolist() == [True, False]
    assert frame["message_id"].tolist() == ["m1", "m2"]


@pytest.mark.parametrize("table", [steps, turns, usage])
def test_cost_of_an_unknown_model_is_missing_while_its_tokens_count(table: Any) -> None:
    frame = table(retried("no-such-model").events)

    assert frame["cost"].isna().all()
    assert frame["input_tokens"].sum() == 1_500


@pytest.mark.parametrize("table", [steps, turns])
def test_one_unknown_price_makes_the_sum_unknown(table: Any) -> None:
    log = LogBuilder().user("hi").turn().step()
    log.add("usage", UsageReport(1, 1, BILLED, model=MODEL))
    log.add("usage", UsageReport(1, 1, BILLED, model="no-such-model", attempt=2))

    assert row(table(log.events))["cost"] is None


def test_model_that_was_asked_stands_in_for_one_that_no_report_names() -> None:
    log = retried(None)

    assert steps(log.events)["model"].tolist() == ["scripted"]
    assert usage(log.events)["model"].tolist() == ["scripted", "scripted"]


def test_what_is_open_or_unbilled_is_missing_and_not_zero() -> None:
    log = LogBuilder(FakeClock()).user("hi").turn().step()
    step, turn = row(steps(log.events)), row(turns(log.events))

    assert {name for name, value in step.items() if value is None} == {
        *("seconds", "first_token_seconds", "decode_tokens_per_second", "stop_reason", "cost"),
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    }
    assert {name for name, value in turn.items() if value is None} == {
        *("seconds", "reason", "cost"),
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    }


def test_interrupted_step_has_no_stop_reason_and_its_turn_was_aborted() -> None:
    log = LogBuilder().user("hi").turn().step().streams("so far")
    log.add("assistant/message", AssistantMessage(1, 1, (), interrupted=True))
    log.end_step().end_turn("aborted")

    assert steps(log.events)["stop_reason"].isna().tolist() == [True]
    assert turns(log.events)["reason"].tolist() == ["aborted"]


def test_seconds_are_missing_when_the_clock_was_set_back() -> None:
    clock = FakeClock(step_ms=0)
    log = LogBuilder(clock).user("hi").turn().step()
    clock.advance(-60)
    log.end_step().end_turn()

    assert steps(log.events)["seconds"].isna().all()
    assert turns(log.events)["seconds"].isna().all()


def test_an_error_outside_of_any_step_makes_no_step() -> None:
    log = LogBuilder().user("hi").turn().end_turn().add("error", Failure(1, 0, "flush failed"))

    assert len(steps(log.events)) == 0
    assert turns(log.events)["turn"].tolist() == [1]
