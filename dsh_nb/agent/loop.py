"""The loop: one turn, step by step, and how it ends whatever happens.

::

    drain queued -> user/message* -> turn/start
    STEP:  drain steering -> step/start -> request -> stream -> assistant/message, usage
           -> each tool call: tool/call, execute, tool/result -> drain steering -> step/end
           -> go on? -> STEP
    turn/end

The steps run in a task of their own, which an abort cancels; what it left open is closed by the
driver afterwards, so that no listener, tool or adapter can leave a log half written.

Reads: session, llm, tools, agent.calls, agent.endings, agent.protocol. Feeds: agent.loop_agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsh_nb.agent.calls import log_finished, run_calls
from dsh_nb.agent.endings import Endings, caught, exit_prevented
from dsh_nb.agent.inbox import InboxMessage
from dsh_nb.agent.protocol import (
    AGENT_ERROR,
    AGENT_STEERING,
    AGENT_STEP_END,
    AGENT_STEP_RESULT,
    AGENT_STEP_START,
    AGENT_STREAM_CHUNK,
    AGENT_TURN_CONTINUATION,
    AGENT_TURN_START,
    Continuation,
    StepResult,
)
from dsh_nb.agent.request import step_request
from dsh_nb.errors import LlmError
from dsh_nb.llm.protocol import ModelRequest, closing, failure_of
from dsh_nb.messages import (
    FinishReason,
    Retry,
    Source,
    TextBlock,
    ToolCallBlock,
    clean_chunk,
    clean_text,
)
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    EventData,
    Failure,
    SteeringMessage,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnReason,
    TurnStart,
    TurnTrigger,
    UsageReport,
    UserMessage,
)
from dsh_nb.session.repair import OpenStep
from dsh_nb.tools.tool import ToolOutcome

if TYPE_CHECKING:
    from dsh_nb.agent.loop_agent import LoopAgent

__all__ = ["Turn"]

GRACE_SECONDS = 0.3


class Turn:
    """One turn of an agent.

    Attributes:
        number: Its number, from 1.
        step: The number of its newest step; 0 before the first.
        stopped: Why it was stopped, once it was: the first reason wins.
        open: What the log of its step has open.
        ending: How it ended, once it has.
        outcomes: What calls came to whose results are not logged yet, by call id.
    """

    def __init__(self, agent: LoopAgent, number: int) -> None:
        self.agent = agent
        self.session = agent.session
        self.ctx = agent.ctx
        self.number = number
        self.step = 0
        self.stopped: TurnReason | None = None
        self.open = OpenStep()
        self.ending = TurnReason("aborted")
        self._work: asyncio.Task[TurnReason] | None = None
        self._given_up = False
        self._stop_asked: asyncio.Future[None] = agent.ctx.loop.create_future()
        self._endings = Endings()
        self.outcomes: dict[str, ToolOutcome] = {}

    # -- the driver's half: begin, watch, close ----------------------------------------------

    async def run(self, messages: list[InboxMessage], failure: Exception | None) -> None:
        """Run it to its end; `failure` is one that ends it before its first step.

        Only a cancellation of the driver itself is raised, after the turn was closed.
        """
        failure = self._begin(messages) or failure
        reason: TurnReason | None = None
        cancelled: asyncio.CancelledError | None = None
        if failure is None and self.stopped is None:
            self._work = self.ctx.loop.create_task(
                self._guarded_steps(), name=f"dsh:turn:{self.agent.id}:{self.number}"
            )
            try:
                await self._watch(self._work)
            except asyncio.CancelledError as error:
                self.stop(TurnReason("aborted", "the task that ran the agent was cancelled"))
                cancelled = error
            reason, failure = self._outcome(self._work)
        self._given_up = True
        self._close(reason, failure)
        if cancelled is not None:
            raise cancelled

    def stop(self, reason: TurnReason) -> None:
        """Stop the turn; the first reason wins."""
        if self.stopped is not None:
            return
        self.stopped = reason
        if self._work is not None:
            self._work.cancel()
        if not self._stop_asked.done():
            self._stop_asked.set_result(None)

    def _begin(self, messages: list[InboxMessage]) -> Exception | None:
        source = messages[0].source if messages else None
        trigger = TurnTrigger("message" if messages else "continuation", source)
        failures = [
            self._log_safely("user/message", UserMessage(one.content, one.source))
            for one in messages
        ]
        failures.append(self._log_safely("turn/start", TurnStart(self.number, trigger)))
        failures.append(caught(lambda: self.ctx.emit(AGENT_TURN_START, self.agent, self.number)))
        return next((one for one in failures if one is not None), None)

    async def _watch(self, work: asyncio.Task[TurnReason]) -> None:
        """Wait for the steps; once stopped they get a moment to unwind, then they are left."""
        either: set[asyncio.Future[Any]] = {work, self._stop_asked}  # Any: a task and a signal
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(3):
            if work.done():
                return
            work.cancel()
            await asyncio.wait({work}, timeout=GRACE_SECONDS / 3)
        if not work.done():
            self.agent.abandon(work)

    def _outcome(
        self, work: asyncio.Task[TurnReason]
    ) -> tuple[TurnReason | None, Exception | None]:
        if not work.done() or work.cancelled():
            return None, None
        error = work.exception()
        if error is None:
            return work.result(), None
        return None, error if isinstance(error, Exception) else RuntimeError(repr(error))

    def _close(self, reason: TurnReason | None, failure: Exception | None) -> None:
        """Log what ends the step and the turn. Nothing that listeners do can keep it from it."""
        self._close_step()
        if self.stopped is not None and (reason is None or reason.kind != "completed"):
            ending = self.stopped
        elif failure is not None:
            ending = self._fail(failure)
        else:
            ending = reason or TurnReason("aborted", "the steps were cancelled")
        if ending.kind == "error" and failure is None:
            self._report(LlmError(ending.message or "", code=ending.code or "ERROR"), ending)
        self.ending = ending
        self._log_safely("turn/end", TurnEnd(self.number, ending))

    def _close_step(self) -> None:
        step = self.open
        if not step.step:
            return
        step.close_message(self._log_safely)
        self._log_usage(interrupted=True)
        log_finished(self, self._log_safely)
        step.close_calls(self._log_safely)
        self._end_step(self._log_safely)

    def _fail(self, failure: Exception) -> TurnReason:
        code = getattr(failure, "code", None)
        text = clean_text(str(failure) or type(failure).__name__)
        ending = TurnReason("error", message=text, code=code if isinstance(code, str) else None)
        self._report(failure, ending)
        return ending

    def _report(self, failure: BaseException, ending: TurnReason) -> None:
        self._log_safely(
            "error", Failure(self.number, self.step, ending.message or "", ending.code)
        )
        error = caught(lambda: self.ctx.emit(AGENT_ERROR, self.agent, failure))
        if error is not None:
            self.ctx.report(error, "a listener of agent/error")

    # -- the steps, in a task that an abort cancels ------------------------------------------

    async def _guarded_steps(self) -> TurnReason:
        """The steps; what would end the kernel with this task ends the turn alone."""
        try:
            return await self._steps()
        except SystemExit as error:
            raise exit_prevented(error) from error
        except KeyboardInterrupt as error:
            self.stop(TurnReason("aborted", "interrupted"))
            raise asyncio.CancelledError from error

    async def _steps(self) -> TurnReason:
        while True:
            self._drain_steering()
            self.step += 1
            self.log("step/start", StepStart(self.number, self.step))
            self.ctx.emit(AGENT_STEP_START, self.agent, self.number, self.step)
            reason = await self._stream(await step_request(self))
            result = await self._result(reason)
            calls = [block for block in result.content if isinstance(block, ToolCallBlock)]
            not_run = self._endings.why_not_run(result.reason)
            if not_run is None:
                await run_calls(self, calls)
            else:
                self.open.close_calls(self.log, not_run)
            paused = result.reason.kind == "pause-turn"
            # a paused message must be resumed before anything is added
            steered = not paused and self._drain_steering()
            self._end_step(self.log)
            self.ctx.emit(AGENT_STEP_END, self.agent, self.number, self.step)
            ending = self._endings.unfinished(result.reason, called=bool(calls))
            if ending is not None:
                return ending
            if not await self._goes_on(bool(calls) or steered or paused):
                return TurnReason("completed")

    def log(self, type: str, data: EventData) -> None:
        """Append an event of this turn, unless it was stopped: then nothing more may happen.

        Raises:
            CancelledError: The turn was stopped, or given up.
        """
        if self.stopped is not None or self._given_up:
            raise asyncio.CancelledError
        self._log(type, data)

    async def _stream(self, request: ModelRequest) -> FinishReason:
        """Stream the answer into the log; the hottest path there is."""
        agent, number, step = self.agent, self.number, self.step
        append, emit, assembler = self.session.append_chunk, self.ctx.emit, self.open.assembler
        with agent.holding_context():
            async with closing(agent.llm.stream(request)) as chunks:
                async for chunk in chunks:
                    if self.stopped is not None or self._given_up:
                        raise asyncio.CancelledError
                    chunk = clean_chunk(chunk)
                    if type(chunk) is Retry:
                        self._log_usage(interrupted=True)
                    assembler.feed(chunk)
                    append(AssistantChunk(number, step, chunk))
                    if agent.holds_context:
                        agent.release_context()
                    emit(AGENT_STREAM_CHUNK, agent, number, step, chunk)
        reason, error = assembler.reason, failure_of(assembler.reason)
        if reason is not None and reason.kind == "aborted":
            self.stop(TurnReason("aborted", reason.message or "the model call was aborted"))
            raise asyncio.CancelledError
        if error is not None:
            raise error
        assert reason is not None  # what has no reason has an error
        return reason

    async def _result(self, reason: FinishReason) -> StepResult:
        """What the model said, after the listeners had their say, in the log."""
        said = self.open.assembler.blocks()
        result = await self.ctx.waterfall(
            AGENT_STEP_RESULT, lambda agent, result: result, self.agent, StepResult(said, reason)
        )
        content = self.agent.with_new_ids(result.content)
        self.log(
            "assistant/message",
            AssistantMessage(
                self.number,
                self.step,
                content,
                stop_reason=result.reason.kind,
                rewritten=content != said,
            ),
        )
        self._log_usage()
        return StepResult(content, result.reason)

    async def _goes_on(self, default: bool) -> bool:
        go_on = await self.ctx.waterfall(
            AGENT_TURN_CONTINUATION,
            lambda agent, continuation: continuation.go_on,
            self.agent,
            Continuation(self.number, self.step, default),
        )
        if not go_on and not self.agent.inbox.steering:
            return False
        if not default and not self.agent.inbox.steering:
            go_on_text = (TextBlock("Continue."),)
            self.log("context/message", ContextMessage(go_on_text, Source("harness")))
        return True

    def _drain_steering(self) -> bool:
        drained = self.agent.inbox.drain_steering()
        for position, message in enumerate(drained):
            try:
                self.log(
                    "steering/message",
                    SteeringMessage(self.number, message.content, message.source),
                )
            except asyncio.CancelledError:  # nothing is lost: it starts the next turn
                self.agent.inbox.steering[:0] = drained[position:]
                raise
            except Exception:
                self.agent.inbox.steering[:0] = drained[position + 1 :]
                raise
            self.ctx.emit(AGENT_STEERING, self.agent, self.number, message.source)
        return bool(drained)

    # -- the log ------------------------------------------------------------------------------

    def _log(self, type: str, data: EventData) -> None:
        before = len(self.session)
        try:
            self.session.append(type, data)
        finally:  # an event stays in the log even when a listener raised
            if len(self.session) > before:
                self.open.feed(self.session[before])

    def _log_safely(self, type: str, data: EventData) -> Exception | None:
        """Log on the way out: a listener's failure is given back and not raised."""
        error = caught(lambda: self._log(type, data))
        if error is not None:
            self.ctx.report(error, f"a listener of {type!r}")
        return error

    def _log_usage(self, *, interrupted: bool = False) -> None:
        assembler = self.open.assembler
        usage, assembler.usage = assembler.usage, None
        if usage is None:
            return
        report = UsageReport(
            self.number,
            self.step,
            usage.usage,
            usage.message_id,
            usage.model,
            interrupted,
            assembler.attempt,
        )
        (self._log_safely if interrupted else self.log)("usage", report)

    def _end_step(self, log: Callable[[str, EventData], object]) -> None:
        log("step/end", StepEnd(self.number, self.step))
