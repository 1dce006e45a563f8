"""What a rerun needs of an agent beyond what every agent is to everyone.

Reads: agent.protocol. Feeds: plugins.rerun.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dsh_nb.agent.protocol import Agent

__all__ = ["Driven"]


@runtime_checkable
class Driven(Agent, Protocol):
    """An agent whose turns can be waited for, and continued without a message."""

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is about to."""
        ...

    async def finished(self) -> None:
        """Wait until no turn runs and none is waiting."""
        ...

    def continue_turn(self) -> None:
        """Start a turn without a new message; nothing happens when one is running."""
        ...
