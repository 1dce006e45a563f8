"""Lines of other tools' logs, made by hand, and ways to write and read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dsh_nb.imports import ImportedLog, read_file
from dsh_nb.session import Session, check_log

DATA = Path(__file__).parent / "data"
SAMPLES = sorted(DATA.rglob("*.jsonl"))

Row = dict[str, Any]  # Any: JSON of other tools


def write(path: Path, rows: Iterable[Row]) -> Path:
    """The rows as a file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path, rows: Iterable[Row]) -> ImportedLog:
    """What is read of the rows, when it holds to the invariants and accounts for each line."""
    log = read_file(write(path / "log.jsonl", rows))
    for session in log.sessions:
        check_log(session, complete=False)
    report = log.report
    assert report.lines == len(report.skipped) + report.held
    return log


def outline(session: Session) -> list[str]:
    """The types of the events, a run of chunks as one."""
    types: list[str] = []
    for event in session:
        if event.type != "assistant/chunk" or types[-1:] != ["assistant/chunk"]:
            types.append(event.type)
    return types


def dsh(*events: tuple[str, Row], version: int = 0) -> list[Row]:
    """A dsh log: a header, then the events, numbered and a second apart."""
    header: Row = {
        "type": "session",
        "version": version,
        "id": "made",
        "createdAt": 1_000_000_000_000,
    }
    return [
        header,
        *(
            {"type": type, "seq": seq, "time": 1_000_000_000_000 + seq * 1000, "data": data}
            for seq, (type, data) in enumerate(events)
        ),
    ]


def claude(type: str, uuid: str, parent: str | None, message: object = None, **more: object) -> Row:
    """A line of a transcript; its time follows from the digits of its `uuid`."""
    second = int("".join(filter(str.isdigit, uuid)) or 0)
    row: Row = {
        "type": type,
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "s",
        "timestamp": f"2026-01-31T10:{second // 60:02}:{second % 60:02}.000Z",
    }
    return {**row, **({"message": message} if message is not None else {}), **more}


def prompt(uuid: str, parent: str | None, text: object, **more: object) -> Row:
    """A user line."""
    return claude("user", uuid, parent, {"role": "user", "content": text}, **more)


def answer(
    uuid: str, parent: str | None, id: str, *content: Row, output: int = 1, **more: object
) -> Row:
    """A line of a message of the model."""
    stop = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
    message = {
        "id": id,
        "role": "assistant",
        "model": "claude-opus-4-5-20251101",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 10, "output_tokens": output},
    }
    return claude("assistant", uuid, parent, message, **more)


def text(said: str) -> Row:
    """A block of text."""
    return {"type": "text", "text": said}


def tool_use(id: str, name: str = "Bash", **arguments: object) -> Row:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def tool_result(id: str, content: object = "done", **more: object) -> Row:
    """A block that answers a call."""
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}
