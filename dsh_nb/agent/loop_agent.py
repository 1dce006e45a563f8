"""The loop's own agent: an inbox, a session, and a driver that runs turns while there is work.

Reads: core, session, llm, tools, agent.loop, agent.inbox, agent.registry. Feeds: agent.agent_loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dsh_nb.agent.endings import caught
from dsh_nb.agent.inbox import Inbox, InboxMessage, inbox_message, user_content
from dsh_nb.agent.loop import Turn
from dsh_nb.agent.overflow import READ_RESULT, overflow_reader
from dsh_nb.agent.protocol import (
    AGENT_ERROR,
    AGENT_QUEUED,
    AGENT_STATUS,
    AGENT_TURN_END,
    Agent,
    Said,
    Status,
)
from dsh_nb.core.fiber import FINISHED
from dsh_nb.errors import DisposedError
from dsh_nb.messages import Block, JsonObject, Source, ToolCallBlock, ToolSchema, clean_text
from dsh_nb.session.events import (
    ContextMessage,
    Failure,
    RequestHeader,
    ToolLate,
    ToolResult,
    TurnReason,
)
from dsh_nb.session.store import SESSION_FLUSH
from dsh_nb.tools.events import TOOLS_LATE
from dsh_nb.tools.tool import ToolCall, ToolOutcome

if TYPE_CHECKING:
    from dsh_nb.agent.agent_loop import AgentOptions, Harness
    from dsh_nb.session.session import Session

__all__ = ["LoopAgent"]

Header = tuple[str, "str | None", tuple[ToolSchema, ...], JsonObject]


class LoopAgent(Agent):
    """An agent that runs the loop. Made by `AgentLoop.create`.

    It has no task while it is idle: the first message starts a driver, which runs turn after turn
    until the inbox is empty.

    Attributes:
        model: Name of the model; None lets ``agent/request`` supply one.
        options: Sampling and provider options by their wire names.
        header: The request header as it was last logged.
        inbox: What has arrived.
    """

    def __init__(self, id: str, session: Session, harness: Harness, options: AgentOptions) -> None:
        self.id = id
        self.session = session
        self.status: Status = "idle"
        self.ctx = harness.ctx
        self.llm = harness.llm
        self.tools = harness.tools
        self.prompt = harness.prompt
        self.model = options.model
        self.options: JsonObject = dict(options.options)
        self.inbox = Inbox()
        self.header: Header | None = None
        self.holds_context = False
        self._registry = harness.agents
        self._sessions = harness.sessions
        self._call_ids: set[str] = set()
        self._held: list[ContextMessage] = []
        self._turn: Turn | None = None
        self._driver: asyncio.Task[None] | None = None
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._continue = False
        self._disposed = False
        self._recall()
        self._owned: list[Callable[[], object]] = [self.ctx.on(TOOLS_LATE, self._tool_was_late)]

    def __repr__(self) -> str:
        return f"<LoopAgent {self.id!r} {self.status}, {self.session.turn} turns>"

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is about to."""
        return self._driver is not None or bool(self.inbox.queued)

    async def finished(self) -> None:
        """Wait until no turn runs and none is waiting."""
        while self._driver is not None:
            await asyncio.wait({self._driver})
            await asyncio.sleep(0)  # the driver's callback says whether it goes on

    # -- what people call, from any thread ---------------------------------------------------

    def send(self, said: Said, source: Source | None = None) -> str:
        """Queue a message for the next turn, and start one when idle.

        Returns:
            The message's id. A message whose id came before is ignored.

        Raises:
            DisposedError: The agent is gone. Nothing was queued.
            TypeError, ValueError: The message is not text or blocks, or blank.
        """
        return self._arrive(said, source, steering=False)

    def steer(self, said: Said, source: Source | None = None) -> str:
        """Put a message between the steps of the running turn; when idle, the same as `send`."""
        return self._arrive(said, source, steering=True)

    def inject(self, said: Said, source: Source | None = None) -> None:
        """Add context to the log without starting anything; the next request shows it."""
        self._check_alive("inject")
        context = ContextMessage(user_content(said), source or Source())
        self.ctx.post(lambda: self._inject(context))

    def continue_turn(self) -> None:
        """Start a turn without a new message; nothing happens when one is running."""
        self._check_alive("continue_turn")

        def start() -> None:
            if self._driver is None:
                self._continue = True
                self._wake()

        self.ctx.post(start)

    def abort(self, reason: str | None = None) -> None:
        """End the running turn as aborted, once; nothing happens when idle."""
        self.ctx.post(lambda: self._stop_turn(TurnReason("aborted", reason)))

    def dispose(self) -> Awaitable[None]:
        """End the agent: a running turn ends as disposed. Twice is harmless.

        Returns:
            An awaitable that is done when nothing of the agent is left.
        """
        if threading.get_ident() != self.ctx.thread:
            self.ctx.post(self.dispose)
            return FINISHED
        if not self._disposed:
            self._disposed = True
            self._stop_turn(TurnReason("disposed"))
            if self._driver is None:
                self._gone()
        return FINISHED if self._driver is None else self.finished()

    # -- what the turn uses -------------------------------------------------------------------

    def with_new_ids(self, content: Sequence[Block]) -> tuple[Block, ...]:
        """`content` with ids that no call of this session has had, as providers demand."""
        return tuple(
            msgspec.structs.replace(block, id=self._fresh(block.id))
            if isinstance(block, ToolCallBlock)
            else block
            for block in content
        )

    @contextlib.contextmanager
    def holding_context(self) -> Iterator[None]:
        """Hold injected context back while a request is on its way.

        What the request showed can then be told from the log: all that stands before the step's
        first chunk.
        """
        self.holds_context = True
        try:
            yield
        finally:
            self.release_context()

    def release_context(self) -> None:
        """Log the context that was held back."""
        self.holds_context = False
        held, self._held = self._held, []
        for context in held:
            self.session.append("context/message", context)

    def own(self, undo: Callable[[], object]) -> None:
        """Run `undo` when the agent is gone."""
        self._owned.append(undo)

    def abandon(self, work: asyncio.Task[Any]) -> None:
        """Keep a task that does not heed its cancellation, until it ends by itself."""
        self._abandoned.add(work)
        work.add_done_callback(self._abandoned.discard)
        self.ctx.report(
            TimeoutError(
                f"what turn {self.session.turn} of agent {self.id!r} ran ignores its stop"
            ),
            "stopping a turn",
        )

    # -- the inbox ----------------------------------------------------------------------------

    def _arrive(self, said: Said, source: Source | None, *, steering: bool) -> str:
        self._check_alive("steer" if steering else "send")
        message = inbox_message(said, source)
        self.ctx.post(lambda: self._put(message, steering=steering))
        return str(message.source.id)

    def _put(self, message: InboxMessage, *, steering: bool) -> None:
        if self._disposed:
            return
        steers = steering and self._turn is not None
        if not self.inbox.put(message, steering=steers):
            return
        self._wake()
        self.ctx.emit(AGENT_QUEUED, self, message.source, steers)

    def _inject(self, context: ContextMessage) -> None:
        if self.holds_context:
            self._held.append(context)
        elif not self._disposed:
            self.session.append("context/message", context)

    def _check_alive(self, doing: str) -> None:
        if self._disposed:
            raise DisposedError(f"agent {self.id!r} is disposed; make a new one to {doing}")

    # -- the driver ---------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._driver is None:
            self._driver = self.ctx.loop.create_task(self._drive(), name=f"dsh:agent:{self.id}")
            self._driver.add_done_callback(self._driver_ended)

    async def _drive(self) -> None:
        failure = self._set_status("running")
        while (self.inbox.queued or self._continue) and not self._disposed:
            await self._run_turn(failure)
            failure = None
        error = None if self._disposed else self._set_status("idle")
        if error is not None:
            self._log_failure(error)

    async def _run_turn(self, failure: Exception | None) -> None:
        self._continue = False
        turn = self._turn = Turn(self, self.session.turn + 1)
        try:
            await turn.run(self.inbox.drain_queued(), failure)
        finally:
            self._turn = None
            self.inbox.steering_to_queued()
        self._try(lambda: self.ctx.emit(AGENT_TURN_END, self, turn.number, turn.ending))
        try:
            await self.ctx.parallel(SESSION_FLUSH, self.session)
        except Exception as error:
            self._log_failure(error)

    def _driver_ended(self, driver: asyncio.Task[None]) -> None:
        self._driver = None
        if not driver.cancelled() and (error := driver.exception()) is not None:
            self.ctx.report(error, f"the loop of agent {self.id!r}")
        if self._disposed:
            self._gone()
        elif driver.cancelled():
            self._try(lambda: self._set_status("idle"))
        elif self.inbox.queued:
            self._wake()

    def _stop_turn(self, reason: TurnReason) -> None:
        if self._turn is not None:
            self._turn.stop(reason)

    def _set_status(self, status: Status) -> Exception | None:
        if self.status in (status, "disposed"):
            return None
        self.status = status
        return caught(lambda: self.ctx.emit(AGENT_STATUS, self, status))

    def _gone(self) -> None:
        """Leave nothing behind, whatever listeners do."""
        if self.status == "disposed":
            return
        error = self._set_status("disposed")
        if error is not None:
            self.ctx.report(error, "a listener of agent/status")
        self._try(lambda: self._registry.unregister(self))
        self._sessions.close(self.session.id)
        for undo in self._owned:
            undo()

    # -- failures outside a turn, late results, overflow --------------------------------------

    def _try(self, call: Callable[[], object]) -> None:
        error = caught(call)
        if error is not None:
            self._log_failure(error)

    def _log_failure(self, error: Exception) -> None:
        text = clean_text(str(error) or type(error).__name__)
        failed = caught(
            lambda: self.session.append("error", Failure(self.session.turn, 0, text))
        ) or caught(lambda: self.ctx.emit(AGENT_ERROR, self, error))
        self.ctx.report(failed or error, f"agent {self.id!r} after turn {self.session.turn}")

    def _tool_was_late(self, call: ToolCall, outcome: ToolOutcome) -> None:
        if call.agent != self.id or self._disposed:
            return
        late = ToolLate(call.turn, call.step, call.id, outcome.content, outcome.is_error)
        self.session.append("tool/late", late)

    def offer_reader(self) -> None:
        """Let the model read on in results that were too long for it."""
        if self.tools.get(READ_RESULT) is None:
            self.tools.register(overflow_reader(self.session), ctx=self.ctx)

    def _recall(self) -> None:
        """What a seeded session says of earlier requests: the header, the call ids, overflow."""
        for event in self.session:
            data = event.data
            if isinstance(data, RequestHeader):
                self.header = (data.model, data.system, data.tools, data.options)
            elif isinstance(data, ToolResult):
                self._call_ids.add(data.call_id)
                if data.overflow is not None:
                    self.offer_reader()

    def _fresh(self, id: str) -> str:
        fresh, number = id, 2
        while not fresh or fresh in self._call_ids:
            fresh, number = f"{id or 'call'}-{number}", number + 1
        self._call_ids.add(fresh)
        return fresh
