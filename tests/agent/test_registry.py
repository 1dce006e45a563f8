"""The registry of agents: whatever behaves as one, by id."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

import pytest

from dsh_nb.agent.protocol import AGENT_CREATED, AGENT_DISPOSED, Agent, Said, Status
from dsh_nb.agent.registry import AGENTS, AgentRegistry
from dsh_nb.core import Context
from dsh_nb.core.fiber import FINISHED
from dsh_nb.errors import AgentTakenError, DisposedError
from dsh_nb.llm.scripted import ScriptedModel
from dsh_nb.messages import Source
from dsh_nb.session.session import Session
from dsh_nb.testing import running_agent


class Echo:
    """An agent that is not the loop's: it logs what it is told and answers nothing."""

    def __init__(self, ctx: Context, id: str = "echo") -> None:
        self.ctx = ctx
        self.id = id
        self.session = Session(id)
        self.status: Status = "idle"

    def send(self, said: Said, source: Source | None = None) -> str:
        return "m1"

    def steer(self, said: Said, source: Source | None = None) -> str:
        return self.send(said, source)

    def inject(self, said: Said, source: Source | None = None) -> None: ...

    def abort(self, reason: str | None = None) -> None: ...

    def dispose(self) -> Awaitable[None]:
        return FINISHED


@pytest.fixture
async def agents() -> AsyncIterator[AgentRegistry]:
    ctx = Context()
    await ctx.plugin(AgentRegistry)
    yield ctx.get(AGENTS)
    await ctx.dispose()


def test_any_agent_is_found_by_its_id_oldest_first(agents: AgentRegistry) -> None:
    second, first = Echo(agents.ctx, "b"), Echo(agents.ctx, "a")
    agents.register(second)
    agents.register(first)

    assert (agents.get("a"), agents.get("c")) == (first, None)
    assert agents.list() == [second, first]


def test_id_of_a_live_agent_is_refused_and_free_once_it_is_gone(agents: AgentRegistry) -> None:
    first, second = Echo(agents.ctx), Echo(agents.ctx)
    agents.register(first)

    with pytest.raises(AgentTakenError, match="an agent 'echo' is live already; dispose it first"):
        agents.register(second)
    kept = agents.list()
    agents.unregister(first)
    agents.register(second)

    assert (kept, agents.list()) == ([first], [second])


@pytest.mark.rule("C4")
def test_coming_and_going_is_told_once(agents: AgentRegistry) -> None:
    told: list[tuple[str, str]] = []
    agents.ctx.on(AGENT_CREATED, lambda agent: told.append(("created", agent.id)))
    agents.ctx.on(AGENT_DISPOSED, lambda agent: told.append(("disposed", agent.id)))
    agent = Echo(agents.ctx)

    agents.register(agent)
    agents.unregister(agent)
    agents.unregister(agent)

    assert told == [("created", "echo"), ("disposed", "echo")]


def test_unregistering_a_namesake_changes_nothing(agents: AgentRegistry) -> None:
    agent = Echo(agents.ctx)
    agents.register(agent)

    agents.unregister(Echo(agents.ctx))

    assert agents.list() == [agent]


@pytest.mark.rule("C4")
def test_disposer_takes_the_agent_back_once(agents: AgentRegistry) -> None:
    first, second = Echo(agents.ctx), Echo(agents.ctx)
    undo = agents.register(first)

    undo()
    agents.register(second)
    undo()

    assert agents.list() == [second]


@pytest.mark.rule("C4")
async def test_agent_goes_with_the_fiber_that_registered_it(agents: AgentRegistry) -> None:
    def other_loop(ctx: Context) -> None:
        agents.register(Echo(ctx), ctx=ctx)

    fiber = agents.ctx.plugin(other_loop)
    there = [agent.id for agent in agents.list()]
    await fiber.dispose()

    assert (there, agents.list()) == (["echo"], [])


@pytest.mark.rule("C4")
async def test_registering_for_a_fiber_that_is_gone_registers_nothing(
    agents: AgentRegistry,
) -> None:
    fiber = agents.ctx.plugin(lambda ctx: None, name="gone")
    await fiber.dispose()

    with pytest.raises(DisposedError, match="plugin 'gone' is disposed"):
        agents.register(Echo(fiber.ctx), ctx=fiber.ctx)
    assert agents.list() == []


@pytest.mark.rule("L8", "C4")
async def test_loops_agent_is_unregistered_by_its_own_disposal() -> None:
    async with running_agent(ScriptedModel([])) as test:
        agents, gone = test.ctx.get(AGENTS), list[Agent]()
        test.ctx.on(AGENT_DISPOSED, gone.append)
        there = agents.list()

        await test.agent.dispose()

        assert (there, agents.list(), gone) == ([test.agent], [], [test.agent])
