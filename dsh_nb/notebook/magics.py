"""The magics: ``%%agent``, whose cell is the prompt, and ``%agent``.

Reads: notebook.agent, notebook.commands, notebook.turn. Feeds: IPython.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from keyword import iskeyword
from types import SimpleNamespace
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from dsh_nb.agent.protocol import Said
from dsh_nb.notebook.agent import Agent
from dsh_nb.notebook.commands import COMMANDS, AgentLine, filled, find_agent, live_agents
from dsh_nb.notebook.turn import Reply, TurnHandle

__all__ = ["AgentCell", "AwaitAgentCells", "load", "unload"]

_FIRST_LINE = re.compile(r"%%agent(?:[ \t]+(.*))?\s*", re.DOTALL)
_WITH_AGENT = ("stop", "usage", "view")


class AgentCell:
    """Send the cell to an agent as its prompt, show the turn here, and wait for the reply.

    ::

        %%agent [-b] [-r] [-o name] [-m model] [agent]
        The prompt, in which {name} or {name.upper()!r:>9} is filled in as in an f-string.

    What stands in braces and does not begin with a name, or is no expression, is text, as in
    {"a": 1}; ``{{name}}`` is the text ``{name}``.

    The agent is one of that id, or the variable of that name; by default the newest, and where
    there is none `Agent("main")` is made, which is `agent` from then on.

    The reply is `_`, as that of ``await agent(prompt)`` would be.

    -b, --background   return at once; `_` is the handle of the turn, to be awaited
    -r, --raw          send the cell as it is: no braces are filled in
    -o, --out NAME     the variable for the reply, or for the handle
    -m, --model MODEL  of an agent that is made: `main`, or one of a new name
    """

    _ipython_magic_no_var_expand = True

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: str) -> Reply | TurnHandle:
        """Do it in code that cannot await: inside other magics, and with autoawait off."""
        __tracebackhide__ = True
        options, agent, prompt = self._read(line, cell)
        value = agent(prompt) if options.background else agent.run_sync(prompt)
        return self._kept(options, value)

    async def awaited(self, line: str, cell: str) -> Reply | TurnHandle:
        """Do it in a cell, as ``await agent(prompt)`` does."""
        __tracebackhide__ = True
        options, agent, prompt = self._read(line, cell)
        handle = agent(prompt)
        return self._kept(options, handle if options.background else await handle)

    def _read(self, line: str, cell: str) -> tuple[_Options, Agent, Said]:
        """What is asked for; an agent is made only when all else is well."""
        options = _options(line)
        agent = self._found(options)
        text = re.sub(r"\A(?:[^\S\n]*\n)+", "", cell).rstrip()
        if not text:
            raise UsageError("the prompt is blank; write it on the lines below %%agent")
        prompt = text if options.raw else filled(self._shell, text)
        return options, agent or self._made(options), prompt

    def _found(self, options: _Options) -> Agent | None:
        if options.agent and options.model and not self._is_known(options.agent):
            return None
        agent = find_agent(self._shell, options.agent)
        if agent is not None and options.model not in (None, agent.model):
            raise UsageError(
                f"agent {agent.id!r} runs on {agent.model!r}; leave -m out, or name a new agent:"
                f" %%agent -m {options.model} other"
            )
        return agent

    def _is_known(self, name: str) -> bool:
        ids = [agent.id for agent in live_agents()]
        return name in ids or isinstance(self._shell.user_ns.get(name), Agent)

    def _made(self, options: _Options) -> Agent:
        agent = Agent(options.agent or "main", model=options.model)
        if "agent" not in self._shell.user_ns:
            self._shell.user_ns["agent"] = agent
        return agent

    def _kept(self, options: _Options, value: Reply | TurnHandle) -> Reply | TurnHandle:
        if options.out:
            self._shell.user_ns[options.out] = value
        return value


class AwaitAgentCells:
    """Rewrites a ``%%agent`` cell so that it is awaited: a magic's function could not.

    Where a cell runs inside another (``%%time``, ``%%capture``, ``run_cell``), or with autoawait
    off, nothing can be awaited; it is left to be an ordinary magic there.
    """

    has_side_effects = True  # keeps it out of `check_complete`, which knows what a magic is

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """The lines of the cell, rewritten if they are for us."""
        begin = next((n for n, line in enumerate(lines) if line.strip()), 0)
        first = _FIRST_LINE.fullmatch(lines[begin]) if lines else None
        if first is None or not self._shell.autoawait or _inside_a_cell():
            return lines
        call = "await get_ipython().find_cell_magic('agent').awaited"
        said = [f"    {line!r}\n" for line in lines[begin + 1 :]] or ["    ''\n"]
        return [f"{call}({(first[1] or '').strip()!r}, (\n", *said, "))\n"]


def load(shell: InteractiveShell) -> None:
    """Give `shell` the magics; again when it has them already."""
    unload(shell)
    shell.magics_manager.register_function(AgentCell(shell), "cell", "agent")
    shell.magics_manager.register_function(AgentLine(shell), "line", "agent")
    # The first of all: what comes later takes prompts and indentation out of the text.
    shell.input_transformers_cleanup.insert(0, AwaitAgentCells(shell))
    for key in ("%agent", "%%agent"):
        # IPython has not typed it.
        shell.set_hook("complete_command", _completions, str_key=key)  # type: ignore[no-untyped-call]


def unload(shell: InteractiveShell) -> None:
    """Take the magics from `shell`; nothing happens where it has none."""
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("agent", None)
    transforms = shell.input_transformers_cleanup
    # By name: the class is another one after a reload.
    transforms[:] = [one for one in transforms if type(one).__name__ != AwaitAgentCells.__name__]
    for key in ("%agent", "%%agent"):
        shell.strdispatchers["complete_command"].strs.pop(key, None)


class _Options(argparse.Namespace):
    """The first line of a cell."""

    agent: str | None
    background: bool
    model: str | None
    out: str | None
    raw: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; %%agent? tells what it takes")


def _parser() -> _Parser:
    parser = _Parser(prog="%%agent", add_help=False, allow_abbrev=False)
    parser.add_argument("-b", "--background", action="store_true")
    parser.add_argument("-r", "--raw", action="store_true")
    parser.add_argument("-o", "--out")
    parser.add_argument("-m", "--model")
    parser.add_argument("agent", nargs="?")
    return parser


_PARSER = _parser()


def _options(line: str) -> _Options:
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quote that does not close
        raise UsageError(f"{line!r} cannot be read: {error}; the prompt goes below it") from error
    options, more = _PARSER.parse_known_args(words, namespace=_Options())
    if more:
        raise UsageError(f"{more[0]!r} is not for %%agent; the prompt goes on the lines below it")
    if options.out and (not options.out.isidentifier() or iskeyword(options.out)):
        raise UsageError(f"{options.out!r} cannot be a variable; pass -o a name")
    return options


def _inside_a_cell() -> bool:
    """Whether a cell runs below us on the stack: what is rewritten now is inside it."""
    frame = sys._getframe()
    running = InteractiveShell.run_code.__code__
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is running:
            return True
    return False


def _completions(shell: InteractiveShell, event: SimpleNamespace) -> list[str]:
    """What can be written after ``%agent`` and in the first line of ``%%agent``."""
    words = event.text_until_cursor.split(" ")
    ids = [agent.id for agent in live_agents()]
    before = words[-2] if len(words) > 1 else ""
    if words[0] == "%%agent":
        return ids
    if before in ("-a", *_WITH_AGENT):
        return ids
    is_command = before.endswith("%agent") or (len(words) > 2 and words[-3] == "-a")
    return [*COMMANDS] if is_command else []
