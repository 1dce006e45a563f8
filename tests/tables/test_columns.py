"""Columns of one's own: of any log, with errors told once."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dsh_nb.session import Session
from dsh_nb.tables import Column, Recorded, events, extend, many, steps, turns
from dsh_nb.testing import FakeClock, LogBuilder

SLOW = Column("slow", lambda step: step.seconds > 0.004, "boolean")
STEP_NAME = Column("name", lambda step: f"{step.turn}.{step.step}")


def log() -> LogBuilder:
    made = LogBuilder(FakeClock()).user("hi").turn().step().says("a", "b").end_step()
    return made.step().end_step().end_turn()


def test_own_columns_follow_those_of_the_table() -> None:
    frame = extend(steps, SLOW, STEP_NAME)(log().events, "s")

    assert list(frame) == [*steps(log().events, "s"), "slow", "name"]
    assert frame["slow"].tolist() == [True, False]
    assert frame["name"].tolist() == ["1.1", "1.2"]


def test_own_columns_see_those_before_them() -> None:
    loud = Column("loud", lambda step: step.name + "!")
    frame = extend(extend(steps, STEP_NAME), loud)(log().events)

    assert frame["loud"].tolist() == ["1.1!", "1.2!"]


@pytest.mark.parametrize(
    ("dtype", "value", "found"),
    [
        ("string", "a", "str" if pd.__version__ >= "3" else "string"),
        ("Int64", 2**53 + 1, "Int64"),
        ("Float64", 1, "Float64"),
        ("boolean", True, "boolean"),
        ("time", pd.Timestamp("2026-01-02T03:04:05.678Z"), "datetime64[us, UTC]"),
        ("json", {"a": [1]}, "json"),
    ],
)
def test_own_columns_have_their_dtype_in_an_empty_log_too(
    dtype: str, value: object, found: str
) -> None:
    mine = extend(turns, Column("mine", lambda _turn: value, dtype))
    full, empty, none = mine(log().events), mine([]), many(mine, [])

    assert {str(frame["mine"].dtype) for frame in (full, empty, none)} == {found}
    assert full["mine"].tolist() == [value]


def test_own_columns_are_read_of_sessions_and_records_alike() -> None:
    session, named = Session("a", log().events), extend(steps, STEP_NAME)

    pd.testing.assert_frame_equal(named(session), named(Recorded(session)))
    assert many(named, [session, session])["name"].tolist() == ["1.1", "1.2"] * 2


def test_errors_of_a_function_are_missing_values_and_one_warning() -> None:
    def half(step: Any) -> object:
        return 1 / (step.step - 1)

    with pytest.warns(UserWarning, match="column 'half'") as told:
        frame = extend(steps, Column("half", half, "Float64"))(log().events)

    assert frame["half"].isna().tolist() == [True, False]
    assert [str(one.message) for one in told] == [
        "column 'half' is missing in 1 of 2 rows, first in row 0: "
        "ZeroDivisionError: division by zero"
    ]
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("string", 1), ("Int64", 1.5), ("Int64", True), ("boolean", 1), ("Float64", "1")],
)
def test_values_of_another_dtype_are_missing_and_told(dtype: str, value: object) -> None:
    with pytest.warns(UserWarning, match=f"TypeError: {value!r} is not {dtype}"):
        frame = extend(turns, Column("mine", lambda _turn: value, dtype))(log().events)

    assert frame["mine"].isna().tolist() == [True]


def test_nothing_said_is_missing_without_a_warning() -> None:
    said = {1: None, 2: pd.NA}
    frame = extend(steps, Column("x", lambda step: said[step.step], "Int64"))(log().events)

    assert frame["x"].isna().tolist() == [True, True]


def test_data_of_plugin_events_can_become_a_column() -> None:
    spent = Column("tokens", lambda event: event.data.get("tokens"), "Int64")
    frame = extend(events, spent)(log().add("budget/spent", {"tokens": 3}).events)

    assert frame["tokens"].dropna().tolist() == [3]


def test_columns_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="column name 'a b' is not one for a row's attribute; "):
        Column("a b", str)
    with pytest.raises(ValueError, match="'x' has dtype 'float'; pass one of string, Int64, "):
        Column("x", str, "float")
    with pytest.raises(ValueError, match="the table has a column 'seconds'; pass another name"):
        extend(steps, Column("seconds", str))([])
