"""The messages of a log as a DataFrame: what was said, a row per block.

Reads: messages, session.events, tables.frame. Feeds: notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dsh_nb.messages import (
    Block,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    text_of,
)
from dsh_nb.session.events import (
    AssistantMessage,
    ContextMessage,
    SessionEvent,
    SteeringMessage,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_nb.tables.frame import TurnOf, frame_of, name_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MESSAGE_COLUMNS", "messages"]

MESSAGE_COLUMNS: Mapping[str, str] = {
    "session": "text",
    "seq": "Int64",
    "turn": "Int64",
    "step": "Int64",
    "role": "role",
    "kind": "kind",
    "text": "text",
    "call_id": "text",
    "tool": "text",
    "source": "text",
}
"""The columns, in order, each with what it holds."""

_Said = UserMessage | ContextMessage | SteeringMessage | AssistantMessage | ToolResult
_Row = tuple[str, str | None, str | None, str | None]


def messages(log: Iterable[SessionEvent], session: str | None = None) -> pd.DataFrame:
    """One row per block of what was said, in log order; an empty message has no row.

    Args:
        log: A live session or any iterable of its events.
        session: Id of the session; that of `log` by default.

    Returns:
        A frame of shape ``(n_blocks, 10)``; an empty log gives the same columns and dtypes:

        =======  ========  ======================================================================
        column   dtype     meaning
        =======  ========  ======================================================================
        session  string    id of the session
        seq      Int64     position of its event in the log
        turn     Int64     its turn, from 1; a queued message has the coming one
        step     Int64     its step, from 1; <NA> of what people and plugins say
        role     category  user, assistant or tool
        kind     category  text, thinking, tool_call, tool_result, image, or opaque: a block that
                           only its provider reads
        text     string    the text, the thinking, a call's raw arguments, a result's text
        call_id  string    of calls, results and their images
        tool     string    name of the tool of a call, its result and their images
        source   string    who said it: user, agent, plugin, …; <NA> of the model and tools
        =======  ========  ======================================================================
    """
    rows = _Rows()
    for event in log:
        if type(event.data) in _READ:
            rows.feed(event)
    return frame_of(rows.columns, MESSAGE_COLUMNS, name_of(log, session))


_READ = frozenset(
    {
        UserMessage,
        ContextMessage,
        SteeringMessage,
        AssistantMessage,
        ToolResult,
        TurnStart,
        TurnEnd,
    }
)


class _Rows:
    """Fills the columns; the names of tools carry over from calls to results."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {
            name: [] for name in MESSAGE_COLUMNS if name != "session"
        }
        self._add = [column.append for column in self.columns.values()]
        self._turns = TurnOf(self.columns["turn"])
        self._tools: dict[str, str] = {}

    def feed(self, event: SessionEvent) -> None:
        data = event.data
        turn = self._turns.feed(event)
        if isinstance(data, (TurnStart, TurnEnd)):
            return
        place = (event.seq, turn or None, getattr(data, "step", None) or None, _role(data))
        source = getattr(data, "source", None)
        for said in self._blocks(data):
            if isinstance(data, UserMessage):
                self._turns.wait()
            row = (*place, *said, source.kind if source else None)
            for append, value in zip(self._add, row, strict=True):
                append(value)

    def _blocks(self, data: _Said) -> Iterator[_Row]:
        """Kind, text, call id and tool of each block."""
        if isinstance(data, ToolResult):
            yield from self._result(ToolResultBlock(data.call_id, data.content))
            return
        for block in data.content:
            if isinstance(block, ToolResultBlock):
                yield from self._result(block)
            else:
                yield self._block(block)

    def _result(self, block: ToolResultBlock) -> Iterator[_Row]:
        call = (block.tool_call_id, self._tools.get(block.tool_call_id))
        yield ("tool_result", text_of(block.content), *call)
        for part in block.content:
            if isinstance(part, ImageBlock):
                yield ("image", None, *call)

    def _block(self, block: Block) -> _Row:
        if isinstance(block, ToolCallBlock):
            self._tools[block.id] = block.name
            return "tool_call", block.arguments, block.id, block.name
        if isinstance(block, TextBlock):
            return "text", block.text, None, None
        if isinstance(block, ReasoningBlock):
            return "thinking", block.text, None, None
        return "image" if isinstance(block, ImageBlock) else "opaque", None, None, None


def _role(data: _Said) -> str:
    if isinstance(data, AssistantMessage):
        return "assistant"
    return "tool" if isinstance(data, ToolResult) else "user"
