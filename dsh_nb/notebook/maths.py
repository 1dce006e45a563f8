"""Maths in Markdown: which dollars are maths, and LaTeX as MathML.

Reads: notebook.sanitise, notebook.highlight. Feeds: notebook.markdown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import tostring

from latex2mathml.converter import Converter
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from dsh_nb.notebook.highlight import CODE_FONT
from dsh_nb.notebook.sanitise import escape

__all__ = ["maths_end", "maths_plugin"]

MAX_CHARS = 2_000
"""Longest formula; what is longer stays text, so that looking for its end costs little."""


class _Delimiters(NamedTuple):
    opening: str
    closing: str
    display: bool


_DELIMITERS = (
    _Delimiters("$$", "$$", True),
    _Delimiters("\\[", "\\]", True),
    _Delimiters("\\(", "\\)", False),
    _Delimiters("$", "$", False),
)

# "$5 and 10$": a number and words, where a formula would have a command or an operator.
_MONEY = re.compile(r"\d[\d.,]*[kKmMbB]?\s+[A-Za-z]{2,}\s")
_ENTITY = re.compile(r"&#x([0-9A-Fa-f]{1,6});")
# Macros can grow a formula beyond all bounds.
_MACRO = re.compile(r"\\(?:def|(?:re)?newcommand|(?:re)?newenvironment|DeclareMathOperator)")


def maths_plugin(markdown: MarkdownIt) -> None:
    r"""Make ``$x$``, ``\(x\)``, ``$$x$$`` and ``\[x\]`` maths; money stays text.

    A single dollar opens maths when no letter, digit or space is on its wrong side, and the closing
    one likewise: ``from $5 to $10`` and ``US$5`` have none.
    """
    markdown.inline.ruler.before("escape", "maths", _inline_rule)
    markdown.block.ruler.before(
        "fence", "maths_block", _block_rule, {"alt": ["paragraph", "reference", "blockquote"]}
    )
    markdown.add_render_rule("maths", _render)
    markdown.add_render_rule("maths_block", _render)


def _inline_rule(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    found = _found(state.src, state.pos)
    if found is None:
        return False
    delimiters, end = found
    if not silent:
        start = state.pos + len(delimiters.opening)
        content = state.src[start : end - len(delimiters.closing)]
        _fill(state.push("maths", "math", 0), content, delimiters)
    state.pos = end
    return True


def maths_end(text: str, start: int) -> int:
    """Where the maths that opens at `start` is over; 0 when none opens there."""
    found = _found(text, start)
    return 0 if found is None else found[1]


def _found(text: str, start: int) -> tuple[_Delimiters, int] | None:
    for delimiters in _DELIMITERS:
        if text.startswith(delimiters.opening, start):
            end = _end(text, start, delimiters)
            if end:
                return delimiters, end
    return None


def _fill(token: Token, content: str, delimiters: _Delimiters) -> None:
    token.content = content
    token.meta = {"delimiters": delimiters}


def _end(text: str, start: int, delimiters: _Delimiters) -> int:
    """Where the maths that opens at `start` is over; 0 when it is none."""
    begin = start + len(delimiters.opening)
    close = _closing(text, begin, delimiters.closing)
    if close < 0:
        return 0
    content, end = text[begin:close], close + len(delimiters.closing)
    if not content.strip() or "`" in content:
        return 0
    if delimiters.opening == "$":
        return end if _is_single_dollar_maths(text, start, content, end) else 0
    return 0 if delimiters.opening == "$$" and text[end : end + 1] == "$" else end


def _closing(text: str, begin: int, closing: str) -> int:
    limit = min(len(text), begin + MAX_CHARS)
    close = text.find(closing, begin, limit)
    while close >= 0 and _is_escaped(text, close, begin):
        close = text.find(closing, close + 1, limit)
    return close


def _is_escaped(text: str, position: int, begin: int) -> bool:
    before = text[begin:position]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _is_single_dollar_maths(text: str, start: int, content: str, end: int) -> bool:
    outer = text[start - 1 : start] + text[end : end + 1]
    return (
        not any(character.isalnum() or character == "$" for character in outer)
        and not content[0].isspace()
        and not content[-1].isspace()
        and "$" not in content.replace("\\$", "")
        and not _MONEY.match(content)
    )


def _block_rule(state: StateBlock, first: int, stop: int, silent: bool) -> bool:
    if state.is_code_block(first):
        return False
    start = state.bMarks[first] + state.tShift[first]
    for delimiters in _DELIMITERS[:2]:
        if state.src.startswith(delimiters.opening, start):
            last = _last_line(state, first, stop, delimiters)
            if last is None:
                return False
            if not silent:
                _push_block(state, first, last, delimiters)
            return True
    return False


def _last_line(state: StateBlock, first: int, stop: int, delimiters: _Delimiters) -> int | None:
    chars = 0
    for line in range(first, stop):
        text = _line(state, line)
        chars += len(text) + 1
        if line == first:
            text = text[len(delimiters.opening) :]
        elif text.startswith("\\["):  # another one begins: the first is none
            return None
        if text.rstrip().endswith(delimiters.closing):
            return line
        if chars > MAX_CHARS or delimiters.closing in text or state.isEmpty(line):
            return None
    return None


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _push_block(state: StateBlock, first: int, last: int, delimiters: _Delimiters) -> None:
    state.line = last + 1
    token = state.push("maths_block", "math", 0)
    token.block = True
    token.map = [first, state.line]
    text = "\n".join(_line(state, line) for line in range(first, last + 1)).rstrip()
    _fill(token, text[len(delimiters.opening) : -len(delimiters.closing)], delimiters)


def _render(
    self: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    delimiters: _Delimiters = token.meta["delimiters"]
    body = _mathml(token.content.strip(), delimiters.display)
    if body is None:
        source = escape(f"{delimiters.opening}{token.content}{delimiters.closing}")
        body = f'<code style="{CODE_FONT}">{source}</code>'
    if not delimiters.display:
        return body
    tag = "div" if token.block else "span"
    style = "display:block;margin:0.6em 0;overflow-x:auto;overflow-wrap:normal"
    return f'<{tag} style="{style}">{body}</{tag}>'


def _mathml(source: str, display: bool) -> str | None:
    if _MACRO.search(source):
        return None
    try:
        tree = Converter(display="block" if display else "inline").convert_to_element(source)
    except Exception:  # the converter raises whatever comes up where the LaTeX is not well-formed
        return None
    for element in tree.iter():
        # Symbols come as the text of an entity, unknown commands as themselves.
        element.text = _ENTITY.sub(lambda found: chr(int(found[1], 16)), element.text or "")
        if element.text.startswith("\\") and len(element.text) > 1 and element.tag != "mtext":
            return None
    return tostring(tree, encoding="unicode")
