"""What a person decides while an agent works: each method does what a button of the view does.

Reads: core, plugins, notebook.waiting. Feeds: notebook.agent.
"""

from __future__ import annotations

from dsh_nb.core import Context
from dsh_nb.messages import JsonObject
from dsh_nb.notebook.waiting import questions
from dsh_nb.plugins.ask_user import QUESTIONS, Question
from dsh_nb.plugins.permission import PERMISSION, Ask, Remember

__all__ = ["Decisions"]


class Decisions:
    """The calls and questions of one agent that wait for a person.

    Attributes:
        id: Name of the agent.
        ctx: The context that it lives on.
    """

    id: str
    ctx: Context

    @property
    def pending(self) -> tuple[Ask | Question, ...]:
        """The tool calls that wait for a decision and the questions, oldest first."""
        waiting: tuple[Ask | Question, ...] = (
            *self.ctx.get(PERMISSION).pending(),
            *questions(self.ctx),
        )
        mine = [one for one in waiting if one.agent == self.id]
        return tuple(sorted(mine, key=lambda one: one.asked_at))

    def approve(
        self,
        id: str | None = None,
        *,
        arguments: JsonObject | None = None,
        remember: Remember = False,
    ) -> bool:
        """Let a waiting call run; see `Permission.approve`. Safe from any thread.

        Args:
            id: Of the ask; ``None`` for the only one that waits.
            arguments: What to run it with instead.
            remember: True to allow exactly these arguments from now on, ``"tool"`` for any.

        Returns:
            Whether the call was waiting.
        """
        return self.ctx.get(PERMISSION).approve(id, arguments=arguments, remember=remember)

    def deny(self, reason: str = "", *, id: str | None = None) -> bool:
        """Keep a waiting call from running. Safe from any thread.

        Args:
            reason: What the model is told.
            id: Of the ask; ``None`` for the only one that waits.

        Returns:
            Whether the call was waiting.
        """
        return self.ctx.get(PERMISSION).deny(id, reason)

    def answer(self, said: str, *, id: str | None = None) -> bool:
        """Answer a question of the agent; see `Questions.answer`. Safe from any thread.

        Returns:
            Whether the question was waiting.

        Raises:
            ValueError: The answer is blank, or none of the options where only they count.
        """
        return bool(questions(self.ctx)) and self.ctx.get(QUESTIONS).answer(said, id)

    def decline(self, *, id: str | None = None) -> bool:
        """Leave a question without an answer; the model is told. Safe from any thread.

        Returns:
            Whether the question was waiting.
        """
        return bool(questions(self.ctx)) and self.ctx.get(QUESTIONS).decline(id)
