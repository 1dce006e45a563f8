"""The view of a comparison: two columns, what differs marked, what is the same folded.

Reads: session.compare, session.items, notebook.diff_words, notebook.highlight, notebook.results,
notebook.sanitise, notebook.wording. Feeds: notebook.diff.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dsh_nb.notebook.diff_words import is_routine, label, numbers_line, range_words, summary, title
from dsh_nb.notebook.highlight import CODE_FONT
from dsh_nb.notebook.results import SMALL
from dsh_nb.notebook.sanitise import clean_html, escape
from dsh_nb.notebook.wording import count, strip_controls
from dsh_nb.session.compare import Pair, Span, TurnPair, spans_of
from dsh_nb.session.items import Item

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["diff_html"]

_MOST_PAIRS = 400
"""So many pairs are drawn; the rest is in the table."""

_AROUND = 160
"""Characters of what is the same that stand before and after a difference."""

_LEAST_SHARED = 0.3
"""Texts that have less than this share in common are not compared by words."""

_MOST_CHARS = 4_000
_PREVIEW_CHARS = 120

_LINE = "var(--jp-border-color2,#7f7f7f59)"
_GONE = "var(--jp-error-color1,#d0484c)"
_NEW = "var(--jp-success-color1,#2e8b57)"
_STYLE = (
    "color:var(--jp-content-font-color1,inherit);line-height:1.5;max-width:84em;"
    "font-family:var(--jp-content-font-family,system-ui,sans-serif);"
    "overflow-wrap:anywhere;padding:0.2em 0"
)
_ROW = "display:table;width:100%;border-collapse:collapse"
_CELL = "display:table-cell;width:50%;vertical-align:top"
_TEXT = "white-space:pre-wrap;font-size:0.95em"
_BOX = "border-radius:6px;padding:0.3em 0.7em 0.4em 0.7em"
_TONES = {
    "gone": f"{_BOX};border-left:3px solid {_GONE};background-color:#d0484c14",
    "new": f"{_BOX};border-left:3px solid {_NEW};background-color:#2e8b5714",
    "kept": f"{_BOX};border-left:3px solid transparent;opacity:0.75",
}
_MARKS = {
    "gone": ("del", "background-color:#d0484c33;text-decoration:line-through"),
    "new": ("u", "background-color:#2e8b5733;text-decoration:underline"),
}
_SIGNS = {"gone": "−", "new": "+"}
_CODE = ("tool_call", "options")


def diff_html(names: tuple[str, str], pairs: Sequence[TurnPair], numbers: pd.DataFrame) -> str:
    """The view as one element of HTML.

    Args:
        names: What the two sessions are called.
        pairs: What stands side by side.
        numbers: What each turn took, a row for each of `pairs`.
    """
    body = "".join([_head(names, pairs), *_turns(names, pairs, numbers)])
    classes = "mathjax_ignore tex2jax_ignore"  # prices are no maths
    return clean_html(f'<div class="{classes}" style="{_STYLE}">{body}</div>')


def _head(names: tuple[str, str], pairs: Sequence[TurnPair]) -> str:
    style = f"font-weight:600;{CODE_FONT}"
    a, b = (f'<span style="{style}">{_line(name)}</span>' for name in names)
    ends = f"border-bottom:1px solid {_LINE};padding:0 0.7em 0.4em 0.7em"
    return (
        f'<div style="{SMALL};padding:0 0.7em 0.5em 0.7em">{_line(summary(pairs, names))}</div>'
        + _sides(
            f'<div style="{ends}"><span style="color:{_GONE}">−</span> {a}</div>',
            f'<div style="{ends}"><span style="color:{_NEW}">+</span> {b}</div>',
        )
    )


def _turns(
    names: tuple[str, str], pairs: Sequence[TurnPair], numbers: pd.DataFrame
) -> Iterator[str]:
    """Turns that differ, and between them folds of those that are the same."""
    rows = [row for _, row in numbers.iterrows()]
    left = _MOST_PAIRS
    for same, group in groupby(zip(pairs, rows, strict=True), lambda one: one[0].status == "same"):
        if same:
            yield _fold([turn for turn, _ in group])
            continue
        for turn, row in group:
            if left <= 0:
                yield _note(f"… from turn {turn.turn} on in .rows")
                return
            yield _turn_head(title(turn, names), numbers_line(row))
            yield from _pairs(turn.pairs[:left])
            left -= len(turn.pairs)
            if left < 0:
                yield _note(f"… {count(-left, 'more row')} of this turn in .rows")


def _turn_head(words: str, took: str) -> str:
    style = "margin:1.1em 0 0.3em 0;padding:0 0.7em"
    aside = f' &nbsp;<span style="{SMALL}">{_line(took)}</span>' if took else ""
    return f'<div style="{style}"><span style="font-weight:600">{_line(words)}</span>{aside}</div>'


def _note(words: str) -> str:
    return f'<div style="margin:0.6em 0.7em;{SMALL}">{_line(words)}</div>'


def _fold(turns: Sequence[TurnPair]) -> str:
    """Turns that are the same, by their prompts."""
    words = range_words(turns[0].turn, turns[-1].turn)
    lines = [
        f'<div style="padding:0.1em 0">{turn.turn} &nbsp;{_line(_preview(pair.one.text))}</div>'
        for turn in turns[:_MOST_PAIRS]
        for pair in turn.pairs
        if pair.one.what == "prompt"
    ]
    style = f"margin:0.7em 0;padding:0.3em 0.7em;border-radius:6px;{SMALL}"
    summary = f"<summary>{_line(words)}</summary>"
    tone = "background-color:var(--jp-layout-color2,#7f7f7f14)"
    return f'<details style="{style};{tone}">{summary}{"".join(lines)}</details>'


def _pairs(pairs: Sequence[Pair]) -> Iterator[str]:
    """The pairs of a turn; what is the same stands once, across both columns."""
    for pair in pairs:
        if is_routine(pair):
            continue
        if pair.status == "same":
            yield _kept(pair.one)
        elif pair.a is None or pair.b is None:
            a = "" if pair.a is None else _alone(pair.a, "gone")
            b = "" if pair.b is None else _alone(pair.b, "new")
            yield _sides(a, b)
        else:
            ours, theirs = _spans(_plain(pair.a), _plain(pair.b))
            yield _sides(_changed(pair.a, ours, "gone"), _changed(pair.b, theirs, "new"))


def _spans(a: str, b: str) -> tuple[list[Span], list[Span]]:
    """The two texts with what differs; of texts that share little nothing is marked."""
    ours, theirs = spans_of(a, b)
    shared = sum(len(span.text) for span in ours if span.same)
    if shared < _LEAST_SHARED * max(len(a), len(b)):
        return [Span(a, True)], [Span(b, True)]
    return ours, theirs


def _sides(a: str, b: str) -> str:
    """Two cells of one height."""
    left, right = f"{_CELL};padding:0.2em 0.4em 0.2em 0", f"{_CELL};padding:0.2em 0 0.2em 0.4em"
    return f'<div style="{_ROW}"><div style="{left}">{a}</div><div style="{right}">{b}</div></div>'


def _kept(item: Item) -> str:
    text = _plain(item)
    whole = " ".join(text.split())
    name = f'<span style="{SMALL}">{_line(label(item))}</span>'
    short = f'{name} &nbsp;<span style="font-size:0.95em">{_line(_preview(whole))}</span>'
    style = f"margin:0.2em 0;{_TONES['kept']}"
    if len(whole) <= _PREVIEW_CHARS:
        return f'<div style="{style}">{short}</div>'
    body = f'<div style="{_text_style(item)};margin-top:0.3em">{_clipped(text)}</div>'
    return f'<details style="{style}"><summary>{short}</summary>{body}</details>'


def _alone(item: Item, tone: str) -> str:
    body = f'<div style="{_text_style(item)}">{_clipped(_plain(item))}</div>'
    return f'<div style="{_TONES[tone]}">{_label(item, tone, "only here")}{body}</div>'


def _changed(item: Item, spans: Sequence[Span], tone: str) -> str:
    body = f'<div style="{_text_style(item)}">{"".join(_marked(spans, tone))}</div>'
    return f'<div style="{_TONES[tone]}">{_label(item, tone)}{body}</div>'


def _label(item: Item, tone: str, note: str = "") -> str:
    sign = f'<span style="color:{_GONE if tone == "gone" else _NEW}">{_SIGNS[tone]}</span>'
    aside = f" · {note}" if note else ""
    return f'<div style="{SMALL}">{sign} {_line(label(item))}{aside}</div>'


def _marked(spans: Sequence[Span], tone: str) -> Iterator[str]:
    """The text with what differs marked; long pieces that do not are shortened."""
    tag, style = _MARKS[tone]
    if len(spans) == 1:
        yield _clipped(spans[0].text)
        return
    left = _MOST_CHARS
    for span in spans:
        if left <= 0:
            yield f'<span style="{SMALL}"> … {_line("more in .rows")}</span>'
            return
        if span.same:
            yield _around(span.text)
            left -= min(len(span.text), 2 * _AROUND)
            continue
        text = span.text[:left]
        marked, after = text.rstrip(), text[len(text.rstrip()) :]
        yield f'<{tag} style="{style}">{escape(marked or "⏎" * text.count(chr(10)))}</{tag}>'
        yield escape(after)
        left -= len(text)


def _around(text: str) -> str:
    """What is the same, without the middle when it is long."""
    dropped = len(text) - 2 * _AROUND
    if dropped <= 2 * _AROUND:
        return escape(text)
    start, end = text[:_AROUND].rpartition(" ")[0], text[-_AROUND:].partition(" ")[2]
    note = f'<span style="{SMALL}"> … {count(dropped, "character")} the same … </span>'
    return f"{escape(start)}{note}{escape(end)}"


def _clipped(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return escape(text)
    note = f'<span style="{SMALL}"> … {count(len(text) - _MOST_CHARS, "more character")}</span>'
    return f"{escape(text[:_MOST_CHARS])}{note}"


def _text_style(item: Item) -> str:
    return f"{_TEXT};{CODE_FONT}" if item.what in _CODE else _TEXT


def _plain(item: Item) -> str:
    return strip_controls(item.text)


def _preview(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW_CHARS else f"{line[:_PREVIEW_CHARS]}…"


def _line(words: str) -> str:
    return escape(strip_controls(words))
