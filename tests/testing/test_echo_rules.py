"""Tests of what must come back as it was sent: orders, keys and values of assistant messages."""

from __future__ import annotations

import pytest

from dsh_nb.messages import JsonObject
from dsh_nb.testing.validator import validate_request


def thought(seal: str) -> JsonObject:
    return {"type": "thinking", "thinking": "", "signature": seal}


def call(name: str, **more: object) -> JsonObject:
    return {"type": "tool_use", "id": name, "name": "add", "input": {"a": 1}, **more}


def text(words: str, **more: object) -> JsonObject:
    return {"type": "text", "text": words, **more}


def search(name: str = "s1") -> JsonObject:
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {}}


def found(name: str = "s1") -> JsonObject:
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": []}


def findings(sent: list[list[JsonObject]], *given: list[JsonObject]) -> list[str]:
    """What is found when the messages `given` come back, each call with its result."""
    messages: list[JsonObject] = [{"role": "user", "content": "Hi"}]
    for blocks in given:
        results = [
            {"type": "tool_result", "tool_use_id": block["id"]}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        messages.append({"role": "assistant", "content": blocks})
        messages.append({"role": "user", "content": [*results, text("Go on")]})
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    return validate_request(body, sent_messages=sent)


WOVEN = [thought("a"), call("t1"), thought("b"), call("t2")]


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        (
            [thought("a"), thought("b"), call("t1"), call("t2")],
            "messages.1.content.1: the thinking block was not sent in this place",
        ),
        (
            [call("t1"), thought("a"), thought("b"), call("t2")],
            "messages.1.content.0: the tool_use block was not sent in this place",
        ),
        (
            [thought("a"), call("t1"), call("t2")],
            "messages.1.content.2: the tool_use block was not sent in this place",
        ),
        (
            [thought("a"), thought("b"), call("t2")],
            "messages.1.content.1: the thinking block was not sent in this place",
        ),
        (
            [*WOVEN, call("t3")],
            "messages.1.content.4: the tool_use block was not sent in this place",
        ),
        (
            [thought("a"), call("t1"), thought("c"), call("t2")],
            "messages.1.content.2: the thinking block was never sent so",
        ),
    ],
)
def test_thinking_keeps_its_place_among_the_other_blocks(
    given: list[JsonObject], finding: str
) -> None:
    assert findings([WOVEN], given) == [finding]


@pytest.mark.parametrize(
    ("sent", "given"),
    [
        (WOVEN, WOVEN),
        (WOVEN, [thought("a"), call("t1")]),
        (WOVEN, [call("t1"), call("t2")]),
        ([thought("a"), text("so"), thought("b")], [thought("a"), text("so")]),
        ([thought("a"), text("so"), thought("b"), text(" ")], [thought("a"), text("so")]),
        ([thought("a"), text(" "), call("t1")], [thought("a"), call("t1")]),
        ([thought("a"), text("so it is")], [thought("a"), text("so i")]),
        ([thought("a"), text("a \ud83d b")], [thought("a"), text("a \ufffd b")]),
        ([thought("a"), search(), text("so")], [thought("a"), text("so")]),
        ([thought("a"), text("so")], [thought("a"), text("so", cache_control=None)]),
    ],
    ids=[
        "whole",
        "cut",
        "without thinking",
        "thinking at the end left out",
        "thinking and blank text at the end left out",
        "blank text left out",
        "cut inside a text",
        "half a surrogate pair",
        "server's call without a result left out",
        "cache mark",
    ],
)
def test_message_may_lose_what_cannot_be_sent_back(
    sent: list[JsonObject], given: list[JsonObject]
) -> None:
    assert findings([sent], given) == []


def test_text_before_another_block_is_not_taken_for_a_cut_one() -> None:
    sent = [thought("a"), text("so it is"), call("t1")]

    assert findings([sent], [thought("a"), text("so"), call("t1")]) == [
        "messages.1.content.1: the text block was not sent in this place"
    ]


def test_messages_keep_their_order() -> None:
    one, two = [thought("a"), text("one")], [thought("b"), text("two")]

    assert findings([one, two], one, two) == []
    assert findings([one, two], two) == []
    assert findings([one, two], two, one) == [
        "messages.3.content.0: the thinking block was not sent in this place"
    ]


def test_message_is_found_behind_a_shorter_one_that_begins_alike() -> None:
    cut, whole = [thought("a"), text("It")], [thought("a"), text("It is")]

    assert findings([cut, whole], whole) == []


