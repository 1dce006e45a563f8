"""The rows of a timeline: the newest steps in full, older turns in a line each, the rest in one.

Reads: notebook.wording. Feeds: notebook.timeline, notebook.timeline_svg.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from dsh_nb.notebook.wording import count, seconds_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "Bar", "Row", "bars_of", "rows_of", "totals"]

KINDS = {
    "first token": "time to first token",
    "streaming": "model streaming",
    "tool": "tool",
    "approval": "waiting for approval",
    "retry": "failed attempt",
}
"""What a bar can be, in words; in the order of the legend."""

_MOST_STEPS = 30
_MOST_BARS = 300
_MOST_BARS_A_STEP = 40
_MOST_LANES = 8
_MOST_TURN_LINES = 20
_MOST_CHARS = 60
_SHORTEST_IDLE = 1.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time; `start` is in seconds from the start of its row's turn."""

    kind: str
    start: float
    seconds: float
    lane: int = 0
    label: str = ""

    @property
    def title(self) -> str:
        """What it is and how long it took, in words."""
        said = f"{KINDS[self.kind]}: {seconds_text(self.seconds)}"
        return f"{self.label}, {said}" if self.label else said


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the picture.

    Attributes:
        kind: ``turn`` heads the steps that follow; ``step``; ``fold`` stands for all steps of
            what it names, its bars are sums, one after the other; ``idle`` is time between turns.
        label: What it is.
        note: How long, or what is left out.
        bars: What its time went into.
        lanes: How many lie below one another.
    """

    kind: Literal["turn", "step", "fold", "idle"]
    label: str
    note: str
    bars: tuple[Bar, ...] = ()
    lanes: int = 1


@dataclass(slots=True)
class _Turn:
    number: int
    start: float
    end: float
    ending: str
    steps: dict[int, list[Bar]]

    @property
    def seconds(self) -> float:
        return self.end - self.start


def rows_of(spans: pd.DataFrame) -> list[Row]:
    """The rows of `spans`, the table `dsh_nb.tables.spans`; a few hundred at most."""
    turns = _turns(spans)
    shown = _shown_steps(turns)
    whole = [turn for turn in turns if turn.number in shown]
    older = turns[: len(turns) - len(whole)]
    lines = older[-_MOST_TURN_LINES:]
    rows = _folded(older[: len(older) - len(lines)])
    rows += [_turn_line(turn) for turn in lines]
    idle = {turn.number: turn.start - before.end for before, turn in pairwise(turns)}
    for turn in whole:
        rows += _idle(idle.get(turn.number, 0.0))
        rows += _turn_rows(turn, shown[turn.number])
    return rows


def bars_of(spans: pd.DataFrame) -> list[Bar]:
    """What all time went into, drawn or not."""
    return _bars(_turns(spans))


def totals(bars: Iterable[Bar]) -> list[Bar]:
    """One bar for each kind there is, as long as all of them, one after the other."""
    sums: dict[str, float] = defaultdict(float)
    for bar in bars:
        sums[bar.kind] += bar.seconds
    made, start = [], 0.0
    for kind in KINDS:
        if kind in sums:
            made.append(Bar(kind, start, sums[kind]))
            start += sums[kind]
    return made


def _turns(spans: pd.DataFrame) -> list[_Turn]:
    """The turns with the bars of their steps, in the order of the log."""
    known = spans[spans["turn"].notna()]
    groups: Iterable[tuple[Any, pd.DataFrame]] = known.groupby("turn", sort=False)
    return [_turn(int(number), part) for number, part in groups]  # Any: a scalar of pandas


def _turn(number: int, spans: pd.DataFrame) -> _Turn:
    starts = [stamp.timestamp() for stamp in spans["started"]]
    lasts = [None if one != one else one for one in spans["seconds"].astype("float64")]
    start = min(starts)
    end = max(at + (last or 0.0) for at, last in zip(starts, lasts, strict=True))
    steps: dict[int, list[Bar]] = defaultdict(list)
    ending = "running"
    named: Iterable[Any] = spans[["step", "kind", "lane", "label"]].itertuples()  # Any: as above
    for at, last, row in zip(starts, lasts, named, strict=True):
        label = row.label if isinstance(row.label, str) else ""
        if row.kind == "turn":
            ending = label or ending
        elif row.kind in KINDS and row.step == row.step:
            seconds = max(end - at, 0.0) if last is None else last
            steps[int(row.step)].append(
                Bar(row.kind, at - start, seconds, int(row.lane), _clip(label))
            )
    return _Turn(number, start, end, ending, {n: _apart(bars) for n, bars in steps.items()})


def _apart(bars: list[Bar]) -> list[Bar]:
    """The bars, with calls less the time in which they waited: no moment is drawn twice."""
    waits = [bar for bar in bars if bar.kind == "approval"]
    for wait in waits:
        bars = [part for bar in bars for part in _without(bar, wait)]
    return sorted(bars, key=lambda bar: bar.start)


def _without(bar: Bar, wait: Bar) -> Iterator[Bar]:
    end, resumed = bar.start + bar.seconds, wait.start + wait.seconds
    if bar.kind != "tool" or bar.lane != wait.lane or resumed < bar.start or wait.start > end:
        yield bar
        return
    for start, stop in ((bar.start, wait.start), (resumed, end)):
        if stop > start:
            yield Bar(bar.kind, start, stop - start, bar.lane, bar.label)


def _bars(turns: list[_Turn]) -> list[Bar]:
    return [bar for turn in turns for its in turn.steps.values() for bar in its]


def _clip(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"


def _shown_steps(turns: list[_Turn]) -> dict[int, list[int]]:
    """The newest steps that are drawn, by turn; the last turn is always among them."""
    shown: dict[int, list[int]] = {}
    steps = bars = 0
    for turn in reversed(turns):
        if shown and (steps >= _MOST_STEPS or bars >= _MOST_BARS):
            break
        shown[turn.number] = []
        for step, its in reversed(turn.steps.items()):
            if steps >= _MOST_STEPS or bars >= _MOST_BARS:
                break
            shown[turn.number].insert(0, step)
            steps, bars = steps + 1, bars + min(len(its), _MOST_BARS_A_STEP)
    return shown


def _folded(turns: list[_Turn]) -> list[Row]:
    if not turns:
        return []
    bars = _bars(turns)
    steps = count(sum(len(turn.steps) for turn in turns), "step")
    seconds = seconds_text(sum(turn.seconds for turn in turns))
    label = f"Turns {turns[0].number}–{turns[-1].number}"
    return [Row("fold", label, f"{seconds}, {steps}", tuple(totals(bars)))]


def _turn_line(turn: _Turn) -> Row:
    bars = _bars([turn])
    return Row("fold", f"Turn {turn.number}", _took(turn), tuple(totals(bars)))


def _took(turn: _Turn) -> str:
    took = seconds_text(turn.seconds)
    return took if turn.ending == "completed" else f"{took}, {turn.ending}"


def _idle(seconds: float) -> list[Row]:
    return [Row("idle", "", f"{seconds_text(seconds)} idle")] if seconds >= _SHORTEST_IDLE else []


def _turn_rows(turn: _Turn, shown: list[int]) -> list[Row]:
    rows = [Row("turn", f"Turn {turn.number}", _took(turn))]
    hidden = [step for step in turn.steps if step not in shown]
    if hidden:
        bars = [bar for step in hidden for bar in turn.steps[step]]
        label = f"steps {hidden[0]}–{hidden[-1]}"
        rows.append(Row("fold", label, seconds_text(_extent(bars)), tuple(totals(bars))))
    return rows + [_step_row(step, turn.steps[step]) for step in shown]


def _step_row(step: int, bars: list[Bar]) -> Row:
    drawn = [bar for bar in bars if bar.lane < _MOST_LANES][:_MOST_BARS_A_STEP]
    more = len(bars) - len(drawn)
    note = seconds_text(_extent(bars)) + (f", {count(more, 'more call')}" if more else "")
    lanes = 1 + max(bar.lane for bar in drawn)
    return Row("step", f"step {step}", note, tuple(drawn), lanes)


def _extent(bars: list[Bar]) -> float:
    return max(bar.start + bar.seconds for bar in bars) - min(bar.start for bar in bars)
