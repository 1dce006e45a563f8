"""Secrets: what is taken for one, and that none survives being streamed in pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.messages import BlockEnd, Chunk, ReasoningDelta, Retry, Source, TextBlock, TextDelta
from dsh_nb.session import masking
from dsh_nb.session.events import AssistantChunk, SessionEvent, UserMessage
from dsh_nb.session.masking import Masks, StreamMask, know_secret, mask_text
from dsh_nb.session.packing import delta_text

KEY = "sk-ant-api03-Aa1_Bb2-Cc3Dd4Ee5Ff6Gg7"
SECRET = 'pa"ss\\word-0123'
MASKS = Masks({"DB_PASSWORD": SECRET, "SHORT_TOKEN": "abc"})


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        "sk-proj-Aa1_Bb2-Cc3Dd4Ee5",
        "sk-0123456789abcdef0123456789abcdef",
        "sk_live_0123456789abcdef",
        "ghp_0123456789abcdefghij",
        "github_pat_0123456789abcdefghij",
        "glpat-0123456789abcdef",
        "hf_0123456789abcdefghij",
        "xoxb-0123456789-abc",
        "AIza0123456789abcdefghijABCDEFGHIJ",
        "AKIAABCDEFGHIJKLMNOP",
    ],
)
def test_what_looks_like_a_key_is_masked(key: str) -> None:
    assert MASKS.text(f"use '{key}', please") == "use '[masked key]', please"


@pytest.mark.parametrize(
    "text",
    [
        "task-550e8400e29b41d4a716446655440000",
        "sk-learn-compatible-estimators",
        "a bearer of news, Bearer token",
        "the AKIA prefix, sk-ant-… and ghp_",
        "abc [masked key]",
    ],
)
def test_what_is_no_key_is_left_alone(text: str) -> None:
    assert MASKS.text(text) is text


def test_a_bearer_token_is_masked_and_its_scheme_is_not() -> None:
    text = "Authorization: Bearer abcdefghij.0123456789"

    assert MASKS.text(text) == "Authorization: Bearer [masked key]"


def test_a_known_value_is_masked_under_its_name_also_inside_json() -> None:
    text = json.dumps({"password": SECRET})

    assert MASKS.text(text) == '{"password": "[masked DB_PASSWORD]"}'
    assert MASKS.text(f"is {SECRET}!") == "is [masked DB_PASSWORD]!"


@pytest.mark.parametrize("before", ["a\n", "a\t", "ein W\u00fc", "\u2028"])
def test_a_key_after_an_escape_of_json_is_masked(before: str) -> None:
    text = json.dumps({"text": f"{before}{KEY}"})

    assert KEY not in MASKS.text(text)
    assert json.loads(MASKS.text(text)) == {"text": f"{before}[masked key]"}
    assert MASKS.open_tail(text[: text.index("sk-") + 5]) == 5


def test_secrets_that_run_into_each_other_are_both_masked() -> None:
    assert MASKS.text(f"{KEY}{SECRET}") == "[masked key][masked DB_PASSWORD]"
    assert MASKS.text(f"{SECRET}{SECRET}") == "[masked DB_PASSWORD][masked DB_PASSWORD]"


def test_a_short_value_is_not_masked() -> None:
    assert MASKS.text("abc") == "abc"


def test_values_are_masked_at_any_depth_and_keep_their_form() -> None:
    message = UserMessage((TextBlock("hi"), TextBlock(KEY)), Source())

    masked = MASKS.value({"said": [message, 1, None], KEY: True})

    said = UserMessage((TextBlock("hi"), TextBlock("[masked key]")), Source())
    assert masked == {"said": [said, 1, None], "[masked key]": True}


def test_keys_of_the_environment_are_known_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mask_text("it is correct-horse-battery")

    monkeypatch.setenv("MY_SERVICE_API_KEY", "correct-horse-battery")

    assert before == "it is correct-horse-battery"
    assert mask_text(before) == "it is [masked MY_SERVICE_API_KEY]"


def test_a_secret_can_be_made_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_known", {})

    know_secret("typed-into-getpass", "key of the model")

    assert mask_text("a typed-into-getpass b") == "a [masked key of the model] b"


def delta(kind: int, text: str) -> Chunk:
    return ReasoningDelta(1, text) if kind else TextDelta(0, text)


def in_batches(chunks: list[Chunk], flushes: list[int]) -> list[SessionEvent]:
    """The chunks as a journal masks them, which is asked to write after each of `flushes`."""
    events = [
        SessionEvent(seq, 0, "assistant/chunk", AssistantChunk(1, 1, chunk))
        for seq, chunk in enumerate(chunks)
    ]
    stream, written = StreamMask(), list[SessionEvent]()
    for flush in sorted(flushes):
        batch = events[len(written) : flush]
        written += stream.mask(batch[: stream.cut(batch, MASKS)], MASKS)
    return [*written, *stream.mask(events[len(written) :], MASKS)]


WORDS = st.sampled_from(
    [KEY, SECRET, "Bearer ", "0123456789abcdefXYZ", "ta", "sk-", "hello", " ", "AKIA", "'"]
)


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=4), st.data())
def test_a_streamed_text_is_masked_as_it_is_as_a_whole(
    words: list[str], thoughts: list[str], data: st.DataObject
) -> None:
    whole = ("".join(words), "".join(thoughts))
    chunks: list[Chunk] = []
    rest = list(whole)
    while any(rest):  # pieces of two blocks that take turns
        kind = data.draw(st.sampled_from([one for one in (0, 1) if rest[one]]))
        length = data.draw(st.integers(1, 9))
        chunks.append(delta(kind, rest[kind][:length]))
        rest[kind] = rest[kind][length:]
    flushes = data.draw(st.lists(st.integers(0, len(chunks)), max_size=6))

    masked = [event.data.chunk for event in in_batches(chunks, flushes)]

    said = [
        "".join(delta_text(chunk) for chunk in masked if type(chunk) is kind)
        for kind in (TextDelta, ReasoningDelta)
    ]
    assert said == [MASKS.text(text) for text in whole]


def test_a_withdrawn_beginning_is_no_part_of_the_next_attempt() -> None:
    retry = Retry(1, "overloaded", "overloaded_error")
    half, rest = KEY[:12], KEY[12:]

    masked = in_batches([TextDelta(0, half), retry, TextDelta(0, rest)], [])

    assert [event.data.chunk for event in masked] == [
        TextDelta(0, half),
        retry,
        TextDelta(0, rest),
    ]


def cut_of(*chunks: Chunk) -> int:
    events = [
        SessionEvent(seq, 0, "assistant/chunk", AssistantChunk(1, 1, chunk))
        for seq, chunk in enumerate(chunks)
    ]
    return StreamMask().cut(events, MASKS)


def test_only_what_may_begin_a_secret_waits() -> None:
    assert cut_of(TextDelta(0, "so the "), TextDelta(0, "as"), TextDelta(0, "ked")) == 3
    assert cut_of(TextDelta(0, "so the "), TextDelta(0, "key sk-"), TextDelta(0, "ant")) == 1
    assert cut_of(TextDelta(0, "as"), TextDelta(0, "k us")) == 1


def test_a_block_that_has_ended_does_not_wait() -> None:
    assert cut_of(TextDelta(0, "sk-ant"), BlockEnd(0, TextBlock("sk-ant"))) == 2
