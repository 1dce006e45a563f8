"""The session file: what is written is what is read, whole or cut, and what else is reported."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.errors import SessionError
from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    ReasoningDelta,
    Source,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.session.events import AssistantChunk, EventData, SessionEvent, StepStart, UserMessage
from dsh_nb.session.files import (
    ReadReport,
    SavedLog,
    SessionHeader,
    dumps,
    encode_events,
    read_lines,
    read_session,
    write_session,
)
from dsh_nb.session.masking import Masks
from dsh_nb.session.session import Session, event_data
from dsh_nb.testing import LogBuilder, validate_request

CALLS = [ToolCallBlock(id, "add", "{}") for id in "ab"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
INDEX, TEXT = st.integers(0, 2), st.text(max_size=6)
CHUNKS: st.SearchStrategy[Chunk] = st.one_of(
    st.builds(TextDelta, INDEX, TEXT),
    st.builds(ReasoningDelta, INDEX, TEXT),
    st.builds(ToolCallDelta, INDEX, st.sampled_from("ab"), TEXT, st.none() | st.just("add")),
    st.builds(BlockStart, INDEX, st.just("text")),
    st.builds(BlockEnd, INDEX, st.builds(TextBlock, TEXT)),
)
SAID: st.SearchStrategy[tuple[str, object]] = st.one_of(
    st.tuples(
        st.just("assistant/chunk"),
        st.builds(AssistantChunk, st.integers(1, 2), st.integers(1, 2), CHUNKS),
    ),
    st.tuples(st.just("step/start"), st.builds(StepStart, st.integers(1, 9), st.integers(1, 9))),
    st.tuples(st.sampled_from(["note/made", "x"]), st.dictionaries(st.text(max_size=5), JSON)),
)


def log_of(said: list[tuple[str, object]], times: list[int]) -> list[SessionEvent]:
    """Events whose times jump about."""
    return [
        SessionEvent(seq, times[seq % len(times)], type, data)
        for seq, (type, data) in enumerate(said)
    ]


LOGS = st.builds(
    log_of,
    st.lists(SAID, max_size=30),
    st.lists(st.integers(-(2**40), 2**60), min_size=1, max_size=5),
)


def read(data: bytes) -> tuple[list[SessionEvent], ReadReport]:
    report = ReadReport()
    said = [*read_lines(io.BytesIO(data), report)]
    return [one for one in said if isinstance(one, SessionEvent)], report


def streamed(words: int) -> Session:
    """A session of one answer, a chunk a word."""
    session = Session("main", LogBuilder().user("hi").turn().step().events)
    for number in range(words):
        session.append_chunk(AssistantChunk(1, 1, TextDelta(0, f"w{number % 90:02} ")))
    return session


@given(LOGS)
def test_what_is_written_is_what_is_read(events: list[SessionEvent]) -> None:
    loaded, report = read(encode_events(events))

    assert loaded == events
    assert not report


@settings(max_examples=40)
@given(LOGS, st.data())
def test_any_prefix_of_the_file_holds_a_prefix_of_the_events(
    events: list[SessionEvent], data: st.DataObject
) -> None:
    header = SessionHeader("dsh_nb", 1, "main", 5, title="a title")
    whole = header.encode() + encode_events(events)
    cut = data.draw(st.integers(0, len(whole)))

    loaded, report = read(whole[:cut])

    assert loaded == events[: len(loaded)]
    assert report.skipped == (not whole[:cut].endswith(b"\n") and cut > 0 and not report.unended)
    assert whole[: report.whole_bytes].count(b"\n") == whole[:cut].count(b"\n")


def test_every_byte_of_a_file_can_be_its_last(tmp_path: Path) -> None:
    session, path = streamed(5), tmp_path / "main.jsonl"
    whole = dumps(session)

    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        log = read_session(path)
        assert log.events == session[: len(log.events)]


def test_a_chunk_of_a_run_costs_a_few_bytes_more_than_its_text() -> None:
    chunks = streamed(10_000)[4:]

    packed = encode_events(chunks)

    text_bytes = sum(len(event.data.chunk.text) for event in chunks)
    assert len(packed) - text_bytes < 5 * len(chunks)


def test_a_session_is_read_back_with_its_header(tmp_path: Path) -> None:
    session = Session("main", LogBuilder().user("hi").turn().step().events, header={"title": "T"})
    path = tmp_path / "main.jsonl"

    write_session(path, session)
    log = read_session(path)

    created = session[0].time
    assert log.header == SessionHeader(
        "dsh_nb", 1, "main", created, "scripted", "T", {"title": "T"}
    )
    assert (log.session().id, log.session().header) == ("main", {"title": "T"})
    assert [*log.session()] == [*session]
    assert [one.name for one in tmp_path.iterdir()] == ["main.jsonl"]


def test_a_later_header_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    later = SessionHeader("dsh_nb", 1, "main", 0, title="later")

    path.write_bytes(dumps(streamed(2)) + later.encode())

    assert read_session(path).header == later


def saved_500(tmp_path: Path) -> tuple[list[bytes], Path]:
    session = Session("main")
    for number in range(500):
        session.append("note/made", {"n": number})
    return dumps(session).splitlines(keepends=True), tmp_path / "main.jsonl"


def numbers(log: SavedLog) -> list[int]:
    return [event.data["n"] for event in log.events]


def test_an_export_can_be_masked() -> None:
    key = "ghp_0123456789abcdefghij"
    log = LogBuilder().user(f"use {key}").turn().step().streams(f"I use {key}")
    session = Session("main", log.events, header={"title": key})

    masked = dumps(session, masks=Masks({}))

    assert key in dumps(session).decode()
    assert masked.decode().count("[masked key]") == 4  # two in the header
    assert key not in masked.decode()


def test_a_log_that_lacks_any_line_has_a_history_that_the_api_accepts() -> None:
    log = LogBuilder().user("hi").turn().step().says("so", *CALLS)
    log.call("a").result("a").call("b").result("b").end_step().step().says("done")
    lines = encode_events(log.end_step().end_turn().events).splitlines(keepends=True)

    for gone in range(len(lines)):
        events, _ = read(b"".join([*lines[:gone], *lines[gone + 1 :]]))
        session = Session("main", events)
        session.append("user/message", UserMessage((TextBlock("go on"),), Source()))
        request = ModelRequest("m", session.messages)
        assert validate_request(json.loads(encode_request(request))) == []


@pytest.mark.parametrize("bad", [b'{"seq":249,"time":1,"ty\n', b"\0" * 90 + b"\n", b"42\n", b"\n"])
def test_a_bad_line_in_the_middle_hides_nothing_after_it(tmp_path: Path, bad: bytes) -> None:
    lines, path = saved_500(tmp_path)
    lines[250] = bad

    path.write_bytes(b"".join(lines))
    log = read_session(path)

    assert numbers(log) == [*range(249), *range(250, 500)]
    assert [(one.line, one.kind) for one in log.report.problems] == [(251, "foreign"), (252, "gap")]
    assert path.read_bytes() == b"".join(lines)


def test_a_torn_last_line_is_reported_and_left_out(tmp_path: Path) -> None:
    lines, path = saved_500(tmp_path)
    lines[-1] = lines[-1][:9]

    path.write_bytes(b"".join(lines))
    log = read_session(path)

    assert numbers(log) == [*range(499)]
    assert str(log.report) == "line 501 was cut off after 9 bytes"


def test_a_last_line_that_only_lacks_its_end_is_whole(tmp_path: Path) -> None:
    lines, path = saved_500(tmp_path)

    path.write_bytes(b"".join(lines)[:-1])
    log = read_session(path)

    assert len(log.events) == 500
    assert log.report.unended


@pytest.mark.rule("S2")
def test_unknown_types_are_kept(tmp_path: Path) -> None:
    session = Session("main")
    session.append("plugin/odd", {"deep": [{"a": None, "b": 1.5, "c": 2**70}], "": ""})

    write_session(tmp_path / "a.jsonl", session)

    assert read_session(tmp_path / "a.jsonl").events == [*session]


def test_data_that_does_not_fit_its_type_is_reported() -> None:
    events, report = read(b'{"seq":0,"time":1,"type":"turn/start","data":{"turn":"one"}}\n')

    assert events == []
    assert "line 1 is not of a session: Expected `int`, got `str`" in str(report)


@pytest.mark.parametrize(
    "run", ['"cuts":[1,1]', '"cuts":[4,-1]', '"cuts":[]', '"cuts":[1,2],"gaps":[1,1]']
)
def test_a_run_that_contradicts_itself_is_reported(run: str) -> None:
    line = f'"run":{{"kind":"text-delta","turn":1,"step":1,"index":0,"text":"abc",{run}}}'

    events, report = read(f'{{"seq":0,"time":1,"type":"assistant/chunk",{line}}}\n'.encode())

    assert events == []
    assert report.skipped == 1


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    path.write_bytes(SessionHeader("dsh_nb", 2, "main", 0).encode())

    with pytest.raises(SessionError, match="version 2 of the file format and this dsh_nb reads 1"):
        read_session(path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(b'{"type":"session","version":4,"id":"a","createdAt":1}\n')

    with pytest.raises(SessionError, match="holds no session of dsh_nb"):
        read_session(path)


def test_an_empty_file_is_an_empty_session_named_like_it(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    path.touch()

    assert read_session(path).header == SessionHeader("dsh_nb", 1, "main", 0)


def test_written_chunks_keep_the_kind_of_their_data() -> None:
    data = event_data("user/message", {"content": [], "source": {"kind": "user"}})
    assert isinstance(data, EventData)

    events, _ = read(encode_events([SessionEvent(0, 1, "user/message", data)]))

    assert isinstance(events[0].data, UserMessage)
