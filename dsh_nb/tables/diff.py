"""Two logs compared, as DataFrames: what each said and did, and what it took.

Reads: session.compare, tables.frame, tables.turns. Feeds: notebook.diff.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsh_nb.session.compare import Pair, TurnPair, compare
from dsh_nb.session.events import SessionEvent
from dsh_nb.tables.frame import column_of
from dsh_nb.tables.turns import turns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DIFF_COLUMNS", "NUMBERS", "diff_rows", "diff_turns", "log_of"]

DIFF_COLUMNS: Mapping[str, str] = {
    "turn": "Int64",
    "step": "Int64",
    "step_b": "Int64",
    "what": "text",
    "name": "text",
    "status": "status",
    "a": "text",
    "b": "text",
}
"""The columns of `diff_rows`, in order, each with what it holds."""

NUMBERS = ("steps", "tool_calls", "seconds", "input_tokens", "output_tokens", "cost")
"""What `diff_turns` compares, columns of the table ``turns``."""

_STATUSES = ("same", "changed", "added", "removed")


def diff_rows(a: object, b: object, pairs: Sequence[TurnPair] | None = None) -> pd.DataFrame:
    """Two sessions side by side, a row for each thing that was said or done.

    Turns are paired by number; see `dsh_nb.session.compare.compare` for what stands side by side.

    Args:
        a: An agent, a saved session, or any events.
        b: Another one.
        pairs: What `compare` made of them, where that is known.

    Returns:
        A frame of shape ``(n, 8)``; two empty logs give the same columns and dtypes:

        ======  ========  ====================================================================
        column  dtype     meaning
        ======  ========  ====================================================================
        turn    Int64     the turn, from 1
        step    Int64     its step in `a`, from 1; 0 before the first; <NA> where b alone has it
        step_b  Int64     its step in `b`, likewise
        what    string    prompt, context, steering, model, system, tools, options, thinking,
                          text, image, tool_call, tool_result, opaque, error or end
        name    string    the tool, or the source of a context
        status  category  same, changed, added (b alone has it) or removed (a alone has it)
        a       string    what it says in `a`; <NA> where b alone has it
        b       string    what it says in `b`, likewise
        ======  ========  ====================================================================
    """
    import pandas as pd

    compared = compare(log_of(a), log_of(b)) if pairs is None else pairs
    rows = [pair for turn in compared for pair in turn.pairs]
    columns: dict[str, Any] = {
        name: column_of(values, DIFF_COLUMNS[name])
        for name, values in _columns(rows).items()
        if name != "status"
    }
    columns["status"] = pd.Categorical([row.status for row in rows], categories=list(_STATUSES))
    return pd.DataFrame(columns, columns=list(DIFF_COLUMNS), copy=False)


def diff_turns(a: object, b: object, pairs: Sequence[TurnPair] | None = None) -> pd.DataFrame:
    """What each turn took in two sessions, a row for each turn.

    Args:
        a: An agent, a saved session, or any events.
        b: Another one.
        pairs: What `compare` made of them, where that is known.

    Returns:
        A frame with the columns ``turn``, ``status`` as in `diff_rows`, and for each of `NUMBERS`
        three: that of `a`, that of `b`, and ``…_change``, that of `b` less that of `a`; <NA>
        where one is not known. ``input_tokens`` counts those of the cache too. What a fork took
        over from its parent has the numbers that it has there.
    """
    import pandas as pd

    compared = compare(log_of(a), log_of(b)) if pairs is None else pairs
    numbers = [turn.turn for turn in compared]
    columns: dict[str, Any] = {
        "turn": column_of(numbers, "Int64"),
        "status": pd.Categorical([one.status for one in compared], categories=list(_STATUSES)),
    }
    ours, theirs = _numbers(log_of(a), numbers), _numbers(log_of(b), numbers)
    for name in NUMBERS:
        columns[f"{name}_a"], columns[f"{name}_b"] = ours[name].array, theirs[name].array
        columns[f"{name}_change"] = (theirs[name] - ours[name]).array
    return pd.DataFrame(columns, copy=False)


def log_of(record: Any) -> Iterable[SessionEvent]:  # Any: what has a session, or is one
    """The events of an agent, a saved session or a log."""
    log: Iterable[SessionEvent] = getattr(record, "session", record)
    return log


def _columns(rows: Sequence[Pair]) -> dict[str, list[Any]]:
    return {
        "turn": [row.one.turn for row in rows],
        "step": [row.a and row.a.step for row in rows],
        "step_b": [row.b and row.b.step for row in rows],
        "what": [row.one.what for row in rows],
        "name": [row.one.name for row in rows],
        "a": [row.a and row.a.text for row in rows],
        "b": [row.b and row.b.text for row in rows],
    }


def _numbers(log: Iterable[SessionEvent], numbers: Sequence[int]) -> pd.DataFrame:
    """The numbers of the turns `numbers`, in that order; <NA> for one that is not there."""
    table = turns([*log])  # events alone: what is inherited counts here
    table = table.drop_duplicates("turn", keep="last").set_index("turn")
    cached = table["cache_read_tokens"] + table["cache_write_tokens"]
    table["input_tokens"] = table["input_tokens"] + cached
    return table[list(NUMBERS)].reindex([*numbers])
