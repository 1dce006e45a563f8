"""Two sessions compared: tables of what differs, and a view of it side by side.

Reads: session.compare, tables.diff, notebook.diff_html, notebook.wording. Feeds: notebook.agent.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from dsh_nb.notebook.diff_html import diff_html
from dsh_nb.notebook.diff_words import is_routine, label, numbers_line, summary, title
from dsh_nb.notebook.wording import strip_controls
from dsh_nb.session.compare import Pair, TurnPair, compare
from dsh_nb.tables.diff import diff_rows, diff_turns, log_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Diff", "diff"]

_MOST_CHARS = 300
_MOST_LINES = 400


def diff(a: object, b: object) -> Diff:
    """What two sessions have in common and where they part, turn by turn; a notebook shows it.

    Args:
        a: An agent, a saved session, a session or its events.
        b: Another one; a fork of `a`, a rerun, another model's try.
    """
    return Diff(a, b)


class Diff:
    """Two sessions side by side, as they were when it was made.

    Attributes:
        names: What the two are called.
        pairs: What stands side by side, as plain data; see `dsh_nb.session.compare.compare`.
        rows: The same as a DataFrame, a row for each thing that was said or done.
        turns: What each turn took in both, as a DataFrame.
    """

    def __init__(self, a: object, b: object) -> None:
        logs = [*log_of(a)], [*log_of(b)]
        self.names = _names(log_of(a), log_of(b))
        self.pairs: list[TurnPair] = compare(*logs)
        self._logs = logs

    @cached_property
    def rows(self) -> pd.DataFrame:
        """What was said and done, side by side; see `dsh_nb.tables.diff.diff_rows`."""
        return diff_rows(*self._logs, self.pairs)

    @cached_property
    def turns(self) -> pd.DataFrame:
        """What each turn took in both; see `dsh_nb.tables.diff.diff_turns`."""
        return diff_turns(*self._logs, self.pairs)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return all(turn.status == "same" for turn in self.pairs)

    def to_html(self) -> str:
        """The view as one element of HTML: nothing in it runs, nothing is loaded."""
        return diff_html(self.names, self.pairs, self.turns)

    def __str__(self) -> str:
        lines = [*self._lines()]
        shown = lines[:_MOST_LINES]
        if len(lines) > len(shown):
            shown.append(f"… {len(lines) - len(shown)} more lines in .rows")
        return strip_controls("\n".join(shown))

    def __repr__(self) -> str:
        return f"<Diff {self.names[0]!r} {self.names[1]!r}: {summary(self.pairs, self.names)}>"

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        text = str(self)
        ticks = max(map(len, re.findall("`+", text)), default=0)
        fence = "`" * max(3, ticks + 1)
        return {
            "text/html": self.to_html(),
            "text/markdown": f"{fence}diff\n{text}\n{fence}",
            "text/plain": text,
        }

    def _lines(self) -> Iterator[str]:
        a, b = self.names
        yield f"--- {a}"
        yield f"+++ {b}"
        yield f"  {summary(self.pairs, self.names)}"
        for turn, (_, numbers) in zip(self.pairs, self.turns.iterrows(), strict=True):
            if turn.status == "same":
                continue
            yield ""
            yield f"@@ {title(turn, self.names)}"
            took = numbers_line(numbers)
            if took:
                yield f"  {took}"
            for pair in turn.pairs:
                if not is_routine(pair):
                    yield from _pair_lines(pair)


def _pair_lines(pair: Pair) -> Iterator[str]:
    if pair.status == "same":
        yield f"  {label(pair.one)}: {_short(pair.one.text)}"
        return
    if pair.a is not None:
        yield f"- {label(pair.a)}: {_short(pair.a.text)}"
    if pair.b is not None:
        yield f"+ {label(pair.b)}: {_short(pair.b.text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…"


def _names(a: object, b: object) -> tuple[str, str]:
    """Their ids; ``a`` and ``b`` where they have none, or the same one."""
    one, other = (getattr(log, "id", None) for log in (a, b))
    if isinstance(one, str) and isinstance(other, str) and one != other:
        return one, other
    return (f"{one or 'a'} (a)", f"{other or 'b'} (b)") if one or other else ("a", "b")
