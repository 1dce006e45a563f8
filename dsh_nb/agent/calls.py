"""Running the tool calls of one message, and logging them in call order.

Reads: messages, session.events, tools. Feeds: agent.loop, agent.asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from dsh_nb.messages import ToolCallBlock
from dsh_nb.session.events import EventData, ToolResult, ToolStart, TurnReason
from dsh_nb.tools.registry import parse_arguments
from dsh_nb.tools.tool import ToolCall, ToolOutcome

if TYPE_CHECKING:
    from dsh_nb.agent.loop import Turn

__all__ = ["log_finished", "run_calls", "running_turn"]

MAX_PARALLEL = 8
"""How many calls of one message run at once."""

_TURN: ContextVar[Turn | None] = ContextVar("dsh_nb_turn", default=None)


async def run_calls(turn: Turn, calls: Sequence[ToolCallBlock]) -> None:
    """Run `calls` in order, or at once when all their tools say that they are safe together."""
    with _calling(turn):
        await _run_all(turn, calls)


def running_turn() -> Turn | None:
    """The turn whose call runs in this context; None outside one."""
    return _TURN.get()


@contextmanager
def _calling(turn: Turn) -> Iterator[None]:
    """Say what turn it is, and keep what the log tells of calls that wait for a person."""
    token = _TURN.set(turn)
    unlisten = turn.session.listen(lambda session, event: turn.open.decisions.feed(event))
    try:
        yield
    finally:
        unlisten()
        _TURN.reset(token)


async def _run_all(turn: Turn, calls: Sequence[ToolCallBlock]) -> None:
    if len(calls) > 1 and all(turn.agent.tools.parallel(call.name) for call in calls):
        slots = asyncio.Semaphore(MAX_PARALLEL)
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_run_in_slot(turn, call, slots))
        return
    for call in calls:
        await _run(turn, call)


async def _run_in_slot(turn: Turn, call: ToolCallBlock, slots: asyncio.Semaphore) -> None:
    async with slots:
        await _run(turn, call)


async def _run(turn: Turn, call: ToolCallBlock) -> None:
    turn.log("tool/call", ToolStart(turn.number, turn.step, call.id, call.name, call.arguments))
    outcome = await turn.agent.tools.execute(
        ToolCall(
            id=call.id,
            name=call.name,
            arguments=parse_arguments(call.arguments),
            agent=turn.agent.id,
            turn=turn.number,
            step=turn.step,
        )
    )
    turn.outcomes[call.id] = outcome
    log_finished(turn, turn.log)
    if outcome.interrupted:
        turn.stop(TurnReason("aborted", f"the tool {call.name!r} was interrupted"))


def log_finished(turn: Turn, log: Callable[[str, EventData], object]) -> None:
    """Log the results that are there, in call order, up to the first call that still runs."""
    for call_id in [*turn.open.calls]:
        outcome = turn.outcomes.get(call_id)
        if outcome is None:
            if turn.stopped is None:
                return
            continue  # the turn is being closed: later results are real all the same
        del turn.outcomes[call_id]
        if outcome.overflow is not None:
            turn.agent.offer_reader()
        log("tool/result", result_event(turn.number, turn.step, call_id, outcome))


def result_event(turn: int, step: int, call_id: str, outcome: ToolOutcome) -> ToolResult:
    """`outcome` as the data of its session event."""
    return ToolResult(
        turn,
        step,
        call_id,
        outcome.content,
        outcome.is_error,
        _name(outcome),
        outcome.display,
        outcome.overflow,
    )


def _name(outcome: ToolOutcome) -> str:
    if outcome.interrupted:
        return "interrupted"
    if outcome.denied:
        return "denied"
    return "error" if outcome.is_error else "ok"
