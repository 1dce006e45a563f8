"""A running turn in a real JupyterLab: watched, steered, stopped and decided about."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SETUP = """
import asyncio, time
from dsh_nb import Agent, tool
from dsh_nb.llm.scripted import ScriptedModel, call, pause, say, think
"""
ENDING = "next((e for e in reversed(agent.session) if e.type == 'turn/end'), None)"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("live")) as opened:
        yield opened


def view(one: Lab) -> Locator:
    return one.page.locator(".dsh-view").first


def printed(one: Lab, cell: int) -> str:
    """What a cell prints, run now."""
    one.run(cell)
    one.idle()
    return one.output(cell).first.inner_text().strip()


LONG = (
    SETUP
    + """
agent = Agent("a", model=ScriptedModel([" ".join(str(i) for i in range(4000))], pace=1.0))
"""
)


def test_stop_ends_an_awaited_turn_within_half_a_second(one: Lab) -> None:
    one.add(
        "stop.ipynb",
        LONG,
        "reply = await agent('Count')",
        f"print({ENDING}.time, reply.reason.kind)",
    )
    one.run(0)
    one.idle()
    one.run(1)
    view(one).get_by_text("17 18 19").wait_for()
    one.shot(SHOTS / "live-streaming.png")
    clicked = time.time()
    view(one).get_by_role("button", name="Stop").click()
    one.idle()

    ended, kind = printed(one, 2).split()
    assert kind == "aborted"
    assert int(ended) / 1000 - clicked < 0.5
    expect(one.page.locator(".dsh-view")).to_have_count(0)
    expect(one.output(1).get_by_text("stopped")).to_have_count(1)


@pytest.mark.parametrize("busy", ["await asyncio.sleep(8)", "time.sleep(8)"])
def test_stop_works_while_another_cell_runs(one: Lab, busy: str) -> None:
    one.add("busy.ipynb", LONG, "turn = agent('Count')", busy, f"print({ENDING}.time)")
    one.run(0)
    one.idle()
    one.run(1)
    view(one).get_by_text("17 18 19").wait_for()
    one.run(2)
    one.page.wait_for_timeout(500)
    clicked = time.time()
    view(one).get_by_role("button", name="Stop").click()
    expect(one.page.locator(".dsh-view")).to_have_count(0)

    ended = int(printed(one, 3))
    assert ended / 1000 - clicked < 0.5


def test_steering_is_pending_until_it_is_delivered(one: Lab) -> None:
    one.add(
        "steer.ipynb",
        SETUP
        + """
@tool
async def wait() -> str:
    await asyncio.sleep(2)
    return "done"

agent = Agent("a", tools=[wait], model=ScriptedModel([[say("One."), call("wait")], "In euros."]))
""",
        "turn = agent('Go')",
    )
    one.run_all()
    view(one).get_by_text("running").first.wait_for()
    box = view(one).get_by_role("textbox")
    box.fill("use <b>euros</b>")
    box.press("Enter")
    expect(view(one).locator(".dsh-pending li")).to_contain_text("use <b>euros</b>")
    one.shot(SHOTS / "live-steering.png")

    expect(one.output(1).get_by_text("In euros.")).to_have_count(1, timeout=10_000)
    expect(one.output(1).get_by_text("You, while it ran")).to_have_count(1)
    expect(one.page.locator(".dsh-view")).to_have_count(0)


ASKING = (
    SETUP
    + """
@tool(approve=True)
def delete(path: str, force: bool = False) -> str:
    return f"deleted {path}"

steps = [[say("I will delete it."), call("delete", path="/tmp/a")], "It is gone."]
agent = Agent("a", tools=[delete], model=ScriptedModel(steps))
"""
)


def test_call_is_approved_once_with_edited_arguments(one: Lab) -> None:
    one.add(
        "approve.ipynb",
        ASKING,
        "reply = await agent('Go')",
        "print(agent.tool_calls[['arguments', 'result', 'edited']].values.tolist())",
    )
    one.run(0)
    one.idle()
    one.run(1)
    card = one.page.get_by_role("alertdialog")
    card.wait_for()
    one.shot(SHOTS / "live-approval.png")
    box = card.get_by_role("textbox", name="Arguments as JSON")
    assert '"path": "/tmp/a"' in box.input_value()
    box.fill("{oops")
    card.get_by_role("button", name="Approve").click()
    expect(card.get_by_role("alert")).to_contain_text("not JSON")
    box.fill('{"path": "/tmp/b"}')
    card.get_by_role("button", name="Approve").dblclick()
    one.idle()

    assert "deleted /tmp/b" in printed(one, 2)
    expect(one.output(1).get_by_text("It is gone.")).to_have_count(1)
    expect(one.output(1).get_by_text("approved by you with changed arguments")).to_have_count(1)


def test_call_is_denied_with_a_reason(one: Lab) -> None:
    one.add(
        "deny.ipynb", ASKING, "reply = await agent('Go')", "print(agent.tool_calls['result'][0])"
    )
    one.run(0)
    one.idle()
    one.run(1)
    card = one.page.get_by_role("alertdialog")
    card.get_by_role("textbox", name="Reason").fill("read-only please")
    card.get_by_role("button", name="Deny").click()
    one.idle()

    assert "read-only please" in printed(one, 2)
