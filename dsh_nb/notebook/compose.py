"""What an agent in a notebook is made of: its model, its plugins, and how they end.

Reads: core, llm, plugins, notebook.kernel, notebook.sync. Feeds: notebook.agent.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from dsh_nb.agent.agent_loop import AgentLoop
from dsh_nb.core import Context, Plugin
from dsh_nb.core.fiber import FINISHED
from dsh_nb.core.scope import running_loop
from dsh_nb.errors import ContextError, LlmError
from dsh_nb.llm.anthropic import AnthropicModel, has_key
from dsh_nb.llm.demo import DemoModel
from dsh_nb.llm.protocol import Adapter
from dsh_nb.llm.recorded import RecordedModel
from dsh_nb.llm.service import LLM
from dsh_nb.messages import JsonObject
from dsh_nb.notebook.kernel import has_widgets, in_kernel, publish
from dsh_nb.notebook.sync import own_loop
from dsh_nb.plugins.ask_user import QUESTIONS
from dsh_nb.plugins.permission import PERMISSION, PermissionConfig, permission
from dsh_nb.plugins.persistence import PERSISTENCE, persistence
from dsh_nb.plugins.retry import retry
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.masking import know_secret

if TYPE_CHECKING:
    from dsh_nb.notebook.agent import Agent

__all__ = [
    "DEFAULT_MODEL",
    "DEMO",
    "Composition",
    "Seed",
    "choose_model",
    "fresh_id",
    "mount",
    "seed_of",
    "tell_of_model",
    "unwind",
]

DEFAULT_MODEL = "claude-sonnet-5-5"
"""The model where a key is found and none is named."""

DEMO = "demo"
"""The offline model."""

_BANNER = (
    "Offline demo: no key was found, so this agent runs on `demo`, a scripted stand-in and no "
    'language model. Set ANTHROPIC_API_KEY, or pass `model="claude-…"` with `api_key=`, or '
    "`base_url=` of a server that speaks the Messages API."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What an agent is made of, as `Agent` takes it; a fork is made of the same."""

    model: str | Adapter | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    system_prompt: str | None = None
    options: JsonObject = field(default_factory=dict)
    transport: Literal["httpx", "aiohttp"] = "httpx"
    images: bool = True
    plugins: tuple[Plugin | tuple[Plugin, object], ...] = ()
    permission: PermissionConfig | JsonObject | None = None
    attended: bool | None = None
    save: bool | str | None = None

    @classmethod
    def of(
        cls,
        *,
        options: JsonObject | None = None,
        max_tokens: int | None = None,
        plugins: Sequence[Plugin | tuple[Plugin, object]] = (),
        **more: Any,  # Any: the other attributes
    ) -> Composition:
        """What `Agent` takes, as a value."""
        wire = dict(options or {}) | ({} if max_tokens is None else {"max_tokens": max_tokens})
        return cls(options=wire, plugins=tuple(plugins), **more)

    def can_ask(self) -> bool:
        """Whether somebody is there to be asked."""
        return in_kernel() and has_widgets() if self.attended is None else self.attended


@dataclass(frozen=True, slots=True)
class Seed:
    """What the session of an agent begins with.

    Attributes:
        session_id: Its id.
        events: Events of a saved session, or of a fork's parent.
        header: Metadata, for example lineage.
    """

    session_id: str
    events: Sequence[SessionEvent] = ()
    header: JsonObject = field(default_factory=dict)


def fresh_id(agent_id: str) -> str:
    """An id for a new session that no other kernel gives."""
    now = datetime.now().astimezone()
    return f"{agent_id}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def seed_of(ctx: Context, session_id: str, agents: Mapping[str, Agent]) -> Seed:
    """What a saved session goes on with; taken from the agent that has it live here, if any.

    Raises:
        SessionError: No such session was saved.
        SessionTakenError: Another kernel writes it.
    """
    for agent in agents.values():
        if agent.session.id == session_id and agent.ctx.provides(PERSISTENCE.name):
            agent.ctx.get(PERSISTENCE).let_go(agent.session)
            agent.dispose()
    saved = ctx.get(PERSISTENCE).resume(session_id)
    return Seed(saved.header.id, saved.events)


