"""The live view in a real kernel, heard on a subshell as JupyterLab has it; no browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.driver import OLD_IPYKERNEL, Cell, Kernel, Page, kernel
from tests.notebook.live.screen import Screen, seen

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

WIDGET = "application/vnd.jupyter.widget-view+json"
SETUP = """
import asyncio, sys, time
import ipykernel
from dsh_nb import Agent, ScriptedModel, tool
from dsh_nb.llm.scripted import call, pause, say
from dsh_nb.session.check import check_log

def new(*steps, **options):
    return Agent('main', model=ScriptedModel(list(steps)), **options)

def long():
    return new([say('Let me think about it. '), pause(30), say('Done.')])

def when(type, agent=None):
    return [event.time for event in (agent or globals()['agent']).session if event.type == type]

def endings(agent):
    return [event.data.reason.kind for event in agent.session if event.type == 'turn/end']

def widgets():
    import comm
    from ipywidgets.widgets.widget import _instances
    return len(_instances), len(comm.get_comm_manager().comms)

ran = []

@tool(approve=True)
def delete(path: str) -> str:
    ran.append(path)
    return f'deleted {path}'

def asking(count=1):
    calls = [call('delete', path=f'/tmp/{n}') for n in range(count)]
    ran.clear()
    return new([say('I will delete it.'), *calls], 'It is gone.', tools=[delete])
"""


@pytest.fixture(scope="module", params=[None, OLD_IPYKERNEL], ids=["newest", OLD_IPYKERNEL])
def one(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """A kernel of the ipykernel that is installed, and one of an older version."""
    with kernel(request.param) as running:
        assert running.run(SETUP).status == "ok"
        version = running.value("ipykernel.__version__")
        assert (version == repr(OLD_IPYKERNEL)) == (request.param is not None)
        yield running


@pytest.fixture(scope="module")
def newest() -> Iterator[Kernel]:
    with kernel() as running:
        assert running.run(SETUP).status == "ok"
        yield running


def mounted(one: Kernel) -> Page:
    page = one.page()
    page.mount()
    return page


def ask(one: Kernel, page: Page) -> str:
    """The id of what waits for a person, when there is something."""
    one.until(lambda: bool(page.status.get("asks")))
    return str(page.status["asks"][0]["id"])


def ended(one: Kernel, page: Page, message_id: str) -> Cell:
    """The cell's end, after which the page takes the view away and the kernel lets go of it."""
    cell = one.finish(message_id)
    page.send("gone")
    one.until(lambda: page.view.closed and page.controls.closed)
    return cell


def since(one: Kernel, type: str, sent: float) -> float:
    """Seconds from `sent` to the newest event of that type."""
    return float(one.value(f"when({type!r})[-1]")) / 1000 - sent


def test_decision_on_a_subshell_wakes_an_awaited_turn_at_once_and_counts_once(one: Kernel) -> None:
    one.run("agent = asking()")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    waits = ask(one, page)
    sent = time.time()
    same = page.send("approve", ask=waits)
    page.send("approve", intent=same, ask=waits)
    again = page.send("approve", ask=waits, arguments={"path": "/tmp/other"})
    denied = page.send("deny", ask=waits, main=True)
    one.until(lambda: all(map(page.answers, (same, again, denied))))
    done = ended(one, page, cell)

    assert since(one, "approval/decided", sent) < 0.2
    assert page.answers(same)[0]["done"] is True
    assert [page.answers(name)[0]["done"] for name in (again, denied)] == [False, False]
    assert one.value("ran, len(when('approval/decided'))") == "(['/tmp/0'], 1)"
    assert "It is gone." in done.shown[0]
    assert one.value("check_log(agent.session, ended=True)") == "None"


def test_two_calls_are_decided_one_by_one(one: Kernel) -> None:
    one.run("agent = asking(2)")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    first = ask(one, page)
    page.ask("deny", ask=first, reason="not this one")
    one.until(lambda: bool(page.status["asks"]) and page.status["asks"][0]["id"] != first)
    second = ask(one, page)
    page.ask("approve", ask=second, arguments={"path": "/tmp/mine"})
    ended(one, page, cell)

    assert one.value("ran") == "['/tmp/mine']"
    assert "not this one" in one.value("str([*agent.session])")


