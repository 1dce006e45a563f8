"""Each part of a turn as HTML with inline styles, calm on light pages and on dark ones.

Reads: notebook.parts, notebook.arguments, notebook.highlight, notebook.markdown,
notebook.results, notebook.sanitise, notebook.wording. Feeds: notebook.static.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dsh_nb.notebook.arguments import on_one_line
from dsh_nb.notebook.highlight import CODE_FONT, code_html
from dsh_nb.notebook.markdown import markdown_blocks, render_markdown
from dsh_nb.notebook.parts import (
    EndPart,
    ErrorPart,
    ImagePart,
    Part,
    RetryPart,
    TextPart,
    ThinkingPart,
    ToolPart,
    UserPart,
)
from dsh_nb.notebook.results import SMALL, is_rich, result_html, text_html
from dsh_nb.notebook.sanitise import escape, image_html
from dsh_nb.notebook.wording import (
    attempt_line,
    author,
    end_line,
    progress_text,
    seconds_text,
    state_icon,
    state_word,
    strip_controls,
    thinking_note,
)

__all__ = [
    "SLOT",
    "call_frame",
    "finished_blocks",
    "footer_html",
    "part_html",
    "text_frame",
    "thinking_frame",
]

SLOT = '<div data-slot=""></div>'
"""Where a frame takes the blocks of its text."""

PREVIEW_CHARS = 80
"""Most characters of arguments, of an error or of running thoughts on a folded card."""

CODED_CHARS = 4_000
"""Longer arguments are shown as plain text, folded after their beginning."""

_LINE = "var(--jp-border-color2,#7f7f7f59)"
_ERROR = "var(--jp-error-color1,#d0484c)"
_WARN = "var(--jp-warn-color1,#c07a10)"
_BUBBLE = (
    "margin:0.9em 0;padding:0.5em 0.9em 0.6em 0.9em;border-radius:10px;"
    "background-color:var(--jp-layout-color2,#7f7f7f1c)"
)
_STEERING = f"{_BUBBLE};border-left:3px solid var(--jp-brand-color1,#3b78c4)"
_CONTEXT = f"margin:0.7em 0;padding:0.2em 0 0.2em 0.9em;border-left:3px solid {_LINE}"
_CARD = f"margin:0.5em 0;border:1px solid {_LINE};border-radius:8px;padding:0.35em 0.75em"
_STATE_COLOURS = {
    "waiting for approval": _WARN,
    "running": "var(--jp-brand-color1,#3b78c4)",
    "done": "var(--jp-success-color1,#2e8b57)",
    "failed": _ERROR,
    "interrupted": _WARN,
    "denied": _WARN,
    "not started": "var(--jp-ui-font-color2,inherit)",
}


def part_html(part: Part, *, running: bool = False) -> str:
    """The HTML of one part; every text in it is escaped or cleaned.

    Args:
        part: The part.
        running: True while its turn runs: a call without a result waits then.
    """
    if isinstance(part, ToolPart):
        return _tool(part, running)
    return _FORMS[type(part)](part)


def footer_html(icon: str, words: str, colour: str = "inherit") -> str:
    """A quiet line below the turn; `words` are HTML."""
    style = f"margin-top:0.9em;border-top:1px solid {_LINE};padding:0.4em 0;{SMALL}"
    return f'<div style="{style}"><span style="color:{colour}">{icon}</span> {words}</div>'


def _user(part: UserPart) -> str:
    who = f'<div style="{SMALL};font-weight:600">{escape(author(part))}</div>'
    body = _literal(part.text.strip())
    if part.kind == "context":
        return f'<div style="{_CONTEXT}">{who}{text_html(part.text)}</div>'
    style = _STEERING if part.kind == "steering" else _BUBBLE
    return f'<div style="{style}">{who}{body}</div>'


def _literal(text: str) -> str:
    return f'<div style="white-space:pre-wrap">{escape(strip_controls(text))}</div>'


def text_frame(*, interrupted: bool = False) -> str:
    """What is around the blocks of an answer."""
    cut = f'<div style="{SMALL}">■ interrupted</div>' if interrupted else ""
    return f'<div style="margin:0.6em 0">{SLOT}{cut}</div>'


def thinking_frame(note: str = "") -> str:
    """What is around the blocks of thinking; without a `note` it goes on."""
    head = f"Thinking · {escape(note)}" if note else 'Thinking… <span data-newest=""></span>'
    style = f"margin:0.3em 0;padding-left:0.9em;border-left:2px solid {_LINE};{SMALL}"
    return (
        f'<details style="margin:0.5em 0"><summary style="{SMALL}">{head}</summary>'
        f'<div style="{style}">{SLOT}</div></details>'
    )


def call_frame(name: str) -> str:
    """What is around the arguments of a call while the model writes them."""
    head = _head("○", "being written", "inherit", name)
    return (
        f'<details style="{_CARD}"><summary style="line-height:1.6">{head}</summary>'
        f"{SLOT}</details>"
    )


def _thinking(part: ThinkingPart) -> str:
    if not part.text.strip():
        return _quiet("Thinking…" if part.open else f"Thinking · {escape(thinking_note(part))}")
    body = _markdown(part.text, part.open)
    if not part.open:
        return thinking_frame(thinking_note(part)).replace(SLOT, body)
    newest = " ".join(strip_controls(part.text[-2 * PREVIEW_CHARS :]).split())
    return (
        thinking_frame()
        .replace(SLOT, body)
        .replace('data-newest="">', f'style="opacity:0.75">{escape(newest[-PREVIEW_CHARS:])}')
    )


def _text(part: TextPart) -> str:
    frame = text_frame(interrupted=part.interrupted)
    return frame.replace(SLOT, _markdown(part.text, part.open))


def _markdown(text: str, is_open: bool) -> str:
    # What is complete is painted again with each update, what is open changes before the next one.
    return render_markdown(strip_controls(text)) if is_open else "".join(finished_blocks(text))


@lru_cache(maxsize=256)
def finished_blocks(text: str) -> tuple[str, ...]:
    """The blocks of a text that is complete."""
    return tuple(markdown_blocks(strip_controls(text)))


def _tool(part: ToolPart, running: bool) -> str:
    head = _summary(part, running)
    body = _arguments(part) + result_html(part)
    is_open = ' open=""' if is_rich(part) else ""
    return (
        f'<details{is_open} style="{_CARD}">'
        f'<summary style="line-height:1.6">{head}</summary>{body}</details>'
    )


def _summary(part: ToolPart, running: bool) -> str:
    colour = _STATE_COLOURS.get(part.state, "inherit")
    preview = on_one_line(strip_controls(part.arguments), PREVIEW_CHARS)
    progress = strip_controls(progress_text(part.progress))[:PREVIEW_CHARS]
    pieces = [
        _head(state_icon(part), state_word(part, running), colour, part.name),
        f'<span style="{CODE_FONT};opacity:0.75">{escape(preview)}</span>' if preview else "",
        "" if part.seconds is None else _small(seconds_text(part.seconds)),
        "" if part.since is None else f'<span style="{SMALL}" data-since="{part.since}"></span>',
        _small(escape(progress)) if progress else "",
        _small(escape(strip_controls(part.note))) if part.note else "",
    ]
    return " &nbsp;".join(filter(None, pieces)) + _complaint(part)


def _head(icon: str, word: str, colour: str, name: str) -> str:
    """State and name of a call."""
    state = f'<span style="color:{colour};font-size:0.85em;font-weight:600">{icon} {word}</span>'
    called = escape(strip_controls(name) or "…")
    return f'{state} &nbsp;<span style="font-weight:600;{CODE_FONT}">{called}</span>'


def _small(words: str) -> str:
    return f'<span style="{SMALL}">{words}</span>'


def _complaint(part: ToolPart) -> str:
    """The first line of an error, on the folded card."""
    if part.state != "failed" or not part.content.strip():
        return ""
    line = strip_controls(part.content).strip().split("\n", 1)[0]
    short = line if len(line) <= 2 * PREVIEW_CHARS else line[: 2 * PREVIEW_CHARS] + "…"
    style = f"display:block;font-size:0.9em;color:{_ERROR};padding-left:1.1em"
    return f'<span style="{style}">{escape(short)}</span>'


def _arguments(part: ToolPart) -> str:
    text = strip_controls(part.arguments)
    if text.strip() in ("", "{}"):
        return ""
    return text_html(text) if len(text) > CODED_CHARS else code_html(text, "json", label=False)


def _image(part: ImagePart) -> str:
    return f'<div style="margin:0.6em 0">{image_html(part.url, part.alt)}</div>'


def _retry(part: RetryPart) -> str:
    return _quiet(f"↻ {escape(strip_controls(attempt_line(part)))}")


def _quiet(words: str) -> str:
    return f'<div style="margin:0.5em 0;{SMALL}">{words}</div>'


def _error(part: ErrorPart) -> str:
    style = f"margin:0.7em 0;padding:0.3em 0 0.3em 0.9em;border-left:3px solid {_ERROR}"
    code = f'<span style="{CODE_FONT}">{escape(strip_controls(part.code or ""))}</span>'
    head = f'<div style="font-weight:600;color:{_ERROR}">Error {code}</div>'
    return f'<div style="{style}">{head}{_literal(part.message)}</div>'


def _end(part: EndPart) -> str:
    words = escape(strip_controls(end_line(part)))
    if part.kind == "completed":
        return footer_html("✓", words, _STATE_COLOURS["done"])
    return footer_html("■", words, _ERROR if part.kind == "error" else _WARN)


_FORMS: dict[type, Callable[[Any], str]] = {  # Any: the class of part that the form is for
    EndPart: _end,
    ErrorPart: _error,
    ImagePart: _image,
    RetryPart: _retry,
    TextPart: _text,
    ThinkingPart: _thinking,
    UserPart: _user,
}
