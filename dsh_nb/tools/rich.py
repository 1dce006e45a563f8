"""What a person sees of a value: a MIME bundle as Jupyter shows it, bounded.

Reads: messages, tools.frames, tools.plain, tools.text. Feeds: tools.results.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from dsh_nb.messages import JsonObject, clean_text
from dsh_nb.tools.frames import frame_display, is_frame
from dsh_nb.tools.plain import json_text, plain
from dsh_nb.tools.text import safe_str

__all__ = ["display_of", "json_display"]

_ENTRY_CHARS = 1_000_000
_REPRS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}


def display_of(value: object) -> JsonObject | None:
    """The MIME bundle of a frame, or of an object that knows how Jupyter shows it.

    An entry that raises or is longer than a megabyte is left out; ``None`` when none is left.
    """
    if isinstance(value, type):
        return None
    if is_frame(value):
        return _bundle(frame_display(value))
    found = _own_bundle(value)
    for method, mime_type in _REPRS.items():
        if mime_type not in found and callable(getattr(type(value), method, None)):
            found[mime_type] = _called(getattr(value, method))
    return _bundle(found)


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
        text = clean_text(safe_str(value))
    return text if len(text) <= _ENTRY_CHARS else None


def json_display(value: object) -> object:
    """Plain JSON for people; ``None`` when it is longer than a megabyte."""
    return value if len(json_text(value)) <= _ENTRY_CHARS else None
