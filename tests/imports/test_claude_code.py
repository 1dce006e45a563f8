from __future__ import annotations

from pathlib import Path

import pytest

from dsh_nb import tables
from dsh_nb.imports import LineNote
from dsh_nb.messages import (
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolCallBlock,
)
from dsh_nb.session.events import TurnReason
from tests.imports.logs import (
    answer,
    claude,
    outline,
    prompt,
    read,
    text,
    tool_result,
    tool_use,
)


def test_message_over_several_lines_is_one_step_and_billed_once(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    log = read(
        tmp_path,
        [
            prompt("u1", None, "hi"),
            answer("a2", "u1", "m", thought, output=1),
            answer("a3", "a2", "m", text("yes"), output=1),
            answer("a4", "a3", "m", tool_use("c"), output=40),
            prompt("u6", "a4", [tool_result("c")]),
            answer("a8", "u6", "n", text("done"), output=2),
        ],
    )

    assert outline(log.session) == [
        "user/message", "turn/start",
        "step/start", "assistant/chunk", "assistant/message", "usage", "tool/call", "tool/result",
        "step/end", "step/start", "assistant/chunk", "assistant/message", "usage", "step/end",
        "turn/end",
    ]  # fmt: skip
    assert log.session[6].data.content == (
        ReasoningBlock("hm", "sig"),
        TextBlock("yes"),
        ToolCallBlock("c", "Bash", "{}"),
    )
    assert list(tables.usage(log.session).output_tokens) == [40, 2]
    assert list(tables.steps(log.session).seconds) == [5.0, 2.0]
    assert list(tables.tool_calls(log.session).seconds) == [2.0]


def test_parallel_results_hang_from_their_own_lines_and_stay_on_the_path(tmp_path: Path) -> None:
    """Each result's parent is the line of its call, so the tree forks where nobody branched."""
    log = read(
        tmp_path,
        [
            prompt("u1", None, "both"),
            answer("a2", "u1", "m", tool_use("c")),
            answer("a3", "a2", "m", tool_use("d")),
            prompt("r4", "a2", [tool_result("c")]),
            prompt("r5", "a3", [tool_result("d", is_error=True)]),
            answer("a6", "r5", "n", text("done")),
        ],
    )

    assert log.branches == ()
    assert list(tables.tool_calls(log.session).outcome) == ["ok", "error"]
    assert list(tables.turns(log.session).steps) == [2]


def test_results_between_the_lines_of_a_message_stay_in_its_step(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", None, "both"),
            answer("a2", "u1", "m", tool_use("c")),
            prompt("r3", "a2", [tool_result("c")]),
            answer("a4", "r3", "m", tool_use("d")),
            prompt("r5", "a4", [tool_result("d")]),
        ],
    )

    assert outline(log.session)[2:] == [
        "step/start", "assistant/chunk", "assistant/message", "usage", "tool/call", "tool/call",
        "tool/result", "tool/result", "step/end",
    ]  # fmt: skip


def test_edited_prompt_makes_a_branch_that_counts_only_its_own(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", None, "hi"),
            answer("a2", "u1", "m", text("hello")),
            prompt("u3", "a2", "old question"),
            answer("a4", "u3", "n", text("old answer")),
            prompt("u5", "a2", "new question"),
            answer("a6", "u5", "o", text("new answer")),
        ],
    )

    (branch,) = log.branches
    said = tables.messages
    assert list(said(log.session).text) == ["hi", "hello", "new question", "new answer"]
    assert list(said(branch).text) == ["old question", "old answer"]
    lineage = {key: branch.header[key] for key in ("parent", "kind", "at")}
    assert lineage == {"parent": "s", "kind": "branch", "at": 5}
    assert branch.id == "s.branch-1"
    assert log.session[5].type == "usage"
    assert sorted(tables.many(tables.usage, log.sessions).message_id) == ["m", "n", "o"]


def test_branch_of_a_branch_names_the_branch(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", None, "root"),
            prompt("u2", "u1", "left"),
            prompt("u3", "u2", "left one"),
            prompt("u4", "u2", "left two"),
            prompt("u5", "u1", "right"),
        ],
    )

    parents = {branch.id: branch.header["parent"] for branch in log.branches}
    assert parents == {"s.branch-1": "s", "s.branch-2": "s.branch-1"}


def test_subagent_in_the_same_file_is_a_session_of_its_own(tmp_path: Path) -> None:
    side = {"isSidechain": True}
    log = read(
        tmp_path,
        [
            prompt("u1", None, "explore"),
            answer("a2", "u1", "m", tool_use("c", "Task", prompt="look around")),
            prompt("s3", None, "look around", **side),
            answer("s4", "s3", "x", text("a folder"), **side),
            prompt("u5", "a2", [tool_result("c")]),
            answer("a6", "u5", "n", text("there is a folder")),
        ],
    )

    (sidechain,) = log.sidechains
    assert list(tables.messages(sidechain).text) == ["look around", "a folder"]
    lineage = {key: sidechain.header[key] for key in ("parent", "kind", "callId", "at")}
    assert lineage == {"parent": "s", "kind": "sidechain", "callId": "c", "at": 6}
    assert log.session[6].type == "tool/call"
    assert list(tables.turns(log.session).reason) == ["completed"]


