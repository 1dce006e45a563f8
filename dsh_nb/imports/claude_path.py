"""One path through a Claude Code transcript as events: prompts, messages, tools, turns.

Reads: messages, session.events, imports.claude_content, imports.claude_tree, imports.draft,
imports.fields, imports.lines, imports.report.
Feeds: imports.claude_code.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dsh_nb.imports.claude_content import (
    STOP_REASONS,
    block_of,
    counts_of,
    said_of,
    text_in,
    user_said,
)
from dsh_nb.imports.claude_tree import Unit
from dsh_nb.imports.draft import Draft
from dsh_nb.imports.fields import as_object, as_text, as_time
from dsh_nb.imports.lines import Line
from dsh_nb.imports.report import ImportReport
from dsh_nb.messages import Block, BlockEnd, JsonObject, Source, ToolCallBlock, UsageChunk, text_of
from dsh_nb.session.events import (
    ContextMessage,
    Failure,
    SteeringMessage,
    TurnReason,
    TurnTrigger,
    UserContent,
)

__all__ = ["Path", "Spent"]

Spent = set[str]
"""Ids of the messages whose usage is counted."""

_INTERRUPTED = "[Request interrupted by user"
_DENIED = ("The user doesn't want to", "User rejected", "Permission to use")
_COMMAND = ("<command-name>", "<command-message>", "<local-command", "<bash-")
_AGENT_TOOLS = ("Task", "Agent")
_NO_ANSWER = TurnReason("aborted", "the transcript goes on without an answer")
_CUT_SHORT: Mapping[str, TurnReason] = {
    "max-tokens": TurnReason(
        "error", message="the answer reached the output limit of the request", code="MAX_TOKENS"
    ),
    "refusal": TurnReason("error", message="the model refused to answer", code="REFUSAL"),
}


class Path:
    """Takes the units of a chain, oldest first.

    A turn begins with the first answer to what was asked and ends before the next prompt; a step
    begins when what it answers was there, for the transcript does not say when it was asked.

    Attributes:
        draft: The events.
        model: The model that answered last.
        prompt: The text of the first prompt.
        ends: Position of the last event of each unit.
        calls: Position of the event that started each call.
        asked: The call that gave a sub-agent each prompt.
        agents: The call that each sub-agent worked for.
    """

    def __init__(self, report: ImportReport, spent: Spent) -> None:
        self.draft = Draft("claude-code", report)
        self.model = ""
        self.prompt = ""
        self.ends: dict[Unit, int] = {}
        self.calls: dict[str, int] = {}
        self.asked: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self._spent = spent
        self._waiting: Source | None = None
        self._asks = False
        self._answer: str | None = None
        self._content: tuple[Block, ...] = ()
        self._started: dict[str, tuple[int | None, int]] = {}

    def take(self, unit: Unit) -> None:
        """Take the next unit."""
        said = [line for line in unit.lines if line.value.get("type") == "assistant"]
        if said:
            first = unit.lines.index(said[0])
            for line in unit.lines[:first]:
                self._line(line)
            self._message(unit, said)
        for line in unit.lines[first:] if said else unit.lines:
            if line.value.get("type") != "assistant":
                self._line(line)
        self.ends[unit] = len(self.draft.events) - 1

    def end(self) -> None:
        """The transcript is over; a turn that was answered ends, another stays open."""
        draft, last = self.draft, self.draft.lines[-1] if self.draft.lines else 0
        if self._asks:
            self._begin_turn(None, last)
        if draft.said and not draft.calls:
            answered = not any(isinstance(block, ToolCallBlock) for block in self._content)
            draft.end_step(None, last)
            if answered:
                draft.end_turn(self._reason(), None, last)

    def _begin_turn(self, time: int | None, line: int) -> None:
        source = self._waiting
        trigger = TurnTrigger("message", source) if source else TurnTrigger("continuation")
        self.draft.begin_turn(trigger, time, line)
        self._waiting, self._asks = None, False

    def _close_turn(self, time: int | None, line: int) -> None:
        """End the turn because another prompt follows."""
        if self.draft.in_turn:
            self.draft.end_turn(self._reason(), time, line)

    def _reason(self) -> TurnReason:
        cut_short = _CUT_SHORT.get(self._answer or "")
        if cut_short is not None:
            return cut_short
        if self._answer is None or any(isinstance(one, ToolCallBlock) for one in self._content):
            return _NO_ANSWER
        return TurnReason("completed")

    def _message(self, unit: Unit, said: list[Line]) -> None:
        """The lines of one message of the model."""
        number, row = said[0]
        if row.get("isApiErrorMessage") is True:
            for line in said:
                self._api_error(line)
            return
        before = self.draft.time or as_time(row.get("timestamp"))
        if self._waiting is not None or not self.draft.in_turn:
            self._close_turn(self.draft.time, number)
            self._begin_turn(before, number)
        self.draft.begin_step(before, number)
        content = self._stream(said)
        last_number, last = said[-1]
        messages = [as_object(line.value.get("message")) for line in said]
        raw_reason = next(
            (m["stop_reason"] for m in reversed(messages) if m.get("stop_reason")), ""
        )
        reason = as_text(raw_reason)
        stop = STOP_REASONS.get(reason, reason) or None
        self._answer, self._content = stop or "unknown", content
        time = as_time(last.get("timestamp"))
        self.draft.message(content, time, last_number, stop_reason=stop)
        self._bill(unit, messages, as_text(row.get("uuid")), time, last_number)
        self._call(content)

    def _stream(self, said: list[Line]) -> tuple[Block, ...]:
        """Each block as the chunk that ends it, at the time of its line."""
        content: list[Block] = []
        seen: set[str] = set()
        for number, row in said:
            time, whole = as_time(row.get("timestamp")), as_object(row.get("message"))
            raw = whole.get("content")
            blocks = [block_of(one) for one in (raw if isinstance(raw, list) else [raw or ""])]
            for block in blocks:
                if isinstance(block, ToolCallBlock) and block.id in seen:
                    continue
                if isinstance(block, ToolCallBlock):
                    seen.add(block.id)
                    self._started[block.id] = (time, number)
                self.draft.chunk(BlockEnd(len(content), block), time, number)
                content.append(block)
            if self.draft.lines[-1] != number:
                self.draft.foreign("assistant", row, time, number)
        return tuple(content)

    def _bill(
        self,
        unit: Unit,
        messages: list[JsonObject],
        uuid: str,
        time: int | None,
        line: int,
    ) -> None:
        """Count a message once, by the newest of its lines: earlier ones hold partial counts."""
        model = next((as_text(m["model"]) for m in reversed(messages) if m.get("model")), "")
        self.model = model or self.model
        usage = next(
            (m["usage"] for m in reversed(messages) if isinstance(m.get("usage"), dict)), None
        )
        key = unit.message_id or uuid
        if usage is None or key in self._spent:
            return
        if key:
            self._spent.add(key)
        spent = UsageChunk(counts_of(usage), unit.message_id or None, model or None)
        self.draft.usage(spent, time, line)

    def _call(self, content: tuple[Block, ...]) -> None:
        """Claude Code starts a call when its block is there."""
        for block in content:
            if not isinstance(block, ToolCallBlock):
                continue
            time, number = self._started[block.id]
            self.draft.call(block.id, block.name, block.arguments, time, number)
            self.calls[block.id] = len(self.draft.events) - 1
            if block.name in _AGENT_TOOLS:
                self.asked[_prompt_in(block.arguments)] = block.id

    def _api_error(self, line: Line) -> None:
        """A request that failed stands in the transcript as a message of the model."""
        number, row = line
        time = as_time(row.get("timestamp"))
        if not self.draft.in_turn or self._waiting is not None:
            self._close_turn(self.draft.time, number)
            self._begin_turn(time, number)
        self.draft.end_step(time, number)
        text = text_of(tuple(said_of(as_object(row.get("message")).get("content"))))
        code = as_text(row.get("error")) or "API_ERROR"
        self.draft.add("error", Failure(self.draft.turn, 0, text, code), time, number)
        self.draft.end_turn(TurnReason("error", message=text, code=code), time, number)

    def _line(self, line: Line) -> None:
        """A line that is not the model's."""
        number, row = line
        kind, time = as_text(row.get("type")), as_time(row.get("timestamp"))
        if kind == "user":
            self._user(number, row, time)
        elif kind == "attachment" and self._steered(number, row, time):
            return
        else:
            self.draft.foreign(kind or "untyped", row, time, number)

    def _steered(self, number: int, row: JsonObject, time: int | None) -> bool:
        """A prompt that was queued while the turn ran, and joined it between two steps."""
        attachment = as_object(row.get("attachment"))
        if attachment.get("type") != "queued_command" or not self.draft.in_turn:
            return False
        content = said_of(attachment.get("prompt"))
        data = SteeringMessage(self.draft.turn, content, Source("user", id=_id(row)))
        self.draft.add("steering/message", data, time, number)
        return True

    def _user(self, number: int, row: JsonObject, time: int | None) -> None:
        content, results = user_said(as_object(row.get("message")).get("content"))
        for result in results:
            self._result(result, row, time, number)
        if results and content:
            self._beside(content, row, time, number)
        elif not results:
            self._prompt(content, row, time, number)

    def _beside(
        self, content: tuple[UserContent, ...], row: JsonObject, time: int | None, number: int
    ) -> None:
        """What was said on the line of a result."""
        if not self.draft.in_turn:
            self._prompt(content, row, time, number)
            return
        data = SteeringMessage(self.draft.turn, content, Source("user", id=_id(row)))
        self.draft.add("steering/message", data, time, number)

    def _result(self, result: JsonObject, row: JsonObject, time: int | None, number: int) -> None:
        call_id, content = as_text(result.get("tool_use_id")), said_of(result.get("content"))
        is_error = result.get("is_error") is True
        outcome = _outcome(is_error, text_in(content))
        details = row.get("toolUseResult")
        if not self.draft.result(call_id, content, is_error, outcome, time, number):
            self.draft.foreign("user", row, time, number)
        elif isinstance(details, (dict, list)) and details:
            kept: JsonObject = {"callId": call_id, "value": details}
            self.draft.foreign("tool-use-result", kept, time, number)
            agent = as_object(details).get("agentId")
            if isinstance(agent, str):
                self.agents[agent] = call_id

    def _prompt(
        self, content: tuple[UserContent, ...], row: JsonObject, time: int | None, number: int
    ) -> None:
        text = text_in(content)
        if not content:
            self.draft.foreign("user", row, time, number)
        elif text.startswith(_INTERRUPTED):
            self._interrupted(content, row, time, number)
        elif row.get("isMeta") is True or row.get("isCompactSummary") is True:
            kind = "compaction" if row.get("isCompactSummary") is True else "plugin"
            source = Source(kind, "claude-code", _id(row))
            self.draft.add("context/message", ContextMessage(content, source), time, number)
        else:
            self._ask(content, text, row, time, number)

    def _ask(
        self,
        content: tuple[UserContent, ...],
        text: str,
        row: JsonObject,
        time: int | None,
        number: int,
    ) -> None:
        """A prompt, or a command of the person to Claude Code, which nobody may answer."""
        self._close_turn(self.draft.time, number)
        self.prompt = self.prompt or text
        command = text.startswith(_COMMAND)
        source = Source("user", "command" if command else None, _id(row))
        self.draft.prompt(content, source, time, number)
        self._waiting = self._waiting or source
        self._asks = self._asks or not command
        self._answer, self._content = None, ()

    def _interrupted(
        self, content: tuple[UserContent, ...], row: JsonObject, time: int | None, number: int
    ) -> None:
        """The person stopped the turn; what marks it is no message of theirs."""
        if self._waiting is not None and not self.draft.in_turn:
            self._begin_turn(self.draft.time, number)
        ended = self.draft.end_turn(TurnReason("aborted", "user"), time, number)
        if not ended:
            self.draft.foreign("user", row, time, number)


def _id(row: JsonObject) -> str | None:
    uuid = row.get("uuid")
    return uuid if isinstance(uuid, str) else None


def _prompt_in(arguments: str) -> str:
    given: object = msgspec.json.decode(arguments) if arguments else None
    return as_text(as_object(given).get("prompt")).strip()


def _outcome(is_error: bool, text: str) -> str:
    if not is_error:
        return "ok"
    if text.startswith(_INTERRUPTED):
        return "interrupted"
    return "denied" if text.startswith(_DENIED) else "error"
