"""Run, watch, steer and understand an LLM agent in a Jupyter notebook.

    from dsh_nb import Agent

    agent = Agent("main", tools=[add])
    reply = await agent("What is 2 plus 3?")
    agent.events

The names load when they are first used, so that importing the package costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from dsh_nb.agent.agent_loop import AgentLoop
    from dsh_nb.core import Context, Service, ServiceKey
    from dsh_nb.errors import DshError
    from dsh_nb.llm.recorded import RecordedModel
    from dsh_nb.llm.scripted import ScriptedModel
    from dsh_nb.messages import ImageBlock, TextBlock
    from dsh_nb.notebook.agent import Agent
    from dsh_nb.notebook.diff import diff
    from dsh_nb.notebook.load import load, load_all
    from dsh_nb.notebook.record import Log
    from dsh_nb.notebook.saved import sessions
    from dsh_nb.notebook.turn import Reply, TurnHandle
    from dsh_nb.plugins.ask_user import ask_user
    from dsh_nb.session.session import Session
    from dsh_nb.tools.schema import tool
    from dsh_nb.tools.tool import Tool, ToolExecution

__all__ = [
    "Agent",
    "AgentLoop",
    "Context",
    "DshError",
    "ImageBlock",
    "Log",
    "RecordedModel",
    "Reply",
    "ScriptedModel",
    "Service",
    "ServiceKey",
    "Session",
    "TextBlock",
    "Tool",
    "ToolExecution",
    "TurnHandle",
    "ask_user",
    "diff",
    "load",
    "load_all",
    "sessions",
    "tool",
]

_HOMES = {
    "Agent": "notebook.agent",
    "AgentLoop": "agent.agent_loop",
    "Context": "core",
    "DshError": "errors",
    "ImageBlock": "messages",
    "Log": "notebook.record",
    "RecordedModel": "llm.recorded",
    "Reply": "notebook.turn",
    "ScriptedModel": "llm.scripted",
    "Service": "core",
    "ServiceKey": "core",
    "Session": "session.session",
    "TextBlock": "messages",
    "Tool": "tools.tool",
    "ToolExecution": "tools.tool",
    "TurnHandle": "notebook.turn",
    "ask_user": "plugins.ask_user",
    "diff": "notebook.diff",
    "load": "notebook.load",
    "load_all": "notebook.load",
    "sessions": "notebook.saved",
    "tool": "tools.schema",
}

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # Any: whatever the name stands for
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dsh_nb' has no attribute {name!r}")
    value = getattr(import_module(f"dsh_nb.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Give the notebook ``%%agent`` and ``%agent``: ``%load_ext dsh_nb``."""
    import_module("dsh_nb.notebook.magics").load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Take the magics away: ``%unload_ext dsh_nb``."""
    import_module("dsh_nb.notebook.magics").unload(ipython)
