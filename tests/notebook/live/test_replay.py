"""A replay: what its methods and its controls do, in a script, in a kernel and without a page."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from dsh_nb.notebook.live.replay import Replay
from dsh_nb.notebook.record import Log
from dsh_nb.session.session import Session
from dsh_nb.testing.logs import LogBuilder
from tests.kernel.driver import Kernel, Page, kernel
from tests.notebook.live.screen import Screen, seen

SETUP = """
from itertools import count
from dsh_nb import Session
from dsh_nb.notebook.record import Log
from dsh_nb.testing.logs import LogBuilder
times = count(0, 40)
log = LogBuilder(lambda: next(times))
for word in ("one", "two", "three"):
    log.user(f"say {word}").turn().step().streams("some words")
    log.says(f"**{word}**").end_step().end_turn()
replay = Log(Session("main", log.events)).replay()

def widgets():
    from ipywidgets.widgets.widget import _instances
    return len(_instances)
"""


def session(turns: int = 2) -> Session:
    times = count(0, 100)
    log = LogBuilder(lambda: next(times))
    for number in range(turns):
        log.user(f"question {number}").turn().step().says(f"answer {number}").end_step().end_turn()
    return Session("main", log.events)


def screen_of(replay: Replay) -> str:
    return seen(f + "".join(b) for f, b in Screen().apply(replay.snapshot()).parts)


def test_replay_begins_with_the_first_message() -> None:
    replay = Log(session()).replay()
    replay.update()

    assert (replay.position, replay.playing) == (1, False)
    assert "question 0" in screen_of(replay)
    assert "answer 0" not in screen_of(replay)


def test_methods_move_it() -> None:
    log = session()
    replay = Replay(log)
    seen_at: list[str] = []

    def note() -> None:
        seen_at.append(log[replay.position - 1].type)

    replay.step()
    note()
    replay.step(by="step")
    note()
    replay.step(by="turn")
    note()
    replay.step(-1, by="turn")
    note()
    replay.seek(10_000)
    note()
    replay.step(-2)

    assert seen_at == ["turn/start", "step/end", "turn/end", "user/message", "turn/end"]
    assert repr(replay) == f"<Replay of 'main' at event {len(log) - 2} of {len(log)}>"


def test_controls_do_what_the_methods_do() -> None:
    replay = Replay(session())
    places: list[tuple[int, bool, object, object]] = []
    for wish in (
        {"seek": 4},
        {"step": -1, "by": "event"},
        {"speed": 4},
        {"skip": False},
        {"play": True},
        {"play": False},
        {"play": True},
        {"step": 1, "by": "turn"},
    ):
        replay.scrub({"do": "replay", **wish})
        told = replay.status()["replay"]
        places.append((told["at"], told["playing"], told["speed"], told["skips"]))
    turn = [event.type for event in session()].index("turn/end") + 1

    assert places == [
        (4, False, 1.0, True),
        (3, False, 1.0, True),
        (3, False, 4.0, True),
        (3, False, 4.0, False),
        (3, True, 4.0, False),
        (3, False, 4.0, False),
        (3, True, 4.0, False),
        (turn, False, 4.0, False),
    ]


@pytest.mark.parametrize(
    "wish", [{}, {"seek": "1"}, {"step": 1, "by": "hour"}, {"play": 1}, {"close": False}]
)
def test_unknown_control_is_refused(wish: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="has no control"):
        Replay(session()).scrub(wish)


@pytest.mark.parametrize("speed", [0, 0.1, 17, float("nan")])
def test_speed_that_there_is_not_is_refused(speed: float) -> None:
    replay = Replay(session())
    with pytest.raises(ValueError, match=r"speed is .*; use 0.25 to 16"):
        replay.play(speed)

    assert not replay.playing


def test_stride_that_there_is_not_is_refused() -> None:
    stride: Any = "hour"
    with pytest.raises(ValueError, match="no step by 'hour'; use 'event', 'step' or 'turn'"):
        Replay(session()).step(by=stride)


def test_what_happens_later_is_not_part_of_it() -> None:
    log = session()
    replay = Replay(log)
    before = len(log)
    log.append("context/message", {"content": [], "source": {"kind": "user"}})
    replay.seek(10_000)

    assert replay.position == before


def test_empty_session_is_replayed() -> None:
    replay = Replay(Session("empty"))
    replay.play()

    assert (replay.update(), replay.snapshot(), replay.position, replay.playing) == (
        [],
        [],
        0,
        False,
    )


def test_script_shows_the_transcript_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    Replay(session())._ipython_display_()

    said = capsys.readouterr().out
    assert "answer 1" in said
    assert "replay() plays them" in said


def test_clock_of_the_page_tells_time_in_words() -> None:
    tests = Path(__file__).parent / "replay.test.mjs"
    run = subprocess.run(["node", "--test", tests], capture_output=True, timeout=60, check=False)

    assert run.returncode == 0, run.stdout


@pytest.mark.kernel
def test_notebook_that_nobody_sees_gets_the_transcript_without_a_widget(tmp_path: Path) -> None:
    v4: Any = nbformat.v4  # it has no types
    notebook = v4.new_notebook(cells=[v4.new_code_cell(one) for one in (SETUP, "replay")])
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", resources=where).execute()

    (shown,) = notebook.cells[1].outputs
    assert set(shown.data) == {"text/html", "text/markdown", "text/plain"}
    assert "<strong>three</strong>" in shown.data["text/html"]
    assert "widgets" not in notebook.metadata


@pytest.fixture(scope="module")
def one() -> Iterator[Kernel]:
    with kernel() as running:
        yield running


def opened(one: Kernel) -> Page:
    assert one.run(SETUP).status == "ok"
    assert one.run("replay", person=True).status == "ok"
    page = one.page()
    page.mount()
    return page


def shows(page: Page) -> str:
    """The words in the view, from what it was told since it has been told everything."""
    screen = Screen()
    for message in page.view.heard:
        if "to" in message:
            screen = Screen()
        screen.apply(message.get("ops", []))
    return seen(frame + "".join(blocks) for frame, blocks in screen.parts)


@pytest.mark.kernel
def test_page_is_told_where_it_wished_to_be(one: Kernel) -> None:
    page = opened(one)
    last = page.status["replay"]["last"]
    first = shows(page)
    assert page.ask("replay", seek=last).keys() == {"ack", "subshell"}
    one.until(lambda: "three" in shows(page))
    page.ask("replay", step=-2, by="turn")
    one.until(lambda: "two" not in shows(page))
    wrong = page.ask("replay", dance=True)

    assert "say one" in first
    assert "say two" not in first
    assert page.status["replay"]["turn"] == 1
    assert "dance" in wrong["error"]


@pytest.mark.kernel
def test_it_plays_while_no_cell_runs_and_stays_where_it_was_while_nobody_looks(one: Kernel) -> None:
    page = opened(one)
    page.ask("replay", speed=0.25)
    page.ask("replay", play=True)
    one.until(lambda: "some" in shows(page))
    page.send("gone")
    page.ask("pin")
    one.run("")
    left = one.value("replay.position")
    one.hear(0.6)
    stayed = one.value("replay.position")
    page.ask("replay", speed=16)
    page.mount()
    one.until(lambda: not page.status["replay"]["playing"])

    assert stayed == left
    assert page.status["replay"]["at"] == page.status["replay"]["last"]
    assert "three" in shows(page)


@pytest.mark.kernel
def test_closing_leaves_the_transcript_and_no_widget(one: Kernel) -> None:
    before = one.value("widgets()") if one.run(SETUP).status == "ok" else ""
    page = opened(one)
    page.ask("replay", close=True)
    page.send("gone")
    one.until(lambda: page.view.closed and page.controls.closed)
    again = one.run("replay", person=True)

    assert one.value("widgets()") == before
    assert "three" in again.shown[0]


def test_methods_are_safe_from_any_thread_before_it_is_shown() -> None:
    replay = Replay(session())
    threads = [threading.Thread(target=replay.step) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert replay.position == 4
