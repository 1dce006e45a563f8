"""Whether a step costs more late in a session than early."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncGenerator

from dsh_nb.agent.agent_loop import AgentLoop, AgentOptions
from dsh_nb.core import Context
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import (
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    TextBlock,
    TextDelta,
    ToolCallBlock,
)
from tests.bench.peers import add_tool

STEPS = 5_050


class Caller:
    """A model that asks for one tool call a step, as fast as it can."""

    name = "caller"

    def __init__(self) -> None:
        self.times: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        self.times.append(time.process_time())
        number = len(self.times)
        for index in range(4):
            yield TextDelta(0, f"piece {index} ")
        if number >= STEPS:
            yield Finish(FinishReason("stop"))
            return
        yield BlockEnd(0, TextBlock("piece 0 piece 1 piece 2 piece 3 "))
        yield BlockEnd(1, ToolCallBlock(f"c{number}", "add", '{"a": 1, "b": 2}'))
        yield Finish(FinishReason("tool-calls"))


async def step_growth() -> None:
    """Print the CPU of the 5,000th step over that of the 50th, medians of fifty around each."""
    model, ctx = Caller(), Context()
    await ctx.plugin(AgentLoop)
    ctx.llm.register(model, [model.name])
    ctx.tools.register(add_tool())
    agent = ctx.agent_loop.create("main", AgentOptions(model=model.name))
    agent.send("go")
    await agent.finished()
    await ctx.dispose()
    spans = [after - before for before, after in zip(model.times, model.times[1:], strict=False)]
    early, late = statistics.median(spans[25:75]), statistics.median(spans[4_975:5_025])
    ratio = late / early
    print(
        f"{'5,000th step over the 50th':<45} {ratio:5.2f}"
        f"  ({early * 1e6:.0f} and {late * 1e6:.0f} µs)"
        f"  goal 1.15 {'ok' if ratio <= 1.15 else 'OVER'}",
        flush=True,
    )
