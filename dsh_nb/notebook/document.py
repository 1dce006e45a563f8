"""A whole session as a document: one page of HTML that loads nothing, or one text in Markdown.

Reads: session, tables, notebook.grid, notebook.parts, notebook.sanitise, notebook.static,
notebook.transcript, notebook.wording. Feeds: notebook.export.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from html import unescape

from dsh_nb.notebook.grid import Grid, grid_of
from dsh_nb.notebook.literal import code_span, line_text
from dsh_nb.notebook.parts import Part
from dsh_nb.notebook.sanitise import escape
from dsh_nb.notebook.static import to_html, to_markdown
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.notebook.wording import count, money_text, seconds_text
from dsh_nb.session.files import header_of
from dsh_nb.session.redaction import Redaction
from dsh_nb.session.session import Session
from dsh_nb.tables.record import start_text
from dsh_nb.tables.turns import turns
from dsh_nb.tables.usage import usage

__all__ = ["to_document", "to_page"]

_TURNS = {
    "turn": "turn",
    "started": "started (UTC)",
    "seconds": "took",
    "steps": "steps",
    "tool_calls": "tool calls",
    "reason": "ended",
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "cost": "cost",
}
_USAGE = {
    "turn": "turn",
    "step": "step",
    "model": "model",
    "input_tokens": "input",
    "output_tokens": "output",
    "reasoning_tokens": "thinking",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "cost": "cost",
}
_REDACTED = "Keys and known secrets are masked, and what else was asked for is redacted."
_WHOLE = "Nothing is redacted."
_FEW = 20
_TEXT_FIELDS = frozenset({"alt", "arguments", "content", "message", "name", "reason", "text"})
_TAG = re.compile(r"(<[^>]*>)")

# The policy keeps a browser from loading anything, whatever the rest says.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 56em; margin: 0 auto;
  padding: 2em 1.2em 4em; background: #fff; color: #1f2328; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5em; line-height: 1.25; margin: 0 0 0.3em; }}
h2 {{ font-size: 1.05em; margin: 2.4em 0 0.6em; padding-bottom: 0.2em;
  border-bottom: 1px solid #7f7f7f59; }}
.facts {{ margin: 0.2em 0; opacity: 0.8; font-size: 0.92em; }}
.wide {{ overflow-x: auto; overflow-wrap: normal; }}
nav {{ margin-top: 0.8em; font-size: 0.92em; }}
a {{ color: #0a62c4; }}
summary {{ cursor: pointer; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #16181c; color: #dfe2e7; }}
  a {{ color: #7db4f5; }}
}}
@media print {{ body {{ max-width: none; padding: 0; }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def to_page(session: Session, redaction: Redaction | None = None) -> str:
    """The session as a page: facts, all turns with their details folded, turns and usage.

    Args:
        session: The session, redacted already.
        redaction: Looks once more at what was put together from pieces of the log.
    """
    document = _document(session, redaction)
    body = "\n".join(_sections(document))
    if redaction is not None:
        body = "".join(_swept(body, redaction))
    return _PAGE.format(title=escape(document.title), body=body)


def to_document(session: Session, redaction: Redaction | None = None) -> str:
    """The session as Markdown without HTML: facts, all turns, turns and usage.

    Args:
        session: The session, redacted already.
        redaction: Looks once more at what was put together from pieces of the log.
    """
    document = _document(session, redaction)
    pieces = [f"# {line_text(document.title)}"]
    pieces.append(" · ".join([code_span(document.id), *map(line_text, document.facts)]))
    pieces.append(f"*{document.note}*")
    for heading, parts in document.turns:
        pieces += [f"## {heading}", to_markdown(parts)]
    pieces += ["## Turns", document.turn_table.markdown()]
    pieces += ["## Usage", document.usage_table.markdown()]
    text = "\n\n".join(pieces) + "\n"
    return text if redaction is None else redaction.mask(text, patterns=False)


@dataclass(frozen=True, slots=True)
class _Document:
    """What both forms say."""

    title: str
    id: str
    facts: tuple[str, ...]
    note: str
    turns: tuple[tuple[str, tuple[Part, ...]], ...]
    turn_table: Grid
    usage_table: Grid


def _document(session: Session, redaction: Redaction | None) -> _Document:
    title = session.header.get("title")
    parts = _turns(session)
    if redaction is not None:
        parts = ((heading, _masked(one, redaction)) for heading, one in parts)
    return _Document(
        title if isinstance(title, str) and title else session.id,
        session.id,
        tuple(_facts(session)),
        _WHOLE if redaction is None else _REDACTED,
        tuple(parts),
        grid_of(turns(session), _TURNS),
        grid_of(usage(session), _USAGE),
    )


def _turns(session: Session) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Each turn with its heading; what waits for one stands last."""
    transcript = TurnTranscript()
    for event in session:
        transcript.feed(event)
        if transcript.ended:
            yield f"Turn {transcript.turn}", transcript.parts()
            transcript = TurnTranscript()
    if transcript.begun:
        yield f"Turn {transcript.turn}", transcript.parts()
    elif transcript.entries:
        yield "Not part of a turn yet", transcript.parts()


