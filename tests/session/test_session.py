"""The log: appending, listening, seeding, and what it refuses."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest

from dsh_nb.core import Context
from dsh_nb.errors import LogError, SessionError, SessionTakenError, WrongThreadError
from dsh_nb.messages import Source, TextBlock, TextDelta
from dsh_nb.session.check import check_log
from dsh_nb.session.events import AssistantChunk, SessionEvent, TurnStart, UserMessage
from dsh_nb.session.history import derive_messages
from dsh_nb.session.session import Session
from dsh_nb.session.store import SESSION_CREATED, SESSION_EVENT, SESSIONS, SessionStore
from dsh_nb.testing.clock import FakeClock
from dsh_nb.testing.logs import LogBuilder

HI = UserMessage((TextBlock("hi"),), Source())


@pytest.mark.rule("S1")
def test_append_gives_contiguous_seq_and_epoch_milliseconds() -> None:
    session = Session("s", clock=FakeClock(start_ms=1_700_000_000_000, step_ms=5))

    events = [session.append("user/message", HI), session.append("note/made", {"n": 1})]

    assert [event.seq for event in events] == [0, 1]
    assert events[1].time - events[0].time == 5
    assert list(session) == events


@pytest.mark.rule("S1")
async def test_append_emits_session_event_and_events_are_immutable() -> None:
    ctx, heard = Context(), []
    ctx.plugin(SessionStore)
    ctx.on(SESSION_EVENT, lambda session, event: heard.append((session.id, event)))
    session = ctx.get(SESSIONS).create("s")

    event = session.append("user/message", HI)

    assert heard == [("s", event)]
    with pytest.raises(AttributeError):
        event.seq = 5  # type: ignore[misc]


@pytest.mark.rule("S1")
def test_plugin_data_is_copied_so_that_later_changes_do_not_reach_the_log() -> None:
    session, mine = Session("s"), {"tags": ["a"]}

    event = session.append("note/made", mine)
    mine["tags"].append("b")

    assert event.data == {"tags": ["a"]}


@pytest.mark.rule("S1")
def test_events_appended_by_a_listener_are_told_after_the_one_before() -> None:
    session, heard = Session("s"), []

    def answer(session: Session, event: SessionEvent) -> None:
        if event.type == "user/message":
            session.append("note/made", {})

    session.listen(answer)
    session.listen(lambda session, event: heard.append(event.seq))
    session.append("user/message", HI)

    assert heard == [0, 1]


def test_listener_that_raises_reaches_the_appender_and_the_event_stays() -> None:
    session = Session("s")

    def broken(session: Session, event: SessionEvent) -> None:
        raise RuntimeError("full")

    stop = session.listen(broken)
    with pytest.raises(RuntimeError, match="full"):
        session.append("user/message", HI)
    stop()
    session.append("user/message", HI)

    assert len(session) == 2


@pytest.mark.rule("S2")
def test_json_of_a_known_type_becomes_its_struct_with_camel_case_keys() -> None:
    session = Session("s")

    event = session.append(
        "tool/call", {"turn": 1, "step": 1, "callId": "c", "name": "f", "arguments": ""}
    )

    assert event.data.call_id == "c"
    assert json.loads(msgspec.json.encode(event))["data"]["callId"] == "c"


@pytest.mark.rule("S2")
def test_unknown_type_survives_a_trip_through_json() -> None:
    session = Session("s")
    event = session.append("goal/change", {"goal": {"text": "win", "odds": 0.5}})

    again = msgspec.json.decode(msgspec.json.encode(event), type=SessionEvent)

    assert again == event


@pytest.mark.parametrize(
    ("type", "data", "error", "text"),
    [
        ("turn/start", {"turn": "one"}, SessionError, r"'turn/start' does not fit: .*int"),
        ("turn/start", HI, SessionError, "got a UserMessage; pass a TurnStart"),
        ("note/made", {"x": float("nan")}, ValueError, r"note/made\.x is nan"),
        ("note/made", {"x": {1: 2}}, TypeError, r"note/made\.x has the key 1"),
        ("note/made", {"x": object()}, TypeError, r"note/made\.x is a object, not JSON"),
    ],
)
def test_bad_data_is_refused_and_nothing_is_appended(
    type: str, data: object, error: type[Exception], text: str
) -> None:
    session = Session("s")

    with pytest.raises(error, match=text):
        session.append(type, data)  # type: ignore[arg-type]
    assert len(session) == 0


def test_lone_surrogates_become_replacement_characters() -> None:
    session = Session("s")

    event = session.append("note/made", {"x": "a\ud83d", "y": "\ud83d\ude00"})

    assert event.data == {"x": "a\ufffd", "y": "😀"}


@pytest.mark.rule("S6")
async def test_seeded_session_derives_the_same_messages_and_goes_on_counting() -> None:
    ctx = Context()
    ctx.plugin(SessionStore, {"check": True})
    log = LogBuilder().user("hi").turn().step().says("hello").end_step().end_turn().events

    session = ctx.get(SESSIONS).create("copy", log)

    assert session.messages == derive_messages(log)
    assert (session.turn, session.seeded, session[0] is log[0]) == (1, len(log), False)
    check_log(session, ended=True)


@pytest.mark.rule("S6")
async def test_two_live_sessions_with_one_id_are_an_error() -> None:
    ctx, created = Context(), []
    ctx.plugin(SessionStore)
    ctx.on(SESSION_CREATED, lambda session: created.append(session.id))
    store = ctx.get(SESSIONS)
    store.create("s")

    with pytest.raises(SessionTakenError, match="session 's' is live already"):
        store.create("s")
    store.close("s")
    store.create("s")

    assert created == ["s", "s"]


@pytest.mark.rule("C8")
async def test_creating_a_session_from_another_thread_is_refused() -> None:
    ctx, problems = Context(), []
    ctx.plugin(SessionStore)

    def elsewhere() -> None:
        try:
            ctx.get(SESSIONS).create("s")
        except WrongThreadError as error:
            problems.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert "sessions.create was called from thread" in problems[0]


def test_checked_session_refuses_an_event_that_breaks_an_invariant() -> None:
    session = Session("s", check=True)

    with pytest.raises(LogError, match="belongs to turn 1, step 1, which is not open"):
        session.append_chunk(AssistantChunk(1, 1, TextDelta(0, "x")))
    assert len(session) == 0


def test_event_names_its_type_and_struct_in_its_repr() -> None:
    event = Session("s").append("turn/start", {"turn": 1, "trigger": {"kind": "continuation"}})

    assert isinstance(event.data, TurnStart)
    assert repr(event).startswith("SessionEvent(0, 'turn/start', TurnStart(turn=1")
