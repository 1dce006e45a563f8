"""Logs from files: what is read, what is said of the rest, and what a file is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsh_nb
from dsh_nb import Log, load, load_all
from dsh_nb.errors import SessionError
from dsh_nb.notebook.record import LogReport
from dsh_nb.session.files import dumps, write_session
from dsh_nb.session.session import Session
from dsh_nb.testing.logs import LogBuilder

CLAUDE = {"sessionId": "s1", "timestamp": "2026-01-31T10:00:00Z", "isSidechain": False}


def session(id: str = "main", time: int = 1_700_000_000_000) -> Session:
    log = LogBuilder(lambda: time).user("hi").turn().step().streams("well hello")
    log.says("well hello ").end_step().end_turn()
    return Session(id, log.events)


def claude_line(uuid: str, parent: str | None, kind: str, text: str, **more: object) -> str:
    message = {"role": kind, "content": [{"type": "text", "text": text}]}
    if kind == "assistant":
        message |= {"id": f"m-{uuid}", "model": "claude-sonnet-4-5", "type": "message"}
    row = {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **CLAUDE}
    return json.dumps(row | more)


def write_claude(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_our_file_loads_to_an_equal_session(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_session(path, session())

    log = load(path)

    assert isinstance(log, Log)
    assert (log.session.id, [*log.session]) == ("main", [*session()])
    assert log.turns["reason"].tolist() == ["completed"]
    assert (log.report.skipped, log.others) == (0, ())
    assert repr(log.report) == "x.jsonl (dsh_nb): every line understood"


def test_home_folder_and_text_paths_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_session(tmp_path / "x.jsonl", session())

    assert load("~/x.jsonl").session.id == "main"
    assert len(load_all("~")) == 1


def test_lines_that_are_not_understood_are_said_in_words(tmp_path: Path) -> None:
    lines = dumps(session()).splitlines(keepends=True)
    lines.insert(2, b"{broken\n")
    (tmp_path / "x.jsonl").write_bytes(b"".join(lines) + b'{"seq":99')

    log = load(tmp_path / "x.jsonl")

    assert [*log.session] == [*session()]
    assert log.report.summary == "2 lines not understood"
    assert "2 lines not understood: line 3 is not of a session" in repr(log.report)
    assert "2 lines not understood" in repr(log)


def test_a_file_whose_header_is_lost_is_ours_still(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"".join(dumps(session()).splitlines(keepends=True)[1:]))

    log = load(tmp_path / "x.jsonl")

    assert (log.session.id, [*log.session]) == ("x", [*session()])
    assert log.report.format == "dsh_nb"


def test_transcripts_of_claude_code_load_with_their_branches(tmp_path: Path) -> None:
    path = write_claude(
        tmp_path / "c.jsonl",
        claude_line("u1", None, "user", "hi"),
        claude_line("a1", "u1", "assistant", "first"),
        claude_line("a2", "u1", "assistant", "second"),
        "no json",
    )

    log = load(path)

    assert log.report.format == "claude-code"
    assert repr(log.report).startswith("c.jsonl (claude-code): 1 line not understood: line 4 ")
    assert [one.session.header["kind"] for one in log.others] == ["branch"]
    assert "1 more log in `.others`" in repr(log)
    assert "first" in str(log.others[0].messages["text"].tolist())


def test_a_log_of_dsh_loads(tmp_path: Path) -> None:
    header = {"type": "session", "version": 4, "id": "d", "createdAt": 1, "cwd": "/x"}
    message = {"content": [{"type": "text", "text": "hi"}], "source": {"kind": "user"}}
    event = {"type": "user/message", "seq": 0, "time": 2, "data": message}
    (tmp_path / "d.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(event)}\n")

    log = load(tmp_path / "d.jsonl")

    assert (log.session.id, log.report.format) == ("d", "dsh v4")
    assert "1 event that only its tool knows" in repr(log.report)


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a binary file"),
        (b'{"cells": [], "nbformat": 4}', "is text of another kind"),
        (b"hello", "is text of another kind"),
        (b'[{"role": "user"}]\n', "is text of another kind"),
    ],
)
def test_what_a_file_is_not_is_said(tmp_path: Path, content: bytes, looks: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)

    with pytest.raises(SessionError, match=f"{looks}, no session log; pass a session file"):
        load(tmp_path / "x.jsonl")


def test_a_session_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    content = dumps(session()).replace(b'"version":1', b'"version":9')
    (tmp_path / "x.jsonl").write_bytes(content)

    with pytest.raises(SessionError, match="version 9 of the file format"):
        load(tmp_path / "x.jsonl")
    with pytest.warns(UserWarning, match="left out: session 'main' has version 9"):
        assert load_all(tmp_path) == []


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"is a folder; pass it to dsh_nb\.load_all"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"missing\.jsonl"):
        load(tmp_path / "missing.jsonl")
    with pytest.raises(SessionError, match=r"is not a folder; pass a file to dsh_nb\.load"):
        load_all(tmp_path / "missing.jsonl")


def test_a_folder_of_all_kinds_loads_oldest_first(tmp_path: Path) -> None:
    (tmp_path / ".dsh" / "sessions").mkdir(parents=True)
    write_session(tmp_path / ".dsh" / "sessions" / "b.jsonl", session("b", 1_900_000_000_000))
    write_session(tmp_path / "a.jsonl", session("a", 1_600_000_000_000))
    write_claude(tmp_path / "c.jsonl", claude_line("u1", None, "user", "hi"))
    (tmp_path / "notes.jsonl").write_text("{}\n")

    assert [log.session.id for log in load_all(tmp_path)] == ["a", "s1", "b"]


def test_report_of_a_live_log_is_calm() -> None:
    assert repr(Log(session()).report) == "session (dsh_nb): every line understood"
    assert Log(session()).report == LogReport()


def test_report_tells_a_few_notes_and_counts_the_others() -> None:
    report = LogReport(Path("x"), "dsh v4", notes=("a", "b", "c", "d", "e"))

    assert repr(report) == "x (dsh v4): every line understood\n  5 notes: a; b; c; and 2 more"


def test_names_load_from_the_package_root() -> None:
    assert {"Log", "load", "load_all", "sessions"} <= set(dsh_nb.__all__)
    assert dsh_nb.load is load
