"""What a docstring tells a model: the summary, and a text for each parameter.

Feeds: tools.parameters, tools.schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import docstring_parser

__all__ = ["Doc", "read_docstring"]


@dataclass(frozen=True, slots=True)
class Doc:
    """A docstring, read.

    Attributes:
        summary: Its first paragraph on one line; ``""`` when there is none.
        parameters: The whole text of each parameter that it tells of.
    """

    summary: str
    parameters: Mapping[str, str]


def read_docstring(text: str | None) -> Doc:
    """Read a docstring in Google, NumPy, reST or Epydoc style, or in none of them."""
    clean = inspect.cleandoc(text or "")
    try:
        parsed = docstring_parser.parse(clean)
    except docstring_parser.ParseError:  # no known style: the first paragraph is the summary
        return Doc(" ".join(clean.partition("\n\n")[0].split()), {})
    found: dict[str, str] = {}
    for entry in parsed.params:
        for name in entry.arg_name.split(","):  # NumPy: ``x, y : int``
            found[name.strip().lstrip("*")] = inspect.cleandoc(entry.description or "").strip()
    return Doc(_summary(parsed), found)


def _summary(parsed: docstring_parser.Docstring) -> str:
    lines = parsed.short_description or ""
    if parsed.long_description and not parsed.blank_after_short_description:
        lines += "\n" + parsed.long_description.partition("\n\n")[0]
    return " ".join(lines.split())
