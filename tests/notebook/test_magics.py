"""The magics in a shell without a kernel, as in a terminal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import dsh_nb
from dsh_nb import Agent, ScriptedModel
from dsh_nb.agent.protocol import AGENT_STREAM_CHUNK
from dsh_nb.llm.scripted import call, pause, say
from dsh_nb.notebook.agent import _live
from dsh_nb.notebook.commands import COMMANDS
from dsh_nb.notebook.magics import AgentCell, load, unload
from dsh_nb.notebook.turn import Reply, TurnHandle
from dsh_nb.plugins.permission import PERMISSION_ASKED
from dsh_nb.tools.schema import tool

Shell = Any  # IPython has not typed what is called here


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A shell with the magics and without agents, and nothing of it left in this program."""
    others = dict(_live)
    _live.clear()
    before = sys.displayhook, sys.excepthook
    config = Config()
    config.HistoryManager.enabled = False
    one = InteractiveShell(config=config)  # type: ignore[no-untyped-call]  # IPython's
    load(one)
    yield one
    unload(one)
    InteractiveShell.clear_instance()
    _live.update(others)
    sys.displayhook, sys.excepthook = before


def model(*steps: Any) -> ScriptedModel:
    return ScriptedModel([*steps]) if steps else ScriptedModel(lambda request: say("An answer."))


def cell(shell: Shell) -> AgentCell:
    magic = shell.find_cell_magic("agent")
    assert isinstance(magic, AgentCell)
    return magic


def line(shell: Shell, text: str) -> Any:
    return shell.run_line_magic("agent", text)


def said(agent: Agent) -> list[str]:
    return [str(text) for text in agent.messages.query("role == 'user'").text]


def test_cell_is_rewritten_to_be_awaited_with_its_text_untouched(shell: Shell) -> None:
    body = '>>> it\'s {n}\n\n    "\u00fc" \\ %time ls?\n\u2028!ls\n'

    code = shell.transform_cell(f"\n%%agent -b critic\n{body}")

    head, _, rest = code.partition("\n")
    assert head == "await get_ipython().find_cell_magic('agent').awaited('-b critic', ("
    assert eval(f"({rest.removesuffix(chr(10)).removesuffix(')')}") == body


@pytest.mark.parametrize("source", ["%%agents\nx", "x = 1\n%%agent\ny", "%%agent?", "%agent stop"])
def test_other_cells_are_left_alone(shell: Shell, source: str) -> None:
    with_magics = shell.transform_cell(source)
    unload(shell)

    assert shell.transform_cell(source) == with_magics


def test_cell_is_an_ordinary_magic_with_autoawait_off(shell: Shell) -> None:
    shell.autoawait = False

    assert shell.transform_cell("%%agent\nHi") == (
        "get_ipython().run_cell_magic('agent', '', 'Hi\\n')\n"
    )


def test_unfinished_cell_goes_on_in_a_terminal(shell: Shell) -> None:
    assert shell.check_complete("%%agent\nHi")[0] == "incomplete"
    assert shell.check_complete("%%agent\nHi\n\n")[0] == "complete"


async def test_cell_is_the_prompt_with_its_fields_filled_in(shell: Shell) -> None:
    agent = Agent("main", model=model())
    shell.user_ns["n"] = 7

    reply = await cell(shell).awaited("-o answer", '\n \n  {n} {{n}} {"a": 1} ä  \n\n')
    await cell(shell).awaited("--raw", "{n} {{n}} {missing}\n")

    assert isinstance(reply, Reply)
    assert (reply.text, shell.user_ns["answer"]) == ("An answer.", reply)
    assert said(agent) == ['  7 {n} {"a": 1} ä', "{n} {{n}} {missing}"]
    await agent.dispose()


async def test_cell_goes_to_the_newest_agent_or_the_one_it_names(shell: Shell) -> None:
    first, second = Agent("first", model=model()), Agent("second", model=model())
    shell.user_ns["mine"] = first
    third = Agent("third", model=model())
    await third.dispose()

    for options, prompt in (("", "a"), ("first", "b"), ("mine", "c")):
        await cell(shell).awaited(options, prompt)
    handle = await cell(shell).awaited("-b second -o later", "d")
    assert isinstance(handle, TurnHandle)
    started = handle.done
    await shell.user_ns["later"]

    assert (started, said(first), said(second)) == (False, ["b", "c"], ["a", "d"])
    await first.dispose()
    await second.dispose()


