"""The voice of the offline models: pieces, pace and the estimate of usage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.voice import Call, Move, Part, Pause, Say, Think, Voice
from dsh_nb.messages import (
    BlockStart,
    ImageBlock,
    Message,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    Usage,
    UsageChunk,
)

REQUEST = ModelRequest("m", ())
PROSE = (
    "The quick brown fox jumps over the lazy dog, again and again. It never tires! " * 40 + "End."
)


def moves(parts: Sequence[Part], voice: Voice, request: ModelRequest = REQUEST) -> list[Move]:
    return list(voice.moves(parts, request))


def pieces(parts: Sequence[Part], voice: Voice) -> list[str]:
    said = moves(parts, voice)
    return [move.text for move in said if isinstance(move, (TextDelta, ReasoningDelta))]


def waits(parts: Sequence[Part], voice: Voice) -> list[float]:
    return [move for move in moves(parts, voice) if isinstance(move, float)]


def usage(voice: Voice, *messages: Message, said: str = "", **rest: object) -> Usage:
    request = ModelRequest("m", messages, **rest)  # type: ignore[arg-type]  # fields by name
    return next(m.usage for m in voice.moves([Say(said)], request) if isinstance(m, UsageChunk))


def user(text: str) -> Message:
    return Message("user", (TextBlock(text),))


@given(st.text())
def test_pieces_lose_no_character(text: str) -> None:
    assert "".join(pieces([Say(text)], Voice())) == text


def test_pieces_are_one_or_two_words_and_stop_at_sentences() -> None:
    said = pieces([Say(PROSE)], Voice())

    assert {len(piece.split()) for piece in said} == {1, 2}
    assert not [piece for piece in said if ". " in piece.strip()]


def test_pieces_are_the_same_at_any_pace() -> None:
    assert pieces([Say(PROSE)], Voice(pace=1.0)) == pieces([Say(PROSE)], Voice())


def test_pieces_follow_the_seed() -> None:
    first, second, other = (pieces([Say(PROSE)], Voice(seed=seed)) for seed in (1, 1, 2))

    assert first == second
    assert first != other


def test_natural_pace_is_about_forty_pieces_a_second() -> None:
    rate = len(pieces([Say(PROSE)], Voice())) / sum(waits([Say(PROSE)], Voice(pace=1.0)))

    assert 35 < rate < 45


def test_pace_scales_every_wait() -> None:
    slow, fast = (waits([Think("Hm, well."), Say("Yes.")], Voice(pace=p)) for p in (2.0, 1.0))

    assert slow == pytest.approx([2 * wait for wait in fast])


def test_thinking_rests_before_it_ends() -> None:
    thinking = waits([Think("Well now")], Voice(pace=1.0))
    saying = waits([Say("Well now")], Voice(pace=1.0))

    assert thinking == [*saying, pytest.approx(0.3)]


def test_no_pace_never_waits_longer_than_a_turn_of_the_loop() -> None:
    assert set(waits([Say(PROSE), Call("a", "{}")], Voice())) == {0.0}


def test_pause_lasts_its_own_time_at_any_pace() -> None:
    assert waits([Pause(2)], Voice()) == waits([Pause(2)], Voice(pace=3.0)) == [2.0]


@pytest.mark.rule("M6")
def test_usage_counts_thinking_apart_from_the_answer() -> None:
    parts: list[Part] = [Think("x" * 40), Say("y" * 80), Call("tool", "z" * 36)]

    chunk = next(move for move in moves(parts, Voice()) if isinstance(move, UsageChunk))

    assert chunk.usage == Usage(output_tokens=30, reasoning_tokens=10)


def test_usage_of_a_first_request_counts_all_that_is_sent() -> None:
    tool = ToolSchema("head", "First rows.", {})
    parts = (ImageBlock("data:,"), ToolResultBlock("c", (TextBlock("y" * 40),)))
    call = Message("assistant", (ToolCallBlock("c", "head", "{}"),))

    plain = usage(Voice(), user("x" * 400))
    full = usage(Voice(), user("x" * 400), call, Message("user", parts), system="s" * 80)
    tooled = usage(Voice(), user("x" * 400), tools=(tool,))

    assert plain == Usage(input_tokens=100)
    assert full == Usage(input_tokens=100 + 20 + 1000 + 10 + 2)
    assert tooled.input_tokens > 110


def test_usage_of_a_grown_history_counts_only_what_is_new() -> None:
    voice, first = Voice(), user("x" * 400)
    usage(voice, first)

    grown = usage(voice, first, Message("assistant", (TextBlock("y" * 40),)), user("z" * 40))

    assert grown == Usage(input_tokens=20, cache_read_tokens=100)


def test_usage_of_another_history_starts_afresh() -> None:
    voice = Voice()
    usage(voice, user("x" * 400), user("y"))

    assert usage(voice, user("z" * 40)) == Usage(input_tokens=10)
    assert usage(voice, user("a" * 80), user("b" * 40)) == Usage(input_tokens=30)


def test_usage_reads_no_message_of_a_grown_history_twice() -> None:
    class Watched(tuple[Message, ...]):
        read: list[int]

        def __getitem__(self, place: object) -> Message:  # type: ignore[override]
            self.read.append(place)  # type: ignore[arg-type]
            return super().__getitem__(place)  # type: ignore[call-overload, no-any-return]

        def __reversed__(self):  # type: ignore[no-untyped-def]
            for place in range(len(self) - 1, -1, -1):
                yield self[place]

    voice = Voice()
    history = [user(str(n)) for n in range(200)]
    list(voice.moves([], ModelRequest("m", tuple(history))))
    watched = Watched([*history, user("new")])
    watched.read = []

    list(voice.moves([], ModelRequest("m", watched)))

    assert set(watched.read) <= {199, 200, -1}


def test_call_ids_come_from_the_number_and_the_request() -> None:
    voice = Voice(call_id=lambda number, request: f"{request.model}-{number}")

    said = moves([Call("a", ""), Call("a", "")], voice)

    assert [move.id for move in said if isinstance(move, BlockStart)] == ["m-1", "m-2"]
