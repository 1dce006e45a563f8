"""The magics in a real kernel: live in the cell, awaited, in the background, in other magics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.kernel.driver import Kernel, kernel

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

SETUP = """
import asyncio, sys
from dsh_nb import Agent, ScriptedModel
from dsh_nb.llm.scripted import pause, say

def make(*steps, **how):
    return Agent("main", model=ScriptedModel([*steps] or (lambda request: "An answer."), **how))

def prompts(agent):
    return [str(text) for text in agent.messages.query("role == 'user'").text]
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Kernel]:
    """One kernel with the extension."""
    with kernel() as one:
        assert one.run(SETUP).status == "ok"
        assert one.run("%load_ext dsh_nb").status == "ok"
        yield one


def test_cell_streams_live_and_its_reply_is_the_value(shared: Kernel) -> None:
    shared.run("agent = make([say('Some **words** here. ' * 20)], pace=1.0); n = 7")
    cell = shared.run('%%agent -o answer\n>>> {n} {"a": {"b": 1}} ä;  \n\n')

    assert cell.status == "ok", cell
    assert len(cell.displays) == 1
    assert cell.updates >= 3
    assert "Some <strong>words</strong>" in cell.html[0]
    assert shared.value("_ is answer, answer.ok, answer.turn, 'nest_asyncio2' in sys.modules") == (
        "(True, True, 1, False)"
    )
    assert shared.value("prompts(agent)") == repr(['>>> 7 {"a": {"b": 1}} ä;'])


def test_history_keeps_the_cell_as_it_was_written(shared: Kernel) -> None:
    shared.run("agent = make()")
    shared.run("%%agent\nIt's {1}\n  indented")

    shown = shared.run("%history -n -l 1")
    code = shared.run("print(In[-3])")

    assert shown.stdout.endswith("%%agent\nIt's {1}\n  indented\n")
    assert code.stdout == (
        "await get_ipython().find_cell_magic('agent').awaited('', (\n"
        '    "It\'s {1}\\n"\n'
        "    '  indented\\n'\n"
        "))\n"
    )


def test_failed_expression_is_one_clear_line_and_sends_nothing(shared: Kernel) -> None:
    shared.run("agent = make()")
    cell = shared.run("%%agent\n{n} {missing}")
    after = shared.run("%%agent -o reply\nStill here")

    assert cell.error == (
        "UsageError: {missing} in the prompt failed: NameError: name 'missing' is not defined;"
        " nothing was sent, write {{missing}} where the braces are text"
    )
    assert (cell.displays, after.status) == ({}, "ok")
    assert shared.value("prompts(agent)") == "['Still here']"


def test_error_of_the_agent_shows_the_prompt_and_not_our_frames(shared: Kernel) -> None:
    shared.run("agent = make(); await agent.dispose()")
    message_id = shared.start("%%agent agent\nThe first line\nthe second")
    trace = ""
    while "Traceback" not in trace:
        message = shared.client.get_iopub_msg(timeout=10)
        trace = "\n".join(message["content"].get("traceback", ()))
    shared.client.get_shell_msg(timeout=10)

    assert message["parent_header"]["msg_id"] == message_id
    assert "'The first line\\n'" in trace
    assert "DisposedError" in trace
    assert "magics.py" not in trace


def test_background_turn_is_steered_and_stopped_by_the_next_cells(shared: Kernel) -> None:
    shared.run("agent = make([say('a '), pause(30)])")
    started = shared.run("%%agent -b -o turn\nGo")
    shared.run("%agent steer use euros")
    pending = shared.value("[one['text'] for one in agent.waiting()['pending']]")
    stopped = shared.run("%agent stop")
    ended = shared.run("reply = await turn")

    assert started.seconds < 0.5
    assert len(started.displays) == 1
    assert pending == "['use euros']"
    assert (stopped.status, ended.status) == ("ok", "ok")
    assert shared.value("reply.stopped, reply.text") == "(True, 'a ')"


@pytest.mark.rule("L14")
def test_interrupt_stops_the_turn_and_queued_cells_still_run(shared: Kernel) -> None:
    shared.run("agent = make([say('Let me think. '), pause(30)])")
    message_id = shared.start("%%agent -o reply\nGo")
    queued = shared.start("print('still here')")
    time.sleep(0.7)
    began = time.monotonic()
    shared.interrupt()
    cell = shared.finish(message_id)
    took = time.monotonic() - began
    after = shared.finish(queued)

    assert took < 0.5
    assert (cell.status, after.stdout) == ("ok", "still here\n")
    assert "Let me think." in cell.shown[0]
    assert shared.value("reply.stopped, _ is reply") == "(True, True)"


def test_unload_and_load_leave_one_magic(shared: Kernel) -> None:
    shared.run("agent = make()")
    shared.run("%unload_ext dsh_nb")
    gone = shared.run("%%agent\nHi")
    shared.run("%load_ext dsh_nb")
    shared.run("%reload_ext dsh_nb")
    back = shared.run("%%agent\nHi")

    assert gone.error == "UsageError: Cell magic `%%agent` not found."
    assert back.status == "ok"
    assert shared.value("prompts(agent)") == "['Hi']"


def test_agent_that_is_missing_is_made_and_shown(shared: Kernel) -> None:
    shared.run("await agent.dispose(); del agent")
    cell = shared.run("%%agent -m demo\nHi")

    assert cell.status == "ok", cell
    assert shared.value("agent.id, agent.model, _.turn") == "('main', 'demo', 1)"


def test_cell_inside_other_magics_and_code_runs_nested(shared: Kernel) -> None:
    shared.run("agent = make()")
    timed = shared.run("%%time\n%%agent -o timed\nfirst")
    captured = shared.run("%%capture out\n%%agent\nsecond")
    coded = shared.run("reply = get_ipython().run_cell_magic('agent', '', 'third')")
    shared.run("%autoawait False")
    unawaited = shared.run("%%agent\nfourth")
    shared.run("%autoawait True")

    cells = (timed, captured, coded, unawaited)
    assert [(cell.status, len(cell.displays)) for cell in cells] == [
        *(("ok", 1), ("ok", 0), ("ok", 1), ("ok", 1)),
    ]
    assert "Wall time" in timed.stdout
    assert shared.value("prompts(agent)") == "['first', 'second', 'third', 'fourth']"
    assert shared.value("timed.turn, reply.turn") == "(1, 3)"
    assert shared.value("'An answer.' in str([one.data for one in out.outputs])") == "True"


def test_notebook_executed_by_nbclient_keeps_the_transcript(tmp_path: Path) -> None:
    cells = ["%load_ext dsh_nb\n" + SETUP + "agent = make()", "%%agent\nHello", "print(_.text)"]
    v4: Any = nbformat.v4  # it has no types
    notebook = v4.new_notebook(cells=[v4.new_code_cell(one) for one in cells])

    NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    (shown,) = notebook.cells[1].outputs
    assert "An answer." in shown.data["text/html"]
    assert notebook.cells[2].outputs[0].text == "An answer.\n"
