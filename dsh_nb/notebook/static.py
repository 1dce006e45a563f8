"""A turn as a cell's output that needs no kernel, no widget and no network.

Reads: notebook.parts, notebook.cards, notebook.prose, notebook.results,
notebook.sanitise, notebook.wording. Feeds: notebook.display, notebook.turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsh_nb.notebook.cards import footer_html, part_html
from dsh_nb.notebook.highlight import CODE_FONT
from dsh_nb.notebook.parts import EndPart, Part
from dsh_nb.notebook.prose import to_markdown, to_plain
from dsh_nb.notebook.results import SMALL
from dsh_nb.notebook.sanitise import clean_html, escape
from dsh_nb.notebook.wording import RUNNING, SAVED_WHILE_RUNNING, UNFINISHED, count

__all__ = ["mimebundle", "to_html", "to_markdown", "to_plain"]

_STYLE = (
    "color:var(--jp-content-font-color1,inherit);line-height:1.55;max-width:56em;"
    "font-family:var(--jp-content-font-family,system-ui,sans-serif);"
    "overflow-wrap:anywhere;padding:0.2em 0"
)


def mimebundle(
    parts: Iterable[Part], *, running: bool = False, note: str = "", plain_chars: int | None = None
) -> dict[str, str]:
    """A turn in the three forms that front ends choose from: HTML, Markdown and plain text.

    Args:
        parts: What there is to see of it.
        running: True while it runs; the forms then say how to stop it.
        note: A last line, for what the parts do not know.
        plain_chars: Longest plain text, where a page is known to show the HTML.
    """
    parts = tuple(parts)
    plain = to_plain(parts, running=running, note=note)
    if plain_chars is not None and len(plain) > plain_chars:
        plain = f"{plain[:plain_chars]}\n… {count(len(plain) - plain_chars, 'more character')}"
    return {
        "text/html": to_html(parts, running=running, note=note),
        "text/markdown": to_markdown(parts, running=running, note=note),
        "text/plain": plain,
    }


def to_html(parts: Iterable[Part], *, running: bool = False, note: str = "") -> str:
    """A turn as one element of HTML: nothing in it runs, nothing is loaded."""
    body = "".join(_pieces(tuple(parts), running, note))
    # Pages with MathJax would read prices as maths; the maths are MathML already.
    classes = "mathjax_ignore tex2jax_ignore"
    return clean_html(f'<div role="log" class="{classes}" style="{_STYLE}">{body}</div>')


def _pieces(parts: tuple[Part, ...], running: bool, note: str) -> Iterator[str]:
    for part in parts:
        yield part_html(part, running=running)
    if running:
        stop = f'<span style="{CODE_FONT}">agent.stop()</span> stops it. {SAVED_WHILE_RUNNING}'
        yield footer_html("◌", f"{RUNNING} {stop}", "var(--jp-brand-color1,#3b78c4)")
    elif parts and not isinstance(parts[-1], EndPart):
        yield footer_html("○", UNFINISHED)
    if note:
        yield f'<div style="{SMALL}">{escape(note)}</div>'
