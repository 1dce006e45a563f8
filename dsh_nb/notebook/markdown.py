"""The one Markdown renderer: what a model wrote becomes HTML that is safe to show anywhere.

Reads: messages, notebook.sanitise, notebook.highlight, notebook.maths. Feeds: notebook.cards.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from dsh_nb.messages import clean_text
from dsh_nb.notebook.highlight import CODE_FONT, code_html
from dsh_nb.notebook.maths import maths_plugin
from dsh_nb.notebook.sanitise import LINK_STYLE, clean_html, image_html, is_link

__all__ = ["new_parser", "render_markdown"]

_HEADING = "font-weight:600;line-height:1.3;margin:1em 0 0.4em"
_STYLES = {
    "paragraph_open": "margin:0.5em 0",
    "bullet_list_open": "margin:0.5em 0;padding-left:1.6em",
    "ordered_list_open": "margin:0.5em 0;padding-left:1.6em",
    "list_item_open": "margin:0.15em 0",
    "blockquote_open": (
        "margin:0.6em 0;padding:0.1em 0 0.1em 0.9em;"
        "border-left:3px solid var(--jp-border-color1,#7f7f7f80)"
    ),
    "code_inline": (
        f"{CODE_FONT};padding:0.1em 0.3em;border-radius:4px;color:inherit;"
        "background-color:var(--jp-cell-editor-background,#7f7f7f1f)"
    ),
    "hr": "border:none;border-top:1px solid var(--jp-border-color2,#7f7f7f59);margin:1em 0",
    "link_open": LINK_STYLE,
}
_HEADING_SIZES = {"h1": "1.4em", "h2": "1.25em", "h3": "1.1em"}


def render_markdown(text: str) -> str:
    r"""Markdown as an HTML fragment with inline styles and nothing that runs or loads.

    CommonMark with tables and strikethrough. Raw HTML is shown literally, links lead to ``http``,
    ``https`` and ``mailto``, remote images become a link to them, ``$x$``, ``\(x\)``, ``$$x$$`` and
    ``\[x\]`` become MathML (or stay as they are where they are not well-formed), code is coloured.
    A code block that is not closed yet is code to its end.
    """
    return clean_html(_MARKDOWN.render(clean_text(text), {}))


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
        for child in token.children or ():
            _style_token(child)


def _style_token(token: Token) -> None:
    style = _STYLES.get(token.type)
    if token.type == "heading_open":
        style = f"{_HEADING};font-size:{_HEADING_SIZES.get(token.tag, '1em')}"
    if style is not None:
        token.attrSet("style", style)


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
