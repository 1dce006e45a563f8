"""Session logs of the DeepSeek Harness, versions 0 to 4, as events of our vocabulary.

Reads: messages, session.events, session.session, imports.draft, imports.dsh_content,
imports.dsh_stream, imports.fields, imports.lines, imports.report.
Feeds: imports.read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping

from dsh_nb.imports.draft import Draft
from dsh_nb.imports.dsh_content import (
    blocks_of,
    chunk_of,
    outcome_of,
    reason_of,
    said_of,
    schema_of,
    source_of,
    spent_of,
)
from dsh_nb.imports.dsh_stream import PACKED, run_chunks, stream_chunks
from dsh_nb.imports.fields import as_count, as_list, as_object, as_text, as_time
from dsh_nb.imports.lines import Line
from dsh_nb.imports.report import ImportReport
from dsh_nb.messages import JsonObject, Retry
from dsh_nb.session.events import (
    ContextMessage,
    Failure,
    RequestHeader,
    TurnTrigger,
)
from dsh_nb.session.session import Session

__all__ = ["read_dsh"]

_NEWEST = 4
_ENVELOPE = frozenset({"type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable"})
_SPOKEN = frozenset({"user", "agent"})
"""Kinds of sources whose messages a turn is about; others, as a plugin's, give context."""


def read_dsh(lines: Iterable[Line], report: ImportReport, name: str) -> Session:
    """The session of one log.

    Args:
        lines: Of the file.
        report: Takes what is not understood.
        name: Id of the session when the header is missing.
    """
    reading = _Reading(report)
    numbers = array("Q")
    for line in lines:
        numbers.append(line.number)
        reading.take(line)
    draft = reading.draft
    report.settle(numbers, [draft.lines])
    report.events = len(draft.events)
    header = {key: value for key, value in reading.header.items() if value is not None}
    return Session(reading.id or name, draft.events, header=header)


