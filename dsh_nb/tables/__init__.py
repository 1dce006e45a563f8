"""The log as DataFrames.

Reads: session. Feeds: notebook.
"""

from __future__ import annotations

from dsh_nb.tables.events import events
from dsh_nb.tables.prices import cost_of

__all__ = ["cost_of", "events"]