def test_paused_message_and_its_rest_are_one_message() -> None:
    paused = [thought("a"), text("Wait"), search()]
    rest = [found(), thought("b"), text("There")]

    assert findings([paused, rest], [*paused, *rest]) == []
    assert findings([paused, rest], [*paused, found(), text("There")]) == [
        "messages.1.content.4: the text block was not sent in this place"
    ]


def test_servers_call_needs_its_result_before_the_last_message() -> None:
    sent = [text("Wait"), search("s1"), found("s1"), search("s2")]

    assert findings([sent], sent[:3]) == []
    assert findings([sent], sent) == [
        "messages.1.content.3: no result for the server_tool_use 's2' in its message"
    ]


def test_servers_result_before_its_call_is_none() -> None:
    sent = [found(), search(), text("so")]

    assert findings([sent], sent) == [
        "messages.1.content.1: no result for the server_tool_use 's1' in its message"
    ]


def test_servers_result_may_come_in_a_neighbouring_message() -> None:
    sent: list[list[JsonObject]] = [[search()], [found(), text("so")]]
    messages = [
        {"role": "user", "content": "Hi"},
        *({"role": "assistant", "content": blocks} for blocks in sent),
        {"role": "user", "content": "Go on"},
    ]
    body = {"model": "m", "max_tokens": 9, "messages": messages}

    assert validate_request(body, sent_messages=sent) == []


def test_servers_call_waits_beside_a_call_of_the_client() -> None:
    both, rest = [search(), call("t1")], [found(), text("so")]

    assert findings([both], both) == []
    assert findings([both, rest], both, rest) == []
    assert findings([both, rest], both, [text("so")]) == [
        "messages.1.content.0: no result for the server_tool_use 's1' in its message"
    ]
    assert findings([both[:1], rest], both[:1], rest) == [
        "messages.1.content.0: no result for the server_tool_use 's1' in its message"
    ]


def test_servers_call_waits_while_it_goes_on_calling_the_client() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    sent = [[search(), call("t1", caller=caller)], [call("t2", caller=caller)]]

    assert findings(sent, *sent) == []


DIRECT = {"type": "direct"}
CITED = [{"cited_text": "x"}]


@pytest.mark.parametrize(
    ("sent", "given", "finding"),
    [
        (
            [call("t1"), call("t2", caller=DIRECT)],
            [call("t1", caller=DIRECT), call("t2", caller=DIRECT)],
            "messages.1.content.0.tool_use.caller: extra inputs are not permitted",
        ),
        (
            [call("t1", caller=DIRECT)],
            [call("t1")],
            "messages.1.content.0.tool_use.caller: must come back as it was sent",
        ),
        (
            [call("t1")],
            [{**call("t1"), "input": {"a": 2}}],
            "messages.1.content.0.tool_use.input: must come back as it was sent",
        ),
        (
            [call("t1", caller=DIRECT)],
            [call("t9", caller=DIRECT)],
            "messages.1.content.0.tool_use.caller: extra inputs are not permitted",
        ),
        (
            [text("one", citations=CITED), text("two")],
            [text("one", citations=CITED), text("two", citations=CITED)],
            "messages.1.content.1.text.citations: extra inputs are not permitted",
        ),
        (
            [text("one", citations=CITED)],
            [text("one", citations=[])],
            "messages.1.content.0.text.citations: must come back as it was sent",
        ),
    ],
)
def test_block_has_the_keys_and_values_that_it_was_sent_with(
    sent: list[JsonObject], given: list[JsonObject], finding: str
) -> None:
    assert findings([sent], given) == [finding]


@pytest.mark.parametrize(
    ("sent", "given"),
    [
        ([call("t1", caller=DIRECT)], [call("t1", caller=DIRECT)]),
        ([call("t1")], [call("t9")]),
        ([{**call("t1"), "input": [1]}], [{**call("t1"), "input": {}}]),
        ([text("one", citations=CITED)], [text("one", citations=CITED)]),
        ([text("one", citations=CITED)], [text("one")]),
        ([text("one")], [text("made up")]),
    ],
    ids=["call", "unknown call", "broken input", "text", "text without citations", "unknown text"],
)
def test_block_that_is_as_it_was_sent_has_no_finding(
    sent: list[JsonObject], given: list[JsonObject]
) -> None:
    assert findings([sent], given) == []


def test_call_whose_id_was_sent_before_may_come_back_with_another() -> None:
    first = [thought("a"), call("t1", caller=DIRECT)]
    second = [thought("b"), call("t1", caller=DIRECT)]
    renamed = [thought("b"), call("t9", caller=DIRECT)]

    assert findings([first, second], first, renamed) == []
    assert findings([first, second], [*renamed[:1], call("t9")]) == [
        "messages.1.content.1: the tool_use block was not sent in this place"
    ]