def test_stop_on_a_subshell_ends_the_turn_that_its_own_cell_awaits(one: Kernel) -> None:
    one.run("agent = long()")
    cell = one.start("reply = await agent('Go')", person=True)
    queued = one.start("print('still here')")
    page = mounted(one)
    sent = time.time()
    page.ask("stop")
    done = one.finish(cell)
    after = ended(one, page, queued)

    assert since(one, "turn/end", sent) < 0.5
    assert (done.status, after.stdout) == ("ok", "still here\n")
    assert "Let me think about it." in done.shown[0]
    assert one.value("reply.stopped") == "True"


def test_stop_is_heard_while_a_cell_awaits_also_without_subshells(newest: Kernel) -> None:
    newest.run("agent = long()")
    cell = newest.start("reply = await agent('Go')", person=True)
    page = newest.page()
    page.ask("hello", main=True)
    sent = time.time()
    page.ask("stop", main=True)
    ended(newest, page, cell)

    assert since(newest, "turn/end", sent) < 0.5


@pytest.mark.parametrize("busy", ["await asyncio.sleep(8)", "time.sleep(8)"])
def test_stop_on_a_subshell_ends_a_turn_while_another_cell_runs(one: Kernel, busy: str) -> None:
    one.run("agent = long()")
    one.run("turn = agent('Go')", person=True)
    page = mounted(one)
    cell = one.start(busy)
    one.hear(0.3)
    sent = time.time()
    answer = page.ask("stop")
    if "await" in busy:
        one.interrupt()
    ended(one, page, cell)

    assert answer.get("blocked", False) is False
    assert since(one, "turn/end", sent) < 0.5
    assert one.value("endings(agent), turn.done") == "(['aborted'], True)"
    assert time.time() - sent < 5


def test_stop_on_a_subshell_leaves_a_cell_that_awaits_something_else_alone(newest: Kernel) -> None:
    newest.run("agent = long()")
    newest.run("turn = agent('Go')", person=True)
    page = mounted(newest)
    cell = newest.start("await asyncio.sleep(1)\nprint('went on')")
    newest.hear(0.2)
    page.ask("stop")
    done = ended(newest, page, cell)

    assert (done.status, done.stdout) == ("ok", "went on\n")


def test_stop_on_a_subshell_interrupts_a_tool_that_blocks_the_kernel(one: Kernel) -> None:
    one.run(
        "how = dict(name='block', description='Blocks.', main_thread=True)\n"
        "block = tool(lambda: time.sleep(8), **how)\n"
        "agent = new([say('Now. '), pause(0.7), call('block')], 'ok', tools=[block])"
    )
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    one.until(lambda: "block runs on" in page.status.get("note", ""))
    sent = time.time()
    page.ask("stop")
    ended(one, page, cell)

    assert since(one, "turn/end", sent) < 0.5
    assert one.value("endings(agent), reply.stopped") == "(['aborted'], True)"


def test_interrupt_stops_the_awaited_turn_and_leaves_one_in_the_background_alone(
    one: Kernel,
) -> None:
    one.run("other = Agent('other', model=ScriptedModel([[say('a '), pause(3), say('b')]]))")
    one.run("background = other('Go')", person=True)
    behind = mounted(one)
    one.run("agent = long()")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    one.hear(0.2)
    sent = time.time()
    one.interrupt()
    done = ended(one, page, cell)

    assert since(one, "turn/end", sent) < 0.5
    assert "stopped" in done.shown[-1]
    assert behind.status["state"] == "running"
    last = ended(one, behind, one.start("print((await background).text)"))
    assert last.stdout == "a b\n"


def test_steering_is_pending_until_the_next_step_takes_it(one: Kernel) -> None:
    one.run("agent = asking()")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    waits = ask(one, page)
    steering = page.ask("steer", text="In euros, please")
    one.until(lambda: bool(page.status["pending"]))
    pending = page.status["pending"]
    page.send("approve", ask=waits)
    done = ended(one, page, cell)

    assert pending == [{"id": steering["id"], "text": "In euros, please"}]
    assert "In euros, please" in done.html[0]
    assert one.value("agent.history[-2].content[-1].text") == (
        "'<steering source=\"user\">In euros, please</steering>'"
    )


