"""Whatever happens to the lines of a log, it is read, and each line is accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_nb import tables
from dsh_nb.errors import SessionError
from dsh_nb.imports import read_file
from dsh_nb.session import check_log
from tests.imports.logs import SAMPLES

FRAMES = ("events", "messages", "turns", "steps", "tool_calls", "usage", "chunks")

Draw = Any  # Any: hypothesis does not export the type of `st.data()`

junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths to all values inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[str | int, ...]] = []
    for key, item in inside:
        found.append((*path, key))
        if isinstance(item, (dict, list)):
            found += places(item, (*path, key))
    return found


def replaced(line: bytes, draw: Draw) -> bytes:
    """The line with one value anywhere in it changed, dropped, or said of another key."""
    try:
        row = json.loads(line)
        path = draw.draw(st.sampled_from(places(row)))
    except (ValueError, TypeError, AttributeError, IndexError):
        return line
    *way, last = path
    inner = row
    for key in way:
        inner = inner[key]
    if draw.draw(st.booleans()):
        inner[last] = draw.draw(junk)
    else:
        del inner[last]
    return json.dumps(row).encode()


def edit(lines: list[bytes], draw: Draw) -> None:
    at = draw.draw(st.integers(0, len(lines) - 1))
    kind = draw.draw(
        st.sampled_from(
            ["value", "value", "value", "drop", "double", "cut", "swap", "bytes", "glue"]
        )
    )
    if kind == "value":
        lines[at] = replaced(lines[at], draw)
    elif kind == "drop" and len(lines) > 1:
        del lines[at]
    elif kind == "double":
        lines.insert(draw.draw(st.integers(0, len(lines))), lines[at])
    elif kind == "cut":
        lines[at] = lines[at][: draw.draw(st.integers(0, len(lines[at])))]
    elif kind == "swap":
        other = draw.draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "bytes":
        lines[at] += draw.draw(st.binary(max_size=4))
    elif kind == "glue" and at + 1 < len(lines):
        lines[at] = lines[at][: draw.draw(st.integers(1, 40))] + lines.pop(at + 1)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(draw=st.data())
def test_damaged_log_is_read_and_each_line_accounted_for(
    tmp_path: Path, sample: Path, draw: Draw
) -> None:
    lines = sample.read_bytes().splitlines()
    for _ in range(draw.draw(st.integers(1, 6))):
        edit(lines, draw)
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"\n".join(lines))

    try:
        log = read_file(path)
    except SessionError:
        return  # not one line tells what it is

    report = log.report
    for session in log.sessions:
        check_log(session, complete=False)
        for name in FRAMES:
            getattr(tables, name)(session)
    assert report.lines == report.blank + len(report.skipped) + report.held
    assert report.events == sum(map(len, log.sessions))
