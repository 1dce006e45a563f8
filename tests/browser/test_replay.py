"""A replay in a real JupyterLab: played, stepped through, dragged, closed and reopened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
IMPORTED = Path(__file__).parents[1] / "imports" / "data" / "claude-code"
SETUP = """
import asyncio
from dsh_nb import Agent, tool
from dsh_nb.llm.scripted import ScriptedModel, call, pause, say, think

@tool
async def revenue(quarter: str) -> dict:
    '''Revenue of a quarter.'''
    await asyncio.sleep(0.4)
    return {"quarter": quarter, "euros": 1_250_000}

table = "| quarter | euros |\\n|---|---|\\n| Q1 | 1,250,000 |\\n| Q2 | 1,310,000 |\\n"
code = "```python\\ndef growth(a, b):\\n    return b / a - 1\\n```\\n"
steps = [
    [think("I need the figures first."), say("Let me look."), call("revenue", quarter="Q1")],
    [say("Revenue **grew** by 4.8 %:\\n\\n" + table + "\\n" + code + "\\nThat is all.")],
    "You are *welcome*.",
]
agent = Agent("a", tools=[revenue], model=ScriptedModel(steps, pace=0.02))
first = await agent("How did revenue grow?")
second = await agent("Thank you!")
"""
WIDGETS = """
from ipywidgets.widgets.widget import _instances
print(len(_instances))
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("replay")) as opened:
        yield opened


def opened(one: Lab, name: str, *more: str) -> Locator:
    """A replay of two turns, in cell 1 of a new notebook."""
    one.add(name, SETUP, "agent.replay()", *more)
    one.run(0)
    one.idle()
    return shown(one)


def shown(one: Lab) -> Locator:
    one.run(1)
    one.idle()
    view = one.page.locator(".dsh-view")
    expect(view.get_by_text(re.compile("^event 1 of "))).to_be_visible()
    return view


def at(view: Locator) -> str:
    """The position as the view tells it, when it has come to rest."""
    place = view.locator(".dsh-deck .dsh-words").first
    seen = ""
    while place.inner_text() != seen:
        seen = place.inner_text()
        view.page.wait_for_timeout(300)
    return seen


def press(view: Locator, key: str) -> str:
    view.page.keyboard.press(key)
    return at(view)


def click(view: Locator, button: str) -> str:
    view.get_by_role("button", name=button, exact=True).click()
    return at(view)


def number(position: str) -> int:
    found = re.match(r"event ([\d,]+) of", position)
    assert found is not None
    return int(found[1].replace(",", ""))


def test_replay_plays_to_the_end_at_the_speed_that_was_chosen(one: Lab) -> None:
    view = opened(one, "play.ipynb", "print(replay.position)")
    log = view.get_by_role("log")
    expect(log.get_by_text("How did revenue grow?")).to_be_visible()
    expect(log.get_by_text("Let me look.")).to_have_count(0)
    one.shot(SHOTS / "replay-start.png")
    view.get_by_role("combobox", name="Speed").select_option("0.5")
    view.get_by_role("button", name="Play").click()
    expect(view.get_by_role("button", name="Pause")).to_be_visible()
    expect(log.get_by_text("Let me look.")).to_be_visible()
    one.shot(SHOTS / "replay-playing.png")
    view.get_by_role("combobox", name="Speed").select_option("16")
    expect(log.get_by_text("You are welcome.")).to_be_visible(timeout=20_000)

    expect(view.get_by_role("button", name="Play")).to_be_visible()
    assert re.match(r"event (\d+) of \1 · turn 2 of 2, step 1 · turn/end", at(view))
    one.shot(SHOTS / "replay-end.png")


