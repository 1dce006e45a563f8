"""Arguments of a call, from the model's JSON to typed Python values.

Reads: errors. Feeds: tools.schema, tools.results.
"""

from __future__ import annotations

from dsh_nb.errors import ToolError

__all__ = ["ToolArgumentError"]


class ToolArgumentError(ToolError):
    """The model's arguments do not fit; the text tells it what was given and what is allowed."""
