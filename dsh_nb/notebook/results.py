"""The HTML of what a tool came to: a table, a picture, JSON, Markdown or text, bounded.

Reads: messages, notebook.parts, notebook.arguments, notebook.highlight, notebook.markdown,
notebook.sanitise, notebook.wording. Feeds: notebook.cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.arguments import as_json
from dsh_nb.notebook.highlight import CODE_FONT, code_html
from dsh_nb.notebook.markdown import render_markdown
from dsh_nb.notebook.parts import ToolPart
from dsh_nb.notebook.sanitise import clean_foreign_html, escape, image_html
from dsh_nb.notebook.wording import count, plain_display, strip_controls

__all__ = ["SMALL", "is_rich", "literal_ends", "result_html", "text_html"]

SMALL = "font-size:0.85em;color:var(--jp-ui-font-color2,inherit)"
"""The style of what stands beside the matter."""

FIRST_CHARS = 4_000
"""Characters of a text that are seen at once."""

ALL_CHARS = 50_000
"""Characters of a text that can be unfolded; the rest is in the log alone."""

HTML_CHARS = 200_000
"""Longest HTML of a tool that is shown; the text stands in for what is longer."""

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# What a tool made stays in its box, whatever its styles say.
_BOX_STYLE = "overflow:auto;max-height:28em;margin:0.3em 0"
_PRE_STYLE = (
    "margin:0.3em 0;padding:0.5em 0.75em;border:none;border-radius:6px;line-height:1.45;"
    f"white-space:pre-wrap;overflow-wrap:anywhere;color:inherit;{CODE_FONT};"
    "background-color:var(--jp-cell-editor-background,#7f7f7f14);max-height:28em;overflow:auto"
)
_CODE_STYLE = (
    "padding:0;border:none;background-color:transparent;color:inherit;font-size:1em;"
    "font-family:inherit;white-space:pre-wrap"
)


def is_rich(part: ToolPart) -> bool:
    """True when a picture or a table is to be seen, which no reader should have to unfold."""
    return bool(part.images or _pictures(part.display) or _markup(part))


def result_html(part: ToolPart) -> str:
    """The result as a person should see it; ``""`` before there is one."""
    return "".join(_pieces(part))


def text_html(text: str) -> str:
    """`text` literally: its beginning at once, more of it folded."""
    text = strip_controls(text).strip("\n")
    if len(text) <= FIRST_CHARS:
        return _pre(text)
    more, rest = text[FIRST_CHARS:ALL_CHARS], len(text) - ALL_CHARS
    note = f'<div style="{SMALL}">… {count(rest, "more character")} in the log</div>'
    return (
        f"{_pre(text[:FIRST_CHARS])}<details>"
        f'<summary style="{SMALL}">{count(len(more), "more character")}</summary>'
        f"{_pre(more)}{note if rest > 0 else ''}</details>"
    )


def literal_ends() -> tuple[str, str]:
    """What stands before and after escaped text to show it literally."""
    # A line break right after <pre> would be lost; after <code> it is kept.
    return f'<pre style="{_PRE_STYLE}"><code style="{_CODE_STYLE}">', "</code></pre>"


def _pre(text: str) -> str:
    before, after = literal_ends()
    return f"{before}{escape(text)}{after}"


def _pieces(part: ToolPart) -> Iterator[str]:
    shown = _display(part) if part.display else ""
    if not shown or part.state != "done":
        yield text_html(part.content) if part.content.strip() else ""
    yield shown
    if not _pictures(part.display):
        yield "".join(image_html(image.url, image.alt) for image in part.images)
    if part.overflow_chars:
        total = count(part.overflow_chars, "character")
        note = f"The model was shown the beginning and the end of {total}."
        yield f'<div style="{SMALL}">{note}</div>'


def _display(part: ToolPart) -> str:
    display = part.display or {}
    markup = _markup(part)
    if markup:
        return markup
    pictures = _pictures(display)
    if pictures:
        alt = f"image from {part.name}"
        return "".join(image_html(url, alt) for url in pictures)
    if "application/json" in display:
        return _json(display["application/json"])
    markdown = plain_display(display, "text/markdown")
    if 0 < len(markdown) <= ALL_CHARS:
        return render_markdown(markdown)
    text = plain_display(display, "text/plain")
    return text_html(text) if text.strip() else ""


def _markup(part: ToolPart) -> str:
    html = plain_display(part.display, "text/html")
    return _boxed(html) if 0 < len(html) <= HTML_CHARS else ""


@lru_cache(maxsize=16)  # a table is painted again with each update of its turn
def _boxed(html: str) -> str:
    cleaned = clean_foreign_html(html)
    align = ";text-align:right" if 'class="dataframe"' in html else ""
    return f'<div style="{_BOX_STYLE}{align}">{cleaned}</div>' if cleaned else ""


def _pictures(display: JsonObject | None) -> list[str]:
    found = ((kind, plain_display(display, kind)) for kind in _PICTURES)
    return [f"data:{kind};base64,{''.join(value.split())}" for kind, value in found if value]


def _json(value: object) -> str:
    try:
        text = as_json(value, indent=2)
    except (ValueError, RecursionError):
        return ""
    return code_html(text, "json", label=False) if len(text) <= FIRST_CHARS else text_html(text)
