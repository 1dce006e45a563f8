from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsh_nb import tables
from dsh_nb.imports import LineNote
from dsh_nb.messages import (
    Finish,
    FinishReason,
    OpaqueBlock,
    ReasoningDelta,
    Retry,
    Source,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.session.events import AssistantChunk, SteeringMessage, TurnReason
from tests.imports.logs import Row, dsh, outline, read

HELLO: Row = {"content": [{"type": "text", "text": "hello"}], "source": {"kind": "user"}}
CALL: Row = {"type": "tool-call", "id": "c", "name": "bash", "arguments": "{}"}


def place(step: int = 1, turn: int = 1, **more: Any) -> Row:  # Any: JSON
    return {"turn": turn, "step": step, **more}


def says(*content: Row, **more: Any) -> tuple[str, Row]:
    message = {"id": "m", "role": "assistant", "content": content, "source": {"model": "x"}}
    return "assistant/message", place(message=message, **more)


def chunk(**fields: object) -> tuple[str, Row]:
    return "assistant/chunk", place(chunk=fields)


START = [("turn/start", {"turn": 1}), ("step/start", place())]
END = [("step/end", place()), ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})]


def test_v0_log_with_chunks_reads_like_one_of_ours(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        dsh(
            *START,
            ("user/message", {**HELLO, "id": "u"}),
            chunk(type="text-delta", index=0, text="hi"),
            chunk(type="finish", reason={"kind": "stop"}),
            says({"type": "text", "text": "hi"}, usage={"inputTokens": 3, "outputTokens": 2}),
            *END,
        ),
    )

    assert outline(log.session) == [
        "dsh/session", "user/message", "turn/start", "step/start", "assistant/chunk",
        "assistant/message", "usage", "step/end", "turn/end",
    ]  # fmt: skip
    message = log.session[6].data
    assert (message.content, message.rewritten, message.stop_reason) == (
        (TextBlock("hi"),),
        False,
        "stop",
    )
    assert log.session[1].data.source == Source("user", id="u")
    assert log.report.notes == []


def test_packed_rows_are_unpacked_with_their_times(tmp_path: Path) -> None:
    rows = dsh(*START)
    runs: dict[str, Row] = {
        "reasoning-chunks": {"dt": [5, -2], "texts": ["a", "b", "c"]},
        "tool-call-chunks": {"dt": [1], "args": ["{", "}"], "id": "c", "name": "bash"},
    }
    for kind, run in runs.items():
        seq = 2 if kind == "reasoning-chunks" else 5
        data = place(index=seq - 2, **run)
        rows.append({"type": kind, "seq0": seq, "time0": 1_000_000_005_000, "data": data})

    log = read(tmp_path, rows)

    chunks = [(event.time, event.data.chunk) for event in log.session[3:]]
    assert chunks == [
        (1_000_000_005_000, ReasoningDelta(0, "a")),
        (1_000_000_005_005, ReasoningDelta(0, "b")),
        (1_000_000_005_003, ReasoningDelta(0, "c")),
        (1_000_000_005_000, ToolCallDelta(3, "c", "{", "bash")),
        (1_000_000_005_001, ToolCallDelta(3, "c", "}")),
    ]
    assert log.report.notes == []


