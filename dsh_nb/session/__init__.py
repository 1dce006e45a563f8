"""The record: the session log, its vocabulary, the history derived from it, its invariants.

Feeds: llm, tools, agent, tables, notebook.
"""

from __future__ import annotations

from dsh_nb.session.assembler import BlockAssembler, assemble
from dsh_nb.session.check import LogChecker, check_log
from dsh_nb.session.events import EVENT_TYPES, EventData, SessionEvent
from dsh_nb.session.history import History, HistoryView, derive_messages
from dsh_nb.session.session import Session

__all__ = [
    "EVENT_TYPES",
    "BlockAssembler",
    "EventData",
    "History",
    "HistoryView",
    "LogChecker",
    "Session",
    "SessionEvent",
    "assemble",
    "check_log",
    "derive_messages",
]
