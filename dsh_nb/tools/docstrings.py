"""What a docstring tells a model: the summary, and a text for each parameter.

Feeds: tools.parameters, tools.schema.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import docstring_parser

__all__ = ["Doc", "read_docstring"]

_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Params):")
_FIRST = "First line"  # the parser wants one, and not every docstring has it


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
    clean = _indented(inspect.cleandoc(text or ""))
    try:
        parsed = docstring_parser.parse(f"{_FIRST}\n\n{clean}")
    except docstring_parser.ParseError:  # no known style: the first paragraph is the summary
        return Doc(" ".join(clean.partition("\n\n")[0].split()), {})
    found: dict[str, str] = {}
    for entry in parsed.params:
        for name in entry.arg_name.split(","):  # NumPy: ``x, y : int``
            found[name.strip().lstrip("*")] = _dense(entry.description or "")
    return Doc(_summary(parsed), found)


def _indented(clean: str) -> str:
    """`clean` with the indent that a docstring of nothing but a section lost in cleaning."""
    first, _, rest = clean.partition("\n")
    if not _SECTION.fullmatch(first) or not rest or rest[0].isspace():
        return clean
    return f"{first}\n{textwrap.indent(rest, '    ')}"


def _dense(text: str) -> str:
    """`text` without blank lines: the styles do not agree on which of them they keep."""
    lines = inspect.cleandoc(text).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _summary(parsed: docstring_parser.Docstring) -> str:
    paragraph = (parsed.long_description or "").partition("\n\n")[0]
    return " ".join(paragraph.split())
