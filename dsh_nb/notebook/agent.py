"""The notebook surface: one name starts everything, one call does the work.

Reads: core, session, tools, agent, plugins, notebook. Feeds: the package root.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, overload

from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentOptions
from dsh_nb.agent.protocol import Said
from dsh_nb.core import Context, Plugin
from dsh_nb.core.scope import running_loop
from dsh_nb.errors import AgentError
from dsh_nb.llm.protocol import Adapter
from dsh_nb.messages import JsonObject, Source
from dsh_nb.notebook.branches import Branches, ToolLike
from dsh_nb.notebook.compose import (
    DEFAULT_MODEL,
    Composition,
    Seed,
    choose_model,
    fresh_id,
    mount,
    seed_of,
    tell_of_model,
    unwind,
)
from dsh_nb.notebook.decisions import Decisions
from dsh_nb.notebook.kernel import guard_exit
from dsh_nb.notebook.live.panel import LivePanel
from dsh_nb.notebook.record import NotebookRecord
from dsh_nb.notebook.sync import own_loop, wait_here
from dsh_nb.notebook.turn import Reply, TurnHandle, check_cell
from dsh_nb.notebook.views import Views
from dsh_nb.notebook.waiting import waiting
from dsh_nb.notebook.wording import count
from dsh_nb.plugins.permission import PermissionConfig
from dsh_nb.session.events import TurnReason
from dsh_nb.session.history import HistoryView
from dsh_nb.session.session import Session
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.tool import Tool

__all__ = ["DEFAULT_MODEL", "Agent", "live_agents"]

_live: dict[str, Agent] = {}


def live_agents() -> dict[str, Agent]:
    """The agents that live in this kernel, by id, the newest last."""
    return dict(_live)


class Agent(Branches, Decisions, NotebookRecord):
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
        images: False for a model that takes no pictures: it is told where one was, and you see it.
        plugins: Mounted on the agent's context before it is made; a pair is one with its config.
        permission: Which tool calls may run, as `PermissionConfig` has it, for example
            ``{"rules": [{"tool": "delete_*", "decision": "ask"}]}``; tools made with ``approve=``
            ask in any case.
        attended: Whether somebody is there to be asked. By default so where a page may show the
            turn; True also where a cell decides (`TurnHandle.asked`), False never.
        save: Whether the session is kept on disk, in ``.dsh/sessions``; or the folder. By default
            it is in a notebook, and is not elsewhere.

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
        images: bool = True,
        plugins: Sequence[Plugin | tuple[Plugin, object]] = (),
        permission: PermissionConfig | JsonObject | None = None,
        attended: bool | None = None,
        save: bool | str | None = None,
    ) -> None:
        made_of = Composition.of(
            model=model,
            base_url=base_url,
            api_key=api_key,
            system_prompt=system_prompt,
            max_tokens=max_tokens,
            options=options,
            transport=transport,
            images=images,
            plugins=plugins,
            permission=permission,
            attended=attended,
            save=save,
        )
        self._begin(id, made_of, tuple(tools), lambda ctx: Seed(fresh_id(id)))

    @classmethod
    def resume(cls, session: str, *, id: str | None = None, **made_of: Any) -> Agent:
        """An agent that goes on with a saved session, after a restart of the kernel too.

        What ran when the session ended is marked as cut, with its outcome unknown; nothing of it
        runs again by itself.

        Args:
            session: Id of the session, as `dsh_nb.sessions` lists it.
            id: Name of the agent; that of the session's former agent by default.
            made_of: As the class takes it: tools, model and so on are not in the log.

        Raises:
            SessionError: No such session was saved.
            SessionTakenError: Another kernel writes it.
        """
        tools = tuple(made_of.pop("tools", ()))
        given = Composition.of(**{**made_of, "save": made_of.get("save") or True})
        for one in _live.values():
            if one.session.id == session:
                id = id or one.id
        self = cls.__new__(cls)
        name = id or "main"
        self._begin(name, given, tools, lambda ctx: seed_of(ctx, session, live_agents()))
        return self

    def _begin(
        self,
        id: str,
        made_of: Composition,
        tools: tuple[ToolLike, ...],
        seed: Callable[[Context], Seed],
    ) -> None:
        _check_id(id)
        self.id = id
        self.ctx = Context(replace_plugins=True)
        self._made_of = made_of
        # The first effect is unwound last: what is shown sees the end of everything else.
        self._views = Views(self.ctx)
        try:
            mount(self.ctx, made_of)
            self.model = choose_model(self.ctx, made_of)
            for tool in tools:
                self.ctx.get(TOOLS).register(tool)
            begun = seed(self.ctx)
            given = AgentOptions(
                model=self.model,
                system_prompt=made_of.system_prompt,
                options=dict(made_of.options),
            )
            self._agent = self.ctx.get(AGENT_LOOP).create(
                id,
                given,
                session_id=begun.session_id,
                seed=begun.events,
                header={"agent": id, **begun.header},
            )
        except BaseException:
            unwind(self.ctx)
            raise
        guard_exit()
        former = _live.pop(id, None)
        if former is not None:
            former.dispose()
        _live[id] = self
        tell_of_model(self.model, made_of)

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

    def continue_turn(self) -> None:
        """Ask the model again without saying anything, for example after a fork before a call.

        The turn is not shown by itself; `view` and the tables show it.
        """
        self._bind()
        self._agent.continue_turn()

    def view(self) -> LivePanel:
        """The whole session as a live panel with a box to say the next thing.

        Its place is the last line of a cell of its own; JupyterLab can move that output into a
        view of its own ("Create New View for Output").
        """
        panel = LivePanel(self.session, self, self.stop, lambda: self.waiting(), lambda: self.loop)
        self._views.add_panel(panel)
        return panel

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
        """``idle``, ``running`` or ``disposed``; idle also while a turn that ended is saved."""
        log = self.session
        is_over = len(log) > 0 and log[-1].type == "turn/end" and not self._agent.inbox.queued
        return "idle" if is_over and self._agent.status == "running" else self._agent.status

    @property
    def history(self) -> HistoryView:
        """The messages that the next request would show."""
        return self.session.messages

    @property
    def tools(self) -> list[str]:
        """Names of its tools."""
        return [tool.name for tool in self.ctx.get(TOOLS).list()]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that its turns run on."""
        return self.ctx.loop

    def waiting(self, turn: int | None = None) -> JsonObject:
        """What waits for a person and what is pending, as the views show it.

        Args:
            turn: Only what belongs to this turn.
        """
        return waiting(self.ctx, self.id, self._agent.inbox, turn)

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
        turns = count(self.session.turn, "turn")
        return f"<Agent {self.id!r} {self.model} {self.status}, {turns}>"

    def _repr_markdown_(self) -> str:
        tools = ", ".join(f"`{name}`" for name in self.tools) or "none"
        turns = count(self.session.turn, "turn")
        said = (f"**Agent** `{self.id}`", self.status, f"model `{self.model}`", turns)
        return " · ".join([*said, f"tools: {tools}"])

    def _log(self) -> Session:
        return self.session

    def _taken(self) -> dict[str, Agent]:
        return live_agents()

    def _start(self, said: Said, *, show: bool) -> TurnHandle:
        check_cell()
        self._bind()
        handle = TurnHandle(self, show=show)
        try:
            handle.begin(self._agent.send(said, Source()))
        except BaseException as error:
            handle.give_up(TurnReason("error", message=str(error)))
            raise
        self._views.add_turn(handle)
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


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id:
        raise TypeError(f"the agent's id is {id!r}; pass a name, for example 'main'")
