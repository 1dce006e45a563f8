"""A turn as the notebook holds it: a handle that can be awaited, and the reply it comes to.

Reads: messages, session, tables, notebook.transcript, notebook.display. Feeds: notebook.agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsh_nb.errors import AgentError
from dsh_nb.messages import JsonObject, Usage
from dsh_nb.notebook.display import TerminalDisplay, TurnDisplay
from dsh_nb.notebook.kernel import cell_number, has_widgets, in_kernel, interrupts, publish
from dsh_nb.notebook.live.turn import LiveTurn
from dsh_nb.notebook.static import mimebundle, to_plain
from dsh_nb.notebook.transcript import Part, TurnTranscript
from dsh_nb.session.events import SessionEvent, TurnReason
from dsh_nb.tools.tool import ToolCall

if TYPE_CHECKING:
    from dsh_nb.notebook.agent import Agent
    from dsh_nb.plugins.ask_user import Question
    from dsh_nb.plugins.permission import Ask
    from dsh_nb.session.session import Session

__all__ = ["Reply", "TurnHandle", "check_cell"]

TICK_SECONDS = 0.1
ASKED_SECONDS = 0.02
CLEANUP_SECONDS = 0.45
_interrupted_cells: set[int] = set()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a turn came to.

    Attributes:
        text: The text of the model's last message; ``""`` when it said nothing.
        turn: Number of the turn; 0 when it never began.
        reason: Why it ended.
        usage: Tokens of all its messages.
        cost: Their price in US dollars; None when the price of a model is not known.
    """

    text: str
    turn: int
    reason: TurnReason
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    _parts: tuple[Part, ...] = field(default=(), repr=False)
    _shown_in: int | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the turn was completed."""
        return self.reason.kind == "completed"

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it."""
        return self.reason.kind in ("aborted", "disposed")

    @property
    def error(self) -> str | None:
        """What went wrong; None when nothing did."""
        return self.reason.message if self.reason.kind == "error" else None

    def raise_for_error(self) -> Reply:
        """The reply itself; raises `AgentError` when the turn was stopped or failed."""
        if not self.ok:
            said = self.reason.message or self.reason.reason or self.reason.kind
            raise AgentError(f"turn {self.turn} was not completed: {said}")
        return self

    def __str__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        _show(self._parts, self._shown_in)


