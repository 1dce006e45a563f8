"""Running a session of the notebook again: exactly, or with something else tried.

Reads: agent, plugins.rerun, session, notebook.record. Feeds: notebook.agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Literal, Protocol

from dsh_nb.agent.registry import AGENTS
from dsh_nb.core import Context
from dsh_nb.errors import AgentError
from dsh_nb.llm.protocol import Adapter
from dsh_nb.notebook.record import Log
from dsh_nb.plugins.rerun import Driven, repeat, rerun
from dsh_nb.session.session import Session
from dsh_nb.tools.tool import Tool

__all__ = ["Made", "rerun_session"]

ToolLike = Tool | Callable[..., Any]  # Any: a tool may return whatever it likes


class Made(Protocol):
    """An agent that was made for the rerun.

    Attributes:
        id: Its name.
        ctx: The context that it lives on.
    """

    id: str
    ctx: Context

    def dispose(self) -> Awaitable[None]:
        """End it; its log stays readable."""
        ...


async def rerun_session(
    log: Session,
    make: Callable[..., Made],
    *,
    tools: Literal["live", "recorded"] | Iterable[ToolLike] = "live",
    model: str | Adapter | None = None,
    system_prompt: str | None = None,
    made_again: Collection[str] = ("harness",),
) -> Log:
    """Run a session again on an agent of its own, which is gone afterwards.

    With another model, prompt or other tools it is an experiment: what comes is not held against
    the recording, and a model that costs money is asked. Otherwise nothing is asked of a model,
    and the first difference is an error; see `dsh_nb.plugins.rerun.rerun`.

    Args:
        log: The session.
        make: Makes an agent like that of the session; it takes those of the arguments ``tools``,
            ``model`` and ``system_prompt`` of an agent that are to be other ones.
        tools: ``"live"`` to run the tools of the agent, ``"recorded"`` to answer calls from the
            log; or other tools, for an experiment.
        model: Another model, for an experiment.
        system_prompt: Another prompt, for an experiment.
        made_again: Kinds of source whose context comes by itself, from plugins that run again.

    Returns:
        The new session, with its tables, timeline and transcript.

    Raises:
        DriftError: It comes to something else than it did, and is no experiment.
        ValueError: `tools` is a word that says nothing.
    """
    other: dict[str, Any] = {}  # Any: the arguments of an agent
    if model is not None:
        other["model"] = model
    if system_prompt is not None:
        other["system_prompt"] = system_prompt
    how: Literal["live", "recorded"] = "live"
    if not isinstance(tools, str):
        other["tools"] = [*tools]
    elif tools in ("live", "recorded"):
        how = tools
    else:
        raise ValueError(f"tools is {tools!r}; pass 'live', 'recorded' or a list of tools")
    made = make(**other)
    try:
        agent = _driven(made)
        if not other:
            session = await rerun(log, agent, tools=how, made_again=made_again)
        else:
            session = await repeat(log, agent, tools=how, made_again=made_again)
    finally:
        await made.dispose()
    return Log(session)


def _driven(made: Made) -> Driven:
    agent = made.ctx.get(AGENTS).get(made.id)
    if not isinstance(agent, Driven):
        raise AgentError(
            f"agent {made.id!r} cannot be driven; it needs finished() and continue_turn()"
        )
    return agent