def test_buttons_go_back_and_forth_by_event_step_and_turn(one: Lab) -> None:
    view = opened(one, "steps.ipynb")
    log = view.get_by_role("log")
    seen = [click(view, name) for name in ("Next event", "Next step", "Next step", "Next turn")]
    expect(log.get_by_text("You are welcome.")).to_have_count(0)
    last = click(view, "Next turn")
    expect(log.get_by_text("You are welcome.")).to_be_visible()
    back = [click(view, f"Previous {by}") for by in ("event", "turn", "step", "step")]

    assert [position.partition(" · ")[2] for position in seen] == [
        "turn 1 of 2 · turn/start",
        "turn 1 of 2, step 1 · step/end",
        "turn 1 of 2, step 2 · step/end",
        "turn 1 of 2, step 2 · turn/end",
    ]
    assert number(back[0]) == number(last) - 1
    assert back[1:] == [seen[3], seen[2], seen[1]]
    expect(log.get_by_text("Let me look.")).to_be_visible()
    expect(log.get_by_text("That is all.")).to_have_count(0)
    one.shot(SHOTS / "replay-step.png")


def test_keys_move_and_play_it_and_reach_no_cell(one: Lab) -> None:
    view = opened(one, "keys.ipynb")
    cells = one.page.locator(".jp-Notebook .jp-Cell").count()
    view.get_by_role("slider").focus()
    one.shot(SHOTS / "replay-focus.png")
    start = at(view)
    event = press(view, "ArrowRight")
    step = press(view, "Shift+ArrowRight")
    turn = press(view, "PageDown")
    end = press(view, "End")
    before = press(view, "ArrowLeft")
    back = press(view, "Shift+ArrowLeft")
    home = press(view, "Home")
    for _ in range(5):
        one.page.keyboard.press("ArrowRight")
    held = at(view)
    for key in ("d", "d", "x"):
        one.page.keyboard.press(key)
    one.page.keyboard.press(" ")
    expect(view.get_by_text(held.partition(" · ")[0])).to_have_count(0)
    one.page.keyboard.press(" ")
    expect(view.get_by_role("button", name="Play")).to_be_visible()

    assert (number(start), number(event), number(home), number(held)) == (1, 2, 1, 6)
    assert number(event) < number(step) < number(back) < number(turn) < number(before)
    assert number(before) == number(end) - 1
    assert number(held) < number(at(view)) < number(end)
    assert one.page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_slider_shows_where_it_is_dragged(one: Lab) -> None:
    view = opened(one, "slider.ipynb")
    log = view.get_by_role("log")
    slider = view.get_by_role("slider")
    box = slider.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    one.page.mouse.move(box["x"] + 7, y)
    one.page.mouse.down()
    one.page.mouse.move(box["x"] + box["width"] + 20, y, steps=40)
    expect(log.get_by_text("You are welcome.")).to_be_visible()
    one.page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=40)
    one.page.mouse.up()
    expect(log.get_by_text("You are welcome.")).to_have_count(0)
    middle = at(view)

    assert slider.input_value() == str(number(middle))
    value = slider.get_attribute("aria-valuetext")
    assert value is not None
    assert value.startswith(middle)


def test_closed_replay_is_the_transcript_and_leaves_no_widget(one: Lab) -> None:
    view = opened(one, "closed.ipynb", WIDGETS)
    click(view, "Next turn")
    view.get_by_role("button", name="Close").click()
    expect(one.page.locator(".dsh-view")).to_have_count(0)
    expect(one.output(1).get_by_text("You are welcome.")).to_have_count(1)
    expect(one.output(1).get_by_text("In a running notebook, replay() plays them.")).to_be_visible()
    one.page.wait_for_timeout(1000)  # the page says a little later that it shows it no more
    one.run(2)
    one.idle()
    left = one.output(2).first.inner_text().strip()
    one.save()
    saved = json.loads((one.folder / "closed.ipynb").read_text(encoding="utf-8"))
    bundles = [set(output["data"]) for output in saved["cells"][1]["outputs"]]
    one.open("closed.ipynb")

    assert left == "0"
    assert bundles == [{"text/html", "text/markdown", "text/plain"}]
    expect(one.output(1).get_by_text("You are welcome.")).to_have_count(1)
    expect(one.page.get_by_text("model not found")).to_have_count(0)
    one.top(one.output(1).first)
    one.shot(SHOTS / "replay-closed.png")


