"""The agent loop as a service, and the harness composed around it.

Reads: core, session.store, llm.service, tools.registry, agent. Feeds: notebook, testing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from dsh_nb.agent.loop_agent import LoopAgent
from dsh_nb.agent.prompt import SYSTEM_PROMPT, SystemPrompt
from dsh_nb.agent.registry import AGENTS, AgentRegistry
from dsh_nb.core import Context, Plugin, Service, ServiceKey
from dsh_nb.llm.service import LLM, LlmService
from dsh_nb.messages import JsonObject
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.store import SESSIONS, SessionStore
from dsh_nb.tools.registry import TOOLS, ToolRegistry

__all__ = ["AGENT_LOOP", "AgentConfig", "AgentLoop", "AgentOptions", "Harness"]


class AgentOptions(BaseModel):
    """What an agent can be told.

    Attributes:
        model: Name of its model; None lets a listener of ``agent/request`` supply one.
        system_prompt: A section of the system prompt for this agent alone.
        options: Sampling and provider options by their wire names, for example ``max_tokens``.
    """

    model_config = ConfigDict(extra="forbid")
    model: str | None = None
    system_prompt: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)  # Any: JSON, as the provider defines it


class AgentConfig(AgentOptions):
    """An agent that is created when the plugin starts."""

    id: str


@dataclass(frozen=True, slots=True)
class Harness:
    """The services that an agent runs on."""

    ctx: Context
    llm: LlmService
    sessions: SessionStore
    prompt: SystemPrompt
    tools: ToolRegistry
    agents: AgentRegistry


class AgentLoop(Service):
    """Creates agents that run the loop.

    On a context that lacks one of the services it needs, mounting it mounts the default one too,
    so that ``await ctx.plugin(AgentLoop)`` composes a whole harness.
    """

    class Config(BaseModel):
        """What the plugin can be told.

        Attributes:
            agents: Agents to create at the start; each lives until this plugin goes.
        """

        model_config = ConfigDict(extra="forbid")
        agents: list[AgentConfig] = Field(default_factory=list)

    inject = (LLM, SESSIONS, SYSTEM_PROMPT, TOOLS, AGENTS)
    defaults: ClassVar[dict[ServiceKey[Any], Plugin]] = {
        LLM: LlmService,
        SESSIONS: SessionStore,
        SYSTEM_PROMPT: SystemPrompt,
        TOOLS: ToolRegistry,
        AGENTS: AgentRegistry,
    }

    def __init__(self, ctx: Context, config: AgentLoop.Config | None = None) -> None:
        super().__init__(ctx)
        for agent in config.agents if config else ():
            self.create(agent.id, AgentOptions(**agent.model_dump(exclude={"id"})))

    def create(
        self,
        id: str,
        options: AgentOptions | None = None,
        *,
        session_id: str | None = None,
        seed: Iterable[SessionEvent] = (),
        header: JsonObject | None = None,
    ) -> LoopAgent:
        """A new live agent.

        Args:
            id: Its name.
            options: What it is told.
            session_id: Id of its session; the agent's own by default.
            seed: Events that its session begins with.
            header: Metadata of its session, for example whose fork it is.

        Raises:
            AgentTakenError: A live agent has that id. Nothing was created.
            SessionTakenError: A live session has that id. Nothing was created.
        """
        ctx, given = self.ctx, options or AgentOptions()
        agents = ctx.get(AGENTS)
        agents.check_free(id)
        sessions, prompt = ctx.get(SESSIONS), ctx.get(SYSTEM_PROMPT)
        session = sessions.create(session_id or id, seed, header=header, ctx=ctx)
        harness = Harness(ctx, ctx.get(LLM), sessions, prompt, ctx.get(TOOLS), agents)
        agent = LoopAgent(id, session, harness, given)
        if given.system_prompt:
            text = given.system_prompt
            agent.own(prompt.add(lambda who: text if who == id else None, order=-100, ctx=ctx))
        agent.own(ctx.fiber.effect(agent.dispose, f"agent {id}"))
        agent.own(agents.register(agent, ctx=ctx))
        return agent


AGENT_LOOP: ServiceKey[AgentLoop] = ServiceKey("agent_loop")
AgentLoop.provides = AGENT_LOOP
