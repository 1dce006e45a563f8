"""The one Markdown renderer: what a model wrote becomes HTML that is safe to show anywhere.

Reads: messages, notebook.sanitise, notebook.highlight, notebook.maths. Feeds: notebook.cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from dsh_nb.messages import clean_text
from dsh_nb.notebook.highlight import code_html
from dsh_nb.notebook.maths import maths_plugin
from dsh_nb.notebook.sanitise import clean_html, image_html, is_link

__all__ = ["OpenMarkdown", "markdown_blocks", "new_parser", "render_markdown", "render_open"]

# Pages style paragraphs, lists, links and inline code themselves, and saved ones grow with each
# style that is said again; their headings would shout.
_HEADING = "font-weight:600;line-height:1.3;margin:1em 0 0.4em"
_HEADING_SIZES = {"h1": "1.4em", "h2": "1.25em", "h3": "1.1em"}


def render_markdown(text: str) -> str:
    r"""Markdown as an HTML fragment with inline styles and nothing that runs or loads.

    CommonMark with tables and strikethrough. Raw HTML is shown literally, links lead to ``http``,
    ``https`` and ``mailto``, remote images become a link to them, ``$x$``, ``\(x\)``, ``$$x$$`` and
    ``\[x\]`` become MathML (or stay as they are where they are not well-formed), code is coloured.
    A code block that is not closed yet is code to its end.
    """
    return "".join(markdown_blocks(text))


def markdown_blocks(text: str) -> list[str]:
    """The blocks of `text`, each as its own fragment; joined they are `render_markdown`."""
    env: dict[str, object] = {}
    tokens = _MARKDOWN.parse(clean_text(text), env)
    return [_block_html(tokens[part], env) for part in _blocks(tokens)]


class OpenMarkdown(NamedTuple):
    """The beginning of a text that goes on.

    Attributes:
        closed: The blocks that nothing after them changes, but for a link whose definition comes.
        source: The Markdown of what follows them, which is still open.
        html: How that looks so far.
    """

    closed: list[str]
    source: str
    html: str


def render_open(text: str) -> OpenMarkdown:
    """`text`, which goes on, parted into what is finished and what is open."""
    env: dict[str, object] = {}
    text = clean_text(text)
    tokens = _MARKDOWN.parse(text, env)
    parts = _blocks(tokens)
    lines = text.split("\n")
    is_open = _first_open(tokens, parts, len(lines) - 1)
    first = _line(tokens, parts[is_open]) if is_open else 0
    return OpenMarkdown(
        [_block_html(tokens[part], env) for part in parts[:is_open]],
        "\n".join(lines[first:]) if is_open else text,
        "".join(_block_html(tokens[part], env) for part in parts[is_open:]),
    )


def _blocks(tokens: Sequence[Token]) -> list[slice]:
    """Where the blocks of a document stand among its tokens."""
    starts = [
        index for index, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0
    ]
    return [slice(*ends) for ends in pairwise([*starts, len(tokens)])]


def _first_open(tokens: Sequence[Token], parts: Sequence[slice], last_line: int) -> int:
    """Position of the first block that what comes may change.

    A block is closed by one after it, unless that one begins on a line that is not complete: it
    may turn out to be no block of its own.
    """
    is_open = len(parts) - 1
    if is_open > 0 and _line(tokens, parts[is_open]) >= last_line:
        is_open -= 1
    return max(is_open, 0)


def _line(tokens: Sequence[Token], part: slice) -> int:
    place = tokens[part.start].map
    return place[0] if place else 0


def _block_html(tokens: Sequence[Token], env: EnvType) -> str:
    return clean_html(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env))


def new_parser() -> MarkdownIt:
    """A parser of the dialect that `render_markdown` reads."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.use(maths_plugin)
    # The types of the library call it a method; a function on the instance is how it is meant.
    parser.validateLink = _is_valid  # type: ignore[method-assign]
    return parser


def _is_valid(url: str) -> bool:
    return is_link(url) or url.startswith("data:image/")


def _style(state: StateCore) -> None:
    for token in state.tokens:
        _style_token(token)


def _style_token(token: Token) -> None:
    if token.type == "heading_open":
        size = _HEADING_SIZES.get(token.tag, "1em")
        token.attrSet("style", f"{_HEADING};font-size:{size}")


def _render_code(
    self: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    words = token.info.split()
    return code_html(token.content, words[0] if words else "")


def _render_table(
    self: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    if tokens[index].nesting == 1:
        return '<div style="overflow-x:auto"><table>'
    return "</table></div>"


def _render_link(
    self: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    opens = tokens[index].nesting == 1
    env["in_link"] = opens
    if not opens:
        return "</a>"
    return str(self.renderToken(tokens, index, options, env))  # type: ignore[attr-defined]


def _render_image(
    self: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    alt = _plain(token.children or ())
    return image_html(str(token.attrGet("src") or ""), alt, linked=not env.get("in_link"))


def _plain(tokens: Sequence[Token]) -> str:
    return "".join(token.content or _plain(token.children or ()) for token in tokens)


def _new_renderer() -> MarkdownIt:
    markdown = new_parser()
    markdown.core.ruler.push("styles", _style)
    markdown.add_render_rule("fence", _render_code)
    markdown.add_render_rule("code_block", _render_code)
    markdown.add_render_rule("image", _render_image)
    for name in ("table_open", "table_close"):
        markdown.add_render_rule(name, _render_table)
    for name in ("link_open", "link_close"):
        markdown.add_render_rule(name, _render_link)
    return markdown


_MARKDOWN = _new_renderer()
