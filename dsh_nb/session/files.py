"""The session file: a header line, then an event a line, runs of chunks packed.

Reads: errors, messages, session.events, session.masking, session.packing, session.session.
Feeds: plugins.persistence, tables, notebook.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from dsh_nb.errors import SessionError
from dsh_nb.messages import JsonObject
from dsh_nb.session.events import EVENT_TYPES, RequestHeader, SessionEvent
from dsh_nb.session.masking import NO_MASKS, Masks, StreamMask
from dsh_nb.session.packing import Run, RunLine, pack, run_end, unpack
from dsh_nb.session.session import Session

__all__ = [
    "VERSION",
    "LineProblem",
    "ReadReport",
    "SavedLog",
    "SessionHeader",
    "dumps",
    "encode_events",
    "header_of",
    "masked_header",
    "read_lines",
    "read_session",
    "write_session",
]

VERSION = 1
_MOST_PROBLEMS = 100
_BUFFER = 1 << 20


class SessionHeader(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="session"
):
    """The first line of a file; a later line of this kind replaces it.

    Attributes:
        format: Always ``dsh_nb``.
        version: Of the format.
        id: The session.
        created: Unix epoch in milliseconds.
        model: The first model that was asked, where it is known.
        title: The session's title, where it has one.
        header: `Session.header`.
    """

    format: Literal["dsh_nb"]
    version: int
    id: str
    created: int
    model: str | None = None
    title: str | None = None
    header: JsonObject = {}

    def encode(self) -> bytes:
        """The line, with its end."""
        return _encode(self) + b"\n"


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that says less than it should.

    Attributes:
        line: Its number, from 1.
        kind: ``torn``: the file ends inside it. ``foreign``: it is not a line of a session file,
            or not a whole one. ``gap``: it does not follow the event before it.
        text: What is wrong.
    """

    line: int
    kind: Literal["torn", "foreign", "gap"]
    text: str

    def __str__(self) -> str:
        return f"line {self.line} {self.text}"


@dataclass(slots=True)
class ReadReport:
    """What reading a file came upon.

    Attributes:
        problems: The first hundred lines at fault.
        skipped: How many lines are not among the events, all counted.
        gaps: How many events do not follow the one before them.
        whole_bytes: Length of the file up to the end of the last line that has an end.
        unended: True when the last line is whole and only its end is missing.
    """

    problems: list[LineProblem] = field(default_factory=list)
    skipped: int = 0
    gaps: int = 0
    whole_bytes: int = 0
    unended: bool = False

    def note(self, line: int, kind: Literal["torn", "foreign", "gap"], text: str) -> None:
        """Count a line at fault."""
        self.gaps += kind == "gap"
        self.skipped += kind != "gap"
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(LineProblem(line, kind, text))

    def __bool__(self) -> bool:
        return bool(self.problems)

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems)) or "nothing amiss"


@dataclass(frozen=True, slots=True)
class SavedLog:
    """What a file holds.

    Attributes:
        path: The file.
        header: Its header; made from the file's name where the file has none.
        events: All whole events, in the order of the file, with the seq that they have there.
        report: What was skipped.
    """

    path: Path
    header: SessionHeader
    events: list[SessionEvent]
    report: ReadReport

    def session(self) -> Session:
        """A session with these events. An open turn stays open."""
        return Session(self.header.id, self.events, header=self.header.header)


def header_of(
    session: Session, *, id: str | None = None, created: int | None = None
) -> SessionHeader:
    """The header line of `session`, under another `id` or with another time where given."""
    model = session.header.get("model") or next(
        (event.data.model for event in session if isinstance(event.data, RequestHeader)), None
    )
    title = session.header.get("title")
    first = session[0].time if len(session) else 0
    return SessionHeader(
        "dsh_nb",
        VERSION,
        session.id if id is None else id,
        first if created is None else created,
        model if isinstance(model, str) else None,
        title if isinstance(title, str) else None,
        session.header,
    )


def encode_events(
    events: Sequence[SessionEvent],
    check: Callable[[SessionEvent, bytes], bytes] = lambda event, line: line,
) -> bytes:
    """The lines of `events`: one each, or one for a run of chunks of the same block.

    Args:
        events: Part of a log.
        check: Gets each event that is no delta of a block, and its line; gives what is written.
    """
    lines: list[bytes] = []
    position = 0
    while position < len(events):
        end = run_end(events, position)
        if end > position + 1:
            lines.append(_encode(pack(events[position:end])))
        elif end > position:
            lines.append(_encode(events[position]))
        else:
            lines.append(check(events[position], _encode(events[position])))
        position = max(end, position + 1)
    lines.append(b"")
    return b"\n".join(lines)


