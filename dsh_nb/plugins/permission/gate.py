"""The gate: each tool call passes the rules, and waits here for a person when they say so.

Reads: core, errors, messages, session, tools, agent, plugins.permission.rules,
plugins.permission.asks. Feeds: plugins.permission.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dsh_nb.agent.endings import caught
from dsh_nb.agent.protocol import Agent
from dsh_nb.agent.registry import AGENTS
from dsh_nb.core import Context, Proceed, ServiceKey
from dsh_nb.messages import JsonObject, lossless
from dsh_nb.plugins.permission.asks import (
    PERMISSION_ASKED,
    PERMISSION_DECIDED,
    Answer,
    Ask,
    Remember,
    asked_data,
    decided_data,
    denial,
    edit_note,
)
from dsh_nb.plugins.permission.rules import Decision, Rule, Rules, Verdict, digest_of
from dsh_nb.session.session import Session, now_ms
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.results import text_outcome
from dsh_nb.tools.tool import ToolCall, ToolOutcome

__all__ = ["PERMISSION", "Permission", "PermissionConfig"]

_STOPPED = Answer(outcome="stopped", by="stop")
_DISPOSED = Answer(outcome="disposed", by="dispose")


class PermissionConfig(BaseModel):
    """What may run.

    Attributes:
        rules: The first that matches a call decides.
        default: For calls that no rule is about, and whose tool does not ask by itself.
        nobody: What happens to a call that must be asked about when nobody is there.
        timeout_seconds: How long a call waits for a person; ``None`` for ever.
    """

    model_config = ConfigDict(extra="forbid")
    rules: list[Rule] = []
    default: Decision = "allow"
    nobody: Literal["allow", "deny"] = "deny"
    timeout_seconds: float | None = Field(default=None, gt=0)


@dataclasses.dataclass(frozen=True, slots=True)
class _Waiting:
    """An ask, where it is logged, and what waits for the answer."""

    ask: Ask
    session: Session | None
    answer: asyncio.Future[Answer]


class Permission:
    """Who decides about tool calls, and what waits for a decision.

    `approve`, `deny` and `add_rule` are safe from any thread.

    Attributes:
        can_ask: Whether somebody is there to be asked; a surface replaces it.
        rules: The rules.
    """

    def __init__(self, ctx: Context, config: PermissionConfig) -> None:
        self.can_ask: Callable[[], bool] = lambda: True
        self.rules = Rules(config.rules, config.default)
        self._ctx = ctx
        self._config = config
        self._closed = False
        self._waiting: dict[str, _Waiting] = {}  # replaced and never changed: threads read it

    # -- what people call, from any thread ---------------------------------------------------

    def pending(self) -> tuple[Ask, ...]:
        """The calls that wait, oldest first."""
        return tuple(one.ask for one in self._waiting.values())

    def approve(
        self,
        id: str | None = None,
        *,
        arguments: JsonObject | None = None,
        remember: Remember = False,
        by: str = "user",
    ) -> bool:
        """Let a call run, once.

        Args:
            id: Of the ask; ``None`` for the only one that waits.
            arguments: What to run it with instead.
            remember: True to allow the tool with exactly these arguments from now on, ``"tool"``
                to allow it with any; `Ask.rule` shows what that covers.
            by: Who approves.

        Returns:
            Whether the call was waiting. An answer to one that is decided changes nothing.

        Raises:
            ValueError: Several calls wait and none was named, or `arguments` cannot be JSON.
            TypeError: `arguments` is not a JSON object.
        """
        if arguments is not None and not isinstance(arguments, dict):
            raise TypeError(f"arguments is {arguments!r}; pass a dict, as the tool takes them")
        if remember not in (True, False, "tool"):
            raise ValueError(f"remember is {remember!r}; pass True, False or 'tool'")
        edited = None if arguments is None else lossless(arguments, "arguments")
        answer = Answer(outcome="approved", by=by, runs=True, arguments=edited, remember=remember)
        return self._answer(id, answer)

    def deny(self, id: str | None = None, reason: str = "", *, by: str = "user") -> bool:
        """Keep a call from running; the model is told `reason`.

        Args:
            id: Of the ask; ``None`` for the only one that waits.
            reason: What the model is told.
            by: Who denies.

        Returns:
            Whether the call was waiting. An answer to one that is decided changes nothing.

        Raises:
            ValueError: Several calls wait and none was named.
        """
        return self._answer(id, Answer(outcome="denied", by=by, reason=reason))

    def add_rule(self, rule: Rule) -> None:
        """Add a rule, before the configured ones; see `Rules` for which one wins."""
        self._ctx.post(lambda: self.rules.add(rule))

    def _answer(self, id: str | None, answer: Answer) -> bool:
        waiting = self._waiting
        if id is None:
            if len(waiting) > 1:
                raise ValueError(f"several calls wait; name one of {[*waiting]}")
            id = next(iter(waiting), None)
        one = None if id is None else waiting.get(id)
        if one is None or one.answer.done():  # a stop has ended it already
            return False
        self._ctx.post(partial(self._settle, one.ask.id, answer))
        return True

    # -- the listener of tools/execute ---------------------------------------------------------

    async def check(self, call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        """Let `call` run, or say why not."""
        agent = self._agent(call)
        verdict = self._verdict(call, agent)
        if verdict.decision == "allow" and not self._closed:
            return await proceed()
        if verdict.decision == "ask" and not isinstance(call.arguments, dict):
            return text_outcome(
                f"the arguments of {call.name!r} are not one JSON object; nobody was asked and "
                "the tool was not run, send the call again with a JSON object",
                is_error=True,
            )
        seen = dataclasses.replace(call, arguments=lossless(call.arguments, "arguments"))
        ask, session = _ask(seen), None if agent is None else agent.session
        answer = self._without_asking(verdict)
        if answer is None:
            answer = await self._wait(_Waiting(ask, session, self._ctx.loop.create_future()))
        else:
            self._log(session, "approval/asked", asked_data(ask))
            self._log(session, "approval/decided", decided_data(ask, answer))
        return await _carried_out(seen, answer, proceed)

    def _verdict(self, call: ToolCall, agent: Agent | None) -> Verdict:
        return self.rules.verdict(call.name, call.arguments, lambda: self._tool_asks(call, agent))

    def _tool_asks(self, call: ToolCall, agent: Agent | None) -> bool:
        """Whether the tool was declared with ``approve=``; a failing condition asks."""
        ctx = self._ctx if agent is None else agent.ctx
        tool = ctx.get(TOOLS).get(call.name) if ctx.provides(TOOLS.name) else None
        approve: Any = getattr(tool, "approve", None)  # Any: what a person declared
        if not callable(approve):
            return approve is True or approve == "ask"
        try:
            return bool(approve(call.arguments))
        except Exception as error:
            self._ctx.report(error, f"the approve of tool {call.name!r}")
            return True

    def _without_asking(self, verdict: Verdict) -> Answer | None:
        """The answer when no person is asked."""
        if self._closed:
            return _DISPOSED
        if verdict.decision == "deny":
            return _by_rule(verdict)
        if self._somebody():
            return None
        policy = self._config.nobody
        return Answer(
            outcome="nobody", by="policy", runs=policy == "allow", reason=f"the policy is {policy}"
        )

    def _somebody(self) -> bool:
        try:
            return self.can_ask()
        except Exception as error:
            self._ctx.report(error, "asking whether somebody is there")
            return False

    async def _wait(self, waiting: _Waiting) -> Answer:
        """The answer, however it comes; whatever ends the waiting otherwise is a stop."""
        ask, limit = waiting.ask, self._config.timeout_seconds
        self._waiting = {**self._waiting, ask.id: waiting}
        timer = None if limit is None else self._ctx.loop.call_later(limit, self._expire, ask.id)
        try:
            self._log(waiting.session, "approval/asked", asked_data(ask))
            self._tell(partial(self._ctx.emit, PERMISSION_ASKED, ask), PERMISSION_ASKED.name)
            return await waiting.answer
        finally:
            if timer is not None:
                timer.cancel()
            self._settle(ask.id, _STOPPED)

    def _expire(self, id: str) -> None:
        limit = f"{self._config.timeout_seconds:g} s"
        self._settle(id, Answer(outcome="timeout", by="timeout", reason=limit))

    # -- the one place where an ask is resolved ------------------------------------------------

    def _settle(self, id: str, answer: Answer) -> None:
        """Resolve an ask that waits; nothing happens to one that does not."""
        waiting = self._waiting.get(id)
        if waiting is None:
            return
        self._waiting = {key: one for key, one in self._waiting.items() if key != id}
        ask = waiting.ask
        if waiting.answer.cancelled():  # whatever comes after the stop comes too late
            answer = _STOPPED
        answer = self._judged(ask, answer)
        if answer.remember:
            seen = ask if answer.arguments is None else _edited(ask, answer.arguments)
            self.rules.add(seen.rule(answer.remember))
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._log(waiting.session, "approval/decided", decided_data(ask, answer))
        decided = partial(self._ctx.emit, PERMISSION_DECIDED, ask, answer.outcome)
        self._tell(decided, PERMISSION_DECIDED.name)

    def _judged(self, ask: Ask, answer: Answer) -> Answer:
        """`answer` after the rules had their say about edited arguments."""
        if answer.arguments is None:
            return answer
        if digest_of(ask.tool, answer.arguments) == ask.digest:
            return dataclasses.replace(answer, arguments=None)
        verdict = self.rules.verdict(ask.tool, answer.arguments)
        if verdict.decision == "deny" and verdict.rule is not None:
            return dataclasses.replace(_by_rule(verdict), arguments=answer.arguments)
        return answer

    def close(self) -> None:
        """Resolve what waits as disposed; whatever comes later is denied."""
        self._closed = True
        for id in self._waiting:
            self._settle(id, _DISPOSED)

    # -- the log -------------------------------------------------------------------------------

    def _agent(self, call: ToolCall) -> Agent | None:
        if not self._ctx.provides(AGENTS.name):
            return None
        return self._ctx.get(AGENTS).get(call.agent)

    def _log(self, session: Session | None, type: str, data: JsonObject) -> None:
        if session is not None:
            self._tell(partial(session.append, type, data), type)

    def _tell(self, tell: Callable[[], object], name: str) -> None:
        """Tell listeners, whose failures decide nothing."""
        error = caught(tell)
        if error is not None:
            self._ctx.report(error, f"a listener of {name!r}")


PERMISSION: ServiceKey[Permission] = ServiceKey("permission")


def _ask(call: ToolCall) -> Ask:
    """The ask about `call`, with a copy of its arguments, so that what shows it cannot change it.

    The arguments are the raw text where the model sent no JSON and a rule denies the tool.
    """
    return Ask(
        id=secrets.token_hex(6),
        call_id=call.id,
        agent=call.agent,
        turn=call.turn,
        step=call.step,
        tool=call.name,
        arguments=lossless(call.arguments, "arguments"),
        digest=digest_of(call.name, call.arguments),
        asked_at=now_ms(),
    )


def _edited(ask: Ask, arguments: JsonObject) -> Ask:
    return dataclasses.replace(ask, arguments=arguments, digest=digest_of(ask.tool, arguments))


def _by_rule(verdict: Verdict) -> Answer:
    if verdict.rule is None:
        return Answer(outcome="rule", by="default", reason="no rule allows it")
    return Answer(outcome="rule", by="rule", reason=str(verdict.rule))


async def _carried_out(
    call: ToolCall, answer: Answer, proceed: Proceed[ToolOutcome]
) -> ToolOutcome:
    """What the call came to; it runs with the arguments that were decided about."""
    if not answer.runs:
        outcome = text_outcome(denial(call.name, answer), is_error=True)
        return dataclasses.replace(outcome, denied=True)
    if answer.arguments is None:
        return await proceed(call)
    note = text_outcome(edit_note(answer.arguments))
    changed = lossless(answer.arguments, "arguments")  # the log keeps its own copy
    outcome = await proceed(dataclasses.replace(call, arguments=changed))
    return dataclasses.replace(outcome, content=(*note.content, *outcome.content))
