"""The usage of a log as a DataFrame: what each message was billed.

Reads: session.events, tables.bill, tables.frame. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dsh_nb.session.events import RequestHeader, SessionEvent, UsageReport
from dsh_nb.session.fork import inherited_events
from dsh_nb.tables.bill import price_of
from dsh_nb.tables.frame import frame_of, name_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["USAGE_COLUMNS", "usage"]

USAGE_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "turn": "Int64",
    "step": "Int64",
    "message_id": "text",
    "model": "text",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cache_read_tokens": "Int64",
    "cache_write_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "estimated": "boolean",
}
"""The columns, in order, each with what it holds."""


def usage(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per message that a provider billed, failed attempts included, in log order.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default. What a fork took over from its
            parent was billed there and is not in the fork's table.

    Returns:
        A frame of shape ``(n_reports, 12)``; an empty log gives the same columns and dtypes. The
        five counts do not overlap:

        ==================  =======  ==========================================================
        column              dtype    meaning
        ==================  =======  ==========================================================
        session             string   id of the session
        turn                Int64    its turn, from 1
        step                Int64    its step, from 1
        message_id          string   the provider's id of the message
        model               string   the model that answered, else the one that was asked
        input_tokens        Int64    of the prompt, neither read from nor written to a cache
        output_tokens       Int64    of the answer
        cache_read_tokens   Int64    of the prompt, read from the cache
        cache_write_tokens  Int64    of the prompt, written to the cache
        reasoning_tokens    Int64    of the thinking; 0 where the provider counts it as output
        cost                Float64  US dollars of this message; <NA> for an unknown price
        estimated           boolean  True when the stream was cut: the last counts seen
        ==================  =======  ==========================================================
    """
    columns: dict[str, list[Any]] = {name: [] for name in USAGE_COLUMNS if name != "session"}
    add = [column.append for column in columns.values()]
    requested = None
    inherited = inherited_events(log)
    for event in log:
        data = event.data
        if isinstance(data, RequestHeader):
            requested = data.model
        elif isinstance(data, UsageReport) and event.seq >= inherited:
            for append, value in zip(add, _row(data, requested), strict=True):
                append(value)
    return frame_of(columns, USAGE_COLUMNS, name_of(log, session))


def _row(data: UsageReport, requested: str | None) -> tuple[object, ...]:
    tokens = data.usage
    return (
        data.turn or None,
        data.step or None,
        data.message_id,
        data.model or requested,
        tokens.input_tokens,
        tokens.output_tokens,
        tokens.cache_read_tokens,
        tokens.cache_write_tokens,
        tokens.reasoning_tokens,
        price_of(data, requested),
        data.interrupted,
    )
