"""A running turn in a real JupyterLab: watched, steered, stopped and decided about."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbconvert
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
    view(one).get_by_role("button", name="Stop").focus()
    one.page.keyboard.press("d")
    one.page.keyboard.press("d")  # in JupyterLab that deletes a cell
    assert one.page.locator(".jp-Notebook .jp-Cell").count() == 3
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
    '''Delete a file.'''
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


def test_question_is_answered_by_a_button_and_by_text(one: Lab) -> None:
    one.add(
        "question.ipynb",
        SETUP
        + """
from dsh_nb.plugins.ask_user import ask_user
steps = [
    [call("ask_user", question="Which <city>?", options=["Paris", "Oslo"])],
    [call("ask_user", question="And why?")],
    "Thank you.",
]
agent = Agent("a", plugins=[ask_user], model=ScriptedModel(steps))
""",
        "reply = await agent('Go')",
        "print(agent.tool_calls['result'].tolist())",
    )
    one.run(0)
    one.idle()
    one.run(1)
    first = one.page.get_by_role("alertdialog", name="The agent asks: Which <city>?")
    first.wait_for()
    one.shot(SHOTS / "live-question.png")
    first.get_by_role("button", name="Oslo").click()
    second = one.page.get_by_role("alertdialog", name="The agent asks: And why?")
    second.get_by_role("textbox").fill("It is near")
    second.get_by_role("textbox").press("Enter")
    one.idle()

    answers = printed(one, 2)
    assert "Oslo" in answers
    assert "It is near" in answers


def test_panel_shows_all_turns_and_takes_the_next_prompt(one: Lab) -> None:
    one.add(
        "panel.ipynb",
        SETUP
        + """
agent = Agent("a", model=ScriptedModel(["First **answer**.", [pause(1.5), "Second answer."]]))
reply = await agent("One")
""",
        "agent.view()",
        "await agent.dispose()",
    )
    one.run(0)
    one.idle()
    one.run(1)
    panel = view(one)
    log = panel.get_by_role("log")
    expect(log.get_by_text("First answer.")).to_have_count(1)
    expect(panel.locator(".dsh-voice")).to_have_text("")
    expect(panel.get_by_text("Idle")).to_have_count(1)
    panel.get_by_role("textbox").fill("Two")
    panel.get_by_role("button", name="Send").click()
    expect(panel.get_by_role("button", name="Stop")).to_be_visible()
    expect(log.get_by_text("Second answer.")).to_have_count(1)
    expect(panel.locator(".dsh-voice")).to_contain_text("Second answer.")
    expect(panel.get_by_text("Idle")).to_have_count(1)
    one.shot(SHOTS / "live-panel.png")
    one.run(2)
    one.idle()

    expect(one.page.locator(".dsh-view")).to_have_count(0)
    expect(one.output(1).get_by_text("Second answer.")).to_have_count(1)


def test_two_views_of_a_turn_show_and_steer_the_same(one: Lab) -> None:
    one.add("two.ipynb", LONG, "turn = agent('Count')", "turn")
    one.run(0)
    one.idle()
    one.run(1)
    view(one).get_by_text("17 18 19").wait_for()
    one.run(2)
    views = one.page.locator(".dsh-view")
    expect(views).to_have_count(2)
    expect(views.nth(1).get_by_text("17 18 19")).to_have_count(1)
    one.page.wait_for_timeout(500)
    first, second = views.get_by_role("log").all_inner_texts()
    assert first[:200] == second[:200]
    views.nth(1).get_by_role("button", name="Stop").click()

    expect(views).to_have_count(0)
    expect(one.output(1).get_by_text("stopped")).to_have_count(1)
    expect(one.output(2).get_by_text("stopped")).to_have_count(1)


def test_reloaded_page_shows_the_whole_turn_and_its_end(one: Lab) -> None:
    one.add(
        "reload.ipynb",
        SETUP
        + """
words = " ".join(str(i) for i in range(1600))
agent = Agent("a", model=ScriptedModel([words], pace=0.5))
""",
        "turn = agent('Count')",
    )
    one.run(0)
    one.idle()
    one.run(1)
    view(one).get_by_text("17 18 19").wait_for()
    one.save()
    one.page.reload()
    log = view(one).get_by_role("log")
    log.get_by_text("17 18 19").wait_for(timeout=60_000)
    expect(view(one).get_by_role("button", name="Stop")).to_be_visible()
    expect(log.get_by_text("1598 1599")).to_have_count(1, timeout=30_000)
    expect(log.get_by_text("1 step")).to_have_count(1)
    one.page.wait_for_timeout(18_000)

    expect(log.get_by_text("1598 1599")).to_have_count(1)
    expect(view(one).get_by_role("button", name="Stop")).to_be_hidden()


def test_nothing_is_missing_after_a_flood_that_makes_the_server_drop_messages(one: Lab) -> None:
    one.add(
        "flood.ipynb",
        SETUP
        + """
