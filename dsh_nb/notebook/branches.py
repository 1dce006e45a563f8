"""Going another way from a session: a fork of it, or the same once more.

Reads: session, tools, notebook.compose, notebook.rerun. Feeds: notebook.agent.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, Self

from dsh_nb.core import Context
from dsh_nb.llm.protocol import Adapter
from dsh_nb.notebook.compose import Composition, Seed, fresh_id
from dsh_nb.notebook.record import Log
from dsh_nb.notebook.rerun import rerun_session
from dsh_nb.session.fork import fork_events, fork_name
from dsh_nb.session.session import Session
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.tool import Tool

__all__ = ["Branches"]

ToolLike = Tool | Callable[..., Any]  # Any: a tool may return whatever it likes


class Branches(ABC):
    """What an agent's session can be gone on with, elsewhere.

    Attributes:
        id: Name of the agent.
        ctx: The context that it lives on.
        model: Name of its model.
    """

    id: str
    ctx: Context
    model: str
    _made_of: Composition

    def fork(
        self,
        *,
        at: int | None = None,
        before: str | int | None = None,
        turn: int | None = None,
        id: str | None = None,
    ) -> Self:
        """Another agent, made of the same, whose session begins as this one did.

        This agent is left alone. What was allowed once is not allowed again in the fork; what was
        allowed from then on is. Without a place, the fork begins with all that happened so far.

        Args:
            at: The last event that the fork takes over, by ``seq``.
            before: Begin before the step that asked for this tool call: its id, or its row in
                `tool_calls`. `continue_turn` asks the model anew there.
            turn: Begin before this turn and the message that started it, by number.
            id: Name of the new agent; by default a free one like this agent's.

        Raises:
            ValueError: There is no such place.
        """
        taken = self._taken()
        fork = fork_events(self._log(), at=at, before=before, turn=turn)
        name = id or fork_name(self.id, taken)
        return self._like(name, Seed(fresh_id(name), fork.events, dict(fork.header)))

    async def rerun(
        self,
        *,
        tools: Literal["live", "recorded"] | Iterable[ToolLike] = "live",
        model: str | Adapter | None = None,
        system_prompt: str | None = None,
    ) -> Log:
        """The same inputs once more, on a new session.

        Without another model, prompt or tool set the model's answers come from the log, which
        costs nothing, and the first difference from it fails. With one of them it is an
        experiment: compare the two with `dsh_nb.diff`.

        Args:
            tools: ``"live"`` to run them again, ``"recorded"`` to have their results from the
                log, or another tool set.
            model: Another model.
            system_prompt: Another system prompt.

        Raises:
            DriftError: Something came out otherwise than in the log; it says what.
        """
        return await rerun_session(
            self._log(),
            self._again,
            tools=tools,
            model=model,
            system_prompt=system_prompt,
            made_again=("harness", "plugin") if self._made_of.plugins else ("harness",),
        )

    def _again(self, **other: Any) -> Self:  # Any: as `Composition` has them
        name = fork_name(self.id, self._taken(), "rerun")
        return self._like(name, Seed(fresh_id(name)), **other)

    def _like(
        self, id: str, seed: Seed, *, tools: Iterable[ToolLike] | None = None, **other: Any
    ) -> Self:  # Any: as above
        known = {"model": self._made_of.model or self.model}
        made_of = dataclasses.replace(self._made_of, **{**known, **other})
        own = self.ctx.get(TOOLS).list()
        like = type(self).__new__(type(self))
        like._begin(id, made_of, tuple(own if tools is None else tools), lambda ctx: seed)
        return like

    @abstractmethod
    def dispose(self) -> Awaitable[None]:
        """End the agent."""

    @abstractmethod
    def _log(self) -> Session:
        """What is gone on with."""

    @abstractmethod
    def _taken(self) -> Mapping[str, object]:
        """The names of agents that are taken."""

    @abstractmethod
    def _begin(
        self,
        id: str,
        made_of: Composition,
        tools: tuple[ToolLike, ...],
        seed: Callable[[Context], Seed],
    ) -> None:
        """Begin life, made of something other than the arguments of the class."""