def test_subagents_that_ran_at_once_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    rows = [prompt("u1", None, "go"), answer("a2", "u1", "m", tool_use("c"))]
    for n, agent in enumerate(("x", "y", "x", "y"), 3):
        parent = None if n < 5 else f"s{n - 2}"
        rows.append(prompt(f"s{n}", parent, f"{agent}{n}", isSidechain=True, agentId=agent))

    log = read(tmp_path, rows)

    said = {one.id: list(tables.messages(one).text) for one in log.sidechains}
    assert said == {"s.agent-x": ["x3", "x5"], "s.agent-y": ["y4", "y6"]}


def test_lines_whose_parents_were_never_saved_come_back_in_order(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", "lost-1", "one"),
            answer("a2", "u1", "m", text("two")),
            prompt("u3", "lost-2", "three"),
            answer("a4", "lost-3", "n", text("four")),
        ],
    )

    assert list(tables.messages(log.session).text) == ["one", "two", "three", "four"]
    assert log.branches == ()
    assert [note.line for note in log.report.notes] == [1, 3, 4]


def test_transcript_that_starts_in_mid_session_keeps_the_stray_result(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [prompt("u1", "gone", [tool_result("c")]), answer("a2", "u1", "m", text("so it is"))],
    )

    assert log.session[0].type == "claude-code/user"
    assert list(tables.turns(log.session).reason) == ["completed"]


def test_repeated_lines_are_skipped_and_reused_ids_kept(tmp_path: Path) -> None:
    first = prompt("u1", None, "one")

    log = read(tmp_path, [first, first, prompt("u1", None, "other")])

    assert log.report.skipped == [LineNote(2, "repeats line 1")]
    assert log.report.notes == [LineNote(3, "has the uuid of line 1")]
    assert list(tables.messages(log.session).text) == ["one", "other"]


def test_interrupted_request_ends_its_turn_as_aborted(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", None, "go"),
            answer("a2", "u1", "m", tool_use("c")),
            prompt("u3", "a2", [text("[Request interrupted by user for tool use]")]),
            prompt("u4", "u3", "never mind"),
            prompt("u5", "u4", [text("[Request interrupted by user]")]),
        ],
    )

    turns = tables.turns(log.session)
    assert list(turns.reason) == ["aborted", "aborted"]
    assert log.session[-1].data.reason == TurnReason("aborted", "user")
    assert list(tables.tool_calls(log.session).outcome) == ["interrupted"]


def test_failed_request_is_an_error_and_no_message(tmp_path: Path) -> None:
    failed = answer("a2", "u1", "m", text("API Error: 529"), isApiErrorMessage=True, error="busy")

    log = read(tmp_path, [prompt("u1", None, "go"), failed])

    assert outline(log.session) == ["user/message", "turn/start", "error", "turn/end"]
    assert log.session[-1].data.reason == TurnReason("error", message="API Error: 529", code="busy")
    assert tables.usage(log.session).empty


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("The user doesn't want to proceed with this tool use.", "denied"),
        ("[Request interrupted by user for tool use]", "interrupted"),
        ("Exit code 1", "error"),
    ],
)
def test_failed_result_tells_how_it_failed(tmp_path: Path, said: str, outcome: str) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", None, "go"),
            answer("a2", "u1", "m", tool_use("c")),
            prompt("u3", "a2", [tool_result("c", said, is_error=True)]),
        ],
    )

    assert list(tables.tool_calls(log.session).outcome) == [outcome]
    assert tables.turns(log.session).reason.isna().all()


def test_what_people_did_not_say_is_context(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            prompt("u1", None, "Caveat: ...", isMeta=True),
            prompt("u2", "u1", "<command-name>/clear</command-name>"),
            prompt("u3", "u2", "This session continues ...", isCompactSummary=True),
            prompt("u4", "u3", "hi"),
            answer("a5", "u4", "m", text("yes")),
        ],
    )

    assert outline(log.session)[:5] == [
        "context/message", "user/message", "context/message", "user/message", "turn/start",
    ]  # fmt: skip
    assert [event.data.source.kind for event in log.session[:4]] == [
        "plugin", "user", "compaction", "user",
    ]  # fmt: skip
    assert log.session[1].data.source == Source("user", "command", "u2")


