"""The samples: their tables against figures counted in the raw JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from backports import zstd

from dsh_nb import tables
from dsh_nb.errors import SessionError
from dsh_nb.imports import read_file, read_folder, read_log
from dsh_nb.session import Session, check_log
from tests.imports.logs import DATA, SAMPLES, Row, answer, dsh, prompt, text, write

FRAMES = ("events", "messages", "turns", "steps", "tool_calls", "usage", "chunks")


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def figures_of_dsh(path: Path) -> list[int]:
    """Turns, steps, calls, blocks and four kinds of tokens, counted in the raw lines."""
    found = [0] * 8
    for row in rows(path)[1:]:
        data, kind = row["data"], row["type"]
        found[0] += kind == "turn/start"
        found[1] += kind == "step/start"
        content = data.get("message", data).get("content", [])
        if kind in ("user/message", "assistant/message", "tool/result"):
            found[3] += 1 if kind == "tool/result" else len(content)
        if kind == "assistant/message":
            found[2] += sum(block["type"] == "tool-call" for block in content)
            spent = data.get("usage", {})
            for n, name in enumerate(("input", "output", "cacheRead", "cacheWrite"), 4):
                found[n] += spent.get(f"{name}Tokens", 0)
    return found


def figures_of_claude(path: Path) -> list[int]:
    """As `figures_of_dsh`: a prompt makes a turn, a message id a step."""
    found = [0] * 8
    messages = [row["message"] for row in rows(path) if "message" in row]
    for message in messages:
        content = message["content"]
        kinds = ["text"] if isinstance(content, str) else [block["type"] for block in content]
        found[0] += message["role"] == "user" and "tool_result" not in kinds
        found[2] += kinds.count("tool_use")
        found[3] += len(kinds)
    answers = {one["id"]: one["usage"] for one in messages if one["role"] == "assistant"}
    found[1] = len(answers)
    names = ("input", "output", "cache_read_input", "cache_creation_input")
    found[4:] = [sum(one.get(f"{name}_tokens", 0) for one in answers.values()) for name in names]
    return found


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_tables_of_a_sample_have_the_figures_of_its_raw_lines(path: Path) -> None:
    figures = figures_of_dsh if path.parent.name == "dsh" else figures_of_claude
    expected = figures(path)

    session = read_log(path)

    usage = tables.usage(session)
    assert [
        len(tables.turns(session)),
        len(tables.steps(session)),
        len(tables.tool_calls(session)),
        len(tables.messages(session)),
        usage.input_tokens.sum(),
        usage.output_tokens.sum(),
        usage.cache_read_tokens.sum(),
        usage.cache_write_tokens.sum(),
    ] == expected


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_holds_to_the_invariants_and_accounts_for_each_line(path: Path) -> None:
    log = read_file(path)

    check_log(log.session, complete=False)
    assert (log.report.lines, log.report.skipped, log.report.notes) == (len(rows(path)), [], [])
    assert log.report.events == len(log.session)
    assert log.session.header["import"] == log.report.as_json()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", FRAMES)
def test_frame_of_a_sample_has_the_dtypes_of_an_empty_one(path: Path, name: str) -> None:
    table = getattr(tables, name)

    frame: pd.DataFrame = table(read_log(path))

    assert frame.dtypes.to_dict() == table(Session("none")).dtypes.to_dict()


@pytest.mark.parametrize("path", [one for one in SAMPLES if one.parent.name == "claude-code"])
def test_tokens_by_model_are_those_of_the_raw_messages(path: Path) -> None:
    expected: dict[str, int] = {}
    counted = {row["message"]["id"]: row["message"] for row in rows(path) if "usage" in str(row)}
    for message in counted.values():
        spent = message["usage"]["output_tokens"]
        expected[message["model"]] = expected.get(message["model"], 0) + spent

    usage = tables.usage(read_log(path))

    assert usage.groupby("model").output_tokens.sum().to_dict() == expected


@pytest.mark.parametrize("path", [one for one in SAMPLES if one.parent.name == "dsh"])
def test_chunks_and_their_times_are_those_of_the_raw_streams(path: Path) -> None:
    times = []
    for row in rows(path):
        for record in row.get("data", {}).get("stream", ()):
            first = record.get("time", record.get("time0"))
            gaps = [0, *record.get("dt", ())] if record["type"] != "chunk" else [0]
            times += [first + sum(gaps[: k + 1]) for k in range(len(gaps))]

    chunks = tables.chunks(read_log(path))

    streamed = chunks[chunks.kind != "retry"]
    assert list(streamed.time.astype("int64") // 1000) == times


def test_cancelled_session_tells_why_each_turn_ended() -> None:
    session = read_log(DATA / "dsh" / "acp-cancel.jsonl")

    turns, calls = tables.turns(session), tables.tool_calls(session)
    assert list(turns.reason) == ["aborted", "aborted", "completed", "completed"]
    assert list(calls.outcome) == ["interrupted"]
    assert calls.seconds[0] == pytest.approx(1.363)


def test_killed_session_stays_open() -> None:
    session = read_log(DATA / "dsh" / "crashed-sdk-hang.jsonl")

    assert tables.turns(session).reason.isna().all()


def test_retry_is_a_second_attempt_of_its_step() -> None:
    session = read_log(DATA / "dsh" / "sdk-retry.jsonl")

    assert list(tables.steps(session).attempts) == [2]


def test_header_tells_what_the_log_tells_of_itself() -> None:
    header = read_log(DATA / "dsh" / "sdk-plain.jsonl").header

    assert {key: header[key] for key in ("title", "created", "cwd", "model")} == {
        "title": "hello",
        "created": 1796174962529,
        "cwd": "/workspace/ws",
        "model": "deepseek-flash",
    }


@pytest.mark.parametrize("frames", ["one", "many"])
def test_compressed_log_reads_like_the_plain_one(tmp_path: Path, frames: str) -> None:
    plain = DATA / "dsh" / "sdk-tool.jsonl"
    lines = plain.read_bytes().splitlines(keepends=True)
    packed = tmp_path / "session.v4.jsonl.zstd"
    parts = [b"".join(lines)] if frames == "one" else lines
    packed.write_bytes(b"".join(map(zstd.compress, parts)))

    session = read_log(packed)

    assert list(session) == list(read_log(plain))


def test_folder_joins_a_subagent_with_the_session_that_called_it() -> None:
    logs = read_folder(DATA / "claude-code")

    assert [log.session.id for log in logs] == [
        "test_session", "todowrite_session", "test-session-001", "test-session-002",
        "test-session-004",
    ]  # fmt: skip
    (sidechain,) = logs[-1].sidechains
    assert sidechain.id == "test-session-004.agent-atest01"
    assert (sidechain.header["parent"], sidechain.header["kind"]) == (
        "test-session-004",
        "sidechain",
    )


def test_folder_reads_the_newest_generation_of_a_dsh_session(tmp_path: Path) -> None:
    write(tmp_path / "session.jsonl", dsh(("turn/start", {"turn": 1})))
    write(tmp_path / "session.v4.jsonl", dsh(version=4))
    (tmp_path / "notes.jsonl").write_text("{}\n")

    logs = read_folder(tmp_path)

    assert [log.report.format for log in logs] == ["dsh v4"]


def test_usage_of_a_message_in_two_files_is_counted_once(tmp_path: Path) -> None:
    lines = [prompt("u1", None, "hi"), answer("a2", "u1", "m", text("yes"))]
    for id in ("one", "two"):
        write(tmp_path / f"{id}.jsonl", [{**line, "sessionId": id} for line in lines])

    logs = read_folder(tmp_path)

    usage = tables.many(tables.usage, [log.session for log in logs])
    assert list(usage.session) == ["one"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no log of a known format"),
        ("hello\n", "is no log of a known format"),
        ('{"role": "user"}\n', "is no log of a known format"),
        ('{"type": "session", "format": "dsh_nb", "id": "a"}\n', "is a session file of dsh_nb"),
    ],
)
def test_file_that_is_no_log_of_another_tool_is_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)

    with pytest.raises(SessionError, match=said):
        read_log(path)


def test_folder_is_refused_as_a_file_and_a_file_as_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="pass it to read_folder"):
        read_log(tmp_path)
    with pytest.raises(SessionError, match=re.escape("is not a folder; pass the file")):
        read_folder(DATA / "README.md")