def test_view_is_told_the_whole_turn_in_numbered_messages(one: Kernel) -> None:
    one.run("agent = Agent('main', model=ScriptedModel(['Some **words** here. ' * 40], pace=0.3))")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    one.until(lambda: page.status.get("state") == "ended")
    done = ended(one, page, cell)

    at, whole = next((at, told) for at, told in enumerate(page.view.heard) if "to" in told)
    news = [told for told in page.view.heard[at + 1 :] if "nudge" not in told]
    screen = Screen().apply(whole["ops"])
    for told in news:
        screen.apply(told["ops"])
    assert [told["n"] for told in news] == [*range(whole["n"] + 1, whole["n"] + 1 + len(news))]
    took = (news[-1]["now"] - whole["now"]) / 1000
    assert 4 <= len(news) <= took / 0.08 + 2  # the end is told at once
    assert seen(screen.blocks(1)).split() == ("Some words here. " * 40).split()
    assert (len(done.displays), done.updates) == (1, 1)
    assert not any(WIDGET in data for data in done.displays.values())


def test_page_that_was_loaded_again_is_told_everything_and_forgotten_silently(one: Kernel) -> None:
    one.run("agent = asking()")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    waits = ask(one, page)
    page.send("hello", page="loaded again", view="second")
    one.until(lambda: any(told.get("to") == "second" for told in page.view.heard))
    page.ask("approve", ask=waits)
    one.finish(cell)
    page.send("gone")
    page.send("gone", view="second")
    forgotten = one.run("while widgets() != (0, 0):\n    await asyncio.sleep(0.01)")

    assert forgotten.status == "ok"
    whole = [told for told in page.view.heard if told.get("to") == "second"]
    assert whole[0]["status"]["asks"][0]["id"] == waits
    assert (page.view.closed, page.controls.closed) == (False, False)


def test_hundred_turns_leave_no_widget(one: Kernel) -> None:
    before = len(one.comms)
    cell = one.run(
        "agent = new(*['An answer.'] * 100)\nfor n in range(100):\n    await agent(f'{n}')",
        person=True,
    )

    assert cell.status == "ok", cell
    assert len(cell.displays) == 100
    assert len(one.comms) - before >= 200  # there were widgets
    assert all(comm.closed for comm in [*one.comms.values()][before:])
    assert one.value("widgets()") == "(0, 0)"


def test_turn_that_no_page_shows_is_painted_seldom_and_ends_static(newest: Kernel) -> None:
    newest.run("agent = new([say('one '), pause(1.7), say('two '), pause(1.7), say('three')])")
    began = newest.start("reply = await agent('Go')", person=True)
    done = newest.finish(began)

    assert done.updates == 2  # after three seconds, and at the end
    assert "three" in done.html[0]
    assert not any(WIDGET in data for data in done.displays.values())
    assert newest.value("widgets()") == "(0, 0)"


def test_without_a_person_there_is_no_widget_and_nobody_is_asked(newest: Kernel) -> None:
    before = len(newest.comms)
    newest.run("agent = asking()")
    done = newest.run("reply = await agent('Go')")

    assert len(newest.comms) == before
    assert newest.value("ran, endings(agent)") == "([], ['completed'])"
    assert "nobody" in newest.value("str(agent.history[-2])")
    assert "nobody was there to be asked" in done.html[0]


def test_hostile_wishes_are_answered_and_hurt_nothing(one: Kernel) -> None:
    one.run("agent = asking()")
    cell = one.start("reply = await agent('Go')", person=True)
    page = mounted(one)
    waits = ask(one, page)
    hostile: list[dict[str, Any]] = [
        {"do": "approve", "ask": waits, "arguments": ["not", "an", "object"]},
        {"do": "approve", "ask": waits, "remember": {"all": True}},
        {"do": "approve", "ask": ["x"]},
        {"do": "steer", "text": "   "},
        {"do": "steer", "text": None},
        {"do": "answer", "question": 5, "text": "x"},
        {"do": "__class__"},
    ]
    answers = [page.ask(**wish) for wish in hostile]
    page.ask("deny", ask=waits, reason="<script>alert(1)</script>")
    done = ended(one, page, cell)

    assert all(answer["error"] for answer in answers)
    assert one.value("ran, endings(agent)") == "([], ['completed'])"
    assert "<script>" not in done.html[0]
