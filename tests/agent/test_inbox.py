"""The inbox: two queues, each message once, and what may be said."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from dsh_nb.agent.inbox import Inbox, InboxMessage, inbox_message, user_content
from dsh_nb.messages import ImageBlock, Source, TextBlock

IMAGE = ImageBlock("data:image/png;base64,AA==")


def said(text: str, id: str | None = None) -> InboxMessage:
    return inbox_message(text, Source(id=id))


@pytest.mark.rule("L1")
def test_queues_are_drained_whole_in_order_and_apart() -> None:
    inbox = Inbox()
    a, b, c, d = (said(text) for text in "abcd")
    for message, steering in [(a, False), (b, True), (c, False), (d, True)]:
        assert inbox.put(message, steering=steering)

    assert (inbox.drain_queued(), inbox.drain_queued()) == ([a, c], [])
    assert (inbox.drain_steering(), inbox.drain_steering()) == ([b, d], [])


@pytest.mark.rule("L4")
@pytest.mark.parametrize("steering", [False, True])
def test_message_of_a_known_id_is_not_added_again(steering: bool) -> None:
    inbox = Inbox()
    first = said("a", "m1")
    inbox.put(first)

    again = inbox.put(said("b", "m1"), steering=steering)

    assert (again, inbox.drain_queued(), inbox.drain_steering()) == (False, [first], [])
    assert not inbox.put(said("a", "m1"))


@pytest.mark.rule("L4")
def test_late_steering_waits_behind_what_is_queued() -> None:
    inbox = Inbox()
    a, b, c = (said(text) for text in "abc")
    inbox.put(a, steering=True)
    inbox.put(b)
    inbox.put(c, steering=True)

    inbox.steering_to_queued()

    assert (inbox.queued, inbox.steering) == ([b, a, c], [])


def test_queued_message_can_be_taken_back_while_it_waits() -> None:
    inbox = Inbox()
    a, b = said("a", "m1"), said("b", "m2")
    inbox.put(a)
    inbox.put(b)

    assert (inbox.take_back("m1"), inbox.take_back("m1")) == (True, False)
    assert inbox.drain_queued() == [b]
    assert not inbox.take_back("m2")


def test_message_gets_an_id_of_its_own_and_keeps_its_source() -> None:
    first, second = inbox_message("a", None), inbox_message("a", None)
    given = inbox_message("a", Source("plugin", "clock"))

    assert first.source.id != second.source.id
    assert given.source == Source("plugin", "clock", given.source.id)
    assert said("a", "m1") == InboxMessage((TextBlock("a"),), Source(id="m1"))


class Word(str, enum.Enum):  # noqa: UP042  # a StrEnum would hide what is tested
    HELLO = "hello"


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("hi", (TextBlock("hi"),)),
        (" hi\n", (TextBlock(" hi\n"),)),
        (TextBlock("hi", cache=True), (TextBlock("hi", cache=True),)),
        (IMAGE, (IMAGE,)),
        (["look", IMAGE], (TextBlock("look"), IMAGE)),
        ((TextBlock("a"), ["b", IMAGE]), (TextBlock("a"), TextBlock("b"), IMAGE)),
        (["", IMAGE], (TextBlock(""), IMAGE)),
        ("half \ud83d", (TextBlock("half \ufffd"),)),
        ("pair \ud83d\ude00", (TextBlock("pair \U0001f600"),)),
        (Word.HELLO, (TextBlock("hello"),)),
    ],
)
def test_what_is_said_becomes_blocks_of_valid_text(given: Any, content: Any) -> None:
    assert user_content(given) == content


@pytest.mark.parametrize("given", ["", "  \n", [""], [TextBlock(" "), ""]])
def test_blank_prompt_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"the prompt .* is blank; say something"):
        user_content(given)


@pytest.mark.parametrize(
    ("given", "kind"),
    [(None, "NoneType"), (3, "int"), (b"hi", "bytes"), ({"a": 1}, "dict"), (["a", 3], "int")],
)
def test_prompt_of_another_kind_is_refused_with_its_type(given: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"the prompt is .*, a {kind}; pass text"):
        user_content(given)


def test_empty_list_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the prompt is \[\], a list; pass text"):
        user_content([])
