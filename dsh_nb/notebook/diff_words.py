"""The words of a comparison that its HTML and its text share.

Reads: session, tables.diff, notebook.wording. Feeds: notebook.diff, notebook.diff_html.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dsh_nb.notebook.wording import count, money_text, seconds_text
from dsh_nb.session.compare import Pair, TurnPair
from dsh_nb.session.items import Item

__all__ = ["is_routine", "label", "numbers_line", "range_words", "summary", "title"]

_WHAT = {"tool_call": "call", "tool_result": "result"}
_ALONE = {"removed": 0, "added": 1}


def label(item: Item) -> str:
    """What it is: ``text``, ``call search``, ``context from memory``."""
    what = _WHAT.get(item.what, item.what)
    if not item.name:
        return what
    return f"{what} {item.name}" if item.what in _WHAT else f"{what} from {item.name}"


def is_routine(pair: Pair) -> bool:
    """Whether it says nothing: that a turn was completed, as usual, in both."""
    return pair.status == "same" and (pair.one.what, pair.one.text) == ("end", "completed")


def title(turn: TurnPair, names: tuple[str, str]) -> str:
    """``Turn 3``, ``Turn 4, only in main-fork``."""
    whose = _ALONE.get(turn.status)
    return f"Turn {turn.turn}" + ("" if whose is None else f", only in {names[whose]}")


def range_words(first: int, last: int) -> str:
    """``Turn 2 is the same``, ``Turns 1 and 2 are the same``, ``Turns 1 to 7 are the same``."""
    if first == last:
        return f"Turn {first} is the same"
    return f"Turns {first} {'and' if last == first + 1 else 'to'} {last} are the same"


def summary(pairs: Sequence[TurnPair], names: tuple[str, str]) -> str:
    """How many turns are the same, changed, and in one alone."""
    found: Counter[str] = Counter(turn.status for turn in pairs)
    said = [
        f"{count(found[status], 'turn')} {words}"
        for status, words in (
            ("same", "the same"),
            ("changed", "changed"),
            ("removed", f"only in {names[0]}"),
            ("added", f"only in {names[1]}"),
        )
        if found[status]
    ]
    return " · ".join(said) or "no turns"


def numbers_line(row: Any) -> str:  # Any: a row of `diff_turns`
    """What a turn took: ``2 → 3 steps · 1.2 s → 0.9 s``; what is the same is said once."""
    return " · ".join(_numbers(row))


def _numbers(row: Any) -> Iterator[str]:
    for name, words in _WORDS.items():
        a, b = _known(row[f"{name}_a"]), _known(row[f"{name}_b"])
        if not (a or b):
            continue
        one, other = (None if value is None else words(value) for value in (a, b))
        if one is None or other is None or one == other:
            yield str(other if one is None else one)
        else:
            yield f"{one} → {other}"


def _known(value: Any) -> Any:  # Any: a number, or what pandas has for none
    import pandas as pd

    return None if value is pd.NA else value


_WORDS: dict[str, Callable[[Any], str]] = {  # Any: a number
    "steps": lambda value: count(value, "step"),
    "tool_calls": lambda value: count(value, "call"),
    "seconds": seconds_text,
    "input_tokens": lambda value: f"{value:,} in",
    "output_tokens": lambda value: f"{value:,} out",
    "cost": money_text,
}
