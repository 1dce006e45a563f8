"""The live agents of a context, by id.

Reads: core, agent.protocol. Feeds: agent.loop_agent, plugins, notebook.
"""

from __future__ import annotations

from dsh_nb.agent.protocol import AGENT_CREATED, AGENT_DISPOSED, Agent
from dsh_nb.core import Context, Disposer, Service, ServiceKey
from dsh_nb.errors import AgentTakenError

__all__ = ["AGENTS", "AgentRegistry"]


class AgentRegistry(Service):
    """Holds whatever behaves as an `Agent`; it need not be the loop's own."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx)
        self._agents: dict[str, Agent] = {}

    def register(self, agent: Agent, *, ctx: Context | None = None) -> Disposer:
        """Make `agent` known.

        Args:
            agent: The agent.
            ctx: Whose fiber owns the registration; the registry's own by default.

        Returns:
            What makes it unknown again.

        Raises:
            AgentTakenError: A live agent has that id. Nothing was registered.
        """
        self.ctx.check_thread("agents.register")
        self.check_free(agent.id)
        undo = (ctx or self.ctx).fiber.effect(
            lambda: self.unregister(agent), f"registration of agent {agent.id}"
        )
        self._agents[agent.id] = agent
        self.ctx.emit(AGENT_CREATED, agent)
        return undo

    def check_free(self, id: str) -> None:
        """Raise `AgentTakenError` when a live agent has that id."""
        if id in self._agents:
            raise AgentTakenError(
                f"an agent {id!r} is live already; dispose it first, or choose another id"
            )

    def unregister(self, agent: Agent) -> None:
        """Forget `agent`; twice is harmless."""
        if self._agents.get(agent.id) is agent:
            del self._agents[agent.id]
            self.ctx.emit(AGENT_DISPOSED, agent)

    def get(self, id: str) -> Agent | None:
        """The live agent of that id."""
        return self._agents.get(id)

    def list(self) -> list[Agent]:
        """The live agents, oldest first."""
        return [*self._agents.values()]


AGENTS: ServiceKey[AgentRegistry] = ServiceKey("agents")
AgentRegistry.provides = AGENTS
