"""What a person sees of a value: a MIME bundle as Jupyter shows it, bounded.

Reads: messages, tools.media, tools.plain, tools.text. Feeds: tools.results.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from dsh_nb.messages import JsonObject, clean_text
from dsh_nb.tools.media import loaded
from dsh_nb.tools.plain import plain
from dsh_nb.tools.text import safe_text

__all__ = ["display_of", "frame_text", "is_frame", "json_display"]

_ENTRY_CHARS = 1_000_000
_ROWS_WHOLE = 60
_ROWS_OF_LONG = 20
_COLUMNS = 50
_CELL_CHARS = 200
_REPRS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}


def is_frame(value: object) -> bool:
    """Whether `value` is a pandas DataFrame or Series; pandas is never imported to find out."""
    return isinstance(value, loaded("pandas", "DataFrame") + loaded("pandas", "Series"))


def frame_text(frame: Any) -> str:  # Any: pandas is not imported here
    """A DataFrame or Series for the model: its shape, and its rows or only the first and last."""
    rows = len(frame)
    shown = None if rows <= _ROWS_WHOLE else _ROWS_OF_LONG
    part = "" if shown is None else f", {shown} of them shown"
    if frame.ndim == 1:
        head = f"Series, {rows} rows{part}, {frame.dtype}"
        return f"{head}\n{_short_cells(frame.to_frame()).to_string(max_rows=shown)}"
    head = f"DataFrame, {rows} rows{part}, {len(frame.columns)} columns"
    body = frame.to_string(max_rows=shown, max_cols=_COLUMNS, max_colwidth=_CELL_CHARS)
    return f"{head}\n{body}"


def _short_cells(frame: Any) -> Any:
    return frame


def display_of(value: object) -> JsonObject | None:
    """The MIME bundle of a frame, or of an object that knows how Jupyter shows it.

    An entry that raises or is longer than a megabyte is left out; ``None`` when none is left.
    """
    if isinstance(value, type):
        return None
    if is_frame(value):
        return _bundle({"text/html": _called(lambda: _frame_html(value))})
    found = _own_bundle(value)
    for method, mime_type in _REPRS.items():
        if mime_type not in found and callable(getattr(type(value), method, None)):
            found[mime_type] = _called(getattr(value, method))
    return _bundle(found)


def _frame_html(value: Any) -> str:
    frame = value.to_frame() if value.ndim == 1 else value
    html: str = frame.to_html(max_rows=60, max_cols=20, escape=True)
    return html


def _own_bundle(value: object) -> dict[str, object]:
    if not callable(getattr(type(value), "_repr_mimebundle_", None)):
        return {}
    made = _called(lambda: value._repr_mimebundle_(include=None, exclude=None))  # type: ignore[attr-defined]  # checked above
    found = made[0] if isinstance(made, tuple) and made else made  # (data, metadata)
    return {str(name): entry for name, entry in found.items()} if isinstance(found, dict) else {}


def _called(method: Callable[[], object]) -> object:
    try:
        return method()
    except Exception:  # a broken way to show a value hides only itself
        return None


def _bundle(found: Mapping[str, object]) -> JsonObject | None:
    entries = {clean_text(name): _entry(name, value) for name, value in found.items()}
    return {name: value for name, value in entries.items() if value is not None} or None


def _entry(name: str, value: object) -> object:
    """One entry as strict JSON; ``None`` when there is nothing to show or too much of it."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        value = value[0]  # with metadata
    if value is None:
        return None
    if isinstance(value, bytes):
        text = base64.b64encode(value).decode()
    elif isinstance(value, str):
        text = clean_text(str.__str__(value))
    elif name.endswith("json"):
        return json_display(plain(value))
    else:
        text = clean_text(safe_text(value))
    return text if len(text) <= _ENTRY_CHARS else None


def json_display(value: object) -> object:
    """Plain JSON for people; ``None`` when it is longer than a megabyte."""
    return value if len(json.dumps(value, ensure_ascii=False)) <= _ENTRY_CHARS else None
