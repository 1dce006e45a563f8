"""The tool registry: tools by name, and the one seam where they run.

Reads: core, tools.tool, tools.schema, tools.run, tools.events. Feeds: agent, plugins, notebook.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from dsh_nb.core import Context, Disposer, Service, ServiceKey
from dsh_nb.errors import ToolTakenError
from dsh_nb.messages import ToolSchema, lossless
from dsh_nb.tools.events import (
    TOOLS_BLOCKING,
    TOOLS_CHANGE,
    TOOLS_EXECUTE,
    TOOLS_LATE,
    TOOLS_PROGRESS,
)
from dsh_nb.tools.results import error_outcome, text_outcome
from dsh_nb.tools.run import ToolThreads, run_tool
from dsh_nb.tools.schema import tool_of
from dsh_nb.tools.tool import Tool, ToolCall, ToolExecution, ToolOutcome

__all__ = ["TOOLS", "ToolRegistry", "parse_arguments"]

_JOIN_SECONDS = 2.0


class ToolRegistry(Service):
    """Tools by name; it offers their schemas to the prompt assembly by itself."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx)
        self._tools: dict[str, Tool] = {}
        self._threads = ToolThreads()
        ctx.fiber.effect(self._join, "threads of tools")
        ctx.plugin(_offer_schemas)

    def register(
        self,
        tool: Tool | Callable[..., Any],
        *,
        replace: bool = False,
        ctx: Context | None = None,
    ) -> Disposer:
        """Offer `tool`, or a function made into one, to the model.

        Args:
            tool: The tool.
            replace: True to take the place of a tool of that name, as a re-run cell wants.
            ctx: Whose fiber owns the registration; the registry's own by default.

        Returns:
            What takes it back.

        Raises:
            ToolDefinitionError: The function cannot become a tool. Nothing was registered.
            ToolTakenError: The name is taken. Nothing was registered.
        """
        self.ctx.check_thread("tools.register")
        made = tool_of(tool)
        if made.name in self._tools and not replace:
            raise ToolTakenError(
                f"a tool {made.name!r} is registered already; pass replace=True, or another name"
            )
        if self._tools.get(made.name) is made:
            made = dataclasses.replace(made)  # the undo of the first must not take this one away
        undo = (ctx or self.ctx).fiber.effect(partial(self._remove, made), f"tool {made.name}")
        self._tools[made.name] = made
        self.ctx.emit(TOOLS_CHANGE)
        return undo

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def list(self) -> list[Tool]:
        """The tools, by name."""
        return [self._tools[name] for name in sorted(self._tools)]

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the model is told, by name."""
        return tuple(tool.schema for tool in self.list())

    def parallel(self, name: str) -> bool:
        """Whether calls of that tool may run at once with others."""
        tool = self._tools.get(name)
        return tool is not None and tool.parallel and not tool.main_thread

    def needs_approval(self, call: ToolCall) -> bool:
        """Whether the tool of `call` wants a person to be asked; one that fails to say so does."""
        tool = self._tools.get(call.name)
        if tool is None or not callable(tool.approve):
            return tool is not None and bool(tool.approve)
        if not isinstance(call.arguments, dict):
            return True
        try:
            return bool(tool.approve(lossless(call.arguments, "arguments")))
        except Exception as error:
            self.ctx.report(error, f"the approve of tool {call.name!r}")
            return True

    async def execute(self, call: ToolCall) -> ToolOutcome:
        """What the call came to, through ``tools/execute``.

        An unknown tool, bad arguments, an exception, an exit and a timeout are error outcomes
        that tell the model what was wrong; only a cancellation is raised.
        """
        try:
            outcome = await self.ctx.waterfall(TOOLS_EXECUTE, self._run, call)
            return _checked(outcome)
        except Exception as error:  # a listener failed: the model is told, the loop goes on
            self.ctx.report(error, f"a listener of {TOOLS_EXECUTE.name!r}")
            return error_outcome(error, tool=call.name)

    async def _run(self, call: ToolCall) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is None:
            return text_outcome(self._unknown(call.name), is_error=True)
        if not isinstance(call.arguments, dict):
            return text_outcome(_not_an_object(call), is_error=True)
        if not call.approved and self.needs_approval(call):
            return _unapproved(call.name)
        return await run_tool(
            tool,
            call.arguments,
            ToolExecution(call, partial(self._progress, call)),
            threads=self._threads,
            blocking=partial(self.ctx.emit, TOOLS_BLOCKING, call),
            late=partial(self._late, call),
        )

    def _progress(self, call: ToolCall, value: object) -> None:
        def tell() -> None:
            try:
                self.ctx.emit(TOOLS_PROGRESS, call, value)
            except Exception as error:  # showing progress must not fail the tool
                self.ctx.report(error, f"a listener of {TOOLS_PROGRESS.name!r}")

        self.ctx.post(tell)

    def _late(self, call: ToolCall, outcome: ToolOutcome) -> None:
        try:
            self.ctx.emit(TOOLS_LATE, call, outcome)
        except Exception as error:
            self.ctx.report(error, f"a listener of {TOOLS_LATE.name!r}")

    def _remove(self, tool: Tool) -> None:
        if self._tools.get(tool.name) is tool:
            del self._tools[tool.name]
            self.ctx.emit(TOOLS_CHANGE)

    async def _join(self) -> None:
        left = await self._threads.join(_JOIN_SECONDS)
        if left:
            self.ctx.report(
                TimeoutError(f"tools still run after {_JOIN_SECONDS:g} s: {left}"), "joining tools"
            )

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._tools, n=3)
        there = f"did you mean {near}" if near else f"the tools are {sorted(self._tools)}"
        return f"there is no tool {name!r}; {there}"


TOOLS: ServiceKey[ToolRegistry] = ServiceKey("tools")
ToolRegistry.provides = TOOLS


def parse_arguments(text: str) -> object:
    """The arguments of a call: decoded JSON, ``{}`` when empty, the text itself when not JSON."""
    if not text.strip():
        return {}
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _checked(outcome: object) -> ToolOutcome:
    if isinstance(outcome, ToolOutcome):
        return outcome
    raise TypeError(
        f"a listener of {TOOLS_EXECUTE.name!r} returned {outcome!r:.100}; return a ToolOutcome, "
        "for example the one that proceed() gave"
    )


def _offer_schemas(ctx: Context) -> None:
    ctx.fiber.effect(ctx.system_prompt.add_schemas(ctx.tools.schemas), "tool schemas")


_offer_schemas.inject = ("tools", "system_prompt")  # type: ignore[attr-defined]  # a plugin's declaration


def _unapproved(name: str) -> ToolOutcome:
    outcome = text_outcome(
        f"calls of {name!r} need approval, and nothing here decides about them; the tool was not "
        "run, the user has to mount the plugin dsh_nb.plugins.permission",
        is_error=True,
    )
    return dataclasses.replace(outcome, denied=True)


def _not_an_object(call: ToolCall) -> str:
    raw = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    shown = raw if len(raw) <= 200 else f"{raw[:150]} … {raw[-50:]}"
    return (
        f"the arguments of {call.name!r} are not one JSON object: {shown!r}; "
        "the tool was not run, send the call again with a JSON object"
    )
