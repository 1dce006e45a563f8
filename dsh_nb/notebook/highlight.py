"""Code in HTML, coloured by inline styles that read well on light and on dark pages.

Reads: notebook.sanitise. Feeds: notebook.markdown, notebook.cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from dsh_nb.notebook.sanitise import escape

__all__ = ["CODE_FONT", "code_html"]

CODE_FONT = "font-family:var(--jp-code-font-family,monospace);font-size:0.92em"
"""The style of code, in a line of text or in a block."""

MAX_COLOURED_CHARS = 10_000
"""Longer code stays uncoloured: a coloured token takes about five times its text."""

_BLOCK_STYLE = (
    "margin:0.5em 0;border-radius:6px;padding:0.5em 0.75em;overflow-x:auto;"
    "border:1px solid var(--jp-border-color2,#7f7f7f40);"
    "background-color:var(--jp-cell-editor-background,#7f7f7f14)"
)
_LABEL_STYLE = (
    "float:right;font-size:0.78em;line-height:1.4;padding-left:1em;user-select:none;"
    "color:var(--jp-ui-font-color2,inherit)"
)
_PRE_STYLE = (
    "margin:0;padding:0;border:none;line-height:1.45;white-space:pre-wrap;overflow-wrap:anywhere;"
    f"background-color:transparent;color:inherit;{CODE_FONT}"
)
_CODE_STYLE = (
    "padding:0;border:none;background-color:transparent;color:inherit;font-size:1em;"
    "font-family:inherit;white-space:pre-wrap"
)

# Each has a contrast of about 4 or more on white and on #111 alike. They are no variables of a
# page: a saved notebook holds them once a token.
_COLOURS: dict[_TokenType, str] = {
    Token.Comment: "color:#767676;font-style:italic",
    Token.Comment.Preproc: "color:#9a5fd0",
    Token.Keyword: "color:#2a8540",
    Token.Keyword.Constant: "color:#2a8540",
    Token.Literal.Number: "color:#a8662b",
    Token.Literal.String: "color:#c9484d",
    Token.Name.Attribute: "color:#3b78c4",
    Token.Name.Builtin: "color:#2a8540",
    Token.Name.Class: "color:#3b78c4",
    Token.Name.Decorator: "color:#9a5fd0",
    Token.Name.Function: "color:#3b78c4",
    Token.Name.Tag: "color:#3b78c4",
    Token.Operator: "color:#9a5fd0",
    Token.Operator.Word: "color:#2a8540",
    Token.Generic.Deleted: "color:#c9484d",
    Token.Generic.Inserted: "color:#2a8540",
}


def code_html(code: str, language: str = "", *, label: bool = True) -> str:
    """`code` as a block of its own, with the name of its language in the corner.

    Args:
        code: The code; the block's text is exactly this, without the last line break.
        language: A name that Pygments knows; any other leaves the code uncoloured.
        label: False to leave the name out.
    """
    name = (
        f'<div style="{_LABEL_STYLE}" aria-hidden="true">{escape(language)}</div>'
        if label and language
        else ""
    )
    body = _coloured(code.removesuffix("\n"), language)
    # A line break right after <pre> would be lost; after <code> it is kept.
    return (
        f'<div style="{_BLOCK_STYLE}">{name}'
        f'<pre style="{_PRE_STYLE}"><code style="{_CODE_STYLE}">{body}</code></pre></div>'
    )


def _coloured(code: str, language: str) -> str:
    lexer = _lexer(language) if len(code) <= MAX_COLOURED_CHARS else None
    return escape(code) if lexer is None else "".join(_spans(code, lexer))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _spans(code: str, lexer: Lexer) -> Iterator[str]:
    for style, tokens in groupby(lexer.get_tokens(code), key=lambda token: _style(token[0])):
        text = escape("".join(value for _, value in tokens))
        yield f'<span style="{style}">{text}</span>' if style else text


@lru_cache(maxsize=512)
def _style(kind: _TokenType) -> str:
    while kind is not None and kind not in _COLOURS:
        kind = kind.parent
    return "" if kind is None else _COLOURS[kind]
