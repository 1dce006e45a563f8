"""The rerun that must come to the same: the inputs of a log again, held against it event by event.

Reads: core, session, llm, tools, agent, plugins.rerun. Feeds: plugins.rerun.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextvars import ContextVar
from typing import Literal

import msgspec

from dsh_nb.agent.calls import running_turn
from dsh_nb.agent.protocol import (
    AGENT_REQUEST,
    AGENT_STEP_RESULT,
    AGENT_TURN_CONTINUATION,
    Agent,
    Continuation,
    StepResult,
)
from dsh_nb.core import Proceed, ProceedPipe
from dsh_nb.errors import DriftError, RecordingError, ToolError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.recorded import RecordedModel
from dsh_nb.llm.service import LLM_STREAM
from dsh_nb.messages import Chunk, FinishReason, JsonObject
from dsh_nb.plugins.rerun.drift import event_drift, request_drift, same
from dsh_nb.plugins.rerun.driven import Driven
from dsh_nb.plugins.rerun.recorded_tools import recorded_tools
from dsh_nb.plugins.rerun.recording import Compared, Recording, Stop
from dsh_nb.session.events import (
    ContextMessage,
    SessionEvent,
    SteeringMessage,
    StepStart,
    ToolStart,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_nb.session.session import Session
from dsh_nb.tools.events import TOOLS_EXECUTE
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.tool import Tool, ToolCall, ToolExecution, ToolOutcome

__all__ = ["ExactRerun"]

_ASKING: ContextVar[ExactRerun | None] = ContextVar("dsh_nb_rerun", default=None)


class ExactRerun:
    """Drives one agent through a recording.

    Args:
        recording: The recording.
        agent: A new agent.
        tools: Whether its tools run, or the recorded results stand in for them.
        pinned: True to take prompt, tool schemas and what listeners decided from the recording.
        made_again: Kinds of source whose context comes by itself.
    """

    def __init__(
        self,
        recording: Recording,
        agent: Driven,
        tools: Literal["live", "recorded"],
        pinned: bool,
        made_again: Collection[str],
    ) -> None:
        self._recording = recording
        self._agent = agent
        self._registry = agent.ctx.get(TOOLS)
        self._tools = tools
        self._pinned = pinned
        self._made_again = made_again
        self._model = RecordedModel(recording.log)
        self._compared = Compared()
        self._at = 0
        self._said_to = 0
        self._place = (0, 0)
        self._finished: set[str] = set()
        self._drift: DriftError | None = None

    async def run(self) -> None:
        """Run it to its end.

        Raises:
            DriftError: At the first difference.
        """
        undo = self._listen()
        try:
            self._advance()
            await self._agent.finished()
            while self._drift is None and self._at < len(self._recording.events):
                self._go_on()
                await self._agent.finished()
        except asyncio.CancelledError:
            self._agent.abort("the rerun was cancelled")
            raise
        finally:
            for one in undo:
                one()
        if self._drift is not None:
            raise self._drift

    def _listen(self) -> list[Callable[[], object]]:
        ctx = self._agent.ctx
        undo: list[Callable[[], object]] = [
            self._agent.session.listen(self._heard),
            ctx.on(AGENT_REQUEST, self._request, prepend=True),
            ctx.on(LLM_STREAM, self._answer),
        ]
        if self._tools == "recorded":
            undo.append(recorded_tools(ctx, self._recording.log, agent=self._agent.id))
        undo.append(ctx.on(TOOLS_EXECUTE, self._call, prepend=True))
        if self._pinned:
            undo += [self._registry.register(tool) for tool in self._stand_ins()]
            undo.append(ctx.on(AGENT_STEP_RESULT, self._result, prepend=True))
            undo.append(ctx.on(AGENT_TURN_CONTINUATION, self._continuation, prepend=True))
        return undo

    def _stand_ins(self) -> Iterator[Tool]:
        """Tools that are not at hand: the loop has to know which ran at once."""
        for schema in self._recording.tools:
            if self._registry.get(schema.name) is None:
                yield Tool(
                    name=schema.name,
                    description=schema.description,
                    parameters=schema.parameters,
                    run=_not_at_hand,
                    parallel=schema.name in self._recording.parallel,
                )

    # -- the inputs, each where it came ------------------------------------------------------

    def _heard(self, session: Session, event: SessionEvent) -> None:
        """Hold an event against the recording, and give the agent what came after it."""
        if self._drift is not None or not self._compared.feed(event):
            return
        if isinstance(event.data, (TurnStart, StepStart)):
            self._place = (event.data.turn, getattr(event.data, "step", 0))
        recorded = self._expected()
        if recorded is None or not same(recorded, event):
            self._differs(event_drift(self._place, recorded, event))
            return
        self._at += 1
        self._advance()

    def _expected(self) -> SessionEvent | None:
        events = self._recording.events
        return events[self._at] if self._at < len(events) else None

    def _advance(self) -> None:
        """Do what somebody did here when it was recorded."""
        stop = self._recording.stops.get(self._at)
        if stop is not None:
            self._stop(stop)
            return
        recorded = self._expected()
        data = None if recorded is None else recorded.data
        if isinstance(data, ContextMessage) and data.source.kind not in self._made_again:
            self._agent.inject(data.content, data.source)
        elif isinstance(data, (UserMessage, SteeringMessage)) and self._said_to <= self._at:
            self._say(type(data))

    def _say(self, kind: type[UserMessage | SteeringMessage]) -> None:
        """Say all that was taken together: up to the turn, or to the next boundary of a step."""
        events, position = self._recording.events, self._at
        while position < len(events) and isinstance(
            data := events[position].data, (kind, ContextMessage)
        ):
            if isinstance(data, UserMessage):
                self._agent.send(data.content, data.source)
            elif isinstance(data, SteeringMessage):
                self._agent.steer(data.content, data.source)
            position += 1
        self._said_to = position

    def _stop(self, stop: Stop) -> None:
        if stop.finished <= self._finished:
            self._agent.abort(stop.reason)

    def _go_on(self) -> None:
        """Nothing runs, and the recording goes on."""
        recorded = self._expected()
        data = None if recorded is None else recorded.data
        if isinstance(data, TurnStart) and data.trigger.kind == "continuation":
            self._agent.continue_turn()
        else:
            self._differs(event_drift(self._place, recorded, None))

    def _differs(self, drift: DriftError) -> None:
        if self._drift is None:
            self._drift = drift
            self._agent.abort("the rerun differs from its recording")

    # -- the model and the tools -------------------------------------------------------------

    async def _request(
        self, agent: Agent, request: ModelRequest, proceed: Proceed[ModelRequest]
    ) -> ModelRequest:
        request = await proceed()
        if agent is not self._agent:
            return request
        _ASKING.set(self)
        place = self._place
        recorded = self._recording.requests.get(place)
        if recorded is None:
            return request
        request = self._as_recorded(request, recorded)
        if self._at not in self._recording.stops:
            drift = request_drift(place, _bare(recorded), _bare(request))
            if drift is not None:
                self._differs(drift)
        return request

    def _as_recorded(self, request: ModelRequest, recorded: ModelRequest) -> ModelRequest:
        """`request` with what is the recording's in any case; all of it when that is pinned."""
        if self._pinned:
            rewritten = self._place in self._recording.rewritten
            messages = recorded.messages if rewritten else request.messages
            return msgspec.structs.replace(recorded, messages=messages)
        offered = {tool.name for tool in recorded.tools}
        tools = tuple(tool for tool in request.tools if tool.name in offered)
        return msgspec.structs.replace(
            request, model=recorded.model, options=recorded.options, tools=tools
        )

    async def _answer(
        self, request: ModelRequest, proceed: ProceedPipe[Chunk]
    ) -> AsyncIterator[Chunk]:
        """The recorded answer; what tools and others ask of models is no part of the recording."""
        if _ASKING.get() is not self or running_turn() is not None:
            async for chunk in proceed():
                yield chunk
            return
        try:
            async for chunk in self._model.stream(request):
                yield chunk
        except RecordingError:
            recorded = self._recording.requests.get(self._place)
            drift = None if recorded is None else request_drift(self._place, recorded, request)
            if drift is not None:
                self._differs(drift)
            raise

    async def _call(self, call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        if call.agent != self._agent.id:
            return await proceed()
        if self._tools == "recorded" and call.id in self._recording.stopped_calls:
            self._check_others_begin(call)
            await asyncio.get_running_loop().create_future()  # its stop ends it
        outcome = await proceed()
        self._finished.add(call.id)
        stop = self._recording.stops.get(self._at)
        if stop is not None and call.id in stop.finished:
            asyncio.get_running_loop().call_soon(self._stop, stop)  # once the turn has the outcome
        return outcome

    def _check_others_begin(self, call: ToolCall) -> None:
        """A call that waits for its stop must not keep those from beginning that began by then."""
        recorded = self._expected()
        others = recorded is not None and isinstance(recorded.data, ToolStart)
        if others and not self._registry.parallel(call.name):
            self._differs(event_drift(self._place, recorded, None))

    # -- what listeners made of it -----------------------------------------------------------

    async def _result(
        self, agent: Agent, result: StepResult, proceed: Proceed[StepResult]
    ) -> StepResult:
        result = await proceed()
        said = self._recording.messages.get(self._place)
        if agent is not self._agent or said is None:
            return result
        reason = result.reason
        if said.stop_reason not in (None, reason.kind):
            reason = FinishReason(said.stop_reason or reason.kind)
        return StepResult(said.content if said.rewritten else result.content, reason)

    async def _continuation(
        self, agent: Agent, continuation: Continuation, proceed: Proceed[bool]
    ) -> bool:
        go_on = await proceed()
        recorded = self._expected()
        if agent is not self._agent or recorded is None:
            return go_on
        return not isinstance(recorded.data, TurnEnd)


def _bare(request: ModelRequest) -> ModelRequest:
    return msgspec.structs.replace(request, messages=())


def _not_at_hand(arguments: JsonObject, execution: ToolExecution) -> object:
    raise ToolError(
        f"the tool {execution.call.name!r} is not at hand; pass it, or rerun with recorded tools"
    )
