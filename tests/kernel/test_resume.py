"""A session outlives its kernel."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.kernel.driver import kernel

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

SETUP = """
import asyncio, dsh_nb
from pathlib import Path
from dsh_nb import Agent
from dsh_nb.llm.scripted import ScriptedModel, call, pause, say
async def count(name: str) -> str:
    '''Count a call.'''
    with open("calls.txt", "a") as file:
        file.write(name)
    await asyncio.sleep(60)
    return "counted"
"""


def test_session_of_a_killed_kernel_is_listed_and_goes_on_in_the_next(tmp_path: Path) -> None:
    with kernel(folder=tmp_path) as first:
        first.run(SETUP)
        steps = '[["First."], [say("I count."), call("count", name="a")]]'
        first.run(f"agent = Agent('main', tools=[count], model=ScriptedModel({steps}))")
        first.run("reply = await agent('Go')")
        first.run("turn = agent('Count'); await asyncio.sleep(2)")
        name = first.value("agent.session.id").strip("'")
        os.kill(int(first.value("__import__('os').getpid()")), signal.SIGKILL)
    with kernel(folder=tmp_path) as second:
        second.run(SETUP)
        listed = second.value("dsh_nb.sessions.frame[['id', 'turns', 'status']].values.tolist()")
        again = second.run(
            f"agent = Agent.resume({name!r}, tools=[count], model=ScriptedModel(['Still here.']))\n"
            "reply = await agent('And now?')\n"
            "print(reply.turn, reply.text, agent.tool_calls['outcome'].tolist())"
        )
        result = second.value("agent.tool_calls['result'][0]")

    assert listed == f"[['{name}', 2, 'interrupted']]"
    assert again.error == ""
    assert again.stdout == "3 Still here. ['interrupted']\n"
    assert "unknown" in result
    assert (tmp_path / "calls.txt").read_text() == "a"
    assert [path.stem for path in (tmp_path / ".dsh" / "sessions").glob("*.jsonl")] == [name]


def test_two_kernels_do_not_write_one_session(tmp_path: Path) -> None:
    with kernel(folder=tmp_path) as first, kernel(folder=tmp_path) as second:
        for one in (first, second):
            one.run(SETUP)
        first.run("agent = Agent('main', model=ScriptedModel(['First.'])); await agent('Go')")
        name = first.value("agent.session.id").strip("'")
        cell = second.run(f"Agent.resume({name!r}, model=ScriptedModel(['Second.']))")

    assert cell.error.startswith("SessionTakenError")
    assert name in cell.error
