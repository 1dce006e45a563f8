"""The turns and panels of an agent that are shown, kept up to date with what no log tells.

Reads: core, agent, plugins, tools, notebook.turn, notebook.live.panel, notebook.waiting.
Feeds: notebook.agent.
"""

from __future__ import annotations

from dsh_nb.agent.protocol import AGENT_QUEUED, AGENT_STEERING
from dsh_nb.core import Context
from dsh_nb.notebook.live.panel import LivePanel
from dsh_nb.notebook.turn import TurnHandle
from dsh_nb.notebook.waiting import progress_value
from dsh_nb.plugins.ask_user import QUESTION_ANSWERED, QUESTION_ASKED
from dsh_nb.plugins.permission import PERMISSION_ASKED, PERMISSION_DECIDED
from dsh_nb.session.events import TurnReason
from dsh_nb.tools.events import TOOLS_BLOCKING, TOOLS_PROGRESS
from dsh_nb.tools.tool import ToolCall

__all__ = ["Views"]


class Views:
    """What of an agent is on the page.

    Args:
        ctx: The agent's context.
    """

    def __init__(self, ctx: Context) -> None:
        self._turns: list[TurnHandle] = []
        self._panels: list[LivePanel] = []
        refresh = self._refresh
        ctx.fiber.effect(self._end, "what is shown")
        ctx.on(TOOLS_BLOCKING, self._will_block)
        ctx.on(TOOLS_PROGRESS, self._progress)
        ctx.on(PERMISSION_ASKED, lambda ask: refresh())
        ctx.on(PERMISSION_DECIDED, lambda ask, outcome: refresh())
        ctx.on(QUESTION_ASKED, lambda question: refresh())
        ctx.on(QUESTION_ANSWERED, lambda question, outcome: refresh())
        ctx.on(AGENT_QUEUED, lambda agent, source, steering: refresh())
        ctx.on(AGENT_STEERING, lambda agent, turn, source: refresh())

    def add_turn(self, handle: TurnHandle) -> None:
        """Keep a turn up to date until it has ended."""
        self._turns = [*(one for one in self._turns if not one.done), handle]

    def add_panel(self, panel: LivePanel) -> None:
        """Keep a panel up to date until the agent ends."""
        self._panels = [*self._panels, panel]

    def _refresh(self) -> None:
        both: list[TurnHandle | LivePanel] = [*self._turns, *self._panels]
        for shown in both:
            shown.changed()

    def _progress(self, call: ToolCall, value: object) -> None:
        for turn in self._turns:
            turn.progress(call, progress_value(value))

    def _will_block(self, call: ToolCall) -> None:
        for turn in self._turns:
            turn.announce(f"{call.name} runs on the kernel's own thread: nothing else runs now")

    def _end(self) -> None:
        for turn in self._turns:
            turn.give_up(TurnReason("disposed"))
        for panel in self._panels:
            panel.close()
        self._turns, self._panels = [], []
