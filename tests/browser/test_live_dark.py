"""A running turn on a dark and narrow page, used by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.lab import lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SETUP = """
from dsh_nb import Agent, ScriptedModel, tool
from dsh_nb.llm.scripted import call, say, think

@tool(approve=True)
def delete(path: str) -> str:
    '''Delete a file.'''
    return f"deleted {path}"

text = "## Plan\\n\\nI will `delete` it, " + "verylong" * 30
steps = [[think("Hm."), say(text), call("delete", path="/a" * 90)], "Gone."]
agent = Agent("a", tools=[delete], model=ScriptedModel(steps))
"""


def test_view_in_the_dark_and_in_a_narrow_page_by_keyboard_alone(tmp_path: Path) -> None:
    with lab(tmp_path, theme="dark", width=760, height=900) as dark:
        dark.add("dark.ipynb", SETUP, "reply = await agent('Go')")
        dark.run(0)
        dark.idle()
        dark.run(1)
        card = dark.page.get_by_role("alertdialog")
        approve = card.get_by_role("button", name="Approve")
        approve.wait_for()
        dark.shot(SHOTS / "live-approval-dark.png")
        view = dark.page.locator(".dsh-view")
        inside = view.evaluate("element => element.scrollWidth <= element.clientWidth + 1")
        card.get_by_role("textbox", name="Arguments as JSON").focus()
        dark.page.keyboard.press("Tab")
        focused = approve.evaluate("element => element.matches(':focus-visible')")
        dark.page.keyboard.press("Enter")
        dark.idle()
        dark.shot(SHOTS / "live-ended-dark.png")

        assert inside
        assert focused
        expect(dark.output(1).get_by_text("Gone.")).to_have_count(1)
