"""A live view and the page at the other end of its comms: what is told, when, and how it ends."""

from __future__ import annotations

import heapq
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.live.page import Op
from dsh_nb.notebook.live.view import LEAST_SECONDS, NUDGE_SECONDS, LiveView

PACKAGES = ("IPython", "anthropic", "anywidget", "comm", "ipykernel", "ipywidgets", "pandas")


class Loop:
    """An event loop whose time goes on by hand.

    Attributes:
        now: Its time in seconds.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self._due: list[tuple[float, int, Timer]] = []
        self._count = count()

    def call_later(self, seconds: float, call: Callable[..., object], *values: object) -> Timer:
        timer = Timer(lambda: call(*values))
        heapq.heappush(self._due, (self.now + seconds, next(self._count), timer))
        return timer

    def call_soon_threadsafe(self, call: Callable[..., object], *values: object) -> Timer:
        return self.call_later(0, call, *values)

    def run(self, seconds: float = 0.0) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._due)
            timer.call()
        self.now = end


class Timer:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def cancel(self) -> None:
        self.call = lambda: None


class Wire(BaseComm):
    """The kernel's end of a comm; notes what it sends.

    Attributes:
        all: Those that were made, by id.
        sent: Kind and data of each message.
    """

    all: dict[str, Wire] = {}  # noqa: RUF012  # emptied by the fixture

    def __init__(self, **keys: Any) -> None:
        self.sent: list[tuple[str, Any]] = []
        super().__init__(**keys)
        self.all[self.comm_id] = self

    def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **keys: Any) -> None:
        self.sent.append((msg_type, data))

    @property
    def custom(self) -> list[JsonObject]:
        """The custom messages it sent."""
        return [
            data["content"] for kind, data in self.sent if (data or {}).get("method") == "custom"
        ]

    @property
    def closed(self) -> bool:
        """Whether the page was told that it is closed."""
        return self.sent[-1][0] == "comm_close"

    def hear(self, content: object) -> None:
        data = {"method": "custom", "content": content}
        self.handle_msg({"content": {"data": data}, "buffers": []})


class Shown:
    """Counts up.

    Attributes:
        value: The number shown.
        broken: Whether an update fails.
    """

    def __init__(self) -> None:
        self.value = self.told = 0
        self.broken = False

    def update(self) -> list[Op]:
        if self.broken:
            raise RuntimeError("cannot show it")
        ops: list[Op] = [] if self.told == self.value else [["part", 0, str(self.value)]]
        self.told = self.value
        return ops

    def snapshot(self) -> list[Op]:
        return [["part", 0, str(self.told)]]

    def status(self) -> JsonObject:
        return {"state": "running", "even": self.value % 2 == 0}


class Desk:
    """A live view, and the page.

    Attributes:
        loop: The loop.
        shown: What is shown.
        view: Under test.
        mounted: How often it was mounted.
        replaced: When its output was replaced.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop, self.shown = loop, Shown()
        self.mounted = 0
        self.replaced: list[float] = []
        self._intents = count()
        steered: Any = None  # nothing is steered
        here: Any = lambda: loop  # noqa: E731
        self.view = LiveView(self.shown, steered, lambda: None, here, mounted=self._mount)
        ours = list(Wire.all.values())
        self.controls = next(one for one in ours if one.sent[0][1]["state"].get("controls") is None)
        self.wire = next(one for one in ours if one.sent[0][1]["state"].get("controls") is not None)

    def _mount(self) -> None:
        self.mounted += 1

    def hello(self, view: str = "v", page: str = "p") -> None:
        self._hear({"do": "hello", "view": view, "page": page})

    def gone(self, view: str = "v") -> None:
        self._hear({"do": "gone", "view": view})

    def _hear(self, content: JsonObject) -> None:
        self.controls.hear({"intent": str(next(self._intents)), **content})
        self.loop.run()

    def news(self) -> None:
        self.shown.value += 1
        self.view.changed()

    def told(self) -> list[JsonObject]:
        """What the page was told since the last time."""
        told = self.wire.custom[:]
        self.wire.sent = [one for one in self.wire.sent if one[0] != "comm_msg"] or self.wire.sent
        return told

    def leave(self) -> None:
        self.view.leave(lambda: self.replaced.append(self.loop.now))


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    import ipywidgets.widgets.widget as registry

    loop = Loop()
    monkeypatch.setattr(Wire, "all", {})
    monkeypatch.setattr(comm, "create_comm", Wire)
    monkeypatch.setattr(time, "monotonic", lambda: loop.now)
    before = set(registry._instances)
    desk = Desk(loop)
    yield desk
    desk.view.close()

    assert set(registry._instances) == before


