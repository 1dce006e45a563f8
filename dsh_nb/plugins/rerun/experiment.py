"""The rerun that may come to something else: the inputs of a log for another model or other tools.

Reads: core, session, agent.protocol, plugins.rerun. Feeds: plugins.rerun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from dsh_nb.agent.protocol import AGENT_TURN_CONTINUATION, Agent, Continuation
from dsh_nb.core import Proceed
from dsh_nb.plugins.rerun.driven import Driven
from dsh_nb.session.events import (
    AssistantMessage,
    ContextMessage,
    SessionEvent,
    SteeringMessage,
    StepStart,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_nb.session.session import Session

__all__ = ["Experiment", "TurnInputs", "inputs_of"]

_Said = UserMessage | ContextMessage | SteeringMessage


@dataclass(frozen=True, slots=True)
class TurnInputs:
    """What one turn was given.

    Attributes:
        before: The context and the messages from before it; without a message it is one that
            somebody continued.
        during: What came while it ran, each with the number of the step that had begun by then.
    """

    before: list[UserMessage | ContextMessage] = field(default_factory=list)
    during: list[tuple[int, ContextMessage | SteeringMessage]] = field(default_factory=list)


def inputs_of(log: Iterable[SessionEvent], made_again: Collection[str] = ()) -> list[TurnInputs]:
    """What each turn of `log` was given, in order.

    Args:
        log: The log.
        made_again: Kinds of source whose context is left out: it comes by itself.
    """
    turns: list[TurnInputs] = []
    coming, step, running = TurnInputs(), 0, False
    for event in log:
        data = event.data
        if isinstance(data, TurnStart):
            turns.append(coming)
            step, running = 0, True
        elif isinstance(data, TurnEnd):
            coming, running = TurnInputs(), False
        elif isinstance(data, StepStart):
            step = data.step
        elif isinstance(data, ContextMessage) and data.source.kind in made_again:
            continue
        elif isinstance(data, (ContextMessage, SteeringMessage)) and running:
            coming.during.append((step, data))
        elif isinstance(data, (UserMessage, ContextMessage)):
            coming.before.append(data)
    return turns


class Experiment:
    """Gives an agent the inputs of each turn; what it makes of them is its own affair.

    Args:
        turns: The inputs.
        agent: A new agent.
    """

    def __init__(self, turns: Iterable[TurnInputs], agent: Driven) -> None:
        self._turns = turns
        self._agent = agent
        self._due: list[tuple[int, ContextMessage | SteeringMessage]] = []
        self._late: list[_Said] = []

    async def run(self) -> None:
        """Run one turn after the other."""
        undo: list[Callable[[], object]] = [
            self._agent.session.listen(self._heard),
            self._agent.ctx.on(AGENT_TURN_CONTINUATION, self._before_the_end, prepend=True),
        ]
        try:
            for turn in self._turns:
                self._begin(turn)
                await self._agent.finished()
                self._late, self._due = [said for _, said in self._due], []
        except asyncio.CancelledError:
            self._agent.abort("the rerun was cancelled")
            raise
        finally:
            for one in undo:
                one()

    def _begin(self, turn: TurnInputs) -> None:
        self._due = [*turn.during]
        said: list[_Said] = [*self._late, *turn.before]
        for one in said:
            if isinstance(one, ContextMessage):
                self._agent.inject(one.content, one.source)
        for one in said:
            if not isinstance(one, ContextMessage):
                self._agent.send(one.content, one.source)
        if not any(isinstance(one, UserMessage) for one in turn.before):
            self._agent.continue_turn()

    def _heard(self, session: Session, event: SessionEvent) -> None:
        data = event.data
        if isinstance(data, TurnStart):
            self._give(0)
        elif isinstance(data, AssistantMessage):
            self._give(data.step)

    async def _before_the_end(
        self, agent: Agent, continuation: Continuation, proceed: Proceed[bool]
    ) -> bool:
        """A turn that ends earlier than it did is given the rest first."""
        go_on = await proceed()
        if agent is self._agent and not go_on:
            self._give(None)
        return go_on

    def _give(self, step: int | None) -> None:
        """Give what is due by `step`, or all."""
        due = [said for number, said in self._due if step is None or number <= step]
        self._due = self._due[len(due) :]
        for said in due:
            if isinstance(said, ContextMessage):
                self._agent.inject(said.content, said.source)
            else:
                self._agent.steer(said.content, said.source)
