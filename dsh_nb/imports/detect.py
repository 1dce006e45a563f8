"""Whose log a file is, from its first lines.

Reads: imports.lines, messages. Feeds: imports.read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dsh_nb.imports.lines import Line
from dsh_nb.messages import JsonObject

__all__ = ["LogFormat", "format_of"]

LogFormat = Literal["dsh_nb", "dsh", "claude-code"]
"""A file of ours, of the DeepSeek Harness, or a Claude Code transcript."""

_CLAUDE_KEYS = frozenset({"uuid", "parentUuid", "sessionId", "leafUuid", "isSidechain"})
_CLAUDE_TYPES = frozenset({"summary", "file-history-snapshot", "queue-operation"})


def format_of(lines: Iterable[Line]) -> LogFormat | None:
    """Whose lines they are, by the first one that tells; None when none does."""
    return next((found for line in lines if (found := _format(line.value)) is not None), None)


def _format(row: JsonObject) -> LogFormat | None:
    kind = row.get("type")
    if not isinstance(kind, str):
        return None
    if kind == "session" and row.get("format") == "dsh_nb":
        return "dsh_nb"
    if kind in _CLAUDE_TYPES or not _CLAUDE_KEYS.isdisjoint(row):
        return "claude-code"
    if kind == "session" and ("version" in row or "createdAt" in row):
        return "dsh"
    return "dsh" if "data" in row and ("/" in kind or kind in ("usage", "error")) else None
