"""Recorded tools: calls are answered with the results of a log, and no tool runs.

Reads: core, messages, session, tools. Feeds: plugins.rerun.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Literal

from dsh_nb.core import Context, Disposer, Proceed
from dsh_nb.messages import ToolCallBlock
from dsh_nb.session.events import AssistantMessage, SessionEvent, ToolResult
from dsh_nb.tools.events import TOOLS_EXECUTE
from dsh_nb.tools.registry import parse_arguments
from dsh_nb.tools.results import text_outcome
from dsh_nb.tools.tool import ToolCall, ToolOutcome

__all__ = ["RecordedTools", "recorded_tools"]

_Call = tuple[str, str]


class RecordedTools:
    """The calls of a log with what they came to.

    A call is known again by its id, tool and arguments; one with another id gets the first result
    that is left of a call of the same tool with the same arguments.

    Args:
        log: The log of a session.
    """

    def __init__(self, log: Iterable[SessionEvent]) -> None:
        asked: dict[str, ToolCallBlock] = {}
        self._left: dict[str, tuple[_Call, ToolResult]] = {}
        self._of_call: dict[_Call, deque[str]] = {}
        for event in log:
            data = event.data
            if isinstance(data, AssistantMessage):
                blocks = [block for block in data.content if isinstance(block, ToolCallBlock)]
                asked.update({block.id: block for block in blocks})
            elif isinstance(data, ToolResult) and data.call_id in asked:
                block = asked[data.call_id]
                key = _key(block.name, parse_arguments(block.arguments))
                self._left[data.call_id] = (key, data)
                self._of_call.setdefault(key, deque()).append(data.call_id)

    def take(self, call: ToolCall) -> ToolOutcome | None:
        """What `call` came to, once; None when the log does not tell."""
        key = _key(call.name, call.arguments)
        recorded, result = self._left.get(call.id, (None, None))
        if recorded == key and result is not None:
            del self._left[call.id]
            return _outcome(result)
        waiting = self._of_call.get(key, deque())
        while waiting:
            _, result = self._left.pop(waiting.popleft(), (None, None))
            if result is not None:
                return _outcome(result)
        return None


def recorded_tools(
    ctx: Context,
    log: Iterable[SessionEvent],
    *,
    agent: str | None = None,
    otherwise: Literal["fail", "run"] = "fail",
) -> Disposer:
    """Listen to ``tools/execute`` before everybody else, and answer calls from `log`.

    Nobody is asked about a call that is answered so: nothing runs.

    Args:
        ctx: Whose fiber owns it.
        log: The log of a session.
        agent: The agent whose calls are answered; those of all by default.
        otherwise: What becomes of a call that was not recorded: it fails and the model is told,
            or it runs.

    Returns:
        What ends it.
    """
    recorded = RecordedTools(log)

    async def answer(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        if agent is not None and call.agent != agent:
            return await proceed()
        outcome = recorded.take(call)
        if outcome is not None:
            return outcome
        if otherwise == "run":
            return await proceed()
        return text_outcome(
            f"no result of {call.name!r} with these arguments was recorded; the tool was not run",
            is_error=True,
        )

    return ctx.on(TOOLS_EXECUTE, answer, prepend=True)


def _key(name: str, arguments: object) -> _Call:
    return name, json.dumps(arguments, sort_keys=True)


def _outcome(result: ToolResult) -> ToolOutcome:
    return ToolOutcome(
        content=result.content,
        is_error=result.is_error,
        display=result.display,
        overflow=result.overflow,
        interrupted=result.outcome == "interrupted",
        denied=result.outcome == "denied",
    )