class TurnHandle:
    """A turn that was asked for. ``await handle`` waits for its end and gives the `Reply`.

    Cancelling what awaits it stops the turn. An interrupt of the kernel does the same, and the
    await then gives the reply as far as it came, so that the cells after it still run.
    """

    def __init__(self, agent: Agent, *, show: bool) -> None:
        self._agent = agent
        self._transcript = TurnTranscript()
        self._message_id: str | None = None
        self._reply: Reply | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._cell = cell_number()
        self._display = self._shown() if show else None
        self._forget: Callable[[], object] = lambda: None
        agent.ctx.post(self._attach)

    @property
    def turn(self) -> int:
        """Number of the turn; 0 while it waits for its beginning."""
        return self._transcript.turn

    @property
    def done(self) -> bool:
        """Whether the turn has ended."""
        return self._reply is not None

    @property
    def reply(self) -> Reply:
        """What it came to.

        Raises:
            AgentError: It has not ended; ``await`` the handle.
        """
        if self._reply is None:
            raise AgentError("the turn has not ended; await the handle, or look at it again later")
        return self._reply

    def stop(self, reason: str | None = None) -> None:
        """Stop this turn; one that has not begun is taken back. Safe from any thread."""
        self._agent.ctx.post(lambda: self._stop(reason))

    def __await__(self) -> Generator[Any, None, Reply]:  # Any: what a Future yields to its loop
        return self.wait().__await__()

    async def wait(self) -> Reply:
        """The reply, when the turn has ended.

        Raises:
            AgentError: The turn is to run on an event loop that does not run.
        """
        if self._reply is None and not self._agent.loop.is_running():
            raise AgentError(
                "the turn was started outside of this event loop and cannot run in it; call the "
                "agent inside the coroutine that awaits it, or use agent.run_sync(prompt)"
            )
        with interrupts() as interrupted:
            try:
                while self._reply is None:
                    # A ticker: without one an interrupt is felt only when the loop wakes (R5).
                    await self._tick(TICK_SECONDS)
            except asyncio.CancelledError:
                self.stop("interrupted" if interrupted else "cancelled")
                await self._settle()
                if not (interrupted and in_kernel()):
                    raise
                self._forgive()
        return self.reply

    async def asked(self) -> tuple[Ask | Question, ...]:
        """Wait until something waits for a person, or the turn is over.

        For cells that decide: ``await turn.asked()``, look at `Agent.pending`, then
        `Agent.approve`, `deny` or `answer`.

        Returns:
            What waits, oldest first; empty when the turn has ended.
        """
        await asyncio.sleep(0)  # what was just approved or denied waits no longer after this
        while not (self._agent.pending or self.done):
            await self._tick(ASKED_SECONDS)
        return () if self.done else self._agent.pending

    def begin(self, message_id: str) -> None:
        """Note which message starts it."""
        self._message_id = message_id

    def announce(self, note: str) -> None:
        """Show `note` at once, before the kernel is blocked."""
        if self._display is not None and self._reply is None and self.turn:
            self._display.announce(note)

    def changed(self) -> None:
        """Show what changed beside the log."""
        if self._display is not None and self._reply is None:
            self._display.changed()

    def progress(self, call: ToolCall, value: float | str) -> None:
        """Show what a running call reports."""
        if call.turn == self.turn:
            self._transcript.progress(call.step, call.id, value)
            self.changed()

    def give_up(self, reason: TurnReason) -> None:
        """End a handle whose turn will never begin, or never end."""
        if self._reply is None:
            self._end(reason)

    def __repr__(self) -> str:
        state = self._reply.reason.kind if self._reply else "running" if self.turn else "waiting"
        return f"<TurnHandle turn {self.turn or '?'} {state}>"

    def _ipython_display_(self) -> None:
        elsewhere = self._display is not None and self._cell != cell_number()
        if elsewhere and not self.done and isinstance(self._display, LiveTurn):
            self._display.show_again()
            return
        _show(self._transcript.parts(), self._cell if self._display else None, not self.done)

    def _shown(self) -> LiveTurn | TurnDisplay | TerminalDisplay | None:
        """The turn in the cell's output: with a widget where a page may show one."""
        if not in_kernel():
            terminal = self._cell is not None
            return TerminalDisplay(self._transcript, self._agent.loop) if terminal else None
        if not has_widgets():
            return TurnDisplay(self._transcript, self._agent.loop)
        return LiveTurn(
            self._transcript, self._agent, self.stop, self._waiting, lambda: self._agent.loop
        )

    def _waiting(self) -> JsonObject:
        return self._agent.waiting(self.turn)

    def _attach(self) -> None:
        self._forget = self._agent.session.listen(self._hear)

    def _hear(self, session: Session, event: SessionEvent) -> None:
        transcript = self._transcript
        transcript.feed(event)
        if self._display is not None:
            self._display.changed()
        if transcript.ended and self._reply is None:
            self._end(transcript.reason or TurnReason("aborted"))

    def _end(self, reason: TurnReason) -> None:
        self._forget()
        transcript = self._transcript
        shown = self._cell if self._display else None
        parts = transcript.parts()
        self._reply = Reply(
            transcript.text,
            transcript.turn,
            reason,
            transcript.usage,
            transcript.cost,
            parts,
            shown,
        )
        if self._display is not None:
            self._display.finish()
        for waiter in [*self._waiters]:  # those who wait may do so on another thread's loop
            waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    def _stop(self, reason: str | None) -> None:
        if self._reply is not None:
            return
        if self.turn:
            self._agent.stop(reason)
        elif self._message_id is not None and self._agent.take_back(self._message_id):
            self._end(TurnReason("aborted", reason))

    async def _tick(self, seconds: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            self._waiters.remove(waiter)

    async def _settle(self) -> None:
        """Wait until the stopped turn has ended, not longer than people wait after a click."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLEANUP_SECONDS
        while self._reply is None and loop.time() < deadline:
            try:
                await self._tick(0.02)
            except asyncio.CancelledError:  # a second interrupt changes nothing
                continue
        self.give_up(TurnReason("aborted", "interrupted"))

    def _forgive(self) -> None:
        """Let the cell go on after the interrupt; a further turn in it is refused."""
        task = asyncio.current_task()
        if task is not None:
            while task.cancelling():
                task.uncancel()
        if self._cell is not None:
            _interrupted_cells.add(self._cell)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def check_cell() -> None:
    """Refuse a turn in a cell that was interrupted: a loop over prompts must end there.

    Raises:
        AgentError: The cell was interrupted before.
    """
    if cell_number() in _interrupted_cells and in_kernel():
        raise AgentError("this cell was interrupted; run it again to go on")


def _show(parts: tuple[Part, ...], shown_in: int | None, running: bool = False) -> None:
    """Show a transcript as a cell's value, unless the turn itself was shown in this cell."""
    if shown_in is not None and shown_in == cell_number():
        return
    bundle = mimebundle(parts, running=running)
    publish(bundle if in_kernel() else {"text/plain": to_plain(parts)})
