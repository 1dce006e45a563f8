"""A log builder: whole and broken logs for tests, in a few words.

Reads: messages, session. Feeds: tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dsh_nb.messages import (
    Block,
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    Source,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    Usage,
)
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    EventData,
    RequestHeader,
    SessionEvent,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnReason,
    TurnStart,
    TurnTrigger,
    UsageReport,
    UserMessage,
)
from dsh_nb.session.session import event_data

__all__ = ["LogBuilder"]


class LogBuilder:
    """Appends events as the loop would; each method returns the builder.

    Attributes:
        events: The log so far.

    Example:
        >>> log = LogBuilder().user("hi").turn().step().says("hello").end_step().end_turn()
        >>> [event.type for event in log.events][:3]
        ['user/message', 'turn/start', 'step/start']
    """

    def __init__(self, clock: Callable[[], int] = lambda: 1_700_000_000_000) -> None:
        self.events: list[SessionEvent] = []
        self._clock = clock
        self._turn = 0
        self._step = 0
        self._headed = False

    def add(self, type: str, data: EventData | Mapping[str, object]) -> LogBuilder:
        """Any event."""
        checked = event_data(type, data)
        self.events.append(SessionEvent(len(self.events), self._clock(), type, checked))
        return self

    def user(self, text: str) -> LogBuilder:
        """A queued message."""
        return self.add(
            "user/message", UserMessage((TextBlock(text),), Source(id=f"m{len(self.events)}"))
        )

    def context(self, text: str, source: str = "plugin") -> LogBuilder:
        """Injected context."""
        return self.add("context/message", ContextMessage((TextBlock(text),), Source(source)))

    def steer(self, text: str) -> LogBuilder:
        """A steering message of the open turn."""
        return self.add(
            "steering/message", SteeringMessage(self._turn, (TextBlock(text),), Source())
        )

    def turn(self) -> LogBuilder:
        """The next turn begins."""
        self._turn, self._step = self._turn + 1, 0
        return self.add("turn/start", TurnStart(self._turn, TurnTrigger("message", Source())))

    def step(self) -> LogBuilder:
        """The next step begins; the first one logs the request header."""
        self._step += 1
        self.add("step/start", StepStart(self._turn, self._step))
        if not self._headed:
            self._headed = True
            self.add("request/header", RequestHeader(self._turn, self._step, "scripted"))
        return self

    def streams(self, text: str, index: int = 0) -> LogBuilder:
        """Text deltas, a word each, and nothing that ends them."""
        for word in text.split(" "):
            self.chunk(TextDelta(index, f"{word} "))
        return self

    def chunk(self, chunk: Chunk) -> LogBuilder:
        """One chunk."""
        return self.add("assistant/chunk", AssistantChunk(self._turn, self._step, chunk))

    def says(
        self, *said: str | Block, usage: Usage | None = None, stop: str | None = None
    ) -> LogBuilder:
        """A whole message, its chunks before it and its usage after it."""
        blocks = tuple(TextBlock(one) if isinstance(one, str) else one for one in said)
        called = any(isinstance(block, ToolCallBlock) for block in blocks)
        reason = stop or ("tool-calls" if called else "stop")
        for index, block in enumerate(blocks):
            self.chunk(BlockEnd(index, block))
        self.chunk(Finish(FinishReason(reason)))
        message = AssistantMessage(self._turn, self._step, blocks, stop_reason=reason)
        self.add("assistant/message", message)
        report = UsageReport(self._turn, self._step, usage or Usage(10, 5), model="scripted")
        return self.add("usage", report)

    def call(self, call_id: str, name: str = "add", arguments: str = "{}") -> LogBuilder:
        """A call begins."""
        return self.add("tool/call", ToolStart(self._turn, self._step, call_id, name, arguments))

    def result(self, call_id: str, text: str = "done", *, is_error: bool = False) -> LogBuilder:
        """A call's result."""
        outcome = "error" if is_error else "ok"
        content = (TextBlock(text),)
        return self.add(
            "tool/result",
            ToolResult(self._turn, self._step, call_id, content, is_error, outcome),
        )

    def end_step(self) -> LogBuilder:
        """The step ends."""
        return self.add("step/end", StepEnd(self._turn, self._step))

    def end_turn(self, kind: str = "completed", code: str | None = None) -> LogBuilder:
        """The turn ends."""
        reason = event_data("turn/end", {"turn": self._turn, "reason": {"kind": kind}})
        assert isinstance(reason, TurnEnd)
        ending = TurnReason(reason.reason.kind, code=code)
        return self.add("turn/end", TurnEnd(self._turn, ending))
