from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.imports.openai_messages import session_of_messages
from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import (
    ImageBlock,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolCallBlock,
)
from dsh_nb.session import Session, check_log
from dsh_nb.session.events import (
    AssistantMessage,
    ContextMessage,
    RequestHeader,
    ToolResult,
    TurnReason,
    TurnStart,
    TurnTrigger,
)
from dsh_nb.testing import validate_request
from tests.imports.logs import outline

Row = dict[str, Any]  # Any: JSON of other tools


def user(content: object) -> Row:
    return {"role": "user", "content": content}


def said(content: object, *calls: Row, **more: object) -> Row:
    row: Row = {"role": "assistant", "content": content, **more}
    return {**row, "tool_calls": [*calls]} if calls else row


def call(id: str, name: str = "add", arguments: str = "{}") -> Row:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id: str, content: object) -> Row:
    return {"role": "tool", "tool_call_id": id, "content": content}


def read(*rows: Row, **how: Any) -> Session:  # Any: as `session_of_messages` takes it
    session = session_of_messages(rows, id="s", **how)
    check_log(session, complete=False, ended=True)
    return session


def of_type(session: Session, struct: type) -> list[Any]:
    """The data of the events of one type."""
    return [event.data for event in session if type(event.data) is struct]


def notes(session: Session) -> list[str]:
    """What was mended."""
    listed: list[str] = session.header["import"]["notes"]
    return listed


def test_prompt_begins_a_turn_and_each_answer_is_a_step() -> None:
    session = read(
        {"role": "system", "content": "Add."},
        user("2 + 3?"),
        said(None, call("c1", arguments='{"a": 2, "b": 3}')),
        result("c1", "5"),
        said("It is 5."),
        user("Thanks"),
        said("You are welcome."),
        model="gpt-4o",
        time=1_700_000_000_000,
    )

    assert outline(session) == [
        "user/message", "turn/start",
        "step/start", "request/header", "assistant/message", "tool/call", "tool/result", "step/end",
        "step/start", "assistant/message", "step/end", "turn/end",
        "user/message", "turn/start", "step/start", "assistant/message", "step/end", "turn/end",
    ]  # fmt: skip
    assert of_type(session, RequestHeader) == [RequestHeader(1, 1, "gpt-4o", "Add.")]
    assert of_type(session, TurnStart)[0] == TurnStart(1, TurnTrigger("message", Source("user")))
    assert of_type(session, AssistantMessage)[0].content == (
        ToolCallBlock("c1", "add", '{"a": 2, "b": 3}'),
    )
    assert of_type(session, ToolResult) == [ToolResult(1, 1, "c1", (TextBlock("5"),), False)]
    assert {event.time for event in session} == {1_700_000_000_000}
    assert [message.role for message in session.messages] == [
        "user", "assistant", "user", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_call_id_that_comes_again_gets_a_number() -> None:
    session = read(
        user("twice"),
        said(None, call("c")),
        result("c", "one"),
        said(None, call("c"), call("c_2"), call("c")),
        result("c", "two"),
        result("c_2", "three"),
        result("c", "four"),
        said("done"),
    )

    told = {one.call_id: one.content[0].text for one in of_type(session, ToolResult)}
    assert told == {"c": "one", "c_2": "two", "c_2_2": "three", "c_3": "four"}


def test_failed_tells_which_results_are_errors() -> None:
    session = read(
        user("go"),
        said(None, call("c1"), call("c2")),
        result("c1", "Error: no seats"),
        result("c2", "fine"),
        said("sorry"),
        failed=lambda text: text.startswith("Error"),
    )

    told = [(one.is_error, one.outcome) for one in of_type(session, ToolResult)]
    assert told == [(True, "error"), (False, "ok")]


def test_parts_pictures_thinking_and_refusals_are_blocks() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    session = read(
        user([{"type": "text", "text": "what is it?"}, picture, {"type": "text", "text": " "}]),
        said("a cat", reasoning_content="whiskers"),
        user("and now?"),
        said(None, refusal="I had rather not."),
    )

    assert session[0].data.content == (
        TextBlock("what is it?"),
        ImageBlock("https://example.org/a.png"),
    )
    assert [one.content for one in of_type(session, AssistantMessage)] == [
        (ReasoningBlock("whiskers"), TextBlock("a cat")),
        (TextBlock("I had rather not."),),
    ]


def test_first_form_of_calls_is_read() -> None:
    session = read(
        user("go"),
        said(None, function_call={"name": "add", "arguments": "{}"}),
        {"role": "function", "name": "add", "content": "5"},
        said("5"),
    )

    assert of_type(session, ToolResult) == [ToolResult(1, 1, "call", (TextBlock("5"),), False)]


def test_system_message_after_an_answer_is_context() -> None:
    session = read(user("hi"), said("hello"), {"role": "system", "content": "Be brief."})

    assert of_type(session, RequestHeader) == []
    assert of_type(session, ContextMessage) == [
        ContextMessage((TextBlock("Be brief."),), Source("system"))
    ]


def test_list_that_ends_after_a_call_ends_its_turn_as_cut() -> None:
    session = read(user("go"), said(None, call("c1"), call("c2")), result("c1", "5"))

    assert session[-1].data.reason == TurnReason("aborted", "no answer followed")
    assert [(one.call_id, one.outcome) for one in of_type(session, ToolResult)] == [
        ("c1", "ok"),
        ("c2", "interrupted"),
    ]
    assert notes(session) == ["line 3 call 'c2' has no result; one was added"]


def test_last_prompt_without_an_answer_waits() -> None:
    session = read(user("hi"), said("hello"), user("###STOP###"))

    assert outline(session)[-2:] == ["turn/end", "user/message"]
    assert session.turn == 1


def test_result_of_no_call_and_unknown_role_are_events_of_their_own() -> None:
    critic = {"role": "critic", "content": "weak"}
    session = read(user("hi"), said("hello"), result("c9", "5"), critic)

    assert [(one.type, one.data) for one in session if one.type.startswith("openai/")] == [
        ("openai/tool", result("c9", "5")),
        ("openai/critic", critic),
    ]
    assert session.header["import"]["foreign"] == {"tool": 1, "critic": 1}


def test_header_keeps_what_was_given() -> None:
    session = read(user("hi"), said("hello"), header={"reward": 1.0})

    assert session.header["reward"] == 1.0
    assert session.header["import"]["format"] == "openai-messages"


def test_message_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="message 1"):
        session_of_messages([user({1, 2})], id="s")


_texts = st.sampled_from(
    ["", " ", "hi", "\ud800", None, [{"type": "text", "text": "part"}], 7, [3]]
)
_ids = st.sampled_from(["c", "c_2", "", "call:1", "é"])
_calls = st.builds(call, _ids, st.sampled_from(["add", ""]), st.sampled_from(["{}", "{", "[]"]))
_rows: st.SearchStrategy[Row] = st.one_of(
    st.builds(user, _texts),
    st.builds(lambda text, calls: said(text, *calls), _texts, st.lists(_calls, max_size=3)),
    st.builds(result, _ids, _texts),
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer"]), "content": _texts}),
    st.just({}),
)


@given(st.lists(_rows, max_size=12))
def test_any_list_becomes_a_log_whose_history_a_provider_accepts(rows: list[Row]) -> None:
    session = read(*rows, user("go on"))

    request = ModelRequest("claude-test", session.messages, options={"max_tokens": 16})
    assert validate_request(json.loads(encode_request(request))) == []
