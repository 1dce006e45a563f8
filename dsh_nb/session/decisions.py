"""Calls that wait for a person, and what the model is told of those that did not run.

Reads: session.events. Feeds: session.history, session.repair, tables, plugins.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsh_nb.session.events import SessionEvent

__all__ = ["Decisions", "Ending", "denial", "no_answer"]

_GO_ON = "go on with your best assumption, and say what you assumed"


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a call that has no result in the log.

    Attributes:
        outcome: As in `dsh_nb.session.events.ToolResult`.
        text: What the model is told.
        is_error: False when the call came to what it was for.
    """

    outcome: str
    text: str
    is_error: bool = True


class Decisions:
    """Folds the events of the plugins that ask a person, those of ``permission`` and ``ask_user``.

    A call that nobody approved never ran, and a question that was answered has its answer in the
    log: both can be told from ``approval/asked``, ``approval/decided``, ``question/asked`` and
    ``question/answered`` after a stop and after a crash.
    """

    def __init__(self) -> None:
        self._endings: dict[str, Ending] = {}
        self._asked: dict[str, tuple[str, str]] = {}

    def feed(self, event: SessionEvent) -> None:
        """Take the next event; all but those four change nothing."""
        data = event.data
        if type(data) is not dict:
            return
        fields = {key: value for key, value in data.items() if isinstance(value, str)}
        if event.type in ("approval/asked", "question/asked"):
            self._begin(event.type, fields)
        elif event.type in ("approval/decided", "question/answered"):
            self._end(event.type, fields)

    def ending(self, call_id: str) -> Ending | None:
        """What a call came to that has no result; None when its asking does not tell."""
        return self._endings.get(call_id)

    def _begin(self, type: str, fields: dict[str, str]) -> None:
        call_id, tool = fields.get("callId"), fields.get("tool", "")
        if call_id is None:
            return
        self._asked[fields.get("id", "")] = (call_id, tool)
        if type == "approval/asked":
            self._endings[call_id] = Ending("denied", denial(tool, ""))
        else:
            self._endings[call_id] = Ending("interrupted", no_answer(""))

    def _end(self, type: str, fields: dict[str, str]) -> None:
        """Logs of other programs name the ask alone, ours also the call."""
        call_id, tool = self._asked.get(fields.get("id", ""), (fields.get("callId"), ""))
        if call_id is None:
            return
        outcome, reason = fields.get("outcome", ""), fields.get("reason", "")
        self._endings.pop(call_id, None)
        if type == "question/answered" and outcome in _ANSWERS:
            text = fields.get("answer", "") or no_answer(outcome, reason)
            name = _ANSWERS[outcome]
            self._endings[call_id] = Ending(name, text, is_error=name != "ok")
        elif type == "approval/decided" and outcome in _DENIALS:
            text = denial(tool, outcome, fields.get("by", ""), reason)
            self._endings[call_id] = Ending("denied", text)


_ANSWERS = {
    "answered": "ok",
    "declined": "ok",
    "stopped": "interrupted",
    "disposed": "interrupted",
    "timeout": "error",
    "nobody": "error",
}
"""What the call came to whose question was resolved so."""


def denial(tool: str, outcome: str, by: str = "", reason: str = "") -> str:
    """What the model is told of a call that was not let run.

    Args:
        tool: Its tool.
        outcome: That of ``approval/decided``; ``""`` when nobody has decided.
        by: Who or what decided.
        reason: Why, when somebody said so.
    """
    said = _DENIALS.get(outcome, "nobody has decided about this call of {tool}")
    who = "the user" if by == "user" else repr(by or "somebody")
    because = f": {reason}" if reason else ""
    aside = f" ({reason})" if reason else ""
    told = said.format(tool=repr(tool), who=who, because=because, aside=aside)
    return f"{told}; the tool was not run"


_DENIALS = {
    "denied": "{who} denied this call of {tool}{because}",
    "stopped": "this call of {tool} was stopped before anybody decided{aside}",
    "disposed": "asking about this call of {tool} ended before anybody decided{aside}",
    "timeout": "nobody decided about this call of {tool} in time{aside}",
    "nobody": "calls of {tool} need approval, and nobody is there to be asked",
    "rule": "this call of {tool} is denied by a rule{because}",
}


def no_answer(outcome: str, reason: str = "") -> str:
    """What the model is told of a question that was not answered.

    Args:
        outcome: That of ``question/answered``; ``""`` when nobody has answered.
        reason: Why, when somebody said so.
    """
    said = _NO_ANSWERS.get(outcome, "nobody has answered this question")
    because = f": {reason}" if reason else ""
    aside = f" ({reason})" if reason else ""
    return said.format(because=because, aside=aside, go_on=_GO_ON)


_NO_ANSWERS = {
    "declined": "the user does not want to answer this question{because}; {go_on}",
    "stopped": "the turn was stopped before anybody answered this question{aside}",
    "disposed": "asking this question ended before anybody answered it{aside}",
    "timeout": "nobody answered this question in time{aside}; {go_on}",
    "nobody": "nobody is there to answer questions; {go_on}",
}
