"""Permission: rules allow, ask or deny each tool call, and a person decides what is asked."""

from __future__ import annotations

from dsh_nb.core import Context
from dsh_nb.plugins.permission.asks import (
    PERMISSION_ASKED,
    PERMISSION_DECIDED,
    Ask,
    Outcome,
    Remember,
)
from dsh_nb.plugins.permission.gate import PERMISSION, Permission, PermissionConfig
from dsh_nb.plugins.permission.rules import Decision, Rule, Rules, digest_of
from dsh_nb.tools.events import TOOLS_EXECUTE

__all__ = [
    "PERMISSION",
    "PERMISSION_ASKED",
    "PERMISSION_DECIDED",
    "Ask",
    "Decision",
    "Outcome",
    "Permission",
    "PermissionConfig",
    "Remember",
    "Rule",
    "Rules",
    "digest_of",
    "permission",
]


def permission(ctx: Context, config: PermissionConfig) -> None:
    """Listen to ``tools/execute``, and provide the service ``permission``.

    It sees a call as the listeners before it left it; mount it after those that change calls.
    Every ``approval/asked`` in the log of the calling agent gets its ``approval/decided``; a call
    that the rules allow logs neither.
    """
    gate = Permission(ctx, config)
    ctx.on(TOOLS_EXECUTE, gate.check)
    ctx.fiber.effect(gate.close, "calls that wait for a person")
    ctx.provide(PERMISSION, gate)


permission.Config = PermissionConfig  # type: ignore[attr-defined]  # a plugin's declaration
