"""Asking the user: a tool by which the model asks a question, and what waits for an answer.

Reads: core, messages, session, tools, agent.asking. Feeds: notebook.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from dsh_nb.agent.asking import Asking, how_stopped
from dsh_nb.core import Context, Emit, ServiceKey
from dsh_nb.messages import JsonObject, clean_text
from dsh_nb.session.decisions import no_answer
from dsh_nb.session.events import TurnReason
from dsh_nb.session.session import Session, now_ms
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.results import text_outcome, to_outcome
from dsh_nb.tools.schema import tool
from dsh_nb.tools.tool import ToolCall, ToolExecution, ToolOutcome

__all__ = [
    "QUESTIONS",
    "QUESTION_ANSWERED",
    "QUESTION_ASKED",
    "AskUserConfig",
    "Question",
    "QuestionOutcome",
    "Questions",
    "ask_user",
]

_DESCRIPTION = (
    "Ask the user a question, and wait for the answer. Ask when you cannot go on well without "
    "something that only the user knows or may decide: what is meant, a preference, which of "
    "several ways to take. Do not ask what you can find out yourself. Ask one thing a call; "
    "independent questions may be asked in several calls at once. Nobody may be there, or the "
    "user may not want to answer: the result says so, and you go on without."
)

QuestionOutcome = Literal["answered", "declined", "stopped", "disposed", "timeout", "nobody"]


class AskUserConfig(BaseModel):
    """How questions are asked.

    Attributes:
        timeout_seconds: How long a question waits for an answer; ``None`` for ever.
    """

    model_config = ConfigDict(extra="forbid")
    timeout_seconds: float | None = Field(default=None, gt=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the model asks a person.

    Attributes:
        id: What an answer names; never used twice.
        call_id: The call of the tool that asks.
        agent: Id of the calling agent; ``""`` when nobody's.
        turn: Owning turn; 0 outside an agent.
        step: Owning step; 0 outside an agent.
        text: The question.
        options: The answers to choose from; none when any text will do.
        free_text: Whether an answer may be something else than one of the options.
        asked_at: Unix epoch in milliseconds.
    """

    id: str
    call_id: str
    agent: str
    turn: int
    step: int
    text: str
    options: tuple[str, ...]
    free_text: bool
    asked_at: int


@dataclass(frozen=True, slots=True)
class _Reply:
    """How a question was resolved: its answer, or why there is none."""

    outcome: QuestionOutcome
    answer: str = ""
    reason: str = ""


QUESTION_ASKED: Emit[Question] = Emit("question/asked")
"""A question waits for a person. Mode: emit. Fired after ``question/asked`` was logged."""

QUESTION_ANSWERED: Emit[Question, QuestionOutcome] = Emit("question/answered")
"""A question waits no longer. Mode: emit. Fired with the outcome, after it was logged."""


