"""The column of JSON: it shares the log's data, and gives copies of it."""

from __future__ import annotations

import pickle

import msgspec
import pandas as pd
import pytest

from dsh_nb.messages import TextDelta
from dsh_nb.session.events import AssistantChunk
from dsh_nb.tables import events
from dsh_nb.tables.json_array import JsonArray, JsonDtype
from dsh_nb.testing import LogBuilder

CHUNK = AssistantChunk(1, 1, TextDelta(0, "hi"))
PLAIN = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "hi"}}


def column() -> pd.Series:
    return pd.Series(JsonArray.of([CHUNK, {"a": [1]}, CHUNK, None, 2**80]))


def test_cells_read_as_plain_json_whatever_holds_them() -> None:
    assert list(column()) == [PLAIN, {"a": [1]}, PLAIN, pd.NA, 2**80]
    assert column().to_list()[0] == column()[0] == column().to_numpy()[0] == PLAIN
    assert column().isna().tolist() == [False, False, False, True, False]


def test_changing_what_was_read_changes_no_cell() -> None:
    cells = column()

    cells[1]["a"].append(2)

    assert cells[1] == {"a": [1]}


def test_cells_can_be_counted_and_compared() -> None:
    """Once a frame with a column of dicts could do neither: they have no hash."""
    cells = column()

    assert cells.nunique() == 3
    assert list(cells.drop_duplicates().index) == [0, 1, 3, 4]
    assert (cells == PLAIN).tolist() == [True, False, True, False, False]
    assert cells.to_frame("data").drop_duplicates().shape == (4, 1)
    assert list(cells.unique()) == [PLAIN, {"a": [1]}, pd.NA, 2**80]


def test_cells_are_taken_joined_and_set() -> None:
    cells = column()
    joined = pd.concat([cells[:1], cells[3:4]], ignore_index=True)
    wider = joined.reindex([0, 1, 2])
    joined[1] = {"b": 1}

    assert (joined.dtype, wider.dtype) == (JsonDtype(), JsonDtype())
    assert list(joined) == [PLAIN, {"b": 1}]
    assert wider.isna().tolist() == [False, True, True]


def test_cells_survive_pickling_and_are_json_text() -> None:
    cells = column()[:3]

    assert list(pickle.loads(pickle.dumps(cells))) == list(cells)
    assert column().array.to_text()[1:] == [
        '{"a":[1]}',
        msgspec.json.encode(CHUNK).decode(),
        None,
        str(2**80),
    ]


@pytest.mark.parametrize("log", [LogBuilder(), LogBuilder().user("a").add("x/y", {"n": 1})])
def test_any_frame_of_events_can_be_counted_sorted_shown_and_written(log: LogBuilder) -> None:
    frame = events(log.events, "s")

    assert len(frame.drop_duplicates()) == len(frame)
    assert frame.nunique()["data"] == len(frame)
    assert list(frame.sort_values("seq", ascending=False)["seq"]) == list(range(len(frame)))[::-1]
    assert "data" in frame.to_csv()
    assert "data" in frame.to_html()
    assert len(pd.json_normalize(frame["data"])) == len(frame)
    assert frame.groupby("type")["data"].count().sum() == len(frame)
    assert [row["data"] for row in frame.to_dict("records")] == list(frame["data"])
