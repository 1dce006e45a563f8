"""Text made safe to stand in Markdown: HTML escaped, images as links, fences that close.

Reads: notebook.markdown, notebook.maths, notebook.wording. Feeds: notebook.prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dsh_nb.notebook.markdown import new_parser
from dsh_nb.notebook.maths import maths_end
from dsh_nb.notebook.wording import strip_controls

__all__ = ["code_span", "fenced", "is_literal", "line_text", "literal_markdown", "quoted"]

_PARSER = new_parser()
_HTML_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_BACKTICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"([\\`*_\[\]<>$|~#!&])")
# A backslash pair, a run of backticks, dollars, an opening of HTML, or an image.
_MARK = re.compile(r"\\[\s\S]|`+|\$+|<(?=[A-Za-z/!?])(?!(?:https?://|mailto:)[^\s<>]*>)|!\[")


def line_text(text: str) -> str:
    """`text` on one line, with every character that Markdown reads escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(strip_controls(text).split()))


def code_span(text: str) -> str:
    """`text` as code in a line, between more backticks than it holds."""
    text = " ".join(strip_controls(text).split())
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced(text: str) -> str:
    """`text` as a code block, between fences longer than any inside."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def quoted(text: str) -> str:
    """`text` as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def literal_markdown(text: str, *, strict: bool = False) -> str:
    """Markdown as it is, but raw HTML shown literally, images as links, an open fence closed.

    Args:
        text: The Markdown.
        strict: True to escape in code as well, which shows there but cannot be got wrong.
    """
    text = strip_controls(text)
    tokens = _PARSER.parse(text)
    lines = text.split("\n")
    if strict:
        body = text.replace("<", "&lt;").replace("![", "image: [")
    else:
        body = "\n".join(_pieces(lines, _code_lines(tokens)))
    return body + _missing_fence(tokens, lines)


def is_literal(markdown: str) -> bool:
    """True when a reader of Markdown that allows HTML finds neither HTML nor an image in it."""
    found: set[str] = set()
    for token in _HTML_PARSER.parse(markdown):
        found.add(token.type)
        found.update(child.type for child in token.children or ())
    return found.isdisjoint({"html_block", "html_inline", "image"})


def _code_lines(tokens: list[Token]) -> set[int]:
    return {
        number
        for token in tokens
        if token.type in ("fence", "code_block") and token.map
        for number in range(*token.map)
    }


def _pieces(lines: list[str], code: set[int]) -> Iterator[str]:
    """The lines with what is not code made literal, a run of such lines at a time."""
    prose: list[str] = []
    for number, line in enumerate(lines):
        if number in code:
            yield from _literal_run(prose)
            prose = []
            yield line
        else:
            prose.append(line)
    yield from _literal_run(prose)


def _literal_run(lines: list[str]) -> Iterator[str]:
    # A code span ends with its paragraph at the latest.
    paragraph: list[str] = []
    for line in lines:
        if line.strip():
            paragraph.append(line)
        else:
            yield from _literal_paragraph(paragraph)
            paragraph = []
            yield line
    yield from _literal_paragraph(paragraph)


def _literal_paragraph(lines: list[str]) -> Iterator[str]:
    if lines:
        yield "".join(_literal("\n".join(lines)))


def _literal(text: str) -> Iterator[str]:
    ends = _last_runs(text)
    position = 0
    while found := _MARK.search(text, position):
        yield text[position : found.start()]
        mark, position = found[0], found.end()
        if mark[0] == "`" and ends.get(len(mark), 0) > found.start():
            end = _span_end(text, position, mark)
            yield text[found.start() : end]
            position = end
        elif mark[0] == "$":
            # Readers of Markdown take a price and the next one for the ends of a formula.
            end = maths_end(text, found.start())
            position = end or position
            yield text[found.start() : end] if end else mark.replace("$", "\\$")
        else:
            yield {"<": "&lt;", "![": "image: ["}.get(mark, mark)
    yield text[position:]


def _last_runs(text: str) -> dict[int, int]:
    """Where the last run of backticks of each length begins."""
    return {len(run[0]): run.start() for run in _BACKTICKS.finditer(text)}


def _span_end(text: str, position: int, ticks: str) -> int:
    for run in _BACKTICKS.finditer(text, position):
        if run[0] == ticks:
            return run.end()
    return position


def _missing_fence(tokens: list[Token], lines: list[str]) -> str:
    """What closes a fence that is open at the end, so that what follows is no code."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.level or not last.map:
        return ""
    first, stop = last.map
    closing = lines[stop - 1].strip()
    is_closed = stop - first > 1 and len(closing) >= len(last.markup)
    if is_closed and not closing.strip(last.markup[0]):
        return ""
    return f"\n{last.markup}"