def test_nothing_is_told_before_a_page_shows_it(desk: Desk) -> None:
    desk.news()
    desk.loop.run(10)

    assert desk.told() == []
    assert desk.mounted == 0
    assert not desk.view.is_mounted


def test_hello_is_answered_with_all_of_it_for_this_view_only(desk: Desk) -> None:
    desk.news()
    desk.hello("v")
    first = desk.told()
    desk.news()
    desk.loop.run(1)
    news = desk.told()
    desk.hello("w")
    second = desk.told()

    status = {"state": "running", "even": False}
    assert [{**one, "now": 0} for one in first] == [
        {"n": 0, "now": 0, "ops": [["part", 0, "1"]], "status": status, "to": "v"}
    ]
    assert [{**one, "now": 0} for one in news] == [
        {"n": 1, "now": 0, "ops": [["part", 0, "2"]], "status": {**status, "even": True}}
    ]
    assert [{**one, "now": 0} for one in second] == [
        {"n": 1, "now": 0, "ops": [["part", 0, "2"]], "status": {**status, "even": True}, "to": "w"}
    ]
    assert desk.mounted == 1


def test_hello_tells_the_other_views_first_what_is_new(desk: Desk) -> None:
    desk.hello("v")
    desk.shown.value += 1
    desk.told()
    desk.hello("w")

    assert [(one["n"], one.get("to"), one["ops"]) for one in desk.told()] == [
        (1, None, [["part", 0, "1"]]),
        (1, "w", [["part", 0, "1"]]),
    ]


