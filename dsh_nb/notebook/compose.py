"""What an agent in a notebook is made of: its model, its plugins, and how they end.

Reads: core, llm, plugins, notebook.kernel, notebook.sync. Feeds: notebook.agent.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Sequence
from typing import Literal

from dsh_nb.agent.agent_loop import AgentLoop
from dsh_nb.core import Context, Plugin
from dsh_nb.core.fiber import FINISHED
from dsh_nb.core.scope import running_loop
from dsh_nb.errors import ContextError, LlmError
from dsh_nb.llm.anthropic import AnthropicModel, has_key
from dsh_nb.llm.demo import DemoModel
from dsh_nb.llm.protocol import Adapter
from dsh_nb.llm.service import LLM
from dsh_nb.messages import JsonObject
from dsh_nb.notebook.kernel import has_widgets, in_kernel, publish
from dsh_nb.notebook.sync import own_loop
from dsh_nb.plugins.permission import PERMISSION, PermissionConfig, permission
from dsh_nb.plugins.retry import retry

__all__ = ["DEFAULT_MODEL", "DEMO", "choose_model", "mount", "tell_of_demo", "unwind"]

DEFAULT_MODEL = "claude-sonnet-5-5"
"""The model where a key is found and none is named."""

DEMO = "demo"
"""The offline model."""

_BANNER = (
    "Offline demo: no key was found, so this agent runs on `demo`, a scripted stand-in and no "
    'language model. Set ANTHROPIC_API_KEY, or pass `model="claude-…"` with `api_key=`, or '
    "`base_url=` of a server that speaks the Messages API."
)


def mount(
    ctx: Context, plugins: Sequence[Plugin], rules: PermissionConfig | JsonObject | None
) -> None:
    """Mount what an agent lives on; `plugins` come before permission, which sees what they left.

    Raises:
        ConfigError: A config does not fit.
    """
    mounted: list[Plugin] = [retry, AgentLoop, *plugins]
    for plugin in mounted:
        ctx.plugin(plugin).check()
    if not ctx.provides(PERMISSION.name):
        ctx.plugin(permission, rules).check()
        ctx.get(PERMISSION).can_ask = _somebody_is_there


def choose_model(
    ctx: Context,
    model: str | Adapter | None,
    base_url: str | None,
    api_key: str | None,
    transport: Literal["httpx", "aiohttp"],
) -> str:
    """Register the adapter for `model`; returns the model's name.

    Raises:
        LlmError: A server was named and no model of it.
        NoAdapterError: The model is unknown.
        MissingKeyError: The model needs a key and there is none.
    """
    llm = ctx.get(LLM)
    if model is not None and not isinstance(model, str):
        llm.register(model, [model.name])
        return model.name
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
        adapter = AnthropicModel(api_key=api_key, base_url=base_url, transport=transport)
        llm.register(adapter, [name])
        ctx.fiber.effect(adapter.close, "connections to the model")
    else:
        llm.register(DemoModel(), [DEMO])
        llm.adapter(name)
    return name


def tell_of_demo() -> None:
    """Say that the offline model stands in, and how to have a real one."""
    if in_kernel():
        bundle = {"text/markdown": f"> {_BANNER}", "text/plain": _BANNER.replace("`", "")}
        publish(bundle, "dsh-banner")
    else:
        sys.stderr.write(_BANNER.replace("`", "") + "\n")


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


def _somebody_is_there() -> bool:
    return in_kernel() and has_widgets()
