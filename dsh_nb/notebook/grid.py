"""A small table of a frame as HTML, Markdown and plain text, calm on light pages and dark ones.

Reads: notebook.literal, notebook.sanitise, notebook.wording. Feeds: notebook.export,
notebook.saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dsh_nb.notebook.literal import line_text
from dsh_nb.notebook.sanitise import escape
from dsh_nb.notebook.wording import money_text, seconds_text, strip_controls

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Grid", "grid_of"]

_LINE = "var(--jp-border-color2,#7f7f7f59)"
_TABLE = f"border-collapse:collapse;font-size:0.92em;line-height:1.45;border-top:1px solid {_LINE}"
_CELL = (
    f"padding:0.3em 0.8em 0.3em 0;border-bottom:1px solid {_LINE};vertical-align:top;"
    "background-color:transparent"
)
_RIGHT = ";text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_LEFT = ";text-align:left"


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of text under headings.

    Attributes:
        headings: One for each column.
        rows: The cells, row by row.
        numeric: Which columns hold numbers, and stand to the right.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]

    def html(self, link: Callable[[str], str] | None = None) -> str:
        """The table as one element; nothing in it runs or is loaded.

        Args:
            link: Gives the address that a first cell leads to.
        """
        head = "".join(
            f'<th scope="col" style="{_CELL}{self._side(n)};font-weight:600">{escape(one)}</th>'
            for n, one in enumerate(self.headings)
        )
        rows = "".join(f"<tr>{self._row(row, link)}</tr>" for row in self.rows)
        return (
            f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        )

    def markdown(self) -> str:
        """The table as lines of pipes."""
        rule = ("---:" if right else "---" for right in self.numeric)
        lines = [map(line_text, self.headings), rule]
        lines += [map(line_text, row) for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def plain(self) -> str:
        """The table in columns of spaces."""
        rows = [self.headings, *self.rows]
        said = [[" ".join(strip_controls(cell).split()) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*said, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, self.numeric, strict=True)
            ).rstrip()
            for row in said
        )

    def _row(self, row: tuple[str, ...], link: Callable[[str], str] | None) -> str:
        cells = [escape(strip_controls(cell)) for cell in row]
        if link is not None:
            cells[0] = f'<a href="{escape(link(row[0]))}">{cells[0]}</a>'
        return "".join(
            f'<td style="{_CELL}{self._side(n)}">{cell}</td>' for n, cell in enumerate(cells)
        )

    def _side(self, column: int) -> str:
        return _RIGHT if self.numeric[column] else _LEFT


def grid_of(frame: pd.DataFrame, headings: Mapping[str, str]) -> Grid:
    """The columns of `frame` that have headings, as a person reads them; missing values empty."""
    import pandas as pd

    columns = [
        [
            "" if missing else _cell(name, value)
            for value, missing in zip(frame[name], frame[name].isna(), strict=True)
        ]
        for name in headings
    ]
    numeric = (pd.api.types.is_numeric_dtype(frame[name]) for name in headings)
    return Grid(tuple(headings.values()), tuple(zip(*columns, strict=True)), tuple(numeric))


def _cell(name: str, value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, float):
        return money_text(value) if name == "cost" else seconds_text(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
