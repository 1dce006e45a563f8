"""The HTML of what a tool came to: a table, a picture, JSON, or bounded text.

Reads: notebook.parts, notebook.arguments, notebook.highlight, notebook.markdown,
notebook.sanitise, notebook.wording. Feeds: notebook.cards.
"""

from __future__ import annotations

from dsh_nb.notebook.arguments import as_json
from dsh_nb.notebook.highlight import code_html
from dsh_nb.notebook.markdown import render_markdown
from dsh_nb.notebook.parts import ToolPart
from dsh_nb.notebook.sanitise import clean_foreign_html, image_html
from dsh_nb.notebook.wording import count, plain_display, strip_controls

__all__ = ["bounded_html", "is_shown_open", "result_html"]

MAX_HEAD = 4_000
"""Characters of a text that are shown at once."""

MAX_TEXT = 50_000
"""Characters of a text that are shown at all; the log has the rest."""

MAX_HTML = 200_000
"""Longest HTML of a tool; a longer one gives way to text."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NOTE = "color:var(--jp-content-font-color2,inherit);font-size:0.86em"


def is_shown_open(part: ToolPart) -> bool:
    """True when the result is a table or a picture, which people want to see at once."""
    kinds = part.display or {}
    return bool(part.images) or any(kind in kinds for kind in ("text/html", *_IMAGES))


def result_html(part: ToolPart) -> str:
    """What the tool came to, in its richest form that can be shown; ``""`` before the result."""
    shown = _shown(part)
    pictures = "".join(image_html(image.url, image.alt) for image in part.images)
    if not shown and not pictures:
        shown = bounded_html(strip_controls(part.content)) if part.content else ""
    return shown + ("" if _picture(part) else pictures) + _overflow_note(part)


def _shown(part: ToolPart) -> str:
    html = plain_display(part.display, "text/html")
    if html and len(html) <= MAX_HTML and (cleaned := clean_foreign_html(html)):
        return f'<div style="overflow-x:auto">{cleaned}</div>'
    return _picture(part) or _structured(part)


def _picture(part: ToolPart) -> str:
    for kind in _IMAGES:
        encoded = "".join(plain_display(part.display, kind).split())
        if encoded:
            return image_html(f"data:{kind};base64,{encoded}", f"image from {part.name}")
    return ""


def _structured(part: ToolPart) -> str:
    display = part.display or {}
    if "application/json" in display:
        try:
            return bounded_html(as_json(display["application/json"], indent=2), "json")
        except (ValueError, RecursionError):
            return ""
    markdown = plain_display(display, "text/markdown")
    if markdown and len(markdown) <= MAX_TEXT:
        return render_markdown(markdown)
    text = plain_display(display, "text/plain")
    return bounded_html(strip_controls(text)) if text else ""


def bounded_html(text: str, language: str = "") -> str:
    """`text` as code: its head, the rest folded, and a word about what is left out."""
    html = code_html(text[:MAX_HEAD], language, label=False)
    rest = text[MAX_HEAD:MAX_TEXT]
    if rest:
        html += (
            f'<details><summary style="{_NOTE}">{count(len(text) - MAX_HEAD, "more character")}'
            f"</summary>{code_html(rest, label=False)}</details>"
        )
    if len(text) > MAX_TEXT:
        left = count(len(text) - MAX_TEXT, "character")
        html += (
            f'<div style="{_NOTE}">The last {left} are not shown; the session log has them.</div>'
        )
    return html


def _overflow_note(part: ToolPart) -> str:
    if not part.overflow_chars:
        return ""
    whole = count(part.overflow_chars, "character")
    return (
        f'<div style="{_NOTE}">The model saw the head and the tail of {whole};'
        " the session log has the whole.</div>"
    )