def test_messages_are_numbered_and_come_no_faster_than_they_may(desk: Desk) -> None:
    desk.hello()
    desk.told()
    times: list[float] = []
    for _ in range(1000):
        desk.news()
        desk.loop.run(0.001)
        times += [desk.loop.now] * (len(desk.wire.custom) - len(times))
    numbers = [one["n"] for one in desk.told()]

    gaps = [after - before for before, after in pairwise(times)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert min(gaps) >= LEAST_SECONDS - 0.001
    assert 11 <= len(numbers) <= 13


def test_news_after_a_quiet_time_are_told_at_once(desk: Desk) -> None:
    desk.hello()
    desk.loop.run(1)
    desk.told()
    desk.news()
    desk.loop.run()

    assert len(desk.told()) == 1


def test_nothing_new_is_no_message(desk: Desk) -> None:
    desk.hello()
    desk.told()
    desk.view.changed()
    desk.loop.run(1)

    assert desk.told() == []


def test_status_is_told_when_it_changes(desk: Desk) -> None:
    desk.hello()
    desk.told()
    desk.shown.value = 2
    desk.view.flush()
    desk.shown.value = 3
    desk.view.flush()

    assert [one.get("status") for one in desk.told()] == [None, {"state": "running", "even": False}]


def test_page_that_hears_nothing_is_nudged_with_the_number_of_the_newest_message(
    desk: Desk,
) -> None:
    desk.hello()
    desk.news()
    desk.loop.run(0.1)
    desk.told()
    desk.loop.run(2 * NUDGE_SECONDS)

    assert desk.told() == [{"n": 1, "nudge": True}] * 2


def test_view_that_nobody_sees_is_told_nothing_until_it_says_hello_again(desk: Desk) -> None:
    desk.hello()
    desk.gone()
    desk.told()
    desk.news()
    desk.loop.run(10)
    quiet = desk.told()
    desk.hello("w")

    assert quiet == []
    assert [(one["to"], one["ops"]) for one in desk.told()] == [("w", [["part", 0, "1"]])]
    assert desk.mounted == 2


def test_failure_to_show_is_logged_and_ends_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.hello()
    desk.shown.broken = True
    with caplog.at_level(logging.ERROR, "dsh_nb"):
        desk.news()
        desk.loop.run(1)
    desk.shown.broken = False
    desk.told()
    desk.news()
    desk.loop.run(1)

    assert [one.message for one in caplog.records] == ["showing a turn failed"]
    assert len(desk.told()) == 1


def test_view_that_no_page_shows_is_closed_at_once(desk: Desk) -> None:
    desk.leave()

    assert len(desk.replaced) == 1
    assert all(one.closed for one in Wire.all.values())
    assert len(Wire.all) == 3  # the view, its layout and its controls


def test_view_is_closed_when_its_last_page_has_taken_it_away(desk: Desk) -> None:
    desk.hello("v")
    desk.hello("w")
    desk.leave()
    desk.gone("v")
    between = desk.wire.closed
    desk.gone("w")

    assert (between, desk.wire.closed) == (False, True)
    assert len(desk.replaced) == 1


def test_output_is_replaced_again_while_a_page_still_shows_the_view(desk: Desk) -> None:
    desk.hello()
    desk.leave()
    began = desk.loop.now
    desk.loop.run(20)

    assert [when - began for when in desk.replaced] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert desk.wire.closed


def test_output_is_replaced_again_when_a_page_that_missed_something_asked_for_all(
    desk: Desk,
) -> None:
    """Its answer, and news, once took the place of what was due: the view was never closed."""
    desk.hello()
    desk.leave()
    began = desk.loop.now
    desk.loop.run(0.5)
    desk.hello()
    desk.news()
    desk.loop.run(20)

    assert [when - began for when in desk.replaced] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert desk.wire.closed


def test_page_that_was_loaded_again_keeps_what_it_shows(desk: Desk) -> None:
    desk.hello("v", "page one")
    desk.hello("w", "page two")
    desk.leave()
    desk.gone("v")
    desk.gone("w")

    assert [one.sent[-1][0] for one in Wire.all.values() if one.closed] == []


def test_hello_after_the_end_is_not_answered(desk: Desk) -> None:
    desk.leave()
    controls, before = desk.controls, len(desk.wire.sent)
    controls._closed = False
    desk.view._hello("v", "p")

    assert len(desk.wire.sent) == before


def test_output_names_the_widget_that_shows_it(desk: Desk) -> None:
    assert desk.view.bundle == {
        "application/vnd.jupyter.widget-view+json": {
            "version_major": 2,
            "version_minor": 0,
            "model_id": desk.wire.comm_id,
        }
    }
    assert desk.wire.sent[0][1]["state"]["controls"] == desk.controls.comm_id


def test_widget_packages_are_not_loaded_by_a_script() -> None:
    turn = (
        "import sys, dsh_nb\n"
        f"loaded = lambda: [name for name in {PACKAGES} if name in sys.modules]\n"
        "print(loaded())\n"
        "agent = dsh_nb.Agent('a', model=dsh_nb.ScriptedModel(['Yes, **indeed**.']))\n"
        "reply = agent.run_sync('Is it so?')\n"
        "print(reply.text, loaded())"
    )
    script = [sys.executable, "-c", turn]
    run = subprocess.run(script, capture_output=True, text=True, timeout=30, check=False)

    assert (run.stdout, run.stderr) == ("[]\nYes, **indeed**. []\n", "")
