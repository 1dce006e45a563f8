"""The arguments of a tool call as a person reads them: indented, or on one line.

Reads: messages. Feeds: notebook.transcript, notebook.cards, notebook.prose.
"""

from __future__ import annotations

import json

from dsh_nb.messages import clean_text

__all__ = ["as_json", "on_one_line", "pretty_json"]


def pretty_json(raw: str) -> str:
    """JSON text indented; `raw` itself when it is not JSON, or says one key twice."""
    try:
        return as_json(_decoded(raw), indent=2)
    except (ValueError, RecursionError):
        return raw


def on_one_line(arguments: str, limit: int) -> str:
    """`arguments` as ``key="value", other=1``, cut to `limit` characters."""
    try:
        value = _decoded(arguments)
    except (ValueError, RecursionError):
        value = None
    text = arguments
    if isinstance(value, dict):
        text = ", ".join(f"{key}={as_json(item)}" for key, item in value.items())
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def as_json(value: object, indent: int | None = None) -> str:
    """JSON text with its letters readable.

    Raises:
        ValueError: `value` contains itself.
        RecursionError: It is nested too deeply.
    """
    return clean_text(json.dumps(value, indent=indent, ensure_ascii=False, default=repr))


def _decoded(raw: str) -> object:
    return json.loads(raw or "{}", object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):  # the reader must see both, whichever one the tool gets
        raise ValueError("a key comes twice; show the text as it is")
    return found