async def test_cell_makes_the_agent_that_is_missing(shell: Shell) -> None:
    await cell(shell).awaited("-m demo", "Hi")
    made = shell.user_ns["agent"]
    await cell(shell).awaited("--model demo other", "Hi")
    other = line(shell, "-a other")

    assert [(one.id, one.model, one.session.turn) for one in (made, other)] == [
        ("main", "demo", 1),
        ("other", "demo", 1),
    ]
    assert shell.user_ns["agent"] is made
    await made.dispose()
    await other.dispose()


@pytest.mark.parametrize(
    ("options", "text", "error"),
    [
        ("", " \n\n", "the prompt is blank; write it on the lines below %%agent"),
        ("nobody", "Hi", "no agent has the id or the variable 'nobody'; there are 'main'"),
        ("what is it", "Hi", "'is' is not for %%agent; the prompt goes on the lines below it"),
        ("don't", "Hi", "cannot be read: No closing quotation; the prompt goes below it"),
        ("-o 5", "Hi", "'5' cannot be a variable; pass -o a name"),
        ("-o", "Hi", "argument -o/--out: expected one argument; %%agent\\? tells"),
        ("-m demo", "Hi", "agent 'main' runs on 'scripted'; leave -m out, or name a new agent"),
        ("", "Hi {1} {missing}", "^{missing} in the prompt failed: NameError: name 'missing' is"),
    ],
)
async def test_cell_that_makes_no_sense_sends_nothing(
    shell: Shell, options: str, text: str, error: str
) -> None:
    agent = Agent("main", model=model())

    with pytest.raises(UsageError, match=error):
        await cell(shell).awaited(options, text)

    assert len(agent.session) == 0
    await agent.dispose()


async def test_failed_expression_makes_no_agent(shell: Shell) -> None:
    with pytest.raises(UsageError, match="NameError"):
        await cell(shell).awaited("", "{missing}")

    with pytest.raises(UsageError, match="there is no agent yet; make one with Agent"):
        line(shell, "")


async def test_line_steers_and_stops_the_agent_that_runs(shell: Shell) -> None:
    runs = Agent("runs", model=model([say("a "), pause(60)], say("b")))
    newest = Agent("newest", model=model())
    shell.user_ns["currency"] = "euros"
    begun = asyncio.Event()
    runs.ctx.on(AGENT_STREAM_CHUNK, lambda *about: begun.set())
    turn = runs("Go")
    await begun.wait()

    steered = line(shell, "steer use {currency}")
    pending = runs.waiting()["pending"]
    line(shell, "stop")
    reply = await turn

    assert (steered, reply.stopped, newest.status) == (None, True, "idle")
    assert [one["text"] for one in pending] == ["use euros"]
    await runs.dispose()
    await newest.dispose()


