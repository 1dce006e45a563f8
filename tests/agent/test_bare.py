"""A scripted turn where there is little else: no thread, no socket, no SDK, no Jupyter, no pandas.

Such a place is Python in a browser page. The tool is async there, since a sync one needs a thread.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio
import socket
import sys
import threading

loop = asyncio.new_event_loop()  # on a desktop it has sockets of its own


def refuse(*args, **kwargs):
    raise OSError("there is none here")


threading.Thread.start = refuse
socket.socket.__init__ = refuse
for name in ("IPython", "aiohttp", "anthropic", "anywidget", "httpx", "ipykernel", "ipywidgets",
             "nh3", "numpy", "pandas", "zmq"):
    sys.modules[name] = None  # importing it raises

from dsh_nb import ScriptedModel, tool
from dsh_nb.llm.scripted import call, say
from dsh_nb.testing import running_agent


{tool}


async def main():
    model = ScriptedModel([call("add", a=2, b=3), say("It is 5")])
    async with running_agent(model, tools=[tool(add)]) as test:
        await test.say("What is 2 plus 3?")
        for event in test.log:
            if event.type in ("tool/result", "assistant/message"):
                print(event.data.content[0])


loop.run_until_complete(main())
"""

ASYNC = '''
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


def run(tool: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("{tool}", tool)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_scripted_turn_runs_without_threads_sockets_and_heavy_packages() -> None:
    done = run(ASYNC)

    assert (done.returncode, done.stderr) == (0, "")
    _call, result, answer = done.stdout.splitlines()
    assert ("'5'" in result, "'It is 5'" in answer) == (True, True)


def test_sync_tool_where_no_thread_can_start_is_a_result_that_says_so() -> None:
    done = run(ASYNC.replace("async ", ""))

    assert (done.returncode, done.stderr) == (0, "")
    _call, result, answer = done.stdout.splitlines()
    assert ("there is none here" in result, "'It is 5'" in answer) == (True, True)
