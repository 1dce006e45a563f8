"""The request of a step: assembled from the prompt and the history, and logged where it is new.

Reads: core, session, llm.protocol, agent.prompt, agent.protocol. Feeds: agent.loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dsh_nb.agent.protocol import AGENT_REQUEST
from dsh_nb.errors import LlmError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.session.events import RequestHeader, RequestMessages

if TYPE_CHECKING:
    from dsh_nb.agent.loop import Turn

__all__ = ["step_request"]


async def step_request(turn: Turn) -> ModelRequest:
    """The request of the turn's open step, through ``agent/request``.

    The log gets the header when it changed, and the messages when a listener rewrote them: what
    reaches the model can be rebuilt from it.

    Raises:
        LlmError: The request has no model (``NO_MODEL``).
    """
    agent, session = turn.agent, turn.session
    prompt = await agent.prompt.assemble(agent.id)
    assembled = ModelRequest(
        model=agent.model or "",
        messages=session.messages,
        system=prompt.system or None,
        tools=prompt.tools,
        options=agent.options,
    )
    request = await turn.ctx.waterfall(
        AGENT_REQUEST, lambda agent, request: request, agent, assembled
    )
    if not request.model:
        raise LlmError(
            f"agent {agent.id!r} has no model; give it one when it is created (model=…), or "
            "supply it from a listener of 'agent/request'",
            code="NO_MODEL",
        )
    rewritten = request.messages is not assembled.messages
    _log_header(turn, request)
    if not rewritten:  # what was injected during the assembly belongs to this request
        request = msgspec.structs.replace(request, messages=session.messages)
    if rewritten:
        messages = tuple(request.messages)
        turn.log("request/messages", RequestMessages(turn.number, turn.step, messages))
    return request


def _log_header(turn: Turn, request: ModelRequest) -> None:
    header = (request.model, request.system, request.tools, request.options)
    if header == turn.agent.header:
        return
    turn.log("request/header", RequestHeader(turn.number, turn.step, *header))
    turn.agent.header = header