def test_cell_that_is_run_again_leaves_only_its_new_replay(one: Lab) -> None:
    opened(one, "again.ipynb", WIDGETS)
    one.run(2)
    one.idle()
    before = one.output(2).first.inner_text()
    shown(one)
    shown(one)
    one.page.wait_for_timeout(1000)
    one.run(2)
    one.idle()

    assert one.output(2).first.inner_text() == before


def test_reloaded_page_shows_the_replay_where_it_was(one: Lab) -> None:
    view = opened(one, "reload.ipynb")
    before = click(view, "Next turn")
    one.save()
    one.page.reload()
    view.get_by_text("That is all.").wait_for(timeout=60_000)

    assert at(view) == before
    assert number(click(view, "Next event")) == number(before) + 1


def test_replay_says_when_its_kernel_is_gone(one: Lab) -> None:
    view = opened(one, "gone.ipynb")
    one.page.get_by_role("menuitem", name="Kernel", exact=True).click()
    one.page.locator(".lm-Menu-item", has_text=re.compile("^Restart Kernel")).first.click()
    one.page.get_by_role("button", name="Confirm Kernel Restart").click()

    expect(view.get_by_text("Its kernel is gone: run the cell again.")).to_be_visible()
    expect(view.get_by_role("button", name="Play")).to_be_disabled()
    expect(view.get_by_role("log").get_by_text("How did revenue grow?")).to_be_visible()


def test_imported_session_is_replayed(one: Lab) -> None:
    path = IMPORTED / "tool_call_conversation.jsonl"
    one.add(
        "imported.ipynb",
        f"import dsh_nb; log = dsh_nb.load({str(path)!r})",
        "log.replay()",
        "print(len(log.session))",
    )
    one.run(0)
    one.idle()
    view = shown(one)
    one.run(2)
    one.idle()
    count = int(one.output(2).first.inner_text())
    view.get_by_role("slider").focus()
    end = press(view, "End")
    one.shot(SHOTS / "replay-imported.png")

    assert number(end) == count
    assert len(view.get_by_role("log").inner_text()) > 200


def test_replay_fits_a_narrow_page(one: Lab) -> None:
    view = opened(one, "narrow.ipynb")
    size = one.page.viewport_size
    assert size is not None
    click(view, "Next step")
    click(view, "Next step")
    one.page.set_viewport_size({"width": 640, "height": 900})
    one.top(view)
    one.shot(SHOTS / "replay-narrow.png")
    wide, fits = view.evaluate("element => [element.scrollWidth, element.clientWidth]")
    one.page.set_viewport_size(size)

    assert wide <= fits


def test_replay_is_as_dark_as_the_page(one: Lab) -> None:
    view = opened(one, "dark.ipynb")
    click(view, "Next step")
    click(view, "Next step")
    theme(one, "Dark")
    dark = view.evaluate("element => getComputedStyle(element).color")
    one.top(view)
    one.shot(SHOTS / "replay-dark.png")
    theme(one, "Light")

    assert brightness(dark) > 0.6 > brightness(view.evaluate("e => getComputedStyle(e).color"))


def theme(one: Lab, name: str) -> None:
    one.page.get_by_role("menuitem", name="Settings", exact=True).click()
    one.page.locator(".lm-Menu-item", has_text=re.compile("^Theme$")).click()
    one.page.locator(".lm-Menu-item", has_text=re.compile(f"^JupyterLab {name}$")).click()
    light = str(name == "Light").lower()
    one.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")
    one.page.wait_for_timeout(500)


def brightness(color: str) -> float:
    """Of ``rgb(r, g, b)``, black 0 to white 1."""
    red, green, blue = (int(part) for part in re.findall(r"\d+", color)[:3])
    return (red + green + blue) / (3 * 255)
