"""Logs of other tools as sessions: of the DeepSeek Harness, of Claude Code, and message lists.

Feeds: notebook.
"""

from __future__ import annotations

from dsh_nb.imports.openai_messages import session_of_messages
from dsh_nb.imports.read import ImportedLog, read_file, read_folder, read_log
from dsh_nb.imports.report import ImportReport, LineNote

__all__ = [
    "ImportReport",
    "ImportedLog",
    "LineNote",
    "read_file",
    "read_folder",
    "read_log",
    "session_of_messages",
]
