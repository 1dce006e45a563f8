"""The system prompt: ordered sections and tool schemas, assembled once a step.

Reads: core, messages. Feeds: agent.loop, tools.registry, plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from dsh_nb.core import Context, Disposer, Emit, Service, ServiceKey, Waterfall
from dsh_nb.messages import ToolSchema

__all__ = ["SYSTEM_PROMPT", "SYSTEM_PROMPT_ASSEMBLE", "Prompt", "SystemPrompt"]

SectionText = str | Callable[[str], str | None]
"""Text, or a function of the agent's id that gives it (None or blank: no section)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What stands around the messages of a request.

    Attributes:
        system: The system text; ``""`` for none.
        tools: The tool schemas.
    """

    system: str
    tools: tuple[ToolSchema, ...]


SYSTEM_PROMPT_ASSEMBLE: Waterfall[str, Prompt] = Waterfall("system-prompt/assemble")
"""Change the prompt of a step.

Mode: waterfall. Fired once a step with the agent's id. Return: the prompt.
Default: the sections joined in order, and all schemas.
"""

SYSTEM_PROMPT_CHANGE: Emit[()] = Emit("system-prompt/change")
"""A section or provider of schemas came or went. Mode: emit."""


@dataclass(eq=False, slots=True)
class _Section:
    text: SectionText
    order: float


class SystemPrompt(Service):
    """Sections by ascending order, joined by a blank line."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx)
        self._sections: list[_Section] = []
        self._providers: list[Callable[[], Iterable[ToolSchema]]] = []

    def add(self, text: SectionText, *, order: float = 0, ctx: Context | None = None) -> Disposer:
        """Add a section; those of one order stand as they were added.

        Args:
            text: The text, or a function ``(agent_id) -> text`` called at each assembly.
            order: Where it stands.
            ctx: Whose fiber owns it; the service's own by default.

        Returns:
            What takes it back.
        """
        section = _Section(text, order)
        undo = self._owned(partial(self._sections.remove, section), "section", ctx)
        self._sections.append(section)
        self._sections.sort(key=lambda one: one.order)
        self.ctx.emit(SYSTEM_PROMPT_CHANGE)
        return undo

    def add_schemas(
        self, provider: Callable[[], Iterable[ToolSchema]], *, ctx: Context | None = None
    ) -> Disposer:
        """Add tool schemas, asked for at each assembly; returns what takes them back."""
        undo = self._owned(partial(self._providers.remove, provider), "tool schemas", ctx)
        self._providers.append(provider)
        self.ctx.emit(SYSTEM_PROMPT_CHANGE)
        return undo

    async def assemble(self, agent: str) -> Prompt:
        """The prompt of a step of `agent`, through ``system-prompt/assemble``."""
        return await self.ctx.waterfall(SYSTEM_PROMPT_ASSEMBLE, self._assemble, agent)

    def _assemble(self, agent: str) -> Prompt:
        texts = [section.text for section in self._sections]
        given = [text if isinstance(text, str) else text(agent) for text in texts]
        system = "\n\n".join(text.strip() for text in given if text and text.strip())
        return Prompt(system, tuple(one for provider in self._providers for one in provider()))

    def _owned(self, undo: Callable[[], object], label: str, ctx: Context | None) -> Disposer:
        def take_back() -> None:
            undo()
            self.ctx.emit(SYSTEM_PROMPT_CHANGE)

        return (ctx or self.ctx).fiber.effect(take_back, label)


SYSTEM_PROMPT: ServiceKey[SystemPrompt] = ServiceKey("system_prompt")
SystemPrompt.provides = SYSTEM_PROMPT
