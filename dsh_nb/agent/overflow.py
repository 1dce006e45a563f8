"""Reading the rest of a tool result that was too long for the model.

Reads: session, tools. Feeds: agent.loop_agent.
"""

from __future__ import annotations

from dsh_nb.session.events import ToolResult
from dsh_nb.session.session import Session
from dsh_nb.tools.schema import tool
from dsh_nb.tools.tool import Tool

__all__ = ["READ_RESULT", "overflow_reader"]

READ_RESULT = "read_result"
_MAX_CHARS = 20_000


def overflow_reader(session: Session) -> Tool:
    """The tool ``read_result``, which reads the whole texts that `session` keeps."""
    found: dict[str, str] = {}
    read_to = 0

    def whole(call_id: str) -> str | None:
        nonlocal read_to
        for event in session[read_to:]:
            if isinstance(event.data, ToolResult) and event.data.overflow is not None:
                found[event.data.call_id] = event.data.overflow
        read_to = len(session)
        return found.get(call_id)

    def read_result(call_id: str, start: int = 0, length: int = _MAX_CHARS) -> str:
        """Read on in the result of an earlier tool call that was too long to show whole.

        Args:
            call_id: The call, as the shortened result names it.
            start: First character to read, from 0.
            length: How many characters; at most 20000.
        """
        text = whole(call_id)
        if text is None:
            raise ValueError(f"no shortened result of call {call_id!r}; these have one: {[*found]}")
        end = start + max(1, min(length, _MAX_CHARS))
        return text[start:end] or f"(the result ends at character {len(text)})"

    return tool(read_result, name=READ_RESULT)
