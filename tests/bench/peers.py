"""What is measured: the bare loop over the SDK's typed events, and dsh_nb's whole harness."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from dsh_nb.agent.agent_loop import AgentLoop, AgentOptions
from dsh_nb.agent.loop_agent import LoopAgent
from dsh_nb.core import Context
from dsh_nb.llm.anthropic import AnthropicModel
from dsh_nb.plugins.retry import retry
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.session import Session
from dsh_nb.session.store import SESSION_EVENT

MODEL = "claude-bench"
PROMPT = "Please do the scripted thing."
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Bare:
    """A hand-written loop over ``messages.create(stream=True)``, default transport."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.clients: dict[str, Any] = {}

    async def turn(self, scenario: str) -> int:
        """One turn; returns the number of characters that were streamed."""
        from anthropic import AsyncAnthropic

        client = self.clients.get(scenario)
        if client is None:
            client = AsyncAnthropic(api_key="x", base_url=f"{self.base}/{scenario}", max_retries=0)
            self.clients[scenario] = client
        tools: list[Any] = [
            {"name": "add", "description": "Add two integers.", "input_schema": SCHEMA}
        ]
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        chars = 0
        while True:
            blocks: list[tuple[Any, list[str]]] = []
            stop = None
            stream: Any = await client.messages.create(  # Any: its events are a wide union
                model=MODEL, max_tokens=4096, messages=messages, tools=tools, stream=True
            )
            async for event in stream:
                if event.type == "content_block_delta":
                    delta = event.delta
                    if delta.type == "text_delta":
                        blocks[event.index][1].append(delta.text)
                        chars += len(delta.text)
                    elif delta.type == "input_json_delta":
                        blocks[event.index][1].append(delta.partial_json)
                elif event.type == "content_block_start":
                    blocks.append((event.content_block, []))
                elif event.type == "message_delta":
                    stop = event.delta.stop_reason
            content, results = _finished(blocks)
            messages.append({"role": "assistant", "content": content})
            if stop != "tool_use":
                return chars
            messages.append({"role": "user", "content": results})

    async def agents(self, count: int) -> int:
        """Many turns at once."""
        return sum(await asyncio.gather(*(self.turn("agents") for _ in range(count))))


def _finished(blocks: list[tuple[Any, list[str]]]) -> tuple[list[Any], list[Any]]:
    content: list[Any] = []
    results: list[Any] = []
    for block, pieces in blocks:
        text = "".join(pieces)
        if block.type == "text":
            content.append({"type": "text", "text": text})
            continue
        given = json.loads(text) if text else {}
        content.append({"type": "tool_use", "id": block.id, "name": block.name, "input": given})
        result = {"type": "tool_result", "tool_use_id": block.id, "content": str(add(**given))}
        results.append(result)
    return content, results


class Harness:
    """Adapter, retry, loop, log and one listener together, as a notebook has them."""

    def __init__(self, base: str, transport: Any = "httpx") -> None:
        self.base = base
        self.transport = transport
        self.adapters: dict[str, AnthropicModel] = {}

    async def turn(self, scenario: str) -> int:
        """One turn of a new agent; returns the number of characters that were streamed."""
        return await self._turns(scenario, 1)

    async def agents(self, count: int) -> int:
        """Many turns at once, of as many agents on one context."""
        return await self._turns("agents", count)

    async def close(self) -> None:
        """Close the connections."""
        for adapter in self.adapters.values():
            await adapter.close()

    async def _turns(self, scenario: str, count: int) -> int:
        ctx, chars = Context(), 0

        def count_chars(session: Session, event: SessionEvent) -> None:
            nonlocal chars
            if event.type == "assistant/chunk":
                chars += len(getattr(event.data.chunk, "text", ""))

        ctx.plugin(retry)
        ctx.plugin(AgentLoop)
        ctx.llm.register(self._adapter(scenario), [MODEL])
        ctx.tools.register(add_tool())
        ctx.on(SESSION_EVENT, count_chars)
        options = AgentOptions(model=MODEL)
        agents: list[LoopAgent] = [
            ctx.agent_loop.create(f"agent{n}", options) for n in range(count)
        ]
        for agent in agents:
            agent.send(PROMPT)
        await asyncio.gather(*(agent.finished() for agent in agents))
        for agent in agents:
            assert agent.session[-1].data.reason.kind == "completed", agent.session[-1]
        await ctx.dispose()
        return chars

    def _adapter(self, scenario: str) -> AnthropicModel:
        if scenario not in self.adapters:
            self.adapters[scenario] = AnthropicModel(
                api_key="x", base_url=f"{self.base}/{scenario}", transport=self.transport
            )
        return self.adapters[scenario]


def add_tool() -> Any:
    """The tool, async so that neither side pays for a thread."""
    from dsh_nb.tools.schema import tool

    async def add_(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    return tool(add_, name="add")