words = " ".join(str(i) for i in range(2000))
agent = Agent("a", model=ScriptedModel([words], pace=0.1))
from ipywidgets import IntProgress
noise = IntProgress(max=10**9)
async def flood(seconds):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for _ in range(30):
            noise.value += 1
        await asyncio.sleep(0.01)
""",
        "turn = agent('Count'); task = asyncio.create_task(flood(12))",
        "await task; reply = await turn",
        "print(reply.reason.kind)",
    )
    one.run(0)
    one.idle()
    one.run(1)
    view(one).wait_for()
    one.run(2)
    one.idle(90)
    assert printed(one, 3) == "completed"
    expect(one.page.get_by_text("IOPub message rate exceeded").first).to_be_attached()

    expect(one.page.locator(".dsh-view")).to_have_count(0, timeout=30_000)
    text = one.output(1).locator("[role=log]").inner_text()
    assert " ".join(str(i) for i in range(2000)) in " ".join(text.split())
    assert "1 step" in text


def converted(notebook: Path) -> tuple[str, str]:
    """A saved notebook as HTML and as Markdown."""
    make: list[Any] = [nbconvert.HTMLExporter, nbconvert.MarkdownExporter]  # Any: not typed
    html, markdown = [exporter().from_filename(str(notebook))[0] for exporter in make]
    return html, markdown


HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>"
    "<svg onload=alert(3)></svg><iframe src='http://evil.example/i'></iframe>"
    "<style>@import url(http://evil.example/s.css)</style>"
    "<a href='javascript:alert(4)' onclick='alert(5)'>x</a>"
    "<img src='http://evil.example/p.png'><b style='background:url(http://evil.example/b)'>b</b>"
)


def test_hostile_text_is_shown_and_never_run(one: Lab) -> None:
    one.add(
        "hostile.ipynb",
        SETUP
        + f"""
from dsh_nb.plugins.ask_user import ask_user
hostile = {HOSTILE!r}
class Page:
    def _repr_html_(self):
        return hostile + "<p>whole</p>"

@tool
def fetch(url: str) -> Page:
    return Page()

@tool
def broken(url: str) -> str:
    raise ValueError(hostile)

@tool(approve=True)
def guarded(url: str) -> str:
    return hostile

link = "![i](http://evil.example/m.png) [l](javascript:alert(6))"
markdown = hostile + "\\n\\n" + link + "\\n\\n```html\\n"
markdown += hostile + "\\n```\\n\\n| a |\\n|---|\\n| " + hostile + " |\\n"
first = [call("fetch", url=hostile), call("broken", url=hostile)]
steps = [
    [think(markdown), say(markdown), *first],
    [call("<img/src=x/onerror=alert(7)>", url=hostile), call("guarded", url=hostile)],
    [call("ask_user", question=hostile, options=[hostile, "b"])],
    [say(markdown), pause(2), say("The end.")],
]
agent = Agent("a", tools=[fetch, broken, guarded], plugins=[ask_user], model=ScriptedModel(steps))
""",
        "reply = await agent(hostile)",
    )
    one.run(0)
    one.idle()
    one.run(1)
    card = one.page.get_by_role("alertdialog")
    card.get_by_role("button", name="Approve").wait_for()
    view(one).get_by_role("textbox", name="Steer").fill(HOSTILE)
    view(one).get_by_role("textbox", name="Steer").press("Enter")
    one.page.wait_for_timeout(500)
    for details in view(one).locator("details").all():
        details.evaluate("element => element.open = true")
    one.shot(SHOTS / "live-hostile.png")
    card.get_by_role("button", name="Approve").click()
    card.get_by_role("button", name="b", exact=True).click()
    one.idle()
    one.page.wait_for_timeout(500)

    assert (one.requests, one.dialogs) == ([], [])
    log = one.output(1).locator("[role=log]")
    assert log.locator("script, iframe, svg, style, [onerror], [onload], [onclick]").count() == 0
    assert log.locator("img[src]:not([src^='data:'])").count() == 0
    assert log.get_by_text("onerror=alert(1)").count() > 5
    assert log.get_by_text("The end.").count() == 1


def test_saved_notebook_shows_the_turn_once_without_a_kernel(one: Lab) -> None:
    one.add(
        "saved.ipynb",
        SETUP
        + """
