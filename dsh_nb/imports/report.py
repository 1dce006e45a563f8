"""What reading another tool's log came upon: what was not understood, mended or left out.

Reads: messages. Feeds: imports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dsh_nb.messages import JsonObject

__all__ = ["ImportReport", "LineNote"]

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class LineNote:
    """Something about one line.

    Attributes:
        line: Its number, from 1; 0 for the file as a whole.
        text: What is wrong, or what was done about it.
    """

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line} {self.text}" if self.line else self.text


@dataclass(slots=True)
class ImportReport:
    """What became of each line of a file: it is among the events, skipped, or blank.

    Attributes:
        path: The file.
        format: What it is, for example ``dsh v4`` or ``claude-code``.
        lines: How many lines it has.
        blank: How many of them hold nothing.
        held: How many lines are among the events.
        events: How many events were made of the others, in all sessions of the file.
        foreign: Types that only the other tool has: events of their own type, with how often each
            came.
        skipped: The lines that are not among the events, with the reason.
        notes: What was mended, and what is odd, of lines that are among the events.
    """

    path: str
    format: str = "unknown"
    lines: int = 0
    blank: int = 0
    held: int = 0
    events: int = 0
    foreign: dict[str, int] = field(default_factory=dict)
    skipped: list[LineNote] = field(default_factory=list)
    notes: list[LineNote] = field(default_factory=list)

    def skip(self, line: int, reason: str) -> None:
        """Say that a line is not among the events."""
        self.skipped.append(LineNote(line, reason))

    def note(self, line: int, text: str) -> None:
        """Say something of a line that is among the events, or of the file (line 0)."""
        self.notes.append(LineNote(line, text))

    def settle(self, read: Iterable[int], made: Iterable[Iterable[int]]) -> None:
        """Say which lines were `read`, and of which the events of each session were `made`."""
        used = {line for lines in made for line in lines}
        skipped = {note.line for note in self.skipped}
        for line in read:
            if line not in used and line not in skipped:
                self.skip(line, "says nothing that an event could hold")
        self.held = len(used)

    def count_foreign(self, type: str) -> None:
        """Count a line that became an event of its own type."""
        self.foreign[type] = self.foreign.get(type, 0) + 1

    def as_json(self) -> JsonObject:
        """All of it for a session's header; of skipped lines and notes the first hundred."""
        return {
            "path": self.path,
            "format": self.format,
            "lines": self.lines,
            "blank": self.blank,
            "held": self.held,
            "events": self.events,
            "foreign": dict(self.foreign),
            "skippedLines": len(self.skipped),
            "skipped": [str(note) for note in self.skipped[:_SHOWN]],
            "notes": [str(note) for note in self.notes[:_SHOWN]],
        }

    def __str__(self) -> str:
        said = f"{self.path}: {self.format}, {self.lines} lines, {self.events} events"
        if self.skipped:
            said += f", {len(self.skipped)} skipped (first: {self.skipped[0]})"
        return said
