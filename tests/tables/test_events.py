"""The events of a log as a frame: one shape and one set of dtypes for any log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.llm.scripted import ScriptedModel, call, fail, say, think
from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ImageBlock,
    ReasoningDelta,
    Source,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.session.events import (
    AssistantMessage,
    Failure,
    SessionEvent,
    ToolLate,
    ToolResult,
    TurnEnd,
    TurnReason,
    UserMessage,
)
from dsh_nb.tables.events import EVENT_COLUMNS, events
from dsh_nb.testing import FakeClock, LogBuilder, running_agent

TEXT = "str" if pd.__version__ >= "3" else "string"
DTYPES = {
    "session": TEXT,
    "seq": "Int64",
    "time": "datetime64[us, UTC]",
    "type": TEXT,
    "turn": "Int64",
    "step": "Int64",
    "call_id": TEXT,
    "role": "category",
    "tool": TEXT,
    "text": TEXT,
    "reason": "category",
    "is_error": "boolean",
    "data": "json",
}


def one_turn(clock: Callable[[], int] | None = None) -> LogBuilder:
    """A log with a tool, steering and context, between which a plugin writes."""
    log = LogBuilder(clock or FakeClock())
    log.context("early").user("what is 1 + 2?").turn().step()
    log.chunk(TextDelta(0, "Let me ")).says("Let me see.", ToolCallBlock("c1", "add", '{"a": 1}'))
    log.call("c1", "add", '{"a": 1}').add("budget/spent", {"turn": 9, "tokens": 3})
    log.result("c1", "no", is_error=True).steer("hurry").end_step()
    return log.step().says("3").end_step().end_turn()


def frame_of(log: LogBuilder) -> pd.DataFrame:
    return events(log.events, "s1")


def values(frame: pd.DataFrame, column: str) -> list[Any]:
    """A column with None for what is missing."""
    return [None if pd.isna(value) else value for value in frame[column]]


UNKNOWN = LogBuilder().add("my/event", {"n": None}).add("my/event", {"deep": [1, [2]]})


@pytest.mark.rule("S2")
@pytest.mark.parametrize(
    "log",
    [LogBuilder(), one_turn(), UNKNOWN, LogBuilder().user("hi")],
    ids="empty whole unknown short".split(),
)
def test_any_log_has_the_same_columns_and_dtypes(log: LogBuilder) -> None:
    frame = frame_of(log)

    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
    assert list(frame) == list(EVENT_COLUMNS)
    assert frame.shape == (len(log.events), 13)
    assert list(frame.index) == list(range(len(log.events)))


def test_categories_are_the_same_in_any_log() -> None:
    empty, whole = frame_of(LogBuilder()), frame_of(one_turn())

    for column in ("role", "reason"):
        assert list(empty[column].cat.categories) == list(whole[column].cat.categories)
    joined = pd.concat([empty, whole], ignore_index=True)
    assert {name: str(dtype) for name, dtype in joined.dtypes.items()} == DTYPES


async def test_live_session_is_a_frame_with_its_own_id() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    model = ScriptedModel([[think("hm"), call("add", a=1)], say("1"), fail("busy", code="x")])
    async with running_agent(model, tools=[add]) as test:
        await test.say("hi")
        await test.say("again")
        frame = events(test.agent.session)

        assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
        assert set(frame["session"]) == {"main"}
        assert list(frame["seq"]) == list(range(len(test.log)))
        assert list(frame["type"]) == [one.type for one in test.log]
        assert list(frame[frame["type"] == "turn/end"]["reason"]) == ["completed", "error"]
        assert set(frame[frame["call_id"].notna()]["tool"]) == {"add"}


def test_session_is_named_by_the_caller_or_missing() -> None:
    log = LogBuilder().user("hi").events

    assert (values(events(log, "s1"), "session"), values(events(log), "session")) == (
        ["s1"],
        [None],
    )


def test_events_belong_to_their_turn_and_messages_to_the_coming_one() -> None:
    log = one_turn()
    log.context("between").user("next").turn().step().says("ok").end_step().end_turn()
    log.add("error", Failure(2, 0, "flush failed"))
    frame = frame_of(log)

    turns = frame.groupby("type", sort=False)["turn"].apply(
        lambda turn: [None if pd.isna(one) else one for one in turn]
    )
    assert turns["user/message"] == [1, 2]
    assert turns["turn/start"] == turns["turn/end"] == [1, 2]
    assert turns["context/message"] == [None, None]
    assert turns["budget/spent"] == [1]
    assert turns["error"] == [2]
    assert values(frame[frame["type"] == "error"], "step") == [None]
    assert values(frame[frame["type"].isin(["step/start", "budget/spent"])], "step") == [
        1,
        None,
        2,
        1,
    ]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_messages_at_the_head_of_a_part_of_a_log_belong_to_the_turn_that_follows(
    start: int,
) -> None:
    log = one_turn()
    head = len(log.events)
    log.user("a").user("b").context("c").turn().step().says("ok").end_step().end_turn()

    frame = events(log.events[head + start :])

    assert values(frame[frame["type"] == "user/message"], "turn") == [2] * (2 - start)


def test_messages_that_no_turn_has_taken_yet_belong_to_the_next_one() -> None:
    log = one_turn().user("waiting")

    assert values(frame_of(log), "turn")[-1] == 2


def test_tool_is_named_in_all_events_of_its_call() -> None:
    log = one_turn()
    log.add("tool/late", ToolLate(1, 1, "c1", (TextBlock("late"),)))
    frame = frame_of(log)

    told = frame[frame["call_id"].notna()][["type", "call_id", "tool", "role"]]
    assert told.values.tolist() == [
        ["tool/call", "c1", "add", "assistant"],
        ["tool/result", "c1", "add", "tool"],
        ["tool/late", "c1", "add", "tool"],
    ]
    assert values(frame[frame["call_id"].isna()], "tool").count(None) == len(frame) - 3


def test_result_without_a_call_has_no_tool() -> None:
    log = LogBuilder().user("hi").turn().step()
    log.says(ToolCallBlock("c1", "add", "{}")).result("c1", "never started", is_error=True)

    assert values(frame_of(log), "tool")[-1] is None


def test_errors_are_told_of_results_alone() -> None:
    log = one_turn()
    frame = frame_of(log)

    assert values(frame[frame["type"] == "tool/result"], "is_error") == [True]
    assert values(frame[frame["type"] != "tool/result"], "is_error") == [None] * (len(frame) - 1)


def test_text_is_what_was_said_streamed_called_or_failed() -> None:
    log = LogBuilder()
    content = (TextBlock("look "), ImageBlock("data:image/png;base64,AA=="), TextBlock("here"))
    log.add("user/message", UserMessage(content, Source())).turn().step()
    chunks: list[Chunk] = [
        BlockStart(0, "text"),
        TextDelta(0, "hel"),
        ReasoningDelta(1, "hm"),
        ToolCallDelta(2, "c1", '{"a"', "add"),
        BlockEnd(0, TextBlock("hello")),
        Finish(FinishReason("stop")),
    ]
    for chunk in chunks:
        log.chunk(chunk)
    log.add("assistant/message", AssistantMessage(1, 1, (TextBlock("hello"),)))
    log.call("c1", "add", "{}").result("c1", "3").end_step()
    log.add("error", Failure(1, 1, "too busy", "overloaded_error"))
    log.add("turn/end", TurnEnd(1, TurnReason("error", message="too busy")))
    log.add("my/note", {"text": "not read"})

    assert values(frame_of(log), "text") == [
        "look here",
        None,
        None,
        None,
        None,
        "hel",
        "hm",
        '{"a"',
        None,
        None,
        "hello",
        "{}",
        "3",
        None,
        "too busy",
        "too busy",
        None,
    ]


def test_time_is_exact_and_in_utc() -> None:
    log = LogBuilder(FakeClock(1_700_000_000_123)).user("hi")

    assert list(frame_of(log)["time"]) == [pd.Timestamp("2023-11-14T22:13:20.123", tz="UTC")]


def test_numbers_are_exact_beyond_what_a_float_holds() -> None:
    big = 2**53 + 1
    log = [
        SessionEvent(big, 0, "my/event", {"n": 2**80 + 1}),
        SessionEvent(big + 1, 0, "tool/result", ToolResult(big, big, "c1", (), False)),
        SessionEvent(big + 2, 0, "my/event", {}),
    ]
    frame = events(log)

    assert values(frame, "seq") == [big, big + 1, big + 2]
    assert (values(frame, "turn"), values(frame, "step")) == ([None, big, None], [None, big, None])
    assert frame["data"][0] == {"n": 2**80 + 1}


def test_data_is_the_whole_event_as_plain_json() -> None:
    log = one_turn()
    frame = frame_of(log)

    encoded = [msgspec.json.decode(msgspec.json.encode(one.data)) for one in log.events]
    assert list(frame["data"]) == encoded
    assert {type(one) for one in frame["data"]} == {dict}


def test_changing_a_frame_does_not_change_the_log() -> None:
    log = LogBuilder().add("my/event", {"deep": [1]})

    frame_of(log)["data"][0]["deep"].append(2)

    assert log.events[0].data == {"deep": [1]}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3))
@settings(max_examples=40)
def test_any_text_is_kept(texts: list[str]) -> None:
    log = LogBuilder()
    for text in texts:
        log.user(text).add("my/event", {text: text})
    frame = frame_of(log)

    assert values(frame[frame["type"] == "user/message"], "text") == texts
    assert list(frame[frame["type"] == "my/event"]["data"]) == [{text: text} for text in texts]


def test_any_iterable_of_events_will_do() -> None:
    log = one_turn().events

    pd.testing.assert_frame_equal(events(iter(log), "s1"), events(log, "s1"))
