"""What a page asks for: done once each, answered always, from whichever thread it is heard."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb import Agent, ScriptedModel
from dsh_nb.messages import JsonObject
from dsh_nb.notebook.live.intents import REMEMBERED, Intents

SECONDS = 5.0


class Page:
    """Keeps what it is answered.

    Attributes:
        answers: In order.
    """

    def __init__(self) -> None:
        self.answers: list[JsonObject] = []

    def send(self, content: JsonObject) -> None:
        self.answers.append(content)


class Steered:
    """Notes what it is told, and finds fault with ``"bad"``.

    Attributes:
        told: In order.
    """

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def steer(self, said: str) -> object:
        self._decided("steer", said)
        return "m1"

    def send(self, said: str) -> object:
        return self._decided("send", said)

    def approve(
        self, id: str, *, arguments: JsonObject | None = None, remember: Any = False
    ) -> bool:
        return self._decided("approve", id, arguments, remember)

    def deny(self, reason: str = "", *, id: str | None = None) -> bool:
        return self._decided("deny", reason, id)

    def answer(self, said: str, *, id: str | None = None) -> bool:
        return not self._decided("answer", said, id)

    def decline(self, *, id: str | None = None) -> bool:
        return self._decided("decline", id)

    def _decided(self, *told: object) -> bool:
        if "bad" in told:
            raise ValueError("it is bad")
        self.told.append(told)
        return True


class Desk:
    """Intents with all that they reach.

    Attributes:
        loop: Where the turns run.
        page: What asks.
        steered: What is steered; of views and stops it is told, too.
        intents: Under test.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.page, self.steered = loop, Page(), Steered()
        told = self.steered.told
        self.intents = Intents(
            self.steered,
            lambda: told.append(("stop", threading.current_thread())),
            lambda: loop,
            lambda view, page: told.append(("hello", view, page)),
            lambda view: told.append(("gone", view)),
        )

    def hear(self, content: object) -> JsonObject | None:
        """The answer; None when there was none."""
        before = len(self.page.answers)
        self.intents.hear(self.page, content, [])
        answers = self.page.answers[before:]
        assert len(answers) <= 1
        return answers[0] if answers else None

    def settle(self) -> None:
        """Let the loop do what it was asked for."""
        self.loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def desk() -> Iterator[Desk]:
    loop = asyncio.new_event_loop()
    yield Desk(loop)
    loop.close()


@pytest.mark.parametrize(
    ("wish", "told", "answer"),
    [
        ({"do": "steer", "text": "left"}, ("steer", "left"), {"id": "m1"}),
        ({"do": "send", "text": "go"}, ("send", "go"), {}),
        ({"do": "approve", "ask": "a"}, ("approve", "a", None, False), {"done": True}),
        (
            {"do": "approve", "ask": "a", "arguments": {"x": 1}, "remember": "tool"},
            ("approve", "a", {"x": 1}, "tool"),
            {"done": True},
        ),
        ({"do": "deny", "ask": "a"}, ("deny", "", "a"), {"done": True}),
        ({"do": "deny", "ask": "a", "reason": "no"}, ("deny", "no", "a"), {"done": True}),
        ({"do": "answer", "question": "q", "text": "42"}, ("answer", "42", "q"), {"done": False}),
        ({"do": "decline", "question": "q"}, ("decline", "q"), {"done": True}),
        ({"do": "hello", "view": "v", "page": "p"}, ("hello", "v", "p"), {}),
        ({"do": "gone", "view": "v"}, ("gone", "v"), {}),
        ({"do": "stop"}, ("stop", threading.main_thread()), {}),
    ],
)
def test_wish_is_done_and_answered(
    desk: Desk, wish: JsonObject, told: tuple[object, ...], answer: JsonObject
) -> None:
    answered = desk.hear({"intent": "i", **wish})
    desk.settle()

    assert answered == {"ack": "i", "subshell": False, **answer}
    assert desk.steered.told == [told]


def test_page_is_told_of_views_on_the_loop(desk: Desk) -> None:
    desk.hear({"intent": "i", "do": "hello", "view": "v", "page": "p"})

    assert desk.steered.told == []  # not in the callback: it may be on another thread
    desk.settle()
    assert desk.steered.told == [("hello", "v", "p")]


def test_pin_is_answered_and_does_nothing(desk: Desk) -> None:
    answered = desk.hear({"intent": "i", "do": "pin"})
    desk.settle()

    assert answered == {"ack": "i", "subshell": False}
    assert desk.steered.told == []


def test_intent_that_comes_again_is_answered_again_and_done_once(desk: Desk) -> None:
    wish = {"intent": "i", "do": "steer", "text": "left"}
    answers = [desk.hear(wish) for _ in range(3)]

    assert answers == [{"ack": "i", "id": "m1", "subshell": False}] * 3
    assert desk.steered.told == [("steer", "left")]


def test_intent_that_failed_is_not_tried_again(desk: Desk) -> None:
    wish = {"intent": "i", "do": "steer", "text": "bad"}

    assert [desk.hear(wish), desk.hear(wish)] == [
        {"ack": "i", "error": "it is bad", "subshell": False}
    ] * 2


def test_only_the_newest_intents_are_remembered(desk: Desk) -> None:
    for number in range(REMEMBERED + 1):
        desk.hear({"intent": f"i{number}", "do": "steer", "text": str(number)})
    desk.hear({"intent": "i1", "do": "steer", "text": "1"})
    desk.hear({"intent": "i0", "do": "steer", "text": "0"})

    assert len(desk.steered.told) == REMEMBERED + 2
    assert desk.steered.told[-1] == ("steer", "0")


