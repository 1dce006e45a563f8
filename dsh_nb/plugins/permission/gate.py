"""The gate: each tool call passes the rules, and waits here for a person when they say so.

Reads: core, messages, session, tools, agent.asking, plugins.permission.rules,
plugins.permission.asks. Feeds: plugins.permission.
"""

from __future__ import annotations

import dataclasses
import secrets
from functools import partial
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from dsh_nb.agent.asking import Asking, how_stopped
from dsh_nb.agent.protocol import Agent
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
    edit_note,
    remembered_rules,
)
from dsh_nb.plugins.permission.rules import Decision, Rule, Rules, Verdict, digest_of
from dsh_nb.session.decisions import denial
from dsh_nb.session.events import TurnReason
from dsh_nb.session.session import Session, now_ms
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.results import text_outcome
from dsh_nb.tools.tool import ToolCall, ToolOutcome

__all__ = ["PERMISSION", "Permission", "PermissionConfig"]

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


class Permission(Asking[Ask, Answer]):
    """Who decides about tool calls, and what waits for a decision.

    `pending`, `approve`, `deny` and `add_rule` are safe from any thread.

    Attributes:
        can_ask: Whether somebody is there to be asked; a surface replaces it.
        rules: The rules that hold for every agent.
    """

    noun: ClassVar[str] = "calls"

    def __init__(self, ctx: Context, config: PermissionConfig) -> None:
        super().__init__(ctx)
        self.rules = Rules(config.rules, config.default)
        self._config = config
        self._closed = False
        self._remembered: WeakKeyDictionary[Session, tuple[Rule, ...]] = WeakKeyDictionary()

    # -- what people call, from any thread ---------------------------------------------------

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
                to allow it with any; `Ask.rule` shows what that covers. It holds for the session
                of the call, and for what resumes or forks it; a call of no agent leaves nothing.
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
        answer = Answer(outcome="approved", by=by, arguments=edited, remember=remember)
        return self._answer(self._named(id), answer)

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
        return self._answer(self._named(id), Answer(outcome="denied", by=by, reason=reason))

    def add_rule(self, rule: Rule) -> None:
        """Add a rule for every agent, before the configured ones; see `Rules` for which wins."""
        self._ctx.post(lambda: self.rules.add(rule))

    def remembered(self, session: Session) -> tuple[Rule, ...]:
        """What people decided to allow from then on in `session`, or in what it goes on from."""
        rules = self._remembered.get(session)
        if rules is None:
            rules = self._remembered[session] = remembered_rules(session)
        return rules

    # -- the listener of tools/execute ---------------------------------------------------------

    async def check(self, call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        """Let `call` run, or say why not."""
        agent = self._agent(call.agent)
        verdict = self._verdict(call, agent)
        if verdict.decision == "allow" and not self._closed:
            return await proceed(dataclasses.replace(call, approved=True))
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
            answer = await self._wait(ask, session, self._config.timeout_seconds, self._late())
        else:
            self._log(session, "approval/asked", asked_data(ask))
            self._log(session, "approval/decided", decided_data(ask, answer))
        return await _carried_out(seen, answer, proceed)

    def _verdict(self, call: ToolCall, agent: Agent | None) -> Verdict:
        remembered = () if agent is None else self.remembered(agent.session)
        asks = partial(self._tool_asks, call, agent)
        return self.rules.verdict(call.name, call.arguments, asks, remembered)

    def _tool_asks(self, call: ToolCall, agent: Agent | None) -> bool:
        """Whether the tool was declared with ``approve=``; that of the agent's own registry."""
        ctx = self._ctx if agent is None else agent.ctx
        return ctx.provides(TOOLS.name) and ctx.get(TOOLS).needs_approval(call)

    def _without_asking(self, verdict: Verdict) -> Answer | None:
        """The answer when no person is asked."""
        if self._closed:
            return _DISPOSED
        if verdict.decision == "deny":
            return _by_rule(verdict)
        if self._somebody():
            return None
        if self._config.nobody == "allow":
            return Answer(outcome="approved", by="policy", reason="nobody is there to be asked")
        return Answer(outcome="nobody", by="policy", reason="the policy is deny")

    def _late(self) -> Answer:
        limit = self._config.timeout_seconds or 0.0
        return Answer(outcome="timeout", by="timeout", reason=f"{limit:g} s")

    def _asked(self, question: Ask, session: Session | None) -> None:
        self._log(session, "approval/asked", asked_data(question))
        self._tell(partial(self._ctx.emit, PERMISSION_ASKED, question), PERMISSION_ASKED.name)

    def _resolved(self, question: Ask, session: Session | None, answer: Answer) -> Answer:
        answer = self._judged(question, answer)
        if answer.remember and session is not None:
            seen = question if answer.arguments is None else _edited(question, answer.arguments)
            rule, rules = seen.rule(answer.remember), self.remembered(session)
            self._remembered[session] = rules if rule in rules else (*rules, rule)
        self._log(session, "approval/decided", decided_data(question, answer))
        decided = partial(self._ctx.emit, PERMISSION_DECIDED, question, answer.outcome)
        self._tell(decided, PERMISSION_DECIDED.name)
        return answer

    def _stopped(self, reason: TurnReason | None) -> Answer:
        outcome, why = how_stopped(reason)
        by = "dispose" if outcome == "disposed" else "stop"
        return Answer(outcome=outcome, by=by, reason=why)

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
        self._resolve_all(_DISPOSED)


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
        text = denial(call.name, answer.outcome, answer.by, answer.reason)
        return dataclasses.replace(text_outcome(text, is_error=True), denied=True)
    if answer.arguments is None:
        return await proceed(dataclasses.replace(call, approved=True))
    note = text_outcome(edit_note(answer.arguments))
    changed = lossless(answer.arguments, "arguments")  # the log keeps its own copy
    outcome = await proceed(dataclasses.replace(call, arguments=changed, approved=True))
    return dataclasses.replace(outcome, content=(*note.content, *outcome.content))
