"""A whole harness around a model, for tests: every append is checked against the invariants.

Reads: core, session, llm, agent. Feeds: tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentLoop, AgentOptions
from dsh_nb.agent.loop_agent import LoopAgent
from dsh_nb.core import Context, Plugin
from dsh_nb.llm.protocol import Adapter
from dsh_nb.llm.service import LLM
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.store import SessionStore
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.tool import Tool

__all__ = ["TestAgent", "running_agent"]

SECONDS = 10.0


class TestAgent:
    """An agent on a context of its own.

    Attributes:
        ctx: The context.
        agent: The agent.
    """

    __test__ = False

    def __init__(self, ctx: Context, agent: LoopAgent) -> None:
        self.ctx = ctx
        self.agent = agent

    @property
    def log(self) -> list[SessionEvent]:
        """The events so far."""
        return [*self.agent.session]

    @property
    def types(self) -> list[str]:
        """Their types, a run of chunks as one; the request header left out."""
        types: list[str] = []
        for event in self.agent.session:
            repeated = event.type == "assistant/chunk" and types[-1:] == ["assistant/chunk"]
            if not repeated and event.type != "request/header":
                types.append(event.type)
        return types

    async def say(self, text: str) -> None:
        """Send a message and wait until the agent is idle again."""
        self.agent.send(text)
        await self.idle()

    async def idle(self) -> None:
        """Wait until no turn runs and none is waiting.

        Raises:
            TimeoutError: It still runs after ten seconds.
        """
        async with asyncio.timeout(SECONDS):
            await self.agent.finished()

    async def until(self, type: str, count: int = 1) -> SessionEvent:
        """Wait for the event number `count` of `type`, and return it.

        Raises:
            TimeoutError: It does not come within ten seconds.
        """
        async with asyncio.timeout(SECONDS):
            while True:
                found = [event for event in self.agent.session if event.type == type]
                if len(found) >= count:
                    return found[count - 1]
                await asyncio.sleep(0.001)


@asynccontextmanager
async def running_agent(
    model: Adapter,
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),  # Any: a tool may return whatever it likes
    options: AgentOptions | None = None,
    plugins: Iterable[Plugin] = (),
    seed: Iterable[SessionEvent] = (),
    model_name: str | None = None,
) -> AsyncIterator[TestAgent]:
    """An agent named ``main`` on `model`, disposed at the end.

    Args:
        model: The adapter.
        tools: What it may call.
        options: What the agent is told; its model is set to the adapter's name.
        plugins: Mounted before the loop.
        seed: Events that its session begins with.
        model_name: Instead of the adapter's name.
    """
    ctx = Context()
    name = model_name or model.name
    try:
        ctx.plugin(SessionStore, {"check": True})
        for plugin in plugins:
            await ctx.plugin(plugin)
        await ctx.plugin(AgentLoop)
        ctx.get(LLM).register(model, [name])
        for tool in tools:
            ctx.get(TOOLS).register(tool)
        given = (options or AgentOptions()).model_copy(update={"model": name})
        yield TestAgent(ctx, ctx.get(AGENT_LOOP).create("main", given, seed=seed))
    finally:
        await ctx.dispose()