def mount(ctx: Context, made_of: Composition) -> None:
    """Mount what an agent lives on; its plugins come before permission, which sees what they left.

    Raises:
        ConfigError: A config does not fit.
    """
    save = in_kernel() if made_of.save is None else made_of.save
    if save:
        # Before the loop: what agents log as they are disposed is saved, too.
        ctx.plugin(persistence, {"folder": save} if isinstance(save, str) else None).check()
    if made_of.api_key is not None:
        know_secret(made_of.api_key, "api_key")
    for plugin in (retry, AgentLoop):
        ctx.plugin(plugin).check()
    for given in made_of.plugins:
        plugin, config = given if isinstance(given, tuple) else (given, None)
        ctx.plugin(plugin, config).check()
    if not ctx.provides(PERMISSION.name):
        ctx.plugin(permission, made_of.permission).check()
        ctx.get(PERMISSION).can_ask = made_of.can_ask
    if ctx.provides(QUESTIONS.name):
        ctx.get(QUESTIONS).can_ask = made_of.can_ask


def choose_model(ctx: Context, made_of: Composition) -> str:
    """Register the adapter for the model; returns the model's name.

    An adapter serves its ``models``, of which the first is taken, or else the one of its own name.

    Raises:
        LlmError: A server was named and no model of it.
        NoAdapterError: The model is unknown.
        MissingKeyError: The model needs a key and there is none.
    """
    model, base_url, api_key = made_of.model, made_of.base_url, made_of.api_key
    llm = ctx.get(LLM)
    if model is not None and not isinstance(model, str):
        models: Sequence[str] = getattr(model, "models", ()) or (model.name,)
        llm.register(model, models)
        return models[0]
    server = base_url or os.environ.get("ANTHROPIC_BASE_URL")
    if base_url is not None and model is None:
        raise LlmError(
            f"no model was named for the server {base_url!r}; pass model=, as that server calls it",
            code="NO_MODEL",
        )
    keyed = api_key is not None or has_key() or server is not None
    name = model or (DEFAULT_MODEL if keyed else DEMO)
    if name == DEMO and base_url is None:
        llm.register(DemoModel(), [DEMO])
    elif base_url is not None or name.startswith("claude-") or server is not None:
        adapter = AnthropicModel(
            api_key=api_key,
            base_url=base_url,
            transport=made_of.transport,
            images=made_of.images,
        )
        llm.register(adapter, [name])
        ctx.fiber.effect(adapter.close, "connections to the model")
    else:
        llm.register(DemoModel(), [DEMO])
        llm.adapter(name)
    return name


def tell_of_model(name: str, made_of: Composition) -> None:
    """Say where no live model answers: the offline one, and how to have another; a recording."""
    if made_of.model is None and name == DEMO:
        _tell(_BANNER)
    elif isinstance(made_of.model, RecordedModel):
        _tell(made_of.model.notice)


def _tell(notice: str) -> None:
    plain = notice.replace("`", "")
    if in_kernel():
        publish({"text/markdown": f"> {notice}", "text/plain": plain}, "dsh-banner")
    else:
        sys.stderr.write(plain + "\n")


def unwind(ctx: Context) -> Awaitable[None]:
    """Dispose `ctx`; in code without a loop it has unwound when this returns."""
    if threading.get_ident() != ctx.thread or running_loop() is not None:
        return ctx.dispose()
    try:
        ctx.bind(own_loop())
    except ContextError:  # it lives on a loop of somebody's own, which will run again
        return ctx.dispose()
    unwinding = ctx.dispose()
    own_loop().run_until_complete(_awaited(unwinding))
    return FINISHED


async def _awaited(unwinding: Awaitable[None]) -> None:
    await unwinding