def masked_header(header: SessionHeader, masks: Masks) -> SessionHeader:
    """`header` with a marker for each secret; the id, which names the session, stays."""
    masked: SessionHeader = msgspec.structs.replace(masks.value(header), id=header.id)
    return masked


def dumps(session: Session, *, masks: Masks = NO_MASKS) -> bytes:
    """The whole file of `session`, a header and then its events as JSON lines.

    Args:
        session: The session.
        masks: What finds the secrets for which a marker is written (`current_masks`).
    """
    events = StreamMask().mask([*session], masks)
    return masked_header(header_of(session), masks).encode() + encode_events(events, masks.line)


def write_session(
    path: str | os.PathLike[str], session: Session, *, masks: Masks = NO_MASKS
) -> None:
    """Write the whole file of `session`; there is the old file or the new one, never half a one.

    Raises:
        OSError: It cannot be written.
    """
    target = Path(path)
    half = target.with_name(f".{target.name}.{os.getpid()}.half")
    try:
        half.write_bytes(dumps(session, masks=masks))
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)


def read_session(path: str | os.PathLike[str]) -> SavedLog:
    """All that is whole in a file. The file stays as it is.

    Raises:
        OSError: It cannot be read.
        SessionError: It holds no session of dsh_nb, or one of a later version.
    """
    target, report = Path(path), ReadReport()
    header: SessionHeader | None = None
    events: list[SessionEvent] = []
    with target.open("rb", buffering=_BUFFER) as file:
        for said in read_lines(file, report):
            if isinstance(said, SessionHeader):
                header = said
            else:
                events.append(said)
    if header is None and not events and report.whole_bytes:
        raise SessionError(
            f"{str(target)!r} holds no session of dsh_nb ({report}); pass a file that dsh_nb wrote"
        )
    if header is None:
        created = events[0].time if events else 0
        header = SessionHeader("dsh_nb", VERSION, target.stem, created)
    return SavedLog(target, header, events, report)


def read_lines(
    lines: Iterable[bytes], report: ReadReport
) -> Iterator[SessionHeader | SessionEvent]:
    """What the lines of a file say, one after the other; `report` learns what they do not.

    Raises:
        SessionError: A header says that the format is of a later version.
    """
    expected: int | None = None
    for number, line in enumerate(lines, 1):
        ended = line.endswith(b"\n")
        report.whole_bytes += len(line) if ended else 0
        try:
            for said in _said(line):
                if isinstance(said, SessionEvent):
                    if expected is not None and said.seq != expected:
                        text = f"has seq {said.seq} where {expected} was due"
                        report.note(number, "gap", text)
                    expected = said.seq + 1
                yield said
            report.unended = not ended
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            if ended:
                report.note(number, "foreign", f"is not of a session: {error}")
            else:
                report.note(number, "torn", f"was cut off after {len(line)} bytes")


class _Line(msgspec.Struct, frozen=True):
    """Any event line, its data not looked at yet."""

    seq: int
    time: int
    type: str
    data: msgspec.Raw = msgspec.Raw()
    run: Run | None = None


def _said(line: bytes) -> Iterable[SessionHeader | SessionEvent]:
    """What one line says; all of it can be read, or it raises."""
    try:
        row = _decode_line(line)
    except msgspec.ValidationError:
        return (_header(line),)
    if row.run is not None:
        return [*unpack(RunLine(row.seq, row.time, row.type, row.run))]
    decode = _DECODERS.get(row.type)
    data = _decode_any(row.data) if decode is None else decode(row.data)
    return (SessionEvent(row.seq, row.time, row.type, data),)


def _header(line: bytes) -> SessionHeader:
    header = _decode_header(line)
    if header.version > VERSION:
        raise SessionError(
            f"session {header.id!r} has version {header.version} of the file format and this "
            f"dsh_nb reads {VERSION}; install a newer dsh_nb"
        )
    return header


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(SessionHeader).decode
_decode_any = msgspec.json.Decoder().decode
_DECODERS: dict[str, Callable[[bytes], object]] = {
    type: msgspec.json.Decoder(struct).decode for type, struct in EVENT_TYPES.items()
}