def test_intent_that_comes_on_two_threads_at_once_is_done_once(desk: Desk) -> None:
    gate = threading.Barrier(8)

    def hear(number: int) -> None:
        gate.wait(SECONDS)
        for turn in range(50):
            desk.intents.hear(
                desk.page, {"intent": f"i{turn}", "do": "steer", "text": str(turn)}, []
            )

    threads = [threading.Thread(target=hear, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)

    assert sorted(desk.steered.told) == sorted(("steer", str(turn)) for turn in range(50))
    assert {one["ack"] for one in desk.page.answers} == {f"i{turn}" for turn in range(50)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("intent do text ask view page question arguments remember".split())
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
DOINGS = st.sampled_from("stop steer send approve deny answer decline hello gone pin fly".split())


@given(JSON)
def test_hostile_content_raises_nothing(content: Any) -> None:
    loop = asyncio.new_event_loop()
    desk = Desk(loop)
    answer = desk.hear(content)
    loop.close()

    named = isinstance(content, dict) and isinstance(content.get("intent"), str)
    assert (answer is not None) == named


@given(DOINGS | JSON, st.dictionaries(st.sampled_from("text ask view page question".split()), JSON))
def test_wish_with_hostile_fields_is_answered(do: object, fields: dict[str, Any]) -> None:
    loop = asyncio.new_event_loop()
    desk = Desk(loop)
    answer = desk.hear({"intent": "i", **fields, "do": do})
    loop.close()

    assert answer is not None
    assert answer["ack"] == "i"
    done = len(desk.steered.told) == 1 or do in ("hello", "gone", "pin")
    assert done or answer["error"]


@pytest.mark.parametrize("do", ["fly", 5, None, ["stop"], {"do": "stop"}])
def test_wish_that_is_not_known_is_an_error(desk: Desk, do: object) -> None:
    answer = desk.hear({"intent": "i", "do": do})

    assert answer == {
        "ack": "i",
        "error": f"the view sent {do!r}, which this kernel does not know",
        "subshell": False,
    }


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"do": "steer", "text": "  "}, "blank"),
        ({"do": "approve", "ask": "none such", "arguments": [1]}, "pass a dict"),
        ({"do": "approve", "ask": "none such", "remember": "always"}, "pass True, False or 'tool'"),
        ({"do": "approve", "ask": "none such", "arguments": {"x": float("nan")}}, "NaN|nan"),
    ],
)
async def test_agent_finds_fault_in_words(wish: JsonObject, error: str) -> None:
    agent = Agent("intents", model=ScriptedModel([]))
    page = Page()
    loop = asyncio.get_running_loop()
    intents = Intents(agent, agent.stop, lambda: loop, lambda view, page: None, lambda view: None)

    intents.hear(page, {"intent": "i", **wish}, [])
    await agent.dispose()

    with pytest.raises(ValueError, match=error):
        raise ValueError(page.answers[0]["error"])


def test_stop_from_another_thread_is_done_on_the_loop(desk: Desk) -> None:
    async def stop() -> JsonObject | None:
        return await asyncio.to_thread(desk.hear, {"intent": "i", "do": "stop"})

    answer = desk.loop.run_until_complete(stop())

    assert answer == {"ack": "i", "subshell": False}
    assert desk.steered.told == [("stop", threading.main_thread())]


@contextlib.contextmanager
def sigint(listener: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, listener)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_stop_interrupts_what_blocks_the_loop(desk: Desk) -> None:
    thread = threading.Thread(target=desk.hear, args=({"intent": "i", "do": "stop"},))
    with sigint(signal.default_int_handler):
        thread.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(SECONDS)
    took = time.monotonic() - began
    thread.join(SECONDS)
    desk.settle()

    assert took < 0.5
    assert desk.page.answers == [{"ack": "i", "blocked": False, "subshell": False}]
    assert desk.steered.told == [("stop", threading.main_thread())]  # it is stopped as well


def test_stop_says_that_it_waits_where_nothing_can_be_interrupted(desk: Desk) -> None:
    with sigint(signal.SIG_IGN):
        thread = threading.Thread(target=desk.hear, args=({"intent": "i", "do": "stop"},))
        thread.start()
        thread.join(SECONDS)

    assert desk.page.answers == [{"ack": "i", "blocked": True, "subshell": False}]


def test_stop_does_not_interrupt_a_loop_that_hears_another_message_meanwhile(desk: Desk) -> None:
    """A stop once held what the loop needed to hear the next message, and found it blocked."""
    asked = threading.Event()

    def loop() -> asyncio.AbstractEventLoop:
        asked.set()
        return desk.loop

    intents = Intents(desk.steered, int, loop, lambda view, page: None, lambda view: None)
    interrupted: list[int] = []
    stop = {"intent": "stop", "do": "stop"}
    thread = threading.Thread(target=intents.hear, args=(desk.page, stop, []))
    with sigint(lambda number, frame: interrupted.append(number)):
        thread.start()
        assert asked.wait(SECONDS)
        intents.hear(desk.page, {"intent": "pin", "do": "pin"}, [])
        desk.loop.run_until_complete(asyncio.to_thread(thread.join, SECONDS))

    assert interrupted == []
    assert [one["ack"] for one in desk.page.answers] == ["pin", "stop"]


def test_stop_of_a_loop_that_is_closed_is_an_error(desk: Desk) -> None:
    desk.loop.close()
    thread = threading.Thread(target=desk.hear, args=({"intent": "i", "do": "stop"},))
    thread.start()
    thread.join(SECONDS)

    assert desk.page.answers == [{"ack": "i", "error": "Event loop is closed", "subshell": False}]