def test_command_that_nobody_answers_is_no_turn(tmp_path: Path) -> None:
    log = read(tmp_path, [prompt("u1", None, "<command-name>/clear</command-name>")])

    assert outline(log.session) == ["user/message"]


def test_compaction_goes_on_with_the_path(tmp_path: Path) -> None:
    boundary = claude(
        "system", "b3", None, subtype="compact_boundary", logicalParentUuid="a2", content="..."
    )
    log = read(
        tmp_path,
        [
            prompt("u1", None, "hi"),
            answer("a2", "u1", "m", text("hello")),
            boundary,
            prompt("u4", "b3", "Summary: ...", isCompactSummary=True),
            prompt("u5", "u4", "go on"),
            answer("a6", "u5", "n", text("sure")),
        ],
    )

    assert (log.branches, len(tables.turns(log.session))) == ((), 2)
    kept = [event.data for event in log.session if event.type == "claude-code/system"]
    assert kept == [boundary]


def test_queued_prompt_and_words_beside_a_result_steer(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "prompt": "use euros"}
    log = read(
        tmp_path,
        [
            prompt("u1", None, "go"),
            answer("a2", "u1", "m", tool_use("c")),
            prompt("u3", "a2", [tool_result("c"), text("and hurry")]),
            claude("attachment", "t4", "u3", attachment=queued),
            answer("a5", "t4", "n", text("done")),
        ],
    )

    steered = [event.data.content for event in log.session if event.type == "steering/message"]
    assert steered == [(TextBlock("and hurry"),), (TextBlock("use euros"),)]
    assert list(tables.turns(log.session).turn) == [1]


def test_blocks_of_all_kinds_are_read(tmp_path: Path) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    image = {"type": "image", "source": picture}
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    log = read(
        tmp_path,
        [
            prompt("u1", None, [text("see"), image, {"type": "document", "title": "d"}]),
            answer(
                "a2", "u1", "m", {"type": "redacted_thinking", "data": "enc"}, search, tool_use("c")
            ),
            prompt("u3", "a2", [tool_result("c", [text("x"), image])], toolUseResult={"n": 1}),
        ],
    )

    shown = ImageBlock("data:image/png;base64,AA==", "image/png")
    document = TextBlock('{"type":"document","title":"d"}')
    assert log.session[0].data.content == (TextBlock("see"), shown, document)
    (message,) = (event.data for event in log.session if event.type == "assistant/message")
    assert message.content[:2] == (
        ReasoningBlock("", redacted="enc"),
        OpaqueBlock("anthropic", search),
    )
    (result,) = (event.data for event in log.session if event.type == "tool/result")
    assert result.content == (TextBlock("x"), shown)
    details = [event.data for event in log.session if event.type == "claude-code/tool-use-result"]
    assert details == [{"callId": "c", "value": {"n": 1}}]


def test_lines_of_unknown_types_are_events_with_all_they_hold(tmp_path: Path) -> None:
    snapshot = {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {"files": {}}}
    operation = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"}
    odd = {"uuid": "z"}

    log = read(tmp_path, [snapshot, prompt("u1", None, "hi"), operation, odd])

    kept = [(event.type, event.data) for event in log.session if "claude" in event.type]
    assert kept == [
        ("claude-code/file-history-snapshot", snapshot),
        ("claude-code/queue-operation", operation),
        ("claude-code/untyped", odd),
    ]


def test_title_is_the_persons_else_the_models(tmp_path: Path) -> None:
    summary = {"type": "summary", "summary": "A talk", "leafUuid": "u1"}
    custom = {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"}

    titles = [
        read(tmp_path, [prompt("u1", None, "hi"), *more]).session.header.get("title")
        for more in ([], [summary], [custom, summary])
    ]

    assert titles == [None, "A talk", "Mine"]


def test_times_in_every_form_become_milliseconds(tmp_path: Path) -> None:
    stamps = ["2026-01-31T10:00:00Z", "2026-01-31T11:00:00.123456+01:00", "2026-01-31T10:00:01", 7]
    rows = [
        {**prompt(f"u{n}", f"u{n - 1}" if n else None, "x"), "timestamp": stamp}
        for n, stamp in enumerate([*stamps, "soon", None])
    ]

    log = read(tmp_path, rows)

    times = [event.time for event in log.session if event.type == "user/message"]
    assert times == [1769853600000, 1769853600123, 1769853601000, 7000, 7000, 7000]


@pytest.mark.parametrize("usage", [None, {"input_tokens": "many", "output_tokens": -1}])
def test_counts_of_a_wrong_type_are_zero_and_missing_ones_no_row(
    tmp_path: Path, usage: object
) -> None:
    line = answer("a2", "u1", "m", text("x"))
    line["message"]["usage"] = usage

    frame = tables.usage(read(tmp_path, [prompt("u1", None, "hi"), line]).session)

    assert list(frame.output_tokens) == ([] if usage is None else [0])
