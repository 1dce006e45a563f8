"""A timeline as a picture: shapes on a page, as SVG or, by way of matplotlib, as PNG.

Reads: errors, notebook.timeline_rows, notebook.wording. Feeds: notebook.timeline.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import takewhile
from typing import Any

from dsh_nb.notebook.timeline_rows import KINDS, Bar, Row
from dsh_nb.notebook.wording import seconds_text

__all__ = ["Page", "page_of", "png_of", "svg_of"]

_WIDTH = 840
_LEFT, _RIGHT = 92, 700
_LANE, _BAR, _THIN = 16, 12, 6
_CHAR = 6.0

_FILL = {
    "first token": "#dbe4f0",
    "streaming": "#2f6db5",
    "tool": "#f0b445",
    "approval": "#e9d3ef",
    "retry": "#b3261e",
}
"""They differ in lightness, and each has its pattern or outline: no bar is told by hue alone."""
_EDGE = {
    "first token": "#7d92ad",
    "streaming": "#2f6db5",
    "tool": "#a8730c",
    "approval": "#8a4f9e",
    "retry": "#b3261e",
}
_TEXT_ON = {"streaming": "#ffffff", "tool": "#2b1d00", "approval": "#43204f"}
_HATCH = {"approval": "////", "retry": "xxxx"}
_PATTERN = {
    "approval": '<path d="M0 6 6 0" stroke="#8a4f9e" stroke-opacity=".45"/>',
    "retry": '<path d="M0 6 6 0M0 0 6 6" stroke="#fff" stroke-width=".9"/>',
}
_STYLE = """
.dsh-timeline{color:var(--jp-content-font-color1,var(--vscode-foreground,#24292f));\
font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:11px;max-width:100%;\
height:auto}
@media (prefers-color-scheme:dark){.dsh-timeline{\
color:var(--jp-content-font-color1,var(--vscode-foreground,#e6e6e6))}}
.dsh-timeline text{fill:currentColor}
.dsh-timeline .strong{font-weight:600}
.dsh-timeline .soft{fill-opacity:.72}
.dsh-timeline .end{text-anchor:end}
.dsh-timeline .mid{text-anchor:middle}
.dsh-timeline line{stroke:currentColor;stroke-opacity:.14}
"""


@dataclass(frozen=True, slots=True)
class _Text:
    x: float
    y: float
    text: str
    classes: str = "soft"
    fill: str = ""


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(slots=True)
class Page:
    """What is drawn, in pixels from the top left.

    Attributes:
        title: What the picture shows, in a line for people who cannot see it.
        width: Of the page.
        height: Of the page.
        shapes: The back ones first.
    """

    title: str
    width: float = _WIDTH
    height: float = 0.0
    shapes: list[_Text | _Box | _Line] = field(default_factory=list)


def page_of(title: str, rows: Sequence[Row]) -> Page:
    """The picture of `rows`: a legend, the rows on one scale of time, and the scale."""
    page = Page(title, height=44.0)
    page.shapes.append(_Text(0, 14, title, "strong"))
    page.shapes += _legend(rows)
    steps = [bar for row in rows if row.kind == "step" for bar in row.bars]
    longest = max((bar.start + bar.seconds for bar in steps), default=0.0)
    folded = sum(1 for _ in takewhile(lambda row: row.kind == "fold", rows))
    for row in rows[:folded]:
        _draw(page, row, longest)
    first = page.height
    for row in rows[folded:]:
        _draw(page, row, longest)
    if longest > 0:
        _scale(page, first, longest)
    page.height += 4
    return page


def _legend(rows: Sequence[Row]) -> Iterator[_Text | _Box]:
    present = {bar.kind for row in rows for bar in row.bars}
    x = 0.0
    for kind, words in KINDS.items():
        if kind in present:
            yield _Box(x, 25, 18, 10, kind)
            yield _Text(x + 23, 34, words)
            x += 23 + _CHAR * len(words) + 16


def _draw(page: Page, row: Row, longest: float) -> None:
    top = page.height
    if row.kind == "turn":
        top += 6
    height = _LANE * row.lanes
    classes = "strong" if row.kind == "turn" else "soft"
    page.shapes.append(_Text(0, top + 11, row.label, classes))
    page.shapes.append(_Text(_WIDTH, top + 11, row.note, f"{classes} end"))
    if row.kind == "idle":
        page.shapes.append(_Line(_LEFT, top + 7, _RIGHT, top + 7))
    whole = max((bar.start + bar.seconds for bar in row.bars), default=0.0)
    span = longest if row.kind == "step" else whole
    for number, bar in enumerate(row.bars):
        after = (one.start for one in row.bars[number + 1 :] if one.lane == bar.lane)
        _draw_bar(page, bar, top, span, next(after, None), thin=row.kind == "fold")
    page.height = top + height + (2 if row.lanes > 1 else 0)


def _draw_bar(
    page: Page, bar: Bar, top: float, span: float, next_start: float | None, *, thin: bool
) -> None:
    scale = (_RIGHT - _LEFT) / span if span else 0.0
    x, width = _LEFT + bar.start * scale, max(bar.seconds * scale, 1.5)
    y = top + bar.lane * _LANE + (4 if thin else 1)
    page.shapes.append(_Box(x, y, width, _THIN if thin else _BAR, bar.kind, bar.title))
    text = _inside(bar, width)
    if text and not thin:
        page.shapes.append(_Text(x + 4, y + 9.5, text, "", _TEXT_ON[bar.kind]))
    elif bar.kind == "tool" and not thin:
        room = (_RIGHT if next_start is None else _LEFT + next_start * scale) - x - width - 8
        page.shapes += [_Text(x + width + 4, y + 9.5, text) for text in _fits(bar, room)]


def _inside(bar: Bar, width: float) -> str:
    return next(iter(_fits(bar, width - 8)), "") if bar.kind in _TEXT_ON else ""


def _fits(bar: Bar, room: float) -> list[str]:
    """What there is room for, one text at most: the tool and how long, or one of them."""
    took = seconds_text(bar.seconds)
    name = bar.label if bar.kind == "tool" else ""
    texts = (f"{name} {took}".strip(), name or took)
    return [text for text in texts if len(text) * _CHAR <= room][:1]


def _scale(page: Page, first: float, longest: float) -> None:
    """Light lines at round times behind the bars, and their times below."""
    step = next(one for one in _round_steps() if longest / one <= 6)
    lines: list[_Text | _Box | _Line] = []
    bottom = page.height + 2
    for number in range(int(longest / step) + 1):
        x = _LEFT + number * step * (_RIGHT - _LEFT) / longest
        lines.append(_Line(x, first, x, bottom))
        text = seconds_text(number * step) if number else "0"
        page.shapes.append(_Text(x, bottom + 12, text, "soft mid"))
    page.shapes[:0] = lines
    page.height = bottom + 14


def _round_steps() -> Iterator[float]:
    """1 ms, 2 ms, 5 ms, …; from ten seconds on times that people count in."""
    for power in range(-3, 1):
        yield from (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
    yield from (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200)
    days = 86_400.0
    while True:
        yield days
        days *= 2


def svg_of(page: Page) -> str:
    """The page as an SVG element that stands alone and in HTML; all text in it is escaped."""
    size = f'width="{page.width:.0f}" height="{page.height:.0f}"'
    box = f'viewBox="0 0 {page.width:.0f} {page.height:.0f}"'
    used = {shape.kind for shape in page.shapes if isinstance(shape, _Box)}
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="dsh-timeline" {size} {box} ',
            f'role="img" aria-label="{_safe(page.title)}"><style>{_STYLE}{_colours(used)}</style>',
            f"<defs>{''.join(_pattern(kind) for kind in _PATTERN if kind in used)}</defs>",
            *map(_element, page.shapes),
            "</svg>",
        ]
    )


def _colours(kinds: set[str]) -> str:
    return "".join(
        f".dsh-timeline .{_class(kind)}{{fill:{_FILL[kind]};stroke:{_EDGE[kind]}}}"
        for kind in KINDS
        if kind in kinds
    )


def _class(kind: str) -> str:
    return "k-" + kind.replace(" ", "-")


def _pattern(kind: str) -> str:
    return (
        f'<pattern id="dsh-{kind}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f"{_PATTERN[kind]}</pattern>"
    )


def _element(shape: _Text | _Box | _Line) -> str:
    if isinstance(shape, _Line):
        ends = f'x1="{_px(shape.x1)}" y1="{_px(shape.y1)}" x2="{_px(shape.x2)}"'
        return f'<line {ends} y2="{_px(shape.y2)}"/>'
    if isinstance(shape, _Text):
        style = f' style="fill:{shape.fill}"' if shape.fill else ""
        named = f' class="{shape.classes}"' if shape.classes else ""
        place = f'x="{_px(shape.x)}" y="{_px(shape.y)}"'
        return f"<text {place}{named}{style}>{_safe(shape.text)}</text>\n"
    return _rect(shape)


def _rect(box: _Box) -> str:
    place = f'x="{_px(box.x)}" y="{_px(box.y)}" width="{_px(box.width)}" height="{_px(box.height)}"'
    title = f"<title>{_safe(box.title)}</title>" if box.title else ""
    made = f'<rect class="{_class(box.kind)}" {place} rx="1.5">{title}</rect>'
    if box.kind in _PATTERN:
        made += f'<rect {place} fill="url(#dsh-{box.kind})" pointer-events="none"/>'
    return made


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _safe(text: str) -> str:
    """Escaped, and without the characters that XML cannot hold."""
    kept = "".join(
        char
        if char >= " " and char not in "\x7f\ufffe\uffff" and not "\ud800" <= char <= "\udfff"
        else " "
        for char in text
    )
    return escape(kept)


def png_of(page: Page, dpi: int) -> bytes:
    """The page as a PNG on white.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise ImportError(
            "a PNG is drawn by matplotlib, which is not installed; run pip install matplotlib, "
            "or use to_svg()"
        ) from error
    figure = Figure(figsize=(page.width / 96, page.height / 96), facecolor="white")
    axes = figure.add_axes((0.015, 0, 0.97, 1), xlim=(0, page.width), ylim=(page.height, 0))
    axes.axis("off")
    for shape in page.shapes:
        if isinstance(shape, _Line):
            axes.plot((shape.x1, shape.x2), (shape.y1, shape.y2), color="#e2e4e8", lw=0.8, zorder=0)
        elif isinstance(shape, _Box):
            edge = "white" if shape.kind == "retry" else _EDGE[shape.kind]
            at, hatch = (shape.x, shape.y), _HATCH.get(shape.kind)
            face: dict[str, Any] = {
                "facecolor": _FILL[shape.kind],
                "edgecolor": edge,
                "hatch": hatch,
            }
            axes.add_patch(Rectangle(at, shape.width, shape.height, lw=0.6, **face))
        else:
            side = {"end": "right", "mid": "center"}.get(shape.classes.rpartition(" ")[2], "left")
            weight = "bold" if "strong" in shape.classes else "normal"
            colour = shape.fill or ("#24292f" if weight == "bold" else "#57606a")
            look: dict[str, Any] = {"ha": side, "weight": weight, "color": colour, "fontsize": 8}
            axes.text(shape.x, shape.y, shape.text, parse_math=False, **look)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
