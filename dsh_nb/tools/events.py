"""The live events of tools, and the key of the registry.

Reads: core, tools.tool. Feeds: tools.registry, tools.run, agent, plugins, notebook.
"""

from __future__ import annotations

from dsh_nb.core import Emit, Waterfall
from dsh_nb.tools.tool import ToolCall, ToolOutcome

__all__ = ["TOOLS_BLOCKING", "TOOLS_CHANGE", "TOOLS_EXECUTE", "TOOLS_LATE", "TOOLS_PROGRESS"]

TOOLS_EXECUTE: Waterfall[ToolCall, ToolOutcome] = Waterfall("tools/execute")
"""Wrap or veto a tool call: permission, sandbox, plan mode, hooks.

Mode: waterfall. Fired once a call. Return: its outcome.
Must: ``await proceed()`` to run it, ``proceed(changed_call)`` to run another, or answer alone.
Default: the registered tool runs. What a listener raises becomes an error result.
"""

TOOLS_CHANGE: Emit[()] = Emit("tools/change")
"""A tool came or went. Mode: emit."""

TOOLS_PROGRESS: Emit[ToolCall, object] = Emit("tools/progress")
"""A running tool reported progress. Mode: emit. Fired on the context's thread, not logged."""

TOOLS_BLOCKING: Emit[ToolCall] = Emit("tools/blocking")
"""A tool is about to block the loop's thread. Mode: emit. The last moment to paint."""

TOOLS_LATE: Emit[ToolCall, ToolOutcome] = Emit("tools/late")
"""A call that was given up came to an end after all. Mode: emit. The model is not told."""
