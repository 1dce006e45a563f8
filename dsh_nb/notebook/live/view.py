"""A live view: widgets that are told what is new, now and then, and hand back what people want.

Reads: notebook.live.intents, notebook.live.page, notebook.live.widget. Feeds: notebook.live.turn,
notebook.live.panel.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.live.intents import Intents, Steered
from dsh_nb.notebook.live.page import Op

if TYPE_CHECKING:
    from dsh_nb.notebook.live.widget import Controls, TurnWidget

__all__ = ["LiveView", "Shown"]

LEAST_SECONDS = 0.08
"""Between two messages to the page."""

NUDGE_SECONDS = 3.0
"""Without news for so long, the page is told the number of the newest message."""

REPLACE_SECONDS = (1.0, 2.0, 4.0, 8.0)
"""Waits before an output that still shows a widget is replaced once more."""

log = logging.getLogger("dsh_nb")


class Shown(Protocol):
    """What a view shows."""

    def update(self) -> list[Op]:
        """Ops for what is new since the last time."""

    def snapshot(self) -> list[Op]:
        """Ops for all of it, for a view that has nothing."""

    def status(self) -> JsonObject:
        """What is beside the blocks: the state, what waits for a person, what is pending."""


class LiveView:
    """A widget and its messages; nothing of it runs in the path of a chunk but a flag.

    All of its methods are called on the loop's thread.

    Args:
        shown: What it shows.
        steered: What its buttons steer.
        stop: What Stop does.
        loop: Where the turns run.
        mounted: Called once, when a page first shows it.
        panel: Whether it is a panel of its own height.

    Attributes:
        is_mounted: Whether a page shows it.
    """

    def __init__(
        self,
        shown: Shown,
        steered: Steered,
        stop: Callable[[], object],
        loop: Callable[[], asyncio.AbstractEventLoop],
        *,
        mounted: Callable[[], object] = lambda: None,
        panel: bool = False,
    ) -> None:
        # Loaded when a view is first shown: the widget packages take a while.
        from dsh_nb.notebook.live.widget import Controls, TurnWidget

        self.is_mounted = False
        self._shown = shown
        self._loop = loop
        self._on_mount = mounted
        self._pages: set[str] = set()
        self._number = 0
        self._views: set[str] = set()
        self._is_due = False
        self._is_leaving = False
        self._timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._status: JsonObject = {}
        self._controls: Controls = Controls()
        self._widget: TurnWidget = TurnWidget(controls=self._controls.model_id, panel=panel)
        self._controls.on_msg(Intents(steered, stop, loop, self._hello, self._gone).hear)

    @property
    def bundle(self) -> Mapping[str, object]:
        """What an output holds to show it."""
        return {
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self._widget.model_id,
            }
        }

    def changed(self) -> None:
        """Tell the page soon; not when no page shows it, for it will ask."""
        if not self._is_due and self.is_mounted and not self._is_leaving:
            wait = max(0.0, self._flushed_at + LEAST_SECONDS - time.monotonic())
            self._is_due = True
            self._schedule(wait, self.flush)

    def flush(self) -> None:
        """Tell the page what is new, now."""
        self._is_due = False
        if not self.is_mounted:
            return
        self._flushed_at = time.monotonic()
        if not self._is_leaving:  # then the output is due to be replaced
            self._schedule(NUDGE_SECONDS, self._nudge)
        try:
            ops, status = self._shown.update(), self._shown.status()
            if ops or status != self._status:
                self._number += 1
                self._send(ops, status)
        except Exception:  # what is shown must not end what runs
            log.exception("showing a turn failed")

    def leave(self, replace: Callable[[], object]) -> None:
        """Have the output replaced, and close the widgets when no page shows them any more.

        Args:
            replace: Replaces the output. Called again when the widgets are still shown after a
                while: what is told to a page can get lost.
        """
        replace()
        self._leave(replace, [*REPLACE_SECONDS])

    def _leave(self, replace: Callable[[], object], waits: list[float]) -> None:
        def again() -> None:
            if self._views and self._widget.comm is not None:
                replace()
                self._nudge()
                self._leave(replace, waits[1:])

        if not self._views or not waits:
            self.close()
            return
        self._is_leaving = True
        self._schedule(waits[0], again)

    def close(self) -> None:
        """Close the widgets, in the kernel and in the page.

        A page that was loaded again keeps what it shows: its output can no longer be replaced.
        """
        from dsh_nb.notebook.live.widget import close, forget

        self._schedule(None)
        self.is_mounted = False
        (forget if len(self._pages) > 1 else close)(self._widget, self._controls)

    def _schedule(self, seconds: float | None, call: Callable[[], object] = lambda: None) -> None:
        """Call later, instead of what was to be called."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop().call_later(seconds, call)

    def _nudge(self) -> None:
        """Tell the page how much it should have been told: the newest message may be lost."""
        if self.is_mounted:
            self._widget.send({"n": self._number, "nudge": True})
            if not self._is_leaving:
                self._schedule(NUDGE_SECONDS, self._nudge)

    def _send(self, ops: list[Op], status: JsonObject, **more: object) -> None:
        message = {"n": self._number, "now": time.time_ns() // 1_000_000, "ops": ops, **more}
        if status != self._status or more:
            message["status"] = status
        self._status = status
        self._widget.send(message)

    def _hello(self, view: str, page: str) -> None:
        """A view has nothing yet, or has missed something: tell it everything."""
        if self._widget.comm is None:  # closed meanwhile
            return
        self._pages.add(page)
        self._views.add(view)
        if self.is_mounted:
            self.flush()  # the other views
        else:
            self.is_mounted = True
            self._on_mount()
            self._shown.update()  # nobody needs these ops: the snapshot has them
        self._send(self._shown.snapshot(), self._shown.status(), to=view)

    def _gone(self, view: str) -> None:
        """A view is no longer in its page."""
        self._views.discard(view)
        if self._views:
            return
        self.is_mounted = False
        if self._is_leaving:
            self.close()
