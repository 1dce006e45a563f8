"""The notebook surface: one name starts everything, one call does the work.

Reads: core, session, llm, tools, agent, plugins, tables, notebook.turn, notebook.sync.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from dsh_nb import tables
from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentOptions
from dsh_nb.agent.protocol import AGENT_DISPOSED, AGENT_QUEUED, AGENT_STEERING, Said
from dsh_nb.agent.protocol import Agent as LiveAgent
from dsh_nb.core import Context, Plugin
from dsh_nb.core.scope import running_loop
from dsh_nb.errors import AgentError
from dsh_nb.llm.protocol import Adapter
from dsh_nb.messages import JsonObject, Source
from dsh_nb.notebook.compose import (
    DEFAULT_MODEL,
    DEMO,
    choose_model,
    mount,
    tell_of_demo,
    unwind,
)
from dsh_nb.notebook.kernel import guard_exit
from dsh_nb.notebook.sync import own_loop, wait_here
from dsh_nb.notebook.turn import Reply, TurnHandle, check_cell
from dsh_nb.notebook.waiting import progress_value, waiting
from dsh_nb.plugins.permission import (
    PERMISSION,
    PERMISSION_ASKED,
    PERMISSION_DECIDED,
    Ask,
    PermissionConfig,
    Remember,
)
from dsh_nb.session.events import TurnReason
from dsh_nb.session.history import HistoryView
from dsh_nb.session.session import Session
from dsh_nb.tools.events import TOOLS_BLOCKING, TOOLS_PROGRESS
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.tool import Tool, ToolCall

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_MODEL", "Agent"]

ToolLike = Tool | Callable[..., Any]  # Any: a tool may return whatever it likes

_live: dict[str, Agent] = {}


class Agent:
    """An agent in a notebook. Call it to start a turn, await the call for the reply.

    Making an agent of a taken id disposes the former one, as a re-run cell wants; a new session
    begins.

    Args:
        id: Its name.
        tools: Functions or tools that it may call.
        model: ``"claude-…"``, a model of `base_url`, ``"demo"`` for the offline one, or an
            adapter. By default `DEFAULT_MODEL` where a key is found, else ``"demo"``, and it
            says so.
        base_url: Another server that speaks the Messages API.
        api_key: The key; by default the environment's. It is never shown or logged.
        system_prompt: What the model is told first.
        max_tokens: Output limit of a request.
        options: Further provider options by their wire names, for example ``{"temperature": 0}``.
        transport: ``"aiohttp"`` for less CPU when chunks come one by one
            (``pip install dsh-nb[aiohttp]``).
        plugins: Mounted on the agent's context before it is made.
        permission: Which tool calls may run, as `PermissionConfig` has it, for example
            ``{"rules": [{"tool": "delete_*", "decision": "ask"}]}``; tools made with ``approve=``
            ask in any case.

    Raises:
        NoAdapterError: The model is unknown.
        MissingKeyError: The model needs a key and there is none.
        ToolDefinitionError: A function cannot become a tool.
        ConfigError: A plugin's config does not fit.
        Nothing was made then, and a former agent of that id lives on.

    Attributes:
        id: Its name.
        ctx: The context that it lives on, for people who write plugins.
        session: Its log.
        model: Name of its model.
    """

    def __init__(
        self,
        id: str = "main",
        *,
        tools: Iterable[ToolLike] = (),
        model: str | Adapter | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        system_prompt: str | None = None,
        max_tokens: int | None = None,
        options: JsonObject | None = None,
        transport: Literal["httpx", "aiohttp"] = "httpx",
        plugins: Sequence[Plugin] = (),
        permission: PermissionConfig | JsonObject | None = None,
    ) -> None:
        _check_id(id)
        self.id = id
        self.ctx = Context(replace_plugins=True)
        self._handles: list[TurnHandle] = []
        wire = dict(options or {}) | ({} if max_tokens is None else {"max_tokens": max_tokens})
        try:
            mount(self.ctx, plugins, permission)
            self.model = choose_model(self.ctx, model, base_url, api_key, transport)
            for tool in tools:
                self.ctx.get(TOOLS).register(tool)
            given = AgentOptions(model=self.model, system_prompt=system_prompt, options=wire)
            self._agent = self.ctx.get(AGENT_LOOP).create(id, given)
        except BaseException:
            unwind(self.ctx)
            raise
        self.ctx.on(AGENT_DISPOSED, self._ended)
        self._listen()
        guard_exit()
        former = _live.get(id)
        if former is not None:
            former.dispose()
        _live[id] = self
        if model is None and self.model == DEMO:
            tell_of_demo()

    def __call__(self, prompt: Said) -> TurnHandle:
        """Start a turn with `prompt`, show it in this cell, and return its handle at once.

        A prompt sent while a turn runs waits; all that wait share the next turn. Safe from any
        thread.

        Raises:
            DisposedError: The agent is gone.
            TypeError, ValueError: The prompt is not text or content blocks, or blank.
            AgentError: The cell was interrupted before.
        """
        return self._start(prompt, show=True)

    def send(self, said: Said) -> TurnHandle:
        """Start a turn as a call does, and show nothing. Safe from any thread."""
        return self._start(said, show=False)

    def run_sync(self, prompt: Said) -> Reply:
        """The reply to `prompt`, for code that cannot await; in scripts and in cells.

        Raises:
            KeyboardInterrupt: Interrupted, outside a kernel; the turn was stopped.
        """
        self._bind()
        return wait_here(self._start(prompt, show=True), self.loop)

    def steer(self, said: Said) -> str:
        """Say something to the running turn: the model sees it before its next step.

        When idle it starts a turn. Safe from any thread. Returns the message's id.
        """
        return self._agent.steer(said)

    def inject(self, said: Said) -> None:
        """Add context that the next request shows, without starting anything."""
        self._agent.inject(said)

    def stop(self, reason: str | None = None) -> None:
        """Stop the running turn; nothing happens when idle. Safe from any thread."""
        self._agent.abort(reason)

    @property
    def pending(self) -> tuple[Ask, ...]:
        """The tool calls that wait for a decision, oldest first."""
        return tuple(ask for ask in self.ctx.get(PERMISSION).pending() if ask.agent == self.id)

    def approve(
        self,
        id: str | None = None,
        *,
        arguments: JsonObject | None = None,
        remember: Remember = False,
    ) -> bool:
        """Let a waiting call run, as its button does; see `Permission.approve`. Any thread."""
        return self.ctx.get(PERMISSION).approve(id, arguments=arguments, remember=remember)

    def deny(self, reason: str = "", *, id: str | None = None) -> bool:
        """Keep a waiting call from running; the model is told `reason`. Safe from any thread.

        Args:
            reason: What the model is told.
            id: Of the ask; ``None`` for the only one that waits.

        Returns:
            Whether the call was waiting.
        """
        return self.ctx.get(PERMISSION).deny(id, reason)

    def answer(self, said: str, *, id: str | None = None) -> bool:
        """Answer."""
        return False

    def decline(self, *, id: str | None = None) -> bool:
        """Decline."""
        return False

    @overload
    def tool(self, function: ToolLike, /) -> ToolLike: ...
    @overload
    def tool(self, /, **how: Any) -> Callable[[ToolLike], ToolLike]: ...  # Any: as `tools.tool`
    def tool(
        self, function: ToolLike | None = None, /, **how: Any
    ) -> ToolLike | Callable[[ToolLike], ToolLike]:
        """Decorate a function to make it a tool of this agent; one of that name is replaced.

        Args:
            function: The function.
            how: As `dsh_nb.tool` takes it, for example ``parallel=True``.

        Returns:
            The function, unchanged.
        """
        from dsh_nb.tools.schema import tool as make

        def register(function: ToolLike) -> ToolLike:
            made = function if isinstance(function, Tool) else make(function, **how)
            self.ctx.get(TOOLS).register(made, replace=True)
            return function

        return register if function is None else register(function)

    @property
    def session(self) -> Session:
        """The log: a sequence of events."""
        return self._agent.session

    @property
    def status(self) -> str:
        """``idle``, ``running`` or ``disposed``."""
        return self._agent.status

    @property
    def history(self) -> HistoryView:
        """The messages that the next request would show."""
        return self.session.messages

    @property
    def tools(self) -> list[str]:
        """Names of its tools."""
        return [tool.name for tool in self.ctx.get(TOOLS).list()]

    @property
    def events(self) -> pd.DataFrame:
        """The log as a DataFrame, a row per session event; see `dsh_nb.tables.events`."""
        return tables.events(self.session)

    @property
    def chunks(self) -> pd.DataFrame:
        """A row per streamed chunk; see `dsh_nb.tables.chunks`."""
        return tables.chunks(self.session)

    @property
    def messages(self) -> pd.DataFrame:
        """A row per block of what was said; see `dsh_nb.tables.messages`."""
        return tables.messages(self.session)

    @property
    def turns(self) -> pd.DataFrame:
        """A row per turn; see `dsh_nb.tables.turns`."""
        return tables.turns(self.session)

    @property
    def steps(self) -> pd.DataFrame:
        """A row per model request; see `dsh_nb.tables.steps`."""
        return tables.steps(self.session)

    @property
    def tool_calls(self) -> pd.DataFrame:
        """A row per tool call; see `dsh_nb.tables.tool_calls`."""
        return tables.tool_calls(self.session)

    @property
    def usage(self) -> pd.DataFrame:
        """A row per message that a provider billed; see `dsh_nb.tables.usage`."""
        return tables.usage(self.session)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that its turns run on."""
        return self.ctx.loop

    def dispose(self) -> Awaitable[None]:
        """End the agent; its log stays readable. Safe from any thread.

        Returns:
            An awaitable that is done when nothing of the agent is left.
        """
        if _live.get(self.id) is self:
            del _live[self.id]
        return unwind(self.ctx)

    def take_back(self, message_id: str) -> bool:
        """Take a queued message back before its turn begins; False when it has begun."""
        return self._agent.inbox.take_back(message_id)

    def __repr__(self) -> str:
        return f"<Agent {self.id!r} {self.model} {self.status}, {self.session.turn} turns>"

    def _repr_markdown_(self) -> str:
        tools = ", ".join(f"`{name}`" for name in self.tools) or "none"
        turns = f"{self.session.turn} turn{'' if self.session.turn == 1 else 's'}"
        said = (f"**Agent** `{self.id}`", self.status, f"model `{self.model}`", turns)
        return " · ".join([*said, f"tools: {tools}"])

    def _start(self, said: Said, *, show: bool) -> TurnHandle:
        check_cell()
        self._bind()
        handle = TurnHandle(self, show=show)
        try:
            handle.begin(self._agent.send(said, Source()))
        except BaseException as error:
            handle.give_up(TurnReason("error", message=str(error)))
            raise
        self._handles = [*(one for one in self._handles if not one.done), handle]
        return handle

    def _bind(self) -> None:
        """On the agent's own thread, its next turn runs on the loop that runs there.

        In code without one it runs on our own, which runs only while `run_sync` waits.

        Raises:
            AgentError: A turn runs on another loop.
        """
        if threading.get_ident() != self.ctx.thread:
            return
        loop = running_loop() or own_loop()
        if self._agent.busy and self.loop is not loop:
            raise AgentError(
                "a turn of this agent runs on another event loop; await it there first"
            )
        self.ctx.bind(loop, move=True)

    def _listen(self) -> None:
        """Bring what is shown up to date with what the log does not tell."""
        ctx, refresh = self.ctx, self._refresh
        ctx.on(TOOLS_BLOCKING, self._will_block)
        ctx.on(TOOLS_PROGRESS, self._progress)
        ctx.on(PERMISSION_ASKED, lambda ask: refresh())
        ctx.on(PERMISSION_DECIDED, lambda ask, outcome: refresh())
        ctx.on(AGENT_QUEUED, lambda agent, source, steering: refresh())
        ctx.on(AGENT_STEERING, lambda agent, turn, source: refresh())

    def waiting(self, turn: int | None = None) -> JsonObject:
        """What waits for a person and what is pending, as the views show it."""
        return waiting(self.ctx, self.id, self._agent.inbox, turn)

    def _refresh(self) -> None:
        for handle in self._handles:
            handle.refresh()

    def _progress(self, call: ToolCall, value: object) -> None:
        for handle in self._handles:
            handle.progress(call, progress_value(value))

    def _will_block(self, call: ToolCall) -> None:
        for handle in self._handles:
            handle.announce(f"{call.name} runs on the kernel's own thread: nothing else runs now")

    def _ended(self, agent: LiveAgent) -> None:
        if agent is self._agent:
            for handle in self._handles:
                handle.give_up(TurnReason("disposed"))
            self._handles = []


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id:
        raise TypeError(f"the agent's id is {id!r}; pass a name, for example 'main'")
