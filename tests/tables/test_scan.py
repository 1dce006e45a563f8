"""A file of JSON lines as the table of events: what a session of the same log gives."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.messages import Finish, FinishReason, ReasoningDelta, Retry, TextDelta, ToolCallDelta
from dsh_nb.session import Session, SessionEvent
from dsh_nb.session.files import ReadReport, write_session
from dsh_nb.tables import chunks, events, events_of_file, scan
from dsh_nb.testing import LogBuilder

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PIECES = st.one_of(
    st.builds(TextDelta, st.integers(0, 3), TEXT),
    st.builds(ReasoningDelta, st.integers(0, 3), TEXT),
    st.builds(ToolCallDelta, st.integers(0, 3), TEXT, TEXT),
    st.builds(Retry, st.just(1), TEXT, TEXT),
    st.builds(Finish, st.builds(FinishReason, TEXT)),
)
PLUGIN = st.dictionaries(TEXT, st.none() | st.integers(-(2**63), 2**63 - 1) | TEXT, max_size=2)


def write(path: Path, log: list[SessionEvent]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in log))
    return path


def whole() -> LogBuilder:
    log = LogBuilder().user("hi").turn().step().chunk(TextDelta(0, "a\u2028b")).says("ab")
    return log.call("c1").result("c1").end_step().end_turn()


@given(st.lists(PIECES | PLUGIN, max_size=12))
@settings(max_examples=60)
def test_file_and_session_give_equal_frames(parts: list[object]) -> None:
    log = LogBuilder().user("hi").turn().step()
    for part in parts:
        if isinstance(part, dict):
            log.add("my/event", part)
        else:
            log.chunk(part)  # type: ignore[arg-type]  # one of PIECES
    log.says("so").call("c1").result("c1", is_error=True).end_step().end_turn()

    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "s1.jsonl", log.events)
        assert list(scan(path)) == log.events
        read, read_chunks = events_of_file(path), chunks(scan(path), "s1")

    pd.testing.assert_frame_equal(read, events(Session("s1", log.events)))
    pd.testing.assert_frame_equal(read_chunks, chunks(log.events, "s1"))


def test_our_own_files_are_read_too(tmp_path: Path) -> None:
    session = Session("s1", whole().streams("many small words that are packed").events)
    write_session(tmp_path / "s1.jsonl", session)

    pd.testing.assert_frame_equal(events_of_file(tmp_path / "s1.jsonl"), events(session))


def test_lines_that_are_no_events_are_left_out_and_told(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", whole().events)
    path.write_bytes(path.read_bytes() + b'{"role": "user"}\nnot json\n{"seq": 9, "ti')

    with pytest.warns(UserWarning, match="line 1[0-9] is not of a session.*was cut off after"):
        frame = events_of_file(path)

    pd.testing.assert_frame_equal(frame, events(whole().events, "s1"))


def test_empty_file_has_the_columns(tmp_path: Path) -> None:
    frame = events_of_file(write(tmp_path / "empty.jsonl", []))

    pd.testing.assert_frame_equal(frame, events([], "empty"))


def test_files_longer_than_a_batch_lose_nothing(tmp_path: Path) -> None:
    log = LogBuilder().user("hi").turn().step()
    for number in range(9_000):
        log.chunk(TextDelta(0, f"word {number} "))
        if number == 5_000:
            log.add("my/event", {"n": 1})
    report = ReadReport()

    read = list(scan(write(tmp_path / "long.jsonl", log.events), report))

    assert read == log.events
    assert not report
