"""Logs of other tools as sessions: of the DeepSeek Harness and of Claude Code.

Feeds: notebook.
"""

from __future__ import annotations

from dsh_nb.imports.read import ImportedLog, read_file, read_folder, read_log
from dsh_nb.imports.report import ImportReport, LineNote

__all__ = ["ImportReport", "ImportedLog", "LineNote", "read_file", "read_folder", "read_log"]