def _facts(session: Session) -> Iterator[str]:
    model = header_of(session).model
    if model:
        yield model
    started = start_text(session)
    if started:
        yield started
        yield f"{seconds_text(max(0, session[-1].time - session[0].time) / 1000)} in all"
    yield count(session.turn, "turn")
    yield count(len(session), "event")
    billed = usage(session)
    if len(billed):
        yield count(int(billed.filter(like="_tokens").sum().sum()), "token")
        if billed["cost"].notna().all():
            yield money_text(float(billed["cost"].sum()))


def _masked(parts: tuple[Part, ...], redaction: Redaction) -> tuple[Part, ...]:
    """The parts without what only a text that was put together says."""
    masked: list[Part] = []
    for part in parts:
        said = {field.name: getattr(part, field.name) for field in fields(part)}
        texts = {name: text for name, text in said.items() if name in _TEXT_FIELDS and text}
        new = {name: redaction.mask(text) for name, text in texts.items()}
        masked.append(replace(part, **new))  # type: ignore[arg-type]  # fields of its own class
    return tuple(masked)


def _sections(document: _Document) -> Iterator[str]:
    facts = " · ".join(map(escape, document.facts))
    yield f'<header><h1>{escape(document.title)}</h1><div class="facts"><code>'
    yield f'{escape(document.id)}</code> · {facts}</div><div class="facts">{document.note}</div>'
    yield '<nav><a href="#turns">Turns</a> · <a href="#usage">Usage</a></nav></header>'
    for heading, parts in document.turns:
        anchor = heading.lower().replace(" ", "-")
        yield f'<section id="{anchor}"><h2>{escape(heading)}</h2>{to_html(parts)}</section>'
    table = document.turn_table.html(lambda turn: f"#turn-{turn.replace(',', '')}")
    yield f'<section id="turns"><h2>Turns</h2><div class="wide">{table}</div></section>'
    yield f'<section id="usage"><h2>Usage</h2>{_folded(document.usage_table)}</section>'


def _folded(grid: Grid) -> str:
    table = f'<div class="wide">{grid.html()}</div>'
    if len(grid.rows) <= _FEW:
        return table
    head = f"<summary>{count(len(grid.rows), 'message')} that a provider billed</summary>"
    return f"<details>{head}{table}</details>"


def _swept(html: str, redaction: Redaction) -> Iterator[str]:
    """`html` without what only its texts say: of Markdown, escapes and entities are read by now."""
    for piece in _TAG.split(html):
        text = unescape(piece)
        masked = text if piece.startswith("<") else redaction.mask(text, patterns=False)
        yield piece if masked == text else escape(masked)
