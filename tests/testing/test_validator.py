"""Tests of the request validator: every rule has a request that breaks it and no other."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable

import pytest

from dsh_nb.messages import JsonObject
from dsh_nb.testing.validator import validate_request

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
THINKING = {"type": "thinking", "thinking": "", "signature": "c2VhbA=="}
REDACTED = {"type": "redacted_thinking", "data": "AAAA"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITED = {"type": "text", "text": "see", "citations": [{"cited_text": "x"}]}
CALL = {"type": "tool_use", "id": "t1", "name": "add", "input": {}, "caller": {"type": "direct"}}
SECOND = {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 1}}
SENT: list[list[JsonObject]] = [
    [THINKING, REDACTED, SEARCH, FOUND, CITED, CALL, SECOND],
    [{"type": "text", "text": "Wait"}, SEARCH],
]
MARK = {"type": "ephemeral"}
PAPER = {"type": "text", "media_type": "text/plain", "data": "A paper."}


def image(media_type: str = "image/png", content: str = PNG) -> JsonObject:
    source = {"type": "base64", "media_type": media_type, "data": content}
    return {"type": "image", "source": source}


def big_request() -> JsonObject:
    """A valid request with something of everything; its blocks are in `SENT`."""
    return {
        "model": "claude-test",
        "max_tokens": 4096,
        "stream": True,
        "temperature": 1,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}],
        "tools": [
            {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}},
            {"name": "web_search", "type": "web_search_20250305", "cache_control": MARK},
        ],
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [THINKING, REDACTED, SEARCH, FOUND, CITED, CALL, SECOND],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t2",
                        "content": [{"type": "text", "text": "3"}, image()],
                    },
                    {"type": "tool_result", "tool_use_id": "t1", "content": "", "is_error": True},
                    {"type": "text", "text": "Go on \u2028 \U0001f600", "cache_control": MARK},
                    image() | {"cache_control": MARK},
                    {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
                    {"type": "document", "title": "A", "context": None, "source": PAPER},
                ],
            },
        ],
    }


def test_big_valid_request_has_no_findings() -> None:
    body = big_request()

    assert validate_request(body, raw=json.dumps(body).encode(), sent_messages=SENT) == []


def test_paused_message_may_be_the_last() -> None:
    body = big_request()
    body["messages"] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Wait"}, SEARCH]},
    ]

    assert validate_request(body, sent_messages=SENT) == []


def set_at(*path: object) -> Callable[[JsonObject], None]:
    """Sets the last of `path` at the keys before it."""
    *keys, last, value = path

    def break_it(body: JsonObject) -> None:
        place: object = body
        for key in keys:
            place = place[key]  # type: ignore[index]
        place[last] = value  # type: ignore[index]

    return break_it


def add_at(*path: object) -> Callable[[JsonObject], None]:
    """Appends the last of `path` to the list at the keys before it."""
    *keys, value = path

    def break_it(body: JsonObject) -> None:
        place: object = body
        for key in keys:
            place = place[key]  # type: ignore[index]
        place.append(value)  # type: ignore[attr-defined]

    return break_it


def delete_at(*path: object) -> Callable[[JsonObject], None]:
    *keys, last = path

    def break_it(body: JsonObject) -> None:
        place: object = body
        for key in keys:
            place = place[key]  # type: ignore[index]
        del place[last]  # type: ignore[attr-defined]

    return break_it


def content(at: int, *rest: object) -> tuple[object, ...]:
    return ("messages", at, "content", *rest)


def swap_thinking(body: JsonObject) -> None:
    blocks = body["messages"][1]["content"]
    blocks[0], blocks[1] = blocks[1], blocks[0]


def put_text_first(body: JsonObject) -> None:
    body["messages"][2]["content"].insert(1, {"type": "text", "text": "early"})


def move_thinking_to_the_end(body: JsonObject) -> None:
    body["messages"][1]["content"] = [CALL, {**CALL, "id": "t2"}, THINKING]


BROKEN = {
    "model": (set_at("model", ""), "model: must be a non-empty string"),
    "max_tokens zero": (
        lambda body: body.update(max_tokens=0, thinking={"type": "disabled"}),
        "max_tokens: must be a positive integer",
    ),
    "max_tokens text": (set_at("max_tokens", "9"), "max_tokens: must be a positive integer"),
    "max_tokens bool": (set_at("max_tokens", True), "max_tokens: must be a positive integer"),
    "max_tokens missing": (delete_at("max_tokens"), "max_tokens: must be a positive integer"),
    "stream": (set_at("stream", 1), "stream: must be a boolean"),
    "temperature": (set_at("temperature", 1.1), "temperature: must be a number from 0 to 1"),
    "top-level key": (set_at("max_steps", 3), "max_steps: extra inputs are not permitted"),
    "thinking kind": (
        set_at("thinking", {"type": "on"}),
        "thinking.type: must be enabled, disabled or adaptive",
    ),
    "small budget": (
        set_at("thinking", "budget_tokens", 1023),
        "thinking.budget_tokens: must be at least 1024",
    ),
    "large budget": (
        set_at("thinking", "budget_tokens", 4096),
        "thinking.budget_tokens: must be less than max_tokens",
    ),
    "no messages": (set_at("messages", []), "messages: at least one message is required"),
    "role": (
        set_at("messages", 0, "role", "system"),
        "messages.0.role: must be 'user' or 'assistant'",
    ),
    "message key": (
        set_at("messages", 0, "id", "m"),
        "messages.0.id: extra inputs are not permitted",
    ),
    "first role": (
        set_at("messages", 0, "role", "assistant"),
        "messages.0.role: the first message must be from the user",
    ),
    "last role": (
        add_at("messages", {"role": "assistant", "content": "So"}),
        "messages: the last message must be from the user",
    ),
    "empty content": (
        set_at(*content(0), []),
        "messages.0.content: must be a string or a non-empty list of blocks",
    ),
    "blank content": (set_at(*content(0), " \n"), "messages.0.content: text must not be blank"),
    "no block": (
        set_at(*content(0), ["Hi"]),
        "messages.0.content.0: must be an object with a type",
    ),
    "blank text": (
        set_at(*content(2, 2, "text"), ""),
        "messages.2.content.2.text: text must not be blank",
    ),
    "blank text in a result": (
        set_at(*content(2, 0, "content", 0, "text"), " "),
        "messages.2.content.0.content.0.text: text must not be blank",
    ),
    "blank system": (
        set_at("system", 0, "text", ""),
        "system.0.text: text must not be blank",
    ),
    "blank system string": (set_at("system", ""), "system: text must not be blank"),
    "system shape": (
        set_at("system", [{"type": "image"}]),
        "system: must be a string or a list of text blocks",
    ),
    "call without a result": (
        delete_at(*content(2, 1)),
        "messages.2: no tool_result for the tool_use 't1' right before",
    ),
    "result without a call": (
        delete_at(*content(1, 6)),
        "messages.2: no tool_use right before for the tool_result of 't2'",
    ),
    "text before a result": (
        put_text_first,
        "messages.2.content.2: tool_result blocks must come first, before any other block",
    ),
    "id twice": (
        lambda body: body["messages"].extend(
            [
                {"role": "assistant", "content": [CALL]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
            ]
        ),
        "messages.3: tool_use ids must be unique, 't1' is there twice",
    ),
    "result id twice": (
        lambda body: body["messages"][2]["content"].insert(
            0, {"type": "tool_result", "tool_use_id": "t1"}
        ),
        "messages.2: more than one tool_result for 't1'",
    ),
    "id pattern": (
        lambda body: (
            set_at(*content(1, 6, "id"), "a.b")(body),
            set_at(*content(2, 0, "tool_use_id"), "a.b")(body),
        ),
        "messages.1: tool_use.id must match ^[a-zA-Z0-9_-]+$, not 'a.b'",
    ),
    "input": (
        set_at(*content(1, 5, "input"), "{}"),
        "messages.1.content.5.input: must be an object",
    ),
    "call name": (
        set_at(*content(1, 5, "name"), ""),
        "messages.1.content.5.name: must be a string of 1 to 200 characters",
    ),
    "too many marks": (
        set_at(*content(1, 4, "cache_control"), MARK),
        "cache_control: at most 4 blocks may be marked, found 5",
    ),
    "mark in a result": (
        set_at(*content(2, 0, "content", 0, "cache_control"), MARK),
        "cache_control: at most 4 blocks may be marked, found 5",
    ),
    "mark kind": (
        set_at("system", 0, "cache_control", {"type": "long"}),
        "cache_control.type: must be 'ephemeral'",
    ),
    "mark on thinking": (
        lambda body: (
            set_at(*content(1, 0, "cache_control"), MARK)(body),
            delete_at("system", 0, "cache_control")(body),
        ),
        "cache_control: thinking blocks cannot be marked",
    ),
    "media type": (
        set_at(*content(2, 3, "source", "media_type"), "image/jpg"),
        "messages.2.content.3.source.media_type: must be one of "
        "image/gif, image/jpeg, image/png, image/webp",
    ),
    "magic bytes": (
        set_at(*content(2, 3, "source", "media_type"), "image/jpeg"),
        "messages.2.content.3.source.media_type: says image/jpeg, but the bytes are image/png",
    ),
    "unknown bytes": (
        set_at(*content(2, 3, "source", "data"), "QUJD"),
        "messages.2.content.3.source.media_type: says image/png, but the bytes are None",
    ),
    "base64": (
        set_at(*content(2, 3, "source", "data"), PNG + "\n"),
        "messages.2.content.3.source.data: must be base64",
    ),
    "image source": (
        set_at(*content(2, 3, "source"), {"type": "path"}),
        "messages.2.content.3.source.type: must be base64, url or file",
    ),
    "image url": (
        set_at(*content(2, 4, "source"), {"type": "url"}),
        "messages.2.content.4.source.url: only https URLs are supported",
    ),
    "image http url": (
        set_at(*content(2, 4, "source", "url"), "http://x.test/a.png"),
        "messages.2.content.4.source.url: only https URLs are supported",
    ),
    "image file": (
        set_at(*content(2, 4, "source"), {"type": "file"}),
        "messages.2.content.4.source.file_id: must be a string",
    ),
    "thinking changed": (
        set_at(*content(1, 0, "signature"), "eA=="),
        "messages.1.content.0: the thinking block was never sent so",
    ),
    "key added to thinking": (
        set_at(*content(1, 1, "signature"), None),
        "messages.1.content.1: the redacted_thinking block was never sent so",
    ),
    "thinking out of order": (
        swap_thinking,
        "messages.1.content.0: the redacted_thinking block was not sent in this place",
    ),
    "server block changed": (
        set_at(*content(1, 3, "content"), None),
        "messages.1.content.3: the web_search_tool_result block was never sent so",
    ),
    "thinking last": (
        move_thinking_to_the_end,
        "messages.1.content: the final block of an assistant message must not be thinking",
    ),
    "key on text": (
        set_at(*content(2, 2, "toolset_name"), None),
        "messages.2.content.2.text.toolset_name: extra inputs are not permitted",
    ),
    "key on a call": (
        set_at(*content(1, 5, "toolset_name"), None),
        "messages.1.content.5.tool_use.toolset_name: extra inputs are not permitted",
    ),
    "key on a result": (
        set_at(*content(2, 1, "name"), "add"),
        "messages.2.content.1.tool_result.name: extra inputs are not permitted",
    ),
    "key on an image": (
        set_at(*content(2, 3, "name"), "a.png"),
        "messages.2.content.3.image.name: extra inputs are not permitted",
    ),
    "key on a document": (
        set_at(*content(2, 5, "name"), "a.txt"),
        "messages.2.content.5.document.name: extra inputs are not permitted",
    ),
    "key on a search result": (
        add_at(*content(2), {"type": "search_result", "url": "https://x.test"}),
        "messages.2.content.6.search_result.url: extra inputs are not permitted",
    ),
    "call from the user": (
        add_at(*content(2), {**SECOND, "id": "t9"}),
        "messages.2.content.6.type: 'tool_use' is no block of a user message",
    ),
    "tool name": (
        set_at("tools", 0, "name", "a.b"),
        "tools.0.name: must match ^[a-zA-Z0-9_-]{1,64}$",
    ),
    "long tool name": (
        set_at("tools", 0, "name", "a" * 65),
        "tools.0.name: must match ^[a-zA-Z0-9_-]{1,64}$",
    ),
    "tool name twice": (
        add_at("tools", {"name": "add", "input_schema": {"type": "object"}}),
        "tools.2.name: tool names must be unique, 'add' is there twice",
    ),
    "schema missing": (
        delete_at("tools", 0, "input_schema"),
        "tools.0.input_schema.type: must be 'object'",
    ),
    "schema root": (
        set_at("tools", 0, "input_schema", "type", "string"),
        "tools.0.input_schema.type: must be 'object'",
    ),
    "schema combinator": (
        set_at("tools", 0, "input_schema", "anyOf", []),
        "tools.0.input_schema: does not support oneOf, allOf or anyOf at the top level",
    ),
    "tool key": (
        set_at("tools", 0, "parameters", {}),
        "tools.0.parameters: extra inputs are not permitted",
    ),
    "tool description": (
        set_at("tools", 0, "description", None),
        "tools.0.description: must be a string",
    ),
    "tools shape": (set_at("tools", {}), "tools: must be a list of objects"),
    "result content": (
        set_at(*content(2, 0, "content"), [{"type": "document"}]),
        "messages.2.content.0.content: must be a string or a list of text and image blocks",
    ),
    "blank result": (
        set_at(*content(2, 1, "content"), " \n"),
        "messages.2.content.1.content: text must not be blank",
    ),
    "choice shape": (
        set_at("tool_choice", "auto"),
        "tool_choice.type: must be auto, any, tool or none",
    ),
    "choice kind": (
        set_at("tool_choice", {"type": "required"}),
        "tool_choice.type: must be auto, any, tool or none",
    ),
    "choice key": (
        set_at("tool_choice", {"type": "auto", "name": "add"}),
        "tool_choice.auto.name: extra inputs are not permitted",
    ),
    "choice flag": (
        set_at("tool_choice", {"type": "auto", "disable_parallel_tool_use": 1}),
        "tool_choice.disable_parallel_tool_use: must be a boolean",
    ),
    "choice of no tool": (
        lambda body: body.update(
            tool_choice={"type": "tool", "name": "sub"}, thinking={"type": "disabled"}
        ),
        "tool_choice.name: must be one of the tools, not 'sub'",
    ),
    "choice without tools": (
        lambda body: body.update(tool_choice={"type": "auto"}, tools=[]),
        "tool_choice: may only be specified while providing tools",
    ),
    "forced choice while thinking": (
        set_at("tool_choice", {"type": "any"}),
        "thinking: may not be enabled when tool_choice forces tool use",
    ),
    "result error flag": (
        set_at(*content(2, 1, "is_error"), "yes"),
        "messages.2.content.1.is_error: must be a boolean",
    ),
    "image in an error": (
        set_at(*content(2, 0, "is_error"), True),
        "messages.2.content.0.content: all content must be text if is_error is true",
    ),
}


VALID = {
    "choice of one": lambda body: body.update(
        tool_choice={"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        thinking={"type": "disabled"},
    ),
    "choice of any": lambda body: body.update(
        tool_choice={"type": "any"}, thinking={"type": "disabled"}
    ),
    "free choice": set_at("tool_choice", {"type": "auto", "disable_parallel_tool_use": False}),
    "choice of none": set_at("tool_choice", {"type": "none"}),
    "result text": set_at(*content(2, 1, "content"), " x"),
    "image file": set_at(*content(2, 4, "source"), {"type": "file", "file_id": "file_1"}),
    "document keys": set_at(*content(2, 5, "citations"), {"enabled": True}),
    "search result": add_at(
        *content(2), {"type": "search_result", "source": "s", "title": "t", "content": []}
    ),
    "client's result left out": delete_at(*content(2, 1, "content")),
}


@pytest.mark.parametrize("neighbour", VALID)
def test_request_that_breaks_no_rule_has_no_finding(neighbour: str) -> None:
    body = copy.deepcopy(big_request())
    VALID[neighbour](body)

    assert validate_request(body, sent_messages=SENT) == []


@pytest.mark.parametrize("rule", BROKEN)
def test_request_that_breaks_one_rule_has_one_finding(rule: str) -> None:
    break_it, finding = BROKEN[rule]
    body = copy.deepcopy(big_request())
    break_it(body)

    assert validate_request(body, sent_messages=SENT) == [finding]


@pytest.mark.parametrize(
    ("raw", "finding"),
    [
        (b'{"model": "\xff"}', "can't decode byte 0xff"),
        (b'{"temperature": NaN}', "NaN is not JSON"),
        (b'{"temperature": 1e999}', "not JSON compliant"),
        (b'{"model": "\\ud83d"}', "surrogates not allowed"),
        (b'{"model": ', "Expecting value"),
    ],
)
def test_bytes_that_are_not_strict_json_are_the_only_finding(raw: bytes, finding: str) -> None:
    [problem] = validate_request({}, raw=raw)

    assert problem.startswith("body: not strict JSON in UTF-8: ")
    assert finding in problem


@pytest.mark.parametrize("value", [float("nan"), "\ud83d", b"bytes"])
def test_body_without_bytes_is_held_to_strict_json_too(value: object) -> None:
    [problem] = validate_request(big_request() | {"model": value})

    assert problem.startswith("body: not strict JSON in UTF-8: ")


@pytest.mark.parametrize("body", [None, [], "x"])
def test_body_that_is_no_object_is_refused(body: object) -> None:
    assert validate_request(body) == ["body: must be an object"]


def test_keys_of_the_server_are_refused_when_it_never_sent_them() -> None:
    body = big_request()
    body["messages"] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [CITED]},
        {"role": "user", "content": "Go on"},
    ]

    assert validate_request(body) == [
        "messages.1.content.0.text.citations: extra inputs are not permitted"
    ]


def test_count_needs_no_max_tokens_and_takes_none() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    assert validate_request(body, counting=True) == []
    assert validate_request(body) == ["max_tokens: must be a positive integer"]
    assert validate_request({**body, "max_tokens": 9}, counting=True) == [
        "max_tokens: extra inputs are not permitted"
    ]
