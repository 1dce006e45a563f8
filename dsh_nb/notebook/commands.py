"""What ``%agent`` does: one line that stops, steers or asks the agents that live.

Reads: session.events, notebook.agent, notebook.interpolation. Feeds: notebook.magics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from dsh_nb.errors import AgentError
from dsh_nb.notebook.agent import Agent, _live
from dsh_nb.notebook.interpolation import interpolate
from dsh_nb.session.events import UserContent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMMANDS", "AgentLine", "filled", "find_agent", "live_agents"]

COMMANDS = {
    "stop": "stop [agent]      stop the running turn",
    "steer": "steer text        say something to the running turn; {expression} is filled in",
    "approve": "approve [id]      let the tool call that waits run",
    "deny": "deny [reason]     keep the tool call that waits from running",
    "usage": "usage [agent]     tokens and cost so far, per session and model",
    "sessions": "sessions          the saved sessions",
    "view": "view [agent]      the whole session as a live panel",
    "help": "help              this list",
}
"""What can follow ``%agent``, each with its line in the help."""

_HELP = """\
%agent                   the agent itself: agent = %agent
{}
%agent -a name …         of the agent of that name, else of the one it fits, the newest first
%%agent [name]           the cell is the prompt; %%agent? tells more
"""


class AgentLine:
    """Stop, steer or ask an agent: ``%agent stop``, ``%agent steer use euros``, ``%agent usage``.

    ``%agent`` alone is the newest agent, ``%agent -a name …`` one of that id or variable, and
    ``%agent help`` lists what there is.
    """

    _ipython_magic_no_var_expand = True

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._commands: dict[str, Callable[[str | None, str], object]] = {
            "": lambda name, rest: self._agent(name),
            "stop": self._stop,
            "steer": self._steer,
            "approve": self._approve,
            "deny": self._deny,
            "usage": self._usage,
            "sessions": lambda name, rest: import_module("dsh_nb").sessions,
            "view": lambda name, rest: self._agent(name or rest).view(),
            "help": lambda name, rest: _say(help_text()),
        }

    def __call__(self, line: str) -> object:
        """What the command comes to."""
        asked = _asked(line)
        command = self._commands.get(asked.command)
        if command is None:
            raise UsageError(f"%agent has no {asked.command!r}; it has {', '.join(COMMANDS)}")
        return command(asked.name, asked.rest)

    def _stop(self, name: str | None, rest: str) -> None:
        agent = self._agent(name or rest, _runs)
        if _runs(agent):
            agent.stop()
        else:
            _say(f"agent {agent.id!r} is idle: there is nothing to stop\n")

    def _steer(self, name: str | None, rest: str) -> object:
        if not rest:
            raise UsageError("there is nothing to say; write %agent steer and what to say")
        agent = self._agent(name, _runs)
        said = filled(self._shell, rest)
        if not _runs(agent):
            return agent(said)  # what it begins is shown here, like any other turn
        agent.steer(said)
        return None

    def _approve(self, name: str | None, rest: str) -> None:
        agent = self._agent(name, _asks)
        self._decided(lambda: agent.approve(rest or None))

    def _deny(self, name: str | None, rest: str) -> None:
        agent = self._agent(name, _asks)
        self._decided(lambda: agent.deny(rest))

    def _decided(self, decide: Callable[[], bool]) -> None:
        try:
            waited = decide()
        except ValueError as error:  # several wait
            raise UsageError(f"{error}: %agent approve id, or agent.deny(reason, id=…)") from error
        if not waited:
            raise UsageError("no tool call waits for a decision")

    def _usage(self, name: str | None, rest: str) -> pd.DataFrame:
        named = name or rest
        return _summed([self._agent(named)] if named else live_agents())

    def _agent(self, name: str | None, fits: Callable[[Agent], bool] | None = None) -> Agent:
        """The agent of that name, or the newest that fits, or the newest."""
        agent = find_agent(self._shell, name)
        if agent is None:
            raise UsageError("there is no agent yet; make one with Agent('main') or %%agent")
        if name or fits is None:
            return agent
        return next(filter(fits, reversed(live_agents())), agent)


class _Asked(NamedTuple):
    """A line, taken apart."""

    name: str | None
    command: str
    rest: str


def _asked(line: str) -> _Asked:
    first, _, rest = line.strip().partition(" ")
    if first != "-a":
        return _Asked(None, first, rest.strip())
    name, _, rest = rest.strip().partition(" ")
    if not name:
        raise UsageError("-a names no agent; write %agent -a main stop")
    command, _, rest = rest.strip().partition(" ")
    return _Asked(name, command, rest.strip())


def help_text() -> str:
    """The list of commands."""
    return _HELP.format("\n".join(f"%agent {line}" for line in COMMANDS.values()))


def live_agents() -> list[Agent]:
    """The agents that were not disposed, the newest last."""
    return [agent for agent in _live.values() if agent.status != "disposed"]


def find_agent(shell: InteractiveShell, name: str | None) -> Agent | None:
    """The live agent of that id, or the variable of that name; without a name the newest.

    Returns:
        None when no name is given and no agent lives.

    Raises:
        UsageError: There is no such agent.
    """
    agents = {agent.id: agent for agent in live_agents()}
    if not name:
        return next(reversed(agents.values()), None)
    found = agents.get(name, shell.user_ns.get(name))
    if not isinstance(found, Agent):
        there = f"there are {', '.join(map(repr, agents))}" if agents else "there is none"
        raise UsageError(f"no agent has the id or the variable {name!r}; {there}")
    return found


def filled(shell: InteractiveShell, text: str) -> str | list[UserContent]:
    """`text` with its fields filled in from the user's variables.

    Raises:
        UsageError: An expression failed.
    """
    try:
        return interpolate(text, shell.ev)
    except AgentError as error:  # one line tells it; the frames would be ours
        raise UsageError(str(error)) from error


def _runs(agent: Agent) -> bool:
    return agent.status == "running"


def _asks(agent: Agent) -> bool:
    return bool(agent.pending)


def _summed(agents: list[Agent]) -> pd.DataFrame:
    """A row per session and model; the cost is unknown where that of a message is."""
    import pandas as pd

    if not agents:
        raise UsageError("there is no agent yet; make one with Agent('main') or %%agent")
    usage = pd.concat([agent.usage for agent in agents], ignore_index=True)
    counted = [name for name in usage.columns if name.endswith("_tokens")]
    rows = usage.groupby(["session", "model"], sort=False, dropna=False)
    summed = rows[counted].sum()
    summed.insert(0, "messages", rows.size())
    summed["cost"] = rows["cost"].sum(skipna=False)
    return summed.reset_index()


def _say(text: str) -> None:
    sys.stdout.write(text)
