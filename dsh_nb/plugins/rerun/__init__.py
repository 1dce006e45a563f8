"""Rerun: the inputs of a recorded session again, to see whether it comes to the same.

Reads: session, plugins.rerun. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from dsh_nb.errors import AgentError, DriftError
from dsh_nb.messages import JsonObject
from dsh_nb.plugins.rerun.driven import Driven
from dsh_nb.plugins.rerun.exact import ExactRerun
from dsh_nb.plugins.rerun.experiment import Experiment, inputs_of
from dsh_nb.plugins.rerun.recorded_tools import recorded_tools
from dsh_nb.plugins.rerun.recording import Recording
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.session import Session

__all__ = ["DriftError", "Driven", "recorded_tools", "repeat", "rerun"]


async def rerun(
    log: Sequence[SessionEvent],
    agent: Driven,
    *,
    tools: Literal["live", "recorded"] = "live",
    pinned: bool = False,
    made_again: Collection[str] = ("harness",),
) -> Session:
    """Run `log` again with the model's answers from it, and fail at the first difference.

    The messages, steering, context and stops of the recording come at the same places, and each
    event is held against the recorded one. Time, ids of messages, what people saw of results and
    the events of plugins may differ. Model and options are the recording's, and tools that a
    request did not offer are kept from it. Nothing is asked of a model, but live tools do what
    they do, and ask for approval again.

    Not everything can come again: a turn that failed because a listener did, or a disk, differs
    unless that fails again. A turn that ended with its agent counts as stopped.

    Args:
        log: A session, or its events; a turn that is open at the end counts as stopped there.
        agent: A new agent; its session becomes the rerun.
        tools: ``"recorded"`` to answer calls from the log instead of running them.
        pinned: True to take prompt, tool schemas and what listeners decided from the log, for a
            log whose agent is not at hand; only the loop itself runs again then.
        made_again: Kinds of source whose context comes by itself, from plugins that run again.

    Returns:
        The new session. Its header says that what it reports as billed was billed before.

    Raises:
        DriftError: The first difference; the agent's session then ends with it.
        AgentError: The agent is not new. Nothing was run.
    """
    _check_new(agent)
    lineage: JsonObject = {"parent": getattr(log, "id", None), "kind": "rerun"}
    agent.session.header.update(lineage, inherited=len(log))
    recording = Recording(log, live=tools == "live")
    await ExactRerun(recording, agent, tools, pinned, made_again).run()
    return agent.session


async def repeat(
    log: Sequence[SessionEvent],
    agent: Driven,
    *,
    tools: Literal["live", "recorded"] = "live",
    made_again: Collection[str] = ("harness",),
) -> Session:
    """Give `agent` the inputs of `log`, to compare what becomes of them: an experiment.

    What came while a turn ran comes when its step of the same number has answered, or before the
    turn ends, where it ends earlier; after a failure it joins the next turn. Where somebody
    stopped a turn it now runs to its end.

    Args:
        log: A session, or its events.
        agent: A new agent, with the model, prompt and tools that are tried; its session becomes
            the result.
        tools: ``"recorded"`` to answer calls that were made before from the log; others fail.
        made_again: Kinds of source whose context comes by itself, from plugins that run again.

    Returns:
        The new session.

    Raises:
        AgentError: The agent is not new. Nothing was run.
    """
    _check_new(agent)
    agent.session.header.update(parent=getattr(log, "id", None), kind="experiment")
    answers = recorded_tools(agent.ctx, log, agent=agent.id) if tools == "recorded" else None
    try:
        await Experiment(inputs_of(log, made_again), agent).run()
    finally:
        if answers is not None:
            answers()
    return agent.session


def _check_new(agent: Driven) -> None:
    if len(agent.session) or agent.busy:
        raise AgentError(f"agent {agent.id!r} has a session already; pass a new one to run it in")