def test_seed_log_without_header_reads_its_own_words(tmp_path: Path) -> None:
    user: Row = {"kind": "user"}
    log = read(
        tmp_path,
        dsh(
            ("user/message", HELLO),
            ("turn/start", {"turn": 1, "trigger": {"kind": "message", "source": user}}),
            ("step/start", place()),
            ("assistant/message", place(content=[{"type": "text", "text": "hi"}, CALL])),
            ("usage", place(usage={"inputTokens": 1, "outputTokens": 9, "reasoningTokens": 4})),
            ("tool/call", place(callId="c", name="bash", arguments="{}")),
            ("tool/result", place(callId="c", content=[], isError=True)),
            ("steering/message", {"turn": 1, **HELLO}),
            ("step/end", place()),
            ("error", place(message="broke", code="X")),
            ("turn/end", {"turn": 1, "reason": {"kind": "error", "message": "broke"}}),
        )[1:],
    )

    assert outline(log.session) == [
        "user/message", "turn/start", "step/start", "assistant/message", "usage", "tool/call",
        "tool/result", "steering/message", "step/end", "error", "turn/end",
    ]  # fmt: skip
    assert log.session.id == "log"
    usage = tables.usage(log.session)
    assert (usage.output_tokens[0], usage.reasoning_tokens[0]) == (5, 4)
    assert log.session[-1].data.reason == TurnReason("error", message="broke")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ({"kind": "completed"}, TurnReason("completed")),
        ({"kind": "aborted", "reason": {"kind": "user"}}, TurnReason("aborted", "user")),
        ({"kind": "aborted", "reason": "stop it"}, TurnReason("aborted", "stop it")),
        ({"kind": "aborted", "reason": {"kind": "disposed"}}, TurnReason("disposed")),
        ({"kind": "blocked"}, TurnReason("aborted", "blocked")),
        ({"kind": "interrupted"}, TurnReason("aborted", "interrupted")),
        (
            {"kind": "error", "error": {"message": "no", "code": "SERVER"}},
            TurnReason("error", message="no", code="SERVER"),
        ),
        (
            {"kind": "max-tokens"},
            TurnReason(
                "error",
                message="the answer reached the output limit of the request",
                code="MAX_TOKENS",
            ),
        ),
        ({}, TurnReason("aborted")),
    ],
)
def test_reason_of_a_turn_is_one_of_ours(tmp_path: Path, reason: Row, expected: TurnReason) -> None:
    log = read(tmp_path, dsh(("turn/start", {"turn": 1}), ("turn/end", {"reason": reason})))

    assert log.session[-1].data.reason == expected


def test_message_of_a_later_step_steers_and_one_of_a_plugin_is_context(tmp_path: Path) -> None:
    plugin: Row = {**HELLO, "source": {"kind": "plugin", "plugin": "clock"}}
    log = read(
        tmp_path,
        dsh(
            *START,
            ("user/message", plugin),
            says(),
            ("step/end", place()),
            ("step/start", place(2)),
            ("user/message", HELLO),
        ),
    )

    assert outline(log.session)[3:] == [
        "context/message", "assistant/message", "step/end", "step/start", "steering/message",
    ]  # fmt: skip
    assert log.session[3].data.source == Source("plugin", "clock")
    assert log.session[-1].data == SteeringMessage(1, (TextBlock("hello"),), Source("user"))


def test_retry_withdraws_what_was_streamed_and_bills_it(tmp_path: Path) -> None:
    failure = {"message": "overload", "code": "SERVER"}
    log = read(
        tmp_path,
        dsh(
            *START,
            chunk(type="text-delta", index=0, text="no"),
            chunk(type="usage", usage={"inputTokens": 7}),
            ("llm/retry", place(retry=1, delayMs=500, failure=failure)),
            chunk(type="text-delta", index=0, text="yes"),
            chunk(type="finish", reason={"kind": "error", "failure": failure}),
            says({"type": "text", "text": "yes"}),
        ),
    )

    chunks = [event.data.chunk for event in log.session if isinstance(event.data, AssistantChunk)]
    assert chunks[2:] == [
        Retry(1, "overload", "SERVER", 0.5),
        TextDelta(0, "yes"),
        Finish(FinishReason("error", "overload", "SERVER")),
    ]
    assert list(tables.usage(log.session).estimated) == [True]
    assert not log.session[-1].data.rewritten


def test_attempts_without_a_retry_between_them_are_told_apart(tmp_path: Path) -> None:
    def stream(text: str) -> list[Row]:
        delta = {"type": "text-delta", "index": 0, "text": text}
        end = {"type": "finish", "reason": {"kind": "stop"}}
        return [{"type": "chunk", "time": 1_000_000_000_500, "chunk": one} for one in (delta, end)]

    attempt = ("assistant/attempt", place(stream=stream("no")))
    log = read(
        tmp_path,
        dsh(*START, attempt, says({"type": "text", "text": "yes"}, stream=stream("yes"))),
    )

    assert list(tables.steps(log.session).attempts) == [2]
    assert not log.session[-1].data.rewritten


@pytest.mark.parametrize(
    ("message", "error", "outcome"),
    [
        ({"role": "tool", "toolCallId": "c", "content": []}, None, "ok"),
        ({"role": "tool", "toolCallId": "c", "isError": True}, None, "error"),
        ({"toolCallId": "c", "isError": True}, "ABORTED", "interrupted"),
        ({"toolCallId": "c", "isError": True}, "TOOL_NOT_STARTED", "not started"),
        (
            {"content": [{"type": "tool-result", "toolCallId": "c", "isError": True}]},
            "TOOL_OUTCOME_UNKNOWN",
            "interrupted",
        ),
    ],
)
def test_result_is_read_in_the_form_of_each_version(
    tmp_path: Path, message: Row, error: str | None, outcome: str
) -> None:
    result = place(message=message, error={"code": error} if error else None)
    log = read(tmp_path, dsh(*START, says(CALL), ("tool/result", result), *END))

    assert list(tables.tool_calls(log.session).outcome) == [outcome]