class _Reading:
    """Takes the lines in order; follows which of their turns and steps is open."""

    def __init__(self, report: ImportReport) -> None:
        self.id = ""
        self.header: JsonObject = {}
        self.draft = Draft("dsh", report)
        self._report = report
        self._place = (0, 0)
        self._system: str | None = None
        self._asked: dict[str, str] = {}
        self._seq = 0
        self._inherited = 0
        self._last: Line | None = None
        self._attempted = False

    def take(self, line: Line) -> None:
        """Take the next line."""
        number, row = line
        if self._last is not None and row == self._last.value:
            self._report.skip(number, f"repeats line {self._last.number}")
            return
        self._last = line
        kind = row.get("type")
        if kind == "session" and "data" not in row:
            self._take_header(number, row)
        elif not isinstance(kind, str) or not kind:
            self.draft.foreign("untyped", row, as_time(row.get("time")), number)
        elif kind in PACKED:
            self._take_run(number, row)
        else:
            self._take_event(number, kind, row)

    def _take_header(self, number: int, row: JsonObject) -> None:
        version = row.get("version")
        self._report.format = f"dsh v{as_count(version)}"
        if not isinstance(version, int) or version > _NEWEST:
            self._report.note(number, f"has the format version {version!r}, newer than {_NEWEST}")
        if self.id:
            self._report.note(number, f"is a second header, of session {row.get('id')!r}")
        else:
            self.id = as_text(row.get("id"))
            self.header.update(
                created=as_time(row.get("createdAt")),
                cwd=row.get("cwd"),
                parent=row.get("parentSession"),
                kind=row.get("origin"),
            )
        self._inherited = as_count(row.get("seedLength"))
        self.draft.foreign("session", row, as_time(row.get("createdAt")), number)

    def _follow(self, number: int, seq: object, length: int = 1) -> None:
        """Note a gap in their numbering."""
        if not isinstance(seq, int):
            return
        if seq != self._seq:
            self._report.note(number, f"has seq {seq}, where {self._seq} is due")
        self._seq = seq + length

    def _take_run(self, number: int, row: JsonObject) -> None:
        run = as_object(row.get("data"))
        chunks = [*run_chunks(row, run)]
        self._follow(number, row.get("seq0"), len(chunks))
        if not chunks or not self._arrive(run, number):
            self.draft.foreign(as_text(row["type"]), row, as_time(row.get("time0")), number)
            return
        took = [self.draft.chunk(chunk, time or None, number) for time, chunk in chunks]
        if not all(took):
            self.draft.foreign(as_text(row["type"]), row, as_time(row.get("time0")), number)

    def _take_event(self, number: int, kind: str, row: JsonObject) -> None:
        self._follow(number, row.get("seq"))
        time, data = as_time(row.get("time")), row.get("data")
        if self._inherited and row.get("seq") == self._inherited:
            self._end_seed()
        take = _TAKES.get(kind)
        replaces = isinstance(row.get("surfaceOp"), dict) and kind != "user/message"
        if take is None or replaces or not isinstance(data, dict):
            self._keep(number, kind, row, time)
        elif not take(self, data, time, number):
            self._report.note(number, f"holds {kind!r} out of place")
            self._keep(number, kind, row, time)

    def _end_seed(self) -> None:
        """The events so far were copied from the session that this one was forked from."""
        self.header.setdefault("inherited", len(self.draft.events))

    def _keep(self, number: int, kind: str, row: JsonObject, time: int | None) -> None:
        """Keep a line as an event of its own type."""
        data = row.get("data")
        whole = data if isinstance(data, dict) and row.keys() <= _ENVELOPE else row
        self.draft.foreign(kind, whole, time, number)

    def _arrive(self, data: JsonObject, line: int) -> bool:
        """Open the step of `data` if the line that did is lost; False when the step is over."""
        turn, step = data.get("turn"), data.get("step")
        if not isinstance(turn, int) or not isinstance(step, int):
            return self.draft.step > 0
        if (turn, step) < self._place or step < 1:
            return False
        if (turn, step) == self._place:
            return self.draft.step > 0
        self._report.note(line, f"belongs to turn {turn}, step {step}, whose start is missing")
        if turn != self._place[0] or not self.draft.in_turn:
            self.draft.begin_turn(TurnTrigger("continuation"), None, line)
        self.draft.begin_step(None, line)
        self._place = (turn, step)
        return True

    def turn_start(self, data: JsonObject, time: int | None, line: int) -> bool:
        trigger = as_object(data.get("trigger"))
        source = trigger.get("source")
        kept = TurnTrigger("message", source_of(source)) if isinstance(source, dict) else None
        self.draft.begin_turn(kept or TurnTrigger("continuation"), time, line)
        turn = as_count(data.get("turn"))
        if turn != self.draft.turn:
            self._report.note(line, f"begins turn {turn}, which is turn {self.draft.turn} here")
        self._place = (turn, 0)
        return True

    def turn_end(self, data: JsonObject, time: int | None, line: int) -> bool:
        return self.draft.end_turn(reason_of(as_object(data.get("reason"))), time, line)

    def step_start(self, data: JsonObject, time: int | None, line: int) -> bool:
        turn, step = as_count(data.get("turn")), as_count(data.get("step"))
        if (turn, step) <= self._place:
            return False
        if self.draft.in_turn and turn != self._place[0]:
            self.draft.begin_turn(TurnTrigger("continuation"), time, line)
        self.draft.begin_step(time, line)
        self._place, self._attempted = (turn, step), False
        return True

    def step_end(self, data: JsonObject, time: int | None, line: int) -> bool:
        return self.draft.end_step(time, line)

    def user_message(self, data: JsonObject, time: int | None, line: int) -> bool:
        content = said_of(data.get("content"))
        source = source_of(data.get("source"), data.get("id"))
        if source.kind in _SPOKEN:
            self.draft.prompt(content, source, time, line)
        else:
            self.draft.add("context/message", ContextMessage(content, source), time, line)
        return True

    def context_message(self, data: JsonObject, time: int | None, line: int) -> bool:
        message = as_object(data.get("message")) or data
        source = source_of(message.get("source"), message.get("id"))
        context = ContextMessage(said_of(message.get("content")), source)
        self.draft.add("context/message", context, time, line)
        return True

    def system_message(self, data: JsonObject, time: int | None, line: int) -> bool:
        blocks = said_of(as_object(data.get("message")).get("content"))
        self._system = "\n\n".join(as_text(getattr(block, "text", "")) for block in blocks)
        self.draft.foreign("system/message", data, time, line)
        return True

    def chunk(self, data: JsonObject, time: int | None, line: int) -> bool:
        chunk = chunk_of(as_object(data.get("chunk")))
        if chunk is None or not self._arrive(data, line):
            return False
        return self.draft.chunk(chunk, time, line)

    def attempt(self, data: JsonObject, time: int | None, line: int) -> bool:
        if not self._arrive(data, line) or self.draft.said:
            return False
        self._stream(data, line)
        self.draft.foreign("assistant/attempt", _without_stream(data), time, line)
        self._attempted = True
        return True

    def _stream(self, data: JsonObject, line: int) -> None:
        """Add the chunks that came with a message or a failed attempt."""
        chunks = [*stream_chunks(data.get("stream"))]
        if self._attempted and chunks:
            self.draft.retry(Retry(0, "another attempt followed", "UNKNOWN"), chunks[0][0], line)
        self._attempted = False
        for time, chunk in chunks:
            self.draft.chunk(chunk, time or None, line)

    def message(self, data: JsonObject, time: int | None, line: int) -> bool:
        if not self._arrive(data, line) or self.draft.said:
            return False
        self._stream(data, line)
        inner = as_object(data.get("message"))
        source = as_object(inner.get("source"))
        content = blocks_of((inner or data).get("content"))
        interrupted = data.get("interrupted") is True
        self.draft.message(content, time, line, interrupted=interrupted)
        self._spend(data, inner, source, time, line)
        model = source.get("model")
        if isinstance(model, str):
            self.header.setdefault("model", model)
        return True

    def _spend(
        self, data: JsonObject, inner: JsonObject, source: JsonObject, time: int | None, line: int
    ) -> None:
        """Bill the message: its own counts, else the last ones of its stream."""
        spent = spent_of(data.get("usage"), source.get("model"), inner.get("id"))
        if spent is not None:
            self.draft.usage(spent, time, line)
        elif inner and self.draft.streamed_usage is not None:
            self.draft.usage(self.draft.streamed_usage, time, line, interrupted=True)

    def usage(self, data: JsonObject, time: int | None, line: int) -> bool:
        spent = spent_of(data.get("usage"))
        return (
            spent is not None and self._arrive(data, line) and self.draft.usage(spent, time, line)
        )

    def call(self, data: JsonObject, time: int | None, line: int) -> bool:
        name, arguments = as_text(data.get("name")), as_text(data.get("arguments"))
        return self.draft.call(as_text(data.get("callId")), name, arguments, time, line)

    def result(self, data: JsonObject, time: int | None, line: int) -> bool:
        inner = as_object(data.get("message"))
        blocks = [block for block in as_list(inner.get("content")) if isinstance(block, dict)]
        if blocks and blocks[0].get("type") == "tool-result":  # v0 wraps it in a block
            inner = blocks[0]
        fields = inner or data
        call_id = as_text(fields.get("toolCallId") or data.get("callId"))
        is_error = fields.get("isError") is True
        code = as_text(as_object(data.get("error")).get("code"))
        outcome = outcome_of(is_error, code)
        content = said_of(fields.get("content"))
        return self.draft.result(call_id, content, is_error, outcome, time, line)

    def failure(self, data: JsonObject, time: int | None, line: int) -> bool:
        code = as_text(data.get("code")) or None
        failed = Failure(self.draft.turn, self.draft.step, as_text(data.get("message")), code)
        self.draft.add("error", failed, time, line)
        return True

    def request(self, data: JsonObject, time: int | None, line: int) -> bool:
        if not self.draft.step:
            return False
        header = as_object(data.get("header"))
        config = as_object(header.get("config"))
        options = {key: value for key, value in config.items() if key != "model"}
        system = header.get("system")
        asked = RequestHeader(
            self.draft.turn,
            self.draft.step,
            as_text(config.get("model")),
            as_text(system) if system is not None else self._system,
            tuple(schema_of(tool) for tool in as_list(header.get("tools"))),
            options,
        )
        self.draft.add("request/header", asked, time, line)
        if asked.model:
            self.header.setdefault("model", asked.model)
        return True

    def retry(self, data: JsonObject, time: int | None, line: int) -> bool:
        failure = as_object(data.get("failure"))
        delay = data.get("delayMs")
        seconds = delay / 1000 if isinstance(delay, (int, float)) else 0.0
        code = as_text(failure.get("code")) or "UNKNOWN"
        chunk = Retry(0, as_text(failure.get("message")), code, seconds)
        self._attempted = False
        if self._arrive(data, line):
            self.draft.retry(chunk, time, line)
        self.draft.foreign("llm/retry", data, time, line)
        return True

    def asked(self, data: JsonObject, time: int | None, line: int) -> bool:
        if isinstance(data.get("callId"), str):
            self._asked[as_text(data.get("id"))] = data["callId"]
        self.draft.add("approval/asked", data, time, line)
        return True

    def decided(self, data: JsonObject, time: int | None, line: int) -> bool:
        call_id = self._asked.get(as_text(data.get("id")))
        known = data if call_id is None else {"callId": call_id, **data}
        self.draft.add("approval/decided", known, time, line)
        return True

    def end_seed(self, data: JsonObject, time: int | None, line: int) -> bool:
        if data.get("inherited") is True:
            self._end_seed()
        self.draft.foreign("session/end-seed", data, time, line)
        return True

    def title(self, data: JsonObject, time: int | None, line: int) -> bool:
        self.header["title"] = as_text(data.get("title"))
        self.draft.foreign("session/title", data, time, line)
        return True


_TAKES: Mapping[str, Callable[[_Reading, JsonObject, int | None, int], bool]] = {
    "turn/start": _Reading.turn_start,
    "turn/end": _Reading.turn_end,
    "step/start": _Reading.step_start,
    "step/end": _Reading.step_end,
    "user/message": _Reading.user_message,
    "steering/message": _Reading.user_message,
    "context/message": _Reading.context_message,
    "developer/message": _Reading.context_message,
    "system/message": _Reading.system_message,
    "assistant/chunk": _Reading.chunk,
    "assistant/attempt": _Reading.attempt,
    "assistant/message": _Reading.message,
    "usage": _Reading.usage,
    "tool/call": _Reading.call,
    "tool/result": _Reading.result,
    "error": _Reading.failure,
    "request/header": _Reading.request,
    "llm/retry": _Reading.retry,
    "approval/asked": _Reading.asked,
    "approval/decided": _Reading.decided,
    "session/end-seed": _Reading.end_seed,
    "session/title": _Reading.title,
}


def _without_stream(data: JsonObject) -> JsonObject:
    return {key: value for key, value in data.items() if key != "stream"}
