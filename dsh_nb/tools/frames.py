"""Frames and series of pandas: a bounded table for the model, an escaped one for the person.

Reads: messages, tools.text. Feeds: tools.plain, tools.rich, tools.results.
"""

from __future__ import annotations

import sys
from typing import Any

from dsh_nb.messages import JsonObject
from dsh_nb.tools.text import type_name, visible_text

__all__ = ["frame_display", "frame_text", "is_frame"]

_TEXT_ROWS, _TEXT_COLUMNS, _CELL_CHARS = 40, 20, 200
_HTML_ROWS, _HTML_COLUMNS = 60, 20


def is_frame(value: object) -> bool:
    """True for a DataFrame or Series; never imports pandas."""
    pandas = sys.modules.get("pandas")
    kinds = (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None))
    return any(isinstance(kind, type) and isinstance(value, kind) for kind in kinds)


def frame_text(frame: Any) -> str:  # Any: pandas is not imported here
    """Shape, types of the columns, and the first and last rows of `frame`."""
    if frame.ndim == 1:
        title = f"{type_name(frame)} of {_count(len(frame), 'value')}, {frame.dtype}"
        body = frame.to_string(max_rows=_TEXT_ROWS)
    else:
        rows, columns = frame.shape
        size = f"{_count(rows, 'row')} x {_count(columns, 'column')}"
        title = f"{type_name(frame)} of {size}\ndtypes: {_types(frame)}"
        body = frame.to_string(
            max_rows=_TEXT_ROWS, max_cols=_TEXT_COLUMNS, max_colwidth=_CELL_CHARS
        )
    return visible_text(f"{title}\n{body}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _types(frame: Any) -> str:
    pairs = list(zip(frame.columns[:_TEXT_COLUMNS], frame.dtypes[:_TEXT_COLUMNS], strict=True))
    named = [f"{name} {dtype}" for name, dtype in pairs]
    more = frame.shape[1] - len(named)
    return ", ".join([*named, f"… {more} more"] if more else named) or "none"


def frame_display(frame: Any) -> JsonObject:
    """The table as HTML that pandas escaped, and as text."""
    table = frame.to_frame() if frame.ndim == 1 else frame
    html = table.to_html(max_rows=_HTML_ROWS, max_cols=_HTML_COLUMNS, escape=True, notebook=True)
    return {"text/html": visible_text(html), "text/plain": frame_text(frame)}
