"""A replay: a scrubber in the cell over what happened; it calls no model and no tool.

Reads: session.session, notebook.kernel, notebook.live.panel, notebook.live.playhead,
notebook.live.reel, notebook.live.view, notebook.static. Feeds: notebook.record.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.kernel import has_widgets, in_kernel, publish
from dsh_nb.notebook.live.page import Op
from dsh_nb.notebook.live.panel import session_parts
from dsh_nb.notebook.live.playhead import SPEEDS, Outline, Playhead, Stride
from dsh_nb.notebook.live.reel import Reel
from dsh_nb.notebook.live.view import LiveView
from dsh_nb.notebook.static import mimebundle
from dsh_nb.session.session import Session

__all__ = ["Replay"]

FRAME_SECONDS = 1 / 12
"""Between two frames while it plays."""

CLOCK_SECONDS = 0.5
"""Between two frames in which only the clock goes on."""

BLOCKED_SECONDS = 1.0
"""Longer pauses between two frames are those of a blocked kernel, which the replay waits for."""

MOST_MARKS = 60
"""So many ends of turns are marked on the slider; more would be a blur."""


class _Run(NamedTuple):
    """A run of a cell."""

    cell: str
    request: str


class Replay:
    """A session to scrub through in the cell; the last line of a cell shows it.

    The cell shows it with controls: play and pause, the speed, steps by event, step and turn, a
    slider, and keys (space plays; the arrows go an event forward and back, with shift a step,
    page up and down a turn; home and end). It plays as fast as things happened, and can skip
    waits. Nothing is sent to a model and no tool runs.

    It shows the session as far as it is when the replay is made. The output of the cell also
    holds the whole transcript, for a reader without a kernel: Close leaves only that. It is all
    there is where no page shows widgets.

    A page that opens a trusted notebook prefers a widget to the transcript, also when the kernel
    that had the widget is gone: close a replay before the notebook is saved for others.

    Args:
        session: What is replayed.
    """

    def __init__(self, session: Session) -> None:
        events = session[:]
        outline = Outline(events)
        self._session = session
        self._outline = outline
        self._events = events
        self._head = Playhead(events, outline)
        self._reel = Reel(events, outline)
        self._exact_at: int | None = None
        self._id = f"dsh-{secrets.token_hex(6)}"
        self._view: LiveView | None = None  # made when a page first shows it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._run: _Run | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticked = 0.0
        self._is_closed = False

    @property
    def position(self) -> int:
        """How many events of the session have happened."""
        return self._head.at

    @property
    def playing(self) -> bool:
        """Whether it plays."""
        return self._head.playing

    def play(self, speed: float | None = None, *, skip_waits: bool | None = None) -> None:
        """Play from here on; from the beginning when it is at the end.

        Args:
            speed: How many times faster than it happened, 0.25 to 16; as before when left out.
            skip_waits: Whether a wait takes two seconds at most; as before when left out.

        Raises:
            ValueError: There is no such speed. Nothing has changed.
        """
        self._pace(speed, skip_waits)
        self._do(self._play)

    def pause(self) -> None:
        """Stay at the present position."""
        self._do(self._head.pause)

    def seek(self, position: int) -> None:
        """Go to where so many events have happened; to the nearest position that there is."""
        self._do(lambda: self._head.seek(position))

    def step(self, count: int = 1, by: Stride = "event") -> None:
        """Go forward, or back where `count` is negative; a replay that plays pauses.

        Args:
            count: How many.
            by: What to count: each ``"event"``, or the ends of a ``"step"`` or a ``"turn"``.

        Raises:
            ValueError: `by` is something else. Nothing has changed.
        """
        if by not in ("event", "step", "turn"):
            raise ValueError(f"a replay has no step by {by!r}; use 'event', 'step' or 'turn'")
        self._do(lambda: self._step(count, by))

    def close(self) -> None:
        """Leave the whole transcript in the place of the replay, without a widget."""
        self._do(self._close)

    def scrub(self, wish: Mapping[str, Any]) -> None:  # Any: JSON of a page
        """Do what a control of the page stands for; safe from any thread.

        Raises:
            ValueError: It is none that this kernel knows.
        """
        match wish:
            case {"seek": int(at)}:
                self.seek(at)
            case {"step": int(count), "by": "event" | "step" | "turn" as by}:
                self.step(count, by)
            case {"play": bool(on)}:
                (self.play if on else self.pause)()
            case {"speed": int(speed) | float(speed)}:
                self._pace(speed, None)
            case {"skip": bool(on)}:
                self._pace(None, on)
            case {"close": True}:
                self.close()
            case _:
                raise ValueError(f"the replay has no control {dict(wish)!r}; load the page again")

    def _ipython_display_(self) -> None:
        if not in_kernel():
            publish({"text/plain": self._bundle["text/plain"]})
        elif self._is_closed or not has_widgets() or not _loop_runs():
            publish(self._bundle)
        else:
            publish({**self._bundle, **self._shown().bundle}, self._id)

    def __repr__(self) -> str:
        return f"<Replay of {self._session.id!r} at event {self._head.at} of {self._head.last}>"

    # -- as `Shown` has it ------------------------------------------------------------------

    def update(self) -> list[Op]:
        """Ops that show the present position."""
        at = self._head.at
        if self._head.playing and at >= self._reel.at:
            self._exact_at = None
            return self._reel.play_to(at)
        if self._exact_at == at:
            return []
        self._exact_at = at
        return self._reel.wind_to(at)

    def snapshot(self) -> list[Op]:
        """Ops for all that is shown."""
        return self._reel.snapshot()

    def status(self) -> JsonObject:
        """The position in numbers, and how it plays."""
        head, events = self._head, self._events
        turn, step = self._outline.place(head.at)
        marks = [mark for mark in self._outline.parted[1:] if mark < head.last]
        return {
            "state": "replay",
            "replay": {
                "at": head.at,
                "first": head.first,
                "last": head.last,
                "type": events[head.at - 1].type if head.at else "",
                "turn": turn,
                "turns": self._outline.turns,
                "step": step,
                "clock": head.clock,
                "began": events[0].time if events else 0,
                "ended": events[-1].time if events else 0,
                "playing": head.playing,
                "speed": head.speed,
                "speeds": list(SPEEDS),
                "skips": head.skips_waits,
                "marks": marks if len(marks) <= MOST_MARKS else [],
            },
        }

    # -- on the loop ------------------------------------------------------------------------

    def _do(self, call: Callable[[], object]) -> None:
        """Do something on the loop that shows it, and show what came of it."""

        def do() -> None:
            call()
            if self._view is not None and not self._is_closed:
                self._view.changed()

        if self._loop is None or _loop_runs(self._loop):
            do()
        else:
            self._loop.call_soon_threadsafe(do)

    def _pace(self, speed: float | None, skip_waits: bool | None) -> None:
        if speed is not None and not SPEEDS[0] <= speed <= SPEEDS[-1]:
            raise ValueError(f"speed is {speed!r}; use {SPEEDS[0]:g} to {SPEEDS[-1]:g}")

        def pace() -> None:
            self._head.speed = self._head.speed if speed is None else float(speed)
            self._head.skips_waits = self._head.skips_waits if skip_waits is None else skip_waits

        self._do(pace)

    def _step(self, count: int, by: Stride) -> None:
        self._head.pause()
        self._head.step(count, by)

    def _play(self) -> None:
        self._head.play()
        self._go_on()

    def _go_on(self) -> None:
        """Let the clock run while a page shows it."""
        self._ticked = time.monotonic()
        self._schedule()

    def _tick(self) -> None:
        view, now = self._view, time.monotonic()
        if view is None or not view.is_mounted:
            return  # it goes on when a page shows it again
        self._head.advance(min(now - self._ticked, BLOCKED_SECONDS))
        self._ticked = now
        view.changed()
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._head.playing and self._loop is not None:
            wait = min(CLOCK_SECONDS, max(FRAME_SECONDS, self._head.wait_seconds()))
            self._timer = self._loop.call_later(wait, self._tick)

    # -- in the cell ------------------------------------------------------------------------

    @cached_property
    def _bundle(self) -> dict[str, object]:
        """What a reader of the saved notebook sees: everything that happened."""
        note = (
            f"Session {self._session.id!r}, {len(self._session):,} events. "
            "In a running notebook, replay() plays them."
        )
        return dict(mimebundle(tuple(session_parts(self._session)), note=note))

    def _shown(self) -> LiveView:
        """The widget; those that the cell showed when it ran before are gone with its output."""
        run = _cell_run()
        for other in [*_OPEN]:
            if run and other._run and other._run.cell == run.cell and other._run != run:
                other._end()
        loop = self._loop = asyncio.get_running_loop()
        if self._view is None:
            self._view = LiveView(
                self, self, self._head.pause, lambda: loop, mounted=self._go_on, panel=True
            )
            _OPEN.append(self)
        self._run = run
        return self._view

    def _close(self) -> None:
        if self._view is not None and not self._is_closed:
            self._stop()
            self._view.leave(self._replace)
        self._is_closed = True

    def _end(self) -> None:
        """Let go of the widget; its output is gone."""
        self._stop()
        self._is_closed = True
        if self._view is not None:
            self._view.close()

    def _stop(self) -> None:
        self._head.pause()
        self._schedule()
        _OPEN[:] = [one for one in _OPEN if one is not self]

    def _replace(self) -> None:
        publish(self._bundle, self._id, update=True)


_OPEN: list[Replay] = []
"""Those that have a widget."""


def _loop_runs(loop: asyncio.AbstractEventLoop | None = None) -> bool:
    """Whether this is the thread of a running loop, or of that very loop."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop is None or running is loop


def _cell_run() -> _Run | None:
    """Which run of which cell this is; None where the page does not say."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent: Mapping[str, Mapping[str, object]] = getattr(kernel, "get_parent", dict)()
    cell = parent.get("metadata", {}).get("cellId")
    request = parent.get("header", {}).get("msg_id")
    return _Run(str(cell), str(request)) if cell and request else None
