"""The timeline: where the time of a session went, as a still picture that needs no server.

Reads: session.session, tables, notebook.timeline_rows, notebook.timeline_svg, notebook.wording.
Feeds: notebook.agent.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from dsh_nb.notebook.timeline_rows import KINDS, Row, bars_of, rows_of, totals
from dsh_nb.notebook.timeline_svg import page_of, png_of, svg_of
from dsh_nb.notebook.wording import count, seconds_text, strip_controls
from dsh_nb.session.events import SessionEvent
from dsh_nb.tables import Record, spans

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Timeline", "timeline"]

_COLUMNS = 48
_MARKS = {"first token": "·", "streaming": "█", "tool": "▒", "approval": "?", "retry": "×"}


def timeline(
    record: Record | Iterable[SessionEvent], turns: int | Iterable[int] | None = None
) -> Timeline:
    """Where the time went, as a picture of what is in the log now.

    A row for each step, all on one scale that begins anew with each turn: the time to the first
    token, streaming, tools (those that ran at once below one another), waiting for approval, and
    attempts that failed. Time between turns is a line of text. Of a long session the newest thirty
    steps are drawn, twenty turns before them have a line each that shows how their time divides,
    and one line stands for the rest.

    Args:
        record: An agent, a saved session, or any events.
        turns: Number of the turn that is shown, or several; all by default.
    """
    log = record.session if isinstance(record, Record) else record
    found = spans(log)
    if turns is not None:
        found = found[found["turn"].isin([turns] if isinstance(turns, int) else list(turns))]
    return Timeline(found.reset_index(drop=True))


class Timeline:
    """A picture of where the time went; a notebook shows it.

    Args:
        spans: The table `dsh_nb.tables.spans` of what it shows.

    Attributes:
        spans: That table.
    """

    def __init__(self, spans: pd.DataFrame) -> None:
        self.spans = spans
        self._rows = rows_of(spans)

    def to_svg(self) -> str:
        """The picture as SVG; it needs no network, and follows a light or dark page."""
        return svg_of(page_of(self._title(), self._rows))

    def to_png(self, dpi: int = 192) -> bytes:
        """The picture as PNG, on white.

        Raises:
            ImportError: matplotlib is not installed.
        """
        return png_of(page_of(self._title(), self._rows), dpi)

    def __str__(self) -> str:
        drawn = {bar.kind for row in self._rows for bar in row.bars}
        legend = "  ".join(
            f"{_MARKS[kind]} {words}" for kind, words in KINDS.items() if kind in drawn
        )
        steps = [bar for row in self._rows if row.kind == "step" for bar in row.bars]
        longest = max((bar.start + bar.seconds for bar in steps), default=0.0)
        lines = [line for row in self._rows for line in _text_lines(row, longest)]
        return strip_controls("\n".join([self._title(), *([legend] if legend else []), *lines]))

    def __repr__(self) -> str:
        return f"<Timeline {self._title()}>"

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        svg = self.to_svg()
        return {"text/html": svg, "image/svg+xml": svg, "text/plain": str(self)}

    def _title(self) -> str:
        """All of it in a line: turns, the time they took, and the share of each kind."""
        whole = self.spans[self.spans["kind"] == "turn"]
        if not len(self.spans):
            return "No turns yet"
        said = [count(int(self.spans["turn"].nunique()), "turn")]
        said.append(seconds_text(float(whole["seconds"].sum())))
        bars = totals(bars_of(self.spans))
        said += [f"{bar.kind} {seconds_text(bar.seconds)}" for bar in bars]
        return " · ".join(said)


def _text_lines(row: Row, longest: float) -> list[str]:
    bars = row.bars if row.kind == "step" else tuple(totals(row.bars))
    whole = longest if row.kind == "step" else sum(bar.seconds for bar in bars)
    lanes = [[" "] * _COLUMNS for _ in range(row.lanes)]
    for bar in bars:
        _mark(lanes[bar.lane], _MARKS[bar.kind], bar.start, bar.seconds, whole)
    label = row.label if row.kind in {"turn", "fold"} else f"  {row.label}"
    first, *more = ("".join(lane) for lane in lanes)
    lines = [f"{label:<14} {first} {row.note}", *(f"{'':<14} {lane}" for lane in more)]
    return [line.rstrip() for line in lines]


def _mark(lane: list[str], mark: str, start: float, seconds: float, whole: float) -> None:
    """Fill `lane` with `mark` from `start` on, at least once."""
    scale = _COLUMNS / whole if whole else 0.0
    first = min(round(start * scale), _COLUMNS - 1)
    last = min(max(round((start + seconds) * scale), first + 1), _COLUMNS)
    lane[first:last] = mark * (last - first)
