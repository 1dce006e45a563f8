"""An ask: one call that waits for a person, how it was answered, and what the model is told.

Reads: core, messages, session, plugins.permission.rules. Feeds: plugins.permission.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dsh_nb.core import Emit
from dsh_nb.messages import JsonObject
from dsh_nb.plugins.permission.rules import Rule
from dsh_nb.session.events import SessionEvent

__all__ = [
    "PERMISSION_ASKED",
    "PERMISSION_DECIDED",
    "Answer",
    "Ask",
    "Outcome",
    "Remember",
    "asked_data",
    "decided_data",
    "edit_note",
    "remembered_rules",
]

Outcome = Literal["approved", "denied", "stopped", "disposed", "timeout", "nobody", "rule"]
Remember = bool | Literal["tool"]
"""Nothing, exactly the approved arguments (True), or the tool whatever its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A call about which a person is asked.

    Attributes:
        id: What an answer names; never used twice.
        call_id: The call.
        agent: Id of the calling agent; ``""`` when nobody's.
        turn: Owning turn; 0 outside an agent.
        step: Owning step; 0 outside an agent.
        tool: Its tool.
        arguments: All of its arguments, a copy.
        digest: What the decision binds to, see `dsh_nb.plugins.permission.digest_of`.
        asked_at: Unix epoch in milliseconds.
    """

    id: str
    call_id: str
    agent: str
    turn: int
    step: int
    tool: str
    arguments: JsonObject
    digest: str
    asked_at: int

    def rule(self, remember: Remember = True) -> Rule:
        """What approving with `remember` would add; its text says what it covers."""
        rule = Rule.whole(self.tool)
        return rule if remember == "tool" else rule.model_copy(update={"digest": self.digest})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How an ask was resolved.

    Attributes:
        outcome: What it came to.
        by: Who or what resolved it.
        reason: Why, when somebody said so.
        arguments: What the person changed the arguments to; ``None`` when they stay.
        remember: What is to be allowed from now on.
    """

    outcome: Outcome
    by: str
    reason: str = ""
    arguments: JsonObject | None = None
    remember: Remember = False

    @property
    def runs(self) -> bool:
        """Whether the call may run."""
        return self.outcome == "approved"


PERMISSION_ASKED: Emit[Ask] = Emit("permission/asked")
"""A call waits for a person. Mode: emit. Fired after ``approval/asked`` was logged."""

PERMISSION_DECIDED: Emit[Ask, str] = Emit("permission/decided")
"""A call waits no longer. Mode: emit. Fired with the outcome, after it was logged."""


def asked_data(ask: Ask) -> JsonObject:
    """The data of ``approval/asked``."""
    return {
        **_place(ask),
        "tool": ask.tool,
        "arguments": ask.arguments,
        "digest": ask.digest,
    }


def decided_data(ask: Ask, answer: Answer) -> JsonObject:
    """The data of ``approval/decided``; what does not apply is left out."""
    data = {**_place(ask), "outcome": answer.outcome, "by": answer.by}
    if answer.reason:
        data["reason"] = answer.reason
    if answer.arguments is not None:
        data.update(edited=True, arguments=answer.arguments)
    if answer.remember:
        data["remembered"] = answer.remember
    return data


def edit_note(arguments: JsonObject) -> str:
    """What the model is told of a call that ran with other arguments."""
    return f"(the user changed the arguments to {json.dumps(arguments, ensure_ascii=False)})"


def remembered_rules(log: Iterable[SessionEvent]) -> tuple[Rule, ...]:
    """What was allowed from then on by the people who decided in `log`."""
    asked: dict[object, JsonObject] = {}
    rules: list[Rule] = []
    for event in log:
        if event.type == "approval/asked":
            asked[event.data.get("id")] = event.data
        elif event.type == "approval/decided" and event.data.get("outcome") == "approved":
            rule = _remembered(asked.get(event.data.get("id"), {}), event.data)
            if rule is not None and rule not in rules:
                rules.append(rule)
    return tuple(rules)


def _remembered(asked: JsonObject, decided: JsonObject) -> Rule | None:
    """The rule that a decision added; exact arguments are those that were approved."""
    tool, remember = asked.get("tool"), decided.get("remembered")
    if not isinstance(tool, str) or remember not in (True, "tool"):
        return None
    if remember == "tool":
        return Rule.whole(tool)
    arguments = decided.get("arguments", asked.get("arguments"))
    return Rule.exact(tool, arguments) if isinstance(arguments, dict) else None


def _place(ask: Ask) -> JsonObject:
    return {"turn": ask.turn, "step": ask.step, "callId": ask.call_id, "id": ask.id}
