"""The log as DataFrames.

Reads: session. Feeds: notebook.
"""

from __future__ import annotations

from dsh_nb.tables.chunks import chunks
from dsh_nb.tables.columns import Column, extend
from dsh_nb.tables.events import events
from dsh_nb.tables.frame import many
from dsh_nb.tables.messages import messages
from dsh_nb.tables.prices import cost_of
from dsh_nb.tables.record import Record, Recorded
from dsh_nb.tables.scan import events_of_file, scan
from dsh_nb.tables.spans import spans
from dsh_nb.tables.steps import steps
from dsh_nb.tables.tool_calls import tool_calls
from dsh_nb.tables.turns import turns
from dsh_nb.tables.usage import usage

__all__ = [
    "Column",
    "Record",
    "Recorded",
    "chunks",
    "cost_of",
    "events",
    "events_of_file",
    "extend",
    "many",
    "messages",
    "scan",
    "spans",
    "steps",
    "tool_calls",
    "turns",
    "usage",
]