def test_approval_is_known_to_the_tables(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        dsh(
            *START,
            says(CALL),
            ("tool/call", place(callId="c", name="bash", arguments="{}")),
            ("approval/asked", {"id": "a", "toolName": "bash", "callId": "c"}),
            ("approval/decided", {"id": "a", "outcome": "allow"}),
            ("tool/result", place(callId="c", content=[])),
        ),
    )

    assert list(tables.tool_calls(log.session).waiting_seconds) == [1.0]


def test_unknown_types_and_blocks_survive_whole(tmp_path: Path) -> None:
    odd: Row = {"type": "hologram", "depth": 3}
    log = read(tmp_path, dsh(("todo/write", {"todos": []}), *START, says(odd)))

    assert log.session[1].type == "dsh/todo/write"
    assert log.session[1].data == {"todos": []}
    assert log.session[4].data.content == (OpaqueBlock("dsh", odd),)
    assert log.report.foreign == {"session": 1, "todo/write": 1}


def test_pruned_result_does_not_answer_twice(tmp_path: Path) -> None:
    result: Row = place(message={"toolCallId": "c", "content": [{"type": "text", "text": "all"}]})
    rows = dsh(*START, says(CALL), ("tool/result", result), ("tool/result", result))
    rows[-1]["surfaceOp"] = {"startSeq": 3, "endSeq": 3}

    log = read(tmp_path, rows)

    assert outline(log.session)[-2:] == ["tool/result", "dsh/tool/result"]


def test_lost_lines_cost_only_what_they_held(tmp_path: Path) -> None:
    """A log whose second step/start and first turn/end are lost once lost all that followed."""
    log = read(
        tmp_path,
        dsh(
            *START,
            says(CALL),
            ("assistant/message", place(2, content=[{"type": "text", "text": "two"}])),
            ("turn/start", {"turn": 2}),
            ("step/start", place(turn=2)),
            ("assistant/message", place(turn=2, content=[{"type": "text", "text": "three"}])),
        ),
    )

    assert list(tables.turns(log.session).steps) == [2, 1]
    assert list(tables.messages(log.session).text.dropna())[-2:] == ["two", "three"]
    assert [str(note) for note in log.report.notes] == [
        "line 5 belongs to turn 1, step 2, whose start is missing",
        "line 5 call 'c' has no result; one was added",
        "line 6 turn 1 has no end; one was added",
    ]


def test_log_that_begins_in_the_middle_is_numbered_from_one(tmp_path: Path) -> None:
    rows = dsh(("turn/start", {"turn": 7}), ("step/start", place(turn=7)))

    log = read(tmp_path, rows)

    assert list(tables.turns(log.session).turn) == [1]
    assert log.report.notes == [LineNote(2, "begins turn 7, which is turn 1 here")]


def test_newer_version_repeated_lines_and_gaps_are_reported(tmp_path: Path) -> None:
    rows = dsh(*START, version=9)
    rows[2]["seq"] = 5

    log = read(tmp_path, [*rows, rows[-1]])

    assert [str(note) for note in log.report.notes] == [
        "line 1 has the format version 9, newer than 4",
        "line 3 has seq 5, where 1 is due",
    ]
    assert log.report.skipped == [LineNote(4, "repeats line 3")]


def test_call_that_nobody_asked_for_is_kept_as_a_foreign_event(tmp_path: Path) -> None:
    stray = ("tool/call", place(callId="x", name="bash", arguments="{}"))

    log = read(tmp_path, dsh(*START, says(CALL), stray))

    assert log.session[-1].type == "dsh/tool/call"
    assert ToolCallBlock("c", "bash", "{}") in log.session[-2].data.content


@pytest.mark.parametrize("version", [0, 4])
def test_fork_tells_how_much_it_inherited(tmp_path: Path, version: int) -> None:
    rows = dsh(
        ("turn/start", {"turn": 1}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
        ("session/end-seed", {"inherited": True} if version else {}),
        ("turn/start", {"turn": 2}),
        version=version,
    )
    rows[0].update(parentSession="first", **({} if version else {"seedLength": 2}))

    header = read(tmp_path, rows).session.header

    assert (header["parent"], header["inherited"]) == ("first", 3)