class Questions(Asking[Question, _Reply]):
    """What the model asks, and who answers.

    `pending`, `answer` and `decline` are safe from any thread.

    Attributes:
        can_ask: Whether somebody is there to be asked; a surface replaces it.
    """

    def __init__(self, ctx: Context, config: AskUserConfig) -> None:
        super().__init__(ctx)
        self._limit = config.timeout_seconds
        self._closed = False

    def answer(self, answer: str, id: str | None = None) -> bool:
        """Answer a question, once.

        Args:
            answer: One of the options, or text of one's own where the question takes it.
            id: Of the question; ``None`` for the only one that waits.

        Returns:
            Whether the question was waiting. An answer to one that is resolved changes nothing.

        Raises:
            ValueError: The answer is blank or none of the options, or several questions wait and
                none was named. The question waits on.
            TypeError: The answer is not text. The question waits on.
        """
        if not isinstance(answer, str):
            raise TypeError(f"the answer is {answer!r}; pass a str")
        question, said = self._named(id), clean_text(answer).strip()
        if not said:
            raise ValueError(f"the answer {answer!r} is blank; write something, or decline")
        if question is not None and not question.free_text and said not in question.options:
            raise ValueError(
                f"the answer {said!r} is none of the options; pass one of {[*question.options]}"
            )
        return self._answer(question, _Reply("answered", answer=said))

    def decline(self, id: str | None = None, reason: str = "") -> bool:
        """Leave a question without an answer; the model is told so, and goes on without.

        Args:
            id: Of the question; ``None`` for the only one that waits.
            reason: What the model is told.

        Returns:
            Whether the question was waiting.

        Raises:
            ValueError: Several questions wait and none was named.
        """
        reply = _Reply("declined", reason=clean_text(reason))
        return self._answer(self._named(id), reply)

    async def ask(
        self, call: ToolCall, text: str, options: Sequence[str] = (), free_text: bool = True
    ) -> ToolOutcome:
        """The whole result of `call`: the answer to the question it asks, or why none came."""
        asked, choices = clean_text(text).strip(), _choices(options)
        problem = _problem(asked, choices, free_text=free_text)
        if problem:
            return text_outcome(f"{problem}; nobody was asked", is_error=True)
        question = Question(
            id=secrets.token_hex(6),
            call_id=call.id,
            agent=call.agent,
            turn=call.turn,
            step=call.step,
            text=asked,
            options=choices,
            free_text=free_text,
            asked_at=now_ms(),
        )
        return _told(question, await self._reply(question))

    async def _reply(self, question: Question) -> _Reply:
        agent = self._agent(question.agent)
        session = None if agent is None else agent.session
        if self._closed or not self._somebody():
            reply = _Reply("disposed" if self._closed else "nobody")
            self._log(session, "question/asked", _asked_data(question))
            self._log(session, "question/answered", _answered_data(question, reply))
            return reply
        late = _Reply("timeout", reason=f"{self._limit or 0.0:g} s")
        return await self._wait(question, session, self._limit, late)

    def _asked(self, question: Question, session: Session | None) -> None:
        self._log(session, "question/asked", _asked_data(question))
        self._tell(partial(self._ctx.emit, QUESTION_ASKED, question), QUESTION_ASKED.name)

    def _resolved(self, question: Question, session: Session | None, answer: _Reply) -> _Reply:
        self._log(session, "question/answered", _answered_data(question, answer))
        answered = partial(self._ctx.emit, QUESTION_ANSWERED, question, answer.outcome)
        self._tell(answered, QUESTION_ANSWERED.name)
        return answer

    def _stopped(self, reason: TurnReason | None) -> _Reply:
        outcome, why = how_stopped(reason)
        return _Reply(outcome, reason=why)

    def close(self) -> None:
        """Resolve what waits as disposed; nothing is asked afterwards."""
        self._closed = True
        self._resolve_all(_Reply("disposed"))


QUESTIONS: ServiceKey[Questions] = ServiceKey("questions")


def ask_user(ctx: Context, config: AskUserConfig) -> None:
    """Offer the tool ``ask_user`` to the model, and provide the service ``questions``.

    Every ``question/asked`` in the log of the calling agent gets its ``question/answered``.
    """
    questions = Questions(ctx, config)

    async def ask(
        question: str,
        execution: ToolExecution,
        options: list[str] = [],  # noqa: B006  # never changed, and the schema shows it
        free_text: bool = True,
    ) -> ToolOutcome:
        """Ask the user a question, and wait for the answer.

        Args:
            question: The question, complete in itself; the user may not have read the rest.
            execution: The call that asks.
            options: Answers to choose from, a few words each; leave it out for an open question.
            free_text: False to accept nothing but one of the options.
        """
        return await questions.ask(execution.call, question, options, free_text)

    ctx.fiber.effect(questions.close, "questions that wait for a person")
    made = tool(ask, name="ask_user", description=_DESCRIPTION, parallel=True)
    ctx.get(TOOLS).register(made, ctx=ctx)
    ctx.provide(QUESTIONS, questions)


ask_user.Config = AskUserConfig  # type: ignore[attr-defined]  # a plugin's declaration
ask_user.inject = (TOOLS,)  # type: ignore[attr-defined]  # a plugin's declaration


def _choices(options: Sequence[str]) -> tuple[str, ...]:
    """The options, none of them blank and none twice."""
    said = (clean_text(one).strip() for one in options)
    return tuple(dict.fromkeys(one for one in said if one))


def _problem(text: str, options: tuple[str, ...], *, free_text: bool) -> str:
    if not text:
        return "the question is blank; ask something"
    if not options and not free_text:
        return "free_text is false and there are no options to choose from; pass some"
    return ""


def _told(question: Question, reply: _Reply) -> ToolOutcome:
    if reply.outcome == "answered":
        return to_outcome(reply.answer, call_id=question.call_id)
    text = no_answer(reply.outcome, reply.reason)
    return text_outcome(text, is_error=reply.outcome != "declined")


def _asked_data(question: Question) -> JsonObject:
    return {
        **_place(question),
        "question": question.text,
        "options": [*question.options],
        "freeText": question.free_text,
    }


def _answered_data(question: Question, reply: _Reply) -> JsonObject:
    """The data of ``question/answered``; what does not apply is left out."""
    data: JsonObject = {**_place(question), "outcome": reply.outcome}
    if reply.answer:
        data["answer"] = reply.answer
    if reply.reason:
        data["reason"] = reply.reason
    return data


def _place(question: Question) -> JsonObject:
    return {
        "turn": question.turn,
        "step": question.step,
        "callId": question.call_id,
        "id": question.id,
    }
