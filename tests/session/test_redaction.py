"""Redaction: what must not be shared is nowhere in the log, which stays a log."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    ImageBlock,
    ReasoningBlock,
    ReasoningDelta,
    Retry,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.session import check_log, masking
from dsh_nb.session.events import AssistantMessage, SessionEvent
from dsh_nb.session.files import dumps
from dsh_nb.session.masking import Masks, know_secret
from dsh_nb.session.redaction import MARK, Redaction, redaction_of
from dsh_nb.session.session import Session
from dsh_nb.testing.logs import LogBuilder

NONE = Masks({})
SECRET = 'Tür "9\\ {Nord}'
PICTURE = "iVBORw0KGgo" + "A" * 80


def streamed(pieces: Sequence[str], kind: str = "text") -> LogBuilder:
    """A turn that says `pieces` in a block without an end, and ends properly."""
    log = LogBuilder().user("go").turn().step()
    log.chunk(BlockStart(0, "tool-call" if kind == "call" else "text", "c1", "find"))
    for piece in pieces:
        log.chunk(TextDelta(0, piece) if kind == "text" else ToolCallDelta(0, "c1", piece, "find"))
    text = "".join(pieces)
    block = TextBlock(text) if kind == "text" else ToolCallBlock("c1", "find", text)
    log.chunk(Finish(FinishReason("stop")))
    log.add("assistant/message", AssistantMessage(1, 1, (block,), stop_reason="stop"))
    if kind == "call":
        log.call("c1", "find", text).result("c1")
    return log.end_step().end_turn()


def redacted(log: LogBuilder, *rules: object, masks: Masks = NONE) -> list[SessionEvent]:
    redaction = Redaction(*rules, masks=masks)  # type: ignore[arg-type]  # some tests pass others
    return [*redaction.session(Session("main", log.events))]


def said(events: Sequence[SessionEvent]) -> bytes:
    return dumps(Session("main", events))


def deltas(events: Sequence[SessionEvent]) -> list[str]:
    chunks = [event.data.chunk for event in events if event.type == "assistant/chunk"]
    return [
        one.arguments_delta if isinstance(one, ToolCallDelta) else one.text
        for one in chunks
        if isinstance(one, TextDelta | ToolCallDelta)
    ]


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    ends = sorted({min(one, len(text)) for one in cuts} | {0, len(text)})
    return [text[begin:end] for begin, end in pairwise(ends)]


def test_a_log_with_nothing_to_redact_is_the_same() -> None:
    log = streamed(["hel", "lo"]).events

    assert redacted(streamed(["hel", "lo"]), "nothing of it") == log


def test_texts_and_patterns_become_markers_everywhere() -> None:
    log = LogBuilder().user("I am Anna, 0151 23").context("Anna again").turn().step()
    log.says("Hello Anna").end_step().end_turn()
    log.add("note/added", {"of": ["Anna", {"Anna": 1}], "tel": "0151 23"})

    events = redacted(log, "Anna", re.compile(r"\d{4} \d\d"))

    assert b"Anna" not in said(events)
    assert events[0].data.content == (TextBlock(f"I am {MARK}, {MARK}"),)
    assert events[-1].data == {"of": [MARK, {MARK: 1}], "tel": MARK}
    check_log(events)


@given(st.lists(st.integers(0, 40), max_size=40), st.text("xyz ", max_size=9))
def test_a_streamed_secret_is_found_in_pieces(cuts: list[int], around: str) -> None:
    pieces = cut(around + SECRET + around, cuts)

    events = redacted(streamed(pieces), SECRET)

    check_log(events, ended=True)
    assert len(deltas(events)) == len(pieces)
    assert "".join(deltas(events)) == around + MARK + around


@given(st.lists(st.integers(0, 80), max_size=80))
def test_arguments_of_a_call_stay_json(cuts: list[int]) -> None:
    arguments = json.dumps({"who": f"to {SECRET}", "n": [1, 4711, True, None]})

    events = redacted(streamed(cut(arguments, cuts), "call"), SECRET, "4711")

    check_log(events, ended=True)
    whole = {"who": f"to {MARK}", "n": [1, MARK, True, None]}
    assert json.loads("".join(deltas(events))) == whole
    assert [json.loads(one.data.arguments) for one in events if one.type == "tool/call"] == [whole]


def test_arguments_that_were_cut_are_redacted_as_text() -> None:
    half = json.dumps({"who": SECRET, "more": "x"})[:-3]

    assert SECRET not in Redaction(SECRET, masks=NONE).arguments(half)
    assert Redaction(SECRET, masks=NONE).arguments(half) == f'{{"who": "{MARK}", "more": "'


def test_arguments_hide_a_value_that_json_would_drop() -> None:
    twice = '{"a": "hidden name", "a": "x"}'

    assert Redaction("hidden name", masks=NONE).arguments(twice) == f'{{"a": "{MARK}", "a": "x"}}'


def test_secrets_and_keys_are_found_without_a_rule() -> None:
    key = "sk-ant-api03-Aa1_Bb2-Cc3Dd4Ee5Ff6Gg7"
    log = streamed(["use sk-ant-", key[7:], " now"])

    events = redacted(log, masks=Masks({"PASSWORD": SECRET}))

    assert "".join(deltas(events)) == "use [masked key] now"
    check_log(events)


def test_secrets_made_known_are_masked_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_known", {})
    know_secret("open-sesame-0123", "DOOR")

    assert Redaction().text("say open-sesame-0123") == "say [masked DOOR]"


def test_a_function_sees_whole_texts_and_no_words_of_the_log() -> None:
    seen: list[str] = []

    def upper(text: str) -> str:
        seen.append(text)
        return text.upper()

    log = streamed(["he", "llo ", "you"])

    events = redacted(log, upper)

    check_log(events, ended=True)
    assert "".join(deltas(events)) == "HELLO YOU"
    assert "hello you" in seen
    assert "completed" not in seen
    assert len(seen) == len(set(seen))


def test_a_function_that_gives_other_words_each_time_is_asked_once() -> None:
    names = count(1)

    events = redacted(streamed(["An", "na"]), lambda text: f"person {next(names)}")

    check_log(events, ended=True)


def test_ids_that_are_replaced_still_tell_apart() -> None:
    log = LogBuilder().user("go").turn().step()
    log.says(ToolCallBlock("anna", "add", "{}"), ToolCallBlock("otto", "add", "{}"))
    log.call("anna").result("anna").call("otto").result("otto").end_step().end_turn()

    events = redacted(log, re.compile("anna|otto"))

    check_log(events, ended=True)
    calls = [event.data.call_id for event in events if event.type == "tool/call"]
    assert calls == [MARK, f"{MARK}~2"]


def test_thinking_that_changed_loses_its_seal() -> None:
    log = LogBuilder().user("go").turn().step()
    log.says(ReasoningBlock("of Anna", "seal"), ReasoningBlock("of none", "seal"))

    events = redacted(log, "Anna")

    message = next(event for event in events if event.type == "assistant/message")
    expected = (ReasoningBlock(f"of {MARK}"), ReasoningBlock("of none", "seal"))
    assert message.data.content == expected
    check_log(events)


def test_each_attempt_is_read_for_itself() -> None:
    log = LogBuilder().user("go").turn().step()
    log.chunk(TextDelta(0, "to An")).chunk(Retry(1, "lost Anna", "network"))
    log.chunk(TextDelta(0, "na and Anna")).chunk(ReasoningDelta(1, "An")).chunk(
        ReasoningDelta(1, "na")
    )

    events = redacted(log, "Anna")

    assert deltas(events) == ["to An", f"na and {MARK}"]
    assert b"lost Anna" not in said(events)


def test_an_interrupted_text_that_a_function_empties_is_a_marker() -> None:
    log = LogBuilder().user("go").turn().step().chunk(TextDelta(0, "gone"))
    message = AssistantMessage(1, 1, (TextBlock("gone"),), interrupted=True)
    log.add("assistant/message", message).end_step().end_turn("aborted")

    events = redacted(log, lambda text: "")

    check_log(events, ended=True)
    said = next(event.data for event in events if isinstance(event.data, AssistantMessage))
    assert said.content == (TextBlock(MARK),)


def test_pictures_stay_and_addresses_do_not() -> None:
    picture = ImageBlock(f"data:image/png;base64,{PICTURE}", "image/png")
    remote = ImageBlock("https://example.org/Anna.png")
    value = Redaction("Anna", re.compile("A"), masks=NONE).value((picture, remote))

    assert value == (picture, ImageBlock(f"https://example.org/{MARK}.png"))


def test_session_id_and_header_are_redacted() -> None:
    session = Session("anna-1", header={"title": "for anna", "agent": "main"})

    copy = Redaction("anna", masks=NONE).session(session)

    assert (copy.id, copy.header) == (f"{MARK}-1", {"title": f"for {MARK}", "agent": "main"})


def test_finds_that_overlap_share_one_marker() -> None:
    redaction = Redaction("Anna Berg", "Berg & Co", re.compile("x*"), masks=NONE)

    assert redaction.text("of Anna Berg & Co, xx") == f"of {MARK}, {MARK}"


@pytest.mark.parametrize("off", [None, False])
def test_redaction_is_off_only_when_it_is_said(off: bool | None) -> None:
    assert redaction_of(off) is None
    assert redaction_of(True) is not None
    assert redaction_of(()) is not None


@pytest.mark.parametrize(
    ("redact", "text"),
    [(5, "redact is 5"), ([5], "redact has 5"), (re.compile(b"x"), "redact has re.compile")],
)
def test_rules_of_another_kind_are_refused(redact: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        redaction_of(redact)  # type: ignore[arg-type]


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="redact has an empty text"):
        redaction_of(["x", ""])


def test_a_function_has_to_give_text() -> None:
    with pytest.raises(TypeError, match="function gave None"):
        redacted(streamed(["x"]), lambda text: None)


def test_every_block_kind_is_redacted() -> None:
    block = BlockEnd(0, ToolCallBlock("c", "find_Anna", '{"Anna": "x"}', {"note": "Anna"}))

    expected = BlockEnd(0, ToolCallBlock("c", f"find_{MARK}", f'{{"{MARK}": "x"}}', {"note": MARK}))
    assert Redaction("Anna", masks=NONE).value(block) == expected