async def test_line_that_steers_an_idle_agent_starts_a_turn(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent("main", model=model())

    line(shell, "stop")
    reply = await line(shell, "-a main steer Hello there")

    assert (reply.text, said(agent)) == ("An answer.", ["Hello there"])
    assert capsys.readouterr().out == "agent 'main' is idle: there is nothing to stop\n"
    await agent.dispose()


async def test_line_approves_and_denies_what_waits(shell: Shell) -> None:
    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        return f"wiped {disk}"

    steps = [call("wipe", disk="a")], [call("wipe", disk="b")], say("done")
    asks = tool(wipe, approve=True)
    agent = Agent("main", model=model(*steps), tools=[asks], attended=True)
    newest = Agent("newest", model=model())
    answers = iter(("approve", "deny not that one"))
    soon = asyncio.get_running_loop().call_soon
    agent.ctx.on(PERMISSION_ASKED, lambda ask: soon(line, shell, next(answers)))

    await agent("Go")

    calls = agent.tool_calls
    assert list(calls.outcome) == ["ok", "denied"]
    assert "not that one" in calls.result.iloc[1]
    with pytest.raises(UsageError, match="no tool call waits for a decision"):
        line(shell, "approve")
    await agent.dispose()
    await newest.dispose()


async def test_usage_is_a_row_for_each_session_and_model(shell: Shell) -> None:
    first, second = Agent("first", model=model()), Agent("second", model=model())
    for agent in (first, first, second):
        await agent("Hi")

    both, one = line(shell, "usage"), line(shell, "usage first")

    assert list(both.columns) == [
        *("session", "model", "messages", "input_tokens", "output_tokens"),
        *("cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost"),
    ]
    assert list(both.session) == [first.session.id, second.session.id]
    assert list(both.messages) == [2, 1]
    assert list(both.output_tokens) == [
        int(first.usage.output_tokens.sum()),
        int(second.usage.output_tokens.sum()),
    ]
    assert both.cost.isna().all()
    assert one.equals(both.iloc[:1])
    await first.dispose()
    await second.dispose()


def test_unknown_command_tells_which_there_are(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=f"%agent has no 'halt'; it has {', '.join(COMMANDS)}$"):
        line(shell, "halt")
    with pytest.raises(UsageError, match="write %agent steer and what to say"):
        line(shell, "steer  ")
    with pytest.raises(UsageError, match="-a names no agent"):
        line(shell, "-a")
    line(shell, "help")

    assert all(f"%agent {text}\n" in capsys.readouterr().out for text in [COMMANDS["stop"]])


async def test_tab_completes_commands_and_agents(shell: Shell) -> None:
    agent = Agent("critic", model=model())

    def found(text: str) -> list[str]:
        event = SimpleNamespace(
            line=text, text_until_cursor=text, symbol=text.split(" ")[-1], command=text.split()[0]
        )
        hooks = shell.strdispatchers["complete_command"].flat_matches(event.command)
        return [name for hook in hooks for name in hook(event) if name.startswith(event.symbol)]

    assert found("%agent st") == ["stop", "steer"]
    assert found("%agent stop c") == ["critic"]
    assert found("%agent -a c") == ["critic"]
    assert found("%agent -a critic us") == ["usage"]
    assert found("%agent steer use ") == []
    assert found("%%agent -b c") == ["critic"]
    await agent.dispose()


def test_extension_loads_twice_and_leaves_nothing(shell: Shell) -> None:
    transforms = shell.input_transformers_cleanup
    with_magics = len(transforms)

    dsh_nb.load_ipython_extension(shell)
    again = len(transforms)
    dsh_nb.unload_ipython_extension(shell)
    dsh_nb.unload_ipython_extension(shell)

    assert (again, len(transforms)) == (with_magics, with_magics - 1)
    assert shell.find_cell_magic("agent") is None
    assert shell.find_line_magic("agent") is None
    assert not [*shell.strdispatchers["complete_command"].s_matches("%agent")]


def test_cells_run_in_terminal_ipython(tmp_path: Path) -> None:
    cells = [
        "%load_ext dsh_nb",
        "from dsh_nb import Agent, ScriptedModel\n"
        "agent = Agent('main', model=ScriptedModel(lambda request: 'An answer.'))",
        "%%agent -o first\nHello\n>>> you",
        "%%agent -b -o handle\nsecond",
        "second = await handle",
        "%%time\n%%agent -o third\nthird",
        "%reload_ext dsh_nb",
        "%%agent\nfourth",
        "print([one.turn for one in (first, second, third)], agent.session.turn)",
        "print(repr(agent.messages.text.iloc[0]))",
    ]
    v4: Any = nbformat.v4  # it has no types
    notebook = v4.new_notebook(cells=[v4.new_code_cell(one) for one in cells])
    (tmp_path / "cells.ipynb").write_text(v4.writes_json(notebook))

    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "cells.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={"IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": ""},
    )

    assert done.stderr == ""
    assert done.stdout.splitlines()[-2:] == ["[1, 2, 3] 4", "'Hello\\n>>> you'"]
