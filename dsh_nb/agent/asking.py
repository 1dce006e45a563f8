"""Asking a person: what waits for an answer, which comes once, from any thread, or not at all.

Reads: core, session, agent.calls, agent.endings, agent.registry. Feeds: plugins.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Protocol, TypeVar

from dsh_nb.agent.calls import running_turn
from dsh_nb.agent.endings import caught
from dsh_nb.agent.protocol import Agent
from dsh_nb.agent.registry import AGENTS
from dsh_nb.core import Context
from dsh_nb.messages import JsonObject
from dsh_nb.session.events import TurnReason
from dsh_nb.session.session import Session

if TYPE_CHECKING:
    from dsh_nb.agent.loop import Turn

__all__ = ["Asking", "how_stopped"]


class _Asked(Protocol):
    """Whatever has an id that is never used twice."""

    @property
    def id(self) -> str: ...


Q = TypeVar("Q", bound=_Asked)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Q, A]):
    """A question, where it is logged, the turn it belongs to, and what waits for its answer."""

    question: Q
    session: Session | None
    turn: Turn | None
    answer: asyncio.Future[A]

    @property
    def stopped(self) -> TurnReason | None:
        """Why its turn was stopped; None while it goes on."""
        return None if self.turn is None else self.turn.stopped

    @property
    def over(self) -> bool:
        """Whether no answer counts any more, though the stop may still be on its way here."""
        return self.answer.done() or self.stopped is not None


class Asking(ABC, Generic[Q, A]):
    """Base of the services that ask a person: each question is resolved exactly once.

    Attributes:
        can_ask: Whether somebody is there to be asked; a surface replaces it.
    """

    noun: ClassVar[str] = "questions"

    def __init__(self, ctx: Context) -> None:
        self.can_ask: Callable[[], bool] = lambda: True
        self._ctx = ctx
        self._waiting: Mapping[str, _Waiting[Q, A]] = {}  # replaced, never changed: threads read it

    def pending(self) -> tuple[Q, ...]:
        """What waits, oldest first; safe from any thread."""
        return tuple(one.question for one in self._waiting.values() if not one.over)

    # -- what a subclass says ------------------------------------------------------------------

    @abstractmethod
    def _asked(self, question: Q, session: Session | None) -> None:
        """Log and tell that `question` waits."""

    @abstractmethod
    def _resolved(self, question: Q, session: Session | None, answer: A) -> A:
        """Log and tell that `question` waits no longer; returns the answer that counts."""

    @abstractmethod
    def _stopped(self, reason: TurnReason | None) -> A:
        """The answer when the turn that asks was stopped for `reason`."""

    # -- what a subclass uses ------------------------------------------------------------------

    def _named(self, id: str | None) -> Q | None:
        """The question of that id, or the only one there is; None when it does not wait."""
        waiting = self._waiting
        if id is None:
            if len(waiting) > 1:
                raise ValueError(f"several {self.noun} wait; name one of {[*waiting]}")
            id = next(iter(waiting), None)
        one = None if id is None else waiting.get(id)
        return None if one is None or one.over else one.question

    def _answer(self, question: Q | None, answer: A) -> bool:
        """Answer a question that waits, from any thread; whether there was one."""
        if question is None:
            return False
        self._ctx.post(partial(self._settle, question.id, answer))
        return True

    async def _wait(
        self, question: Q, session: Session | None, seconds: float | None, late: A
    ) -> A:
        """The answer, however it comes: `late` after `seconds`; what else ends it is a stop."""
        loop = self._ctx.loop
        one: _Waiting[Q, A] = _Waiting(question, session, running_turn(), loop.create_future())
        self._waiting = {**self._waiting, question.id: one}
        timer = (
            None if seconds is None else loop.call_later(seconds, self._settle, question.id, late)
        )
        try:
            self._asked(question, session)
            return await one.answer
        finally:
            if timer is not None:
                timer.cancel()
            if question.id in self._waiting:
                self._resolve(one, self._stopped(one.stopped))

    def _settle(self, id: str, answer: A) -> None:
        """Resolve what waits under `id`; what comes after the stop comes too late."""
        one = self._waiting.get(id)
        if one is not None and not one.over:
            self._resolve(one, answer)

    def _resolve(self, one: _Waiting[Q, A], answer: A) -> None:
        """The one place where a question is resolved."""
        gone = one.question.id
        self._waiting = {id: other for id, other in self._waiting.items() if id != gone}
        answer = self._resolved(one.question, one.session, answer)
        if not one.answer.done():
            one.answer.set_result(answer)

    def _resolve_all(self, answer: A) -> None:
        for id in self._waiting:
            self._settle(id, answer)

    def _somebody(self) -> bool:
        """Whether somebody is there; a surface that cannot say so means nobody."""
        try:
            return self.can_ask()
        except Exception as error:
            self._ctx.report(error, "asking whether somebody is there")
            return False

    def _agent(self, id: str) -> Agent | None:
        return self._ctx.get(AGENTS).get(id) if self._ctx.provides(AGENTS.name) else None

    def _log(self, session: Session | None, type: str, data: JsonObject) -> None:
        if session is not None:
            self._tell(partial(session.append, type, data), type)

    def _tell(self, tell: Callable[[], object], name: str) -> None:
        """Tell listeners, whose failures decide nothing."""
        error = caught(tell)
        if error is not None:
            self._ctx.report(error, f"a listener of {name!r}")


def how_stopped(reason: TurnReason | None) -> tuple[Literal["stopped", "disposed"], str]:
    """The outcome of what waits in a turn that was stopped for `reason`, and why, in words."""
    if reason is not None and reason.kind == "disposed":
        return "disposed", "the agent was disposed"
    return "stopped", "" if reason is None else reason.reason or ""
