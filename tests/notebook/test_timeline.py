"""The timeline: a still picture of any log, small and safe."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dsh_nb.messages import Retry, TextDelta, ToolCallBlock
from dsh_nb.notebook.timeline import Timeline, timeline
from dsh_nb.session import Session
from dsh_nb.tables import Recorded
from dsh_nb.testing import FakeClock, LogBuilder

SVG = "{http://www.w3.org/2000/svg}"


def whole(name: str = "search") -> LogBuilder:
    """Two turns with two tools at once, a failed attempt and an approval; a pause between them."""
    clock = FakeClock(step_ms=0)
    log = LogBuilder(clock).user("hi").turn().step()
    clock.advance(1)
    log.chunk(TextDelta(0, "a"))
    clock.advance(2)
    log.says("a", ToolCallBlock("c1", name, "{}")).call("c1", name).call("c2", "read")
    clock.advance(1)
    log.result("c2")
    clock.advance(1)
    log.result("c1").end_step().step()
    clock.advance(1)
    log.chunk(Retry(1, "busy", "x")).says("b").call("c3", "rm")
    log.add("approval/asked", {"callId": "c3"})
    clock.advance(3)
    log.add("approval/decided", {"callId": "c3", "outcome": "approved"})
    clock.advance(1)
    log.result("c3").end_step().end_turn()
    clock.advance(90)
    log.user("more").turn().step()
    clock.advance(1)
    return log.says("c").end_step().end_turn("aborted")


def long(turns: int, steps: int = 2, calls: int = 2) -> LogBuilder:
    clock, rng = FakeClock(step_ms=0), random.Random(1)
    log = LogBuilder(clock)
    for turn in range(turns):
        log.user("go").turn()
        for step in range(steps):
            log.step()
            clock.advance(rng.random())
            log.chunk(TextDelta(0, "x"))
            clock.advance(rng.random())
            ids = [f"{turn}.{step}.{call}" for call in range(calls)]
            log.says("x", *(ToolCallBlock(one, "tool", "{}") for one in ids))
            for one in ids:
                log.call(one, f"a tool with a long name {one}")
            for one in ids:
                clock.advance(rng.random())
                log.result(one)
            log.end_step()
        log.end_turn()
        clock.advance(rng.random() * 100)
    return log


def texts(picture: Timeline) -> list[str]:
    """What is written in the picture, without the titles."""
    root = ElementTree.fromstring(picture.to_svg())
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def titles(picture: Timeline) -> list[str]:
    root = ElementTree.fromstring(picture.to_svg())
    return [one.text or "" for one in root.iter(f"{SVG}title")]


def test_picture_names_each_stretch_of_time() -> None:
    assert titles(timeline(whole().events)) == [
        "time to first token: 1.0 s",
        "model streaming: 2.0 s",
        "search, tool: 2.0 s",
        "read, tool: 1.0 s",
        "busy, failed attempt: 1.0 s",
        "time to first token: 0 ms",
        "rm, waiting for approval: 3.0 s",
        "rm, tool: 1.0 s",
        "time to first token: 1.0 s",
    ]


def test_picture_has_turns_steps_durations_and_what_lay_between() -> None:
    said = texts(timeline(whole().events))

    assert said[0].startswith("2 turns · 11 s · first token 2.0 s · streaming 2.0 s · tool 4.0 s")
    for text in ("Turn 1", "step 1", "step 2", "10 s", "1 min 30 s idle", "1.0 s, aborted"):
        assert text in said


def test_parallel_calls_lie_below_one_another() -> None:
    root = ElementTree.fromstring(timeline(whole().events).to_svg())
    tops = {
        (one.findtext(f"{SVG}title") or "").split(",")[0]: float(one.attrib["y"])
        for one in root.iter(f"{SVG}rect")
    }

    assert tops["read"] > tops["search"]


def test_picture_of_chosen_turns_has_no_others() -> None:
    record = Recorded(Session("s", whole().events))

    assert "Turn 1" not in texts(timeline(record, turns=2))
    assert {"Turn 1", "Turn 2"} <= set(texts(timeline(record, turns=[1, 2])))
    assert timeline(record, turns=[]).to_svg() == timeline([]).to_svg()


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><b>&amp;', "a\x00\x1b[31m\ud800b"]
)
def test_names_are_text_and_nothing_else(name: str) -> None:
    clean = LogBuilder().user("x").turn().step()
    log = [*clean.events, *whole(name.encode("utf-8", "replace").decode()).events]
    picture = timeline(log)
    svg = picture.to_svg()

    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "style", "defs", "pattern", "path", "rect", "title", "text", "line"}
    assert "\x1b" not in str(picture)
    assert not re.search(r"(href|src|@import|url\((?!#))", svg)


@pytest.mark.parametrize(
    "log",
    [
        LogBuilder(),
        LogBuilder().user("hi"),
        LogBuilder().user("hi").turn(),
        LogBuilder().user("hi").turn().step(),
        LogBuilder().user("hi").turn().step().says("x").call("a"),
        LogBuilder().add("approval/asked", {"callId": "a"}),
    ],
)
def test_logs_without_an_end_are_drawn(log: LogBuilder) -> None:
    picture = timeline(log.events)

    assert ElementTree.fromstring(picture.to_svg()).tag == f"{SVG}svg"
    assert str(picture).splitlines()[0] in repr(picture)


@pytest.mark.parametrize("jump", [-3600, 86_400 * 400])
def test_clock_that_jumps_breaks_no_picture(jump: float) -> None:
    clock = FakeClock(step_ms=1)
    log = LogBuilder(clock).user("hi").turn().step()
    clock.advance(jump)
    log.chunk(TextDelta(0, "x")).says("x").call("a")
    clock.advance(-jump)
    log.result("a").end_step().end_turn()
    root = ElementTree.fromstring(timeline(log.events).to_svg())

    places = [float(one.attrib[name]) for one in root.iter(f"{SVG}rect") for name in ("x", "width")]
    assert all(0 <= place <= 840 for place in places)


@pytest.mark.parametrize("log", [long(300), long(2, steps=400), long(1, steps=1, calls=300)])
def test_long_sessions_stay_small(log: LogBuilder) -> None:
    svg = timeline(log.events).to_svg()

    assert len(svg) < 200_000
    assert float(ElementTree.fromstring(svg).attrib["height"]) < 3_000


def test_older_turns_are_folded_and_nothing_is_left_out() -> None:
    said = texts(timeline(long(300).events))

    assert said[0].startswith("300 turns")
    assert "Turns 1–265" in said
    assert {"Turn 266", "Turn 285", "Turn 286", "Turn 300"} <= set(said)


def test_steps_of_a_long_turn_are_folded_and_calls_beyond_count_told() -> None:
    assert "steps 1–370" in texts(timeline(long(1, steps=400).events))
    assert any("more calls" in text for text in texts(timeline(long(1, 1, 300).events)))


def test_terminal_shows_a_chart_of_text() -> None:
    lines = str(timeline(whole().events)).splitlines()

    assert lines[2].split() == ["Turn", "1", "10", "s"]
    assert lines[3] == f"  step 1       {'·' * 5}{'█' * 9}{'▒' * 10}{' ' * 24} 5.0 s"
    assert lines[4] == f"{' ' * 29}{'▒' * 5}"
    assert "?" * 14 in lines[5]


def test_notebook_gets_a_picture_with_a_text_beside_it() -> None:
    picture = timeline(whole().events)
    bundle = picture._repr_mimebundle_()

    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"] == picture.to_svg()
    assert bundle["text/plain"] == str(picture)


def test_png_is_drawn_where_matplotlib_is_and_asked_for_where_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    picture = timeline(whole("$x_1$").events)
    assert picture.to_png().startswith(b"\x89PNG")

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="drawn by matplotlib, which is not installed; run pip"):
        picture.to_png()
