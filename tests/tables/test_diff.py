"""Two sessions compared as DataFrames."""

from __future__ import annotations

import pandas as pd
from pandas import NA

from dsh_nb.messages import ToolCallBlock, Usage
from dsh_nb.session import Session
from dsh_nb.session.fork import fork_events
from dsh_nb.tables import Recorded, events, turns
from dsh_nb.tables.diff import DIFF_COLUMNS, NUMBERS, diff_rows, diff_turns
from dsh_nb.testing import FakeClock, LogBuilder


def session(answer: str, *, more: bool = False, step_ms: int = 100) -> Session:
    """A turn with a call, and another turn where there is `more`."""
    log = LogBuilder(FakeClock(step_ms=step_ms)).user("hi").turn().step()
    log.says(ToolCallBlock("c1", "add", "{}"), usage=Usage(10, 5, cache_read_tokens=2))
    log.call("c1").result("c1", answer).end_step().step().says("done").end_step().end_turn()
    if more:
        log.user("more").turn().step().says("ok").end_step().end_turn()
    return Session(answer, log.events)


def test_rows_say_what_is_the_same_and_what_is_not() -> None:
    rows = diff_rows(session("3"), session("4", more=True))

    shown = ["turn", "step", "step_b", "what", "name", "status"]
    assert rows[shown].to_numpy().tolist() == [
        [1, 0, 0, "prompt", "", "same"],
        [1, 1, 1, "model", "", "same"],
        [1, 1, 1, "tool_call", "add", "same"],
        [1, 1, 1, "tool_result", "add", "changed"],
        [1, 2, 2, "text", "", "same"],
        [1, 2, 2, "end", "", "same"],
        [2, NA, 0, "prompt", "", "added"],
        [2, NA, 1, "text", "", "added"],
        [2, NA, 1, "end", "", "added"],
    ]
    assert (rows["a"][3], rows["b"][3]) == ("3", "4")
    assert rows["a"].isna().tolist() == [False] * 6 + [True] * 3


def test_columns_and_dtypes_are_those_of_two_empty_logs_too() -> None:
    rows, empty = diff_rows(session("3"), session("4", more=True)), diff_rows([], [])

    assert list(rows) == list(DIFF_COLUMNS)
    pd.testing.assert_frame_equal(empty, rows.iloc[:0])
    took = diff_turns(session("3"), session("4", more=True))
    pd.testing.assert_frame_equal(diff_turns([], []), took.iloc[:0])


def test_text_is_stored_as_in_the_other_tables() -> None:
    rows = diff_rows(session("3"), session("4"))

    assert rows["a"].dtype == events(session("3"))["session"].dtype
    assert list(pd.CategoricalDtype(rows["status"].cat.categories).categories) == [
        "same",
        "changed",
        "added",
        "removed",
    ]


def test_turns_are_compared_in_numbers() -> None:
    a, b = session("3"), session("4", more=True, step_ms=200)

    took = diff_turns(a, b)

    assert took[["turn", "status"]].to_numpy().tolist() == [[1, "changed"], [2, "added"]]
    for name in NUMBERS:
        assert took[f"{name}_b"].isna().tolist() == [name == "cost"] * 2
    assert took["seconds_a"][0] == turns(a)["seconds"][0]
    assert took["seconds_change"][0] == took["seconds_b"][0] - took["seconds_a"][0] > 0
    assert took["input_tokens_a"].tolist() == [10 + 2 + 10, NA]
    assert took["output_tokens_change"].tolist() == [0, NA]
    assert took["steps_b"].tolist() == [2, 1]


def test_fork_is_the_same_up_to_where_it_was_made() -> None:
    parent = session("3", more=True)
    fork = fork_events(parent, turn=2)
    child = Session("child", fork.events, header=fork.header)

    rows, took = diff_rows(parent, child), diff_turns(parent, child)

    assert set(rows[rows["turn"] == 1]["status"]) == {"same"}
    assert set(rows[rows["turn"] == 2]["status"]) == {"removed"}
    assert took["status"].tolist() == ["same", "removed"]
    assert took["seconds_change"].tolist() == [0.0, NA]


def test_records_and_events_are_taken_too() -> None:
    a, b = session("3"), session("4")

    rows = diff_rows(Recorded(a), [*b])

    pd.testing.assert_frame_equal(rows, diff_rows(a, b))