agent = Agent("a", model=ScriptedModel(["Some **bold** words, and the $x^2$ end."]))
""",
        "reply = await agent('Say it')",
    )
    one.run_all()
    one.page.wait_for_timeout(500)
    one.save()
    saved = json.loads((one.folder / "saved.ipynb").read_text(encoding="utf-8"))
    bundles = [set(output["data"]) for output in saved["cells"][1]["outputs"]]
    exported, markdown = converted(one.folder / "saved.ipynb")
    one.open("saved.ipynb")

    assert bundles == [{"text/html", "text/markdown", "text/plain"}]
    assert "widgets" not in saved["metadata"]
    assert exported.count("<strong>bold</strong>") == 1
    assert "bold" in markdown
    expect(one.output(1).get_by_text("bold")).to_have_count(1)
    expect(one.page.get_by_text("model not found")).to_have_count(0)
    expect(one.page.get_by_text("Loading widget")).to_have_count(0)


def test_what_a_reader_selected_and_unfolded_stays(one: Lab) -> None:
    one.add(
        "selected.ipynb",
        SETUP
        + """
words = "First *words* of it.\\n\\n" + " ".join(str(i) for i in range(300))
agent = Agent("a", model=ScriptedModel([[think("Hm, well."), say(words)]], pace=1.0))
""",
        "turn = agent('Go')",
    )
    one.run(0)
    one.idle()
    one.run(1)
    view(one).get_by_text("17 18 19").wait_for()
    view(one).locator("summary").first.click()
    view(one).get_by_text("First words").evaluate("node => getSelection().selectAllChildren(node)")
    one.page.wait_for_timeout(1000)

    assert one.page.evaluate("getSelection().toString()") == "First words of it."
    assert view(one).locator("details").first.evaluate("element => element.open")
    view(one).get_by_role("button", name="Stop").click()
    expect(one.page.locator(".dsh-view")).to_have_count(0)


def test_stop_interrupts_a_tool_that_blocks_the_kernel(one: Lab) -> None:
    one.add(
        "blocking.ipynb",
        SETUP
        + """
@tool(main_thread=True)
def block() -> str:
    '''Block the kernel.'''
    time.sleep(8)
    return "done"

steps = [[say("I block."), pause(1.5), call("block")], "Never."]
agent = Agent("a", tools=[block], model=ScriptedModel(steps))
""",
        "turn = agent('Go')",
        f"print({ENDING}.time, turn.reply.reason.kind)",
    )
    one.run(0)
    one.idle()
    one.run(1)
    view(one).get_by_text("nothing else runs now").wait_for()
    one.page.wait_for_timeout(300)
    clicked = time.time()
    view(one).get_by_role("button", name="Stop").click()
    expect(one.page.locator(".dsh-view")).to_have_count(0)

    ended, kind = printed(one, 2).split()
    assert kind == "aborted"
    assert int(ended) / 1000 - clicked < 0.5


def test_twenty_thousand_chunks_are_all_shown_while_the_turn_runs(one: Lab) -> None:
    one.add(
        "stream.ipynb",
        SETUP
        + """
from dsh_nb.messages import BlockEnd, BlockStart, Finish, FinishReason, TextBlock, TextDelta
text = "".join(f"{i:03} " if i % 100 else f"\\n\\n{i:02}" for i in range(20000))
class Fast:
    name = "fast"
    async def stream(self, request):
        yield BlockStart(0, "text")
        for i in range(0, len(text), 4):
            yield TextDelta(0, text[i : i + 4])
            if i % 200 == 0:
                await asyncio.sleep(0.008)
        await asyncio.sleep(3)
        yield BlockEnd(0, TextBlock(text))
        yield Finish(FinishReason("stop"))
agent = Agent("a", model=Fast())
""",
        "turn = agent('Go')",
        "print(len(agent.chunks), ' '.join(text.split()))",
    )
    one.run(0)
    one.idle()
    one.run(1)
    log = view(one).get_by_role("log")
    expect(log.get_by_text("19999")).to_have_count(1, timeout=30_000)
    running = " ".join(log.inner_text().split())
    expect(one.page.locator(".dsh-view")).to_have_count(0, timeout=20_000)
    ended = " ".join(one.output(1).locator("[role=log]").inner_text().split())
    chunks, text = printed(one, 2).split(" ", 1)

    assert int(chunks) > 20_000
    assert text in running
    assert text in ended
