"""A turn shown in its cell by display updates, which ends as a static transcript.

Reads: notebook.kernel, notebook.parts, notebook.prose, notebook.static, notebook.transcript.
Feeds: notebook.live.turn, notebook.turn.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import time
from collections.abc import Mapping

from dsh_nb.notebook.kernel import publish
from dsh_nb.notebook.parts import Part, TextPart, ThinkingPart, ToolPart
from dsh_nb.notebook.prose import plain_part
from dsh_nb.notebook.static import mimebundle
from dsh_nb.notebook.transcript import TurnTranscript

__all__ = ["TerminalDisplay", "TurnDisplay"]

SHARE = 20
"""An update may take a twentieth of the time: a long transcript is painted less often."""

TERMINAL_SECONDS = 0.3
"""Between two looks at what can be printed."""

PLAIN_CHARS = 2_000
"""Longest plain text beside HTML that a page is known to show; each form is saved."""

log = logging.getLogger("dsh_nb")


class TurnDisplay:
    """Paints a transcript now and then; nothing of it runs in the path of a chunk but a flag.

    Args:
        transcript: What is painted.
        loop: Where the turn runs.
        also: Further forms of the output while the turn runs, by MIME type: a live widget.
        seconds: Least time between two paints.
    """

    def __init__(
        self,
        transcript: TurnTranscript,
        loop: asyncio.AbstractEventLoop,
        *,
        also: Mapping[str, object] | None = None,
        seconds: float = 0.1,
    ) -> None:
        self._transcript = transcript
        self._loop = loop
        self._also = dict(also or {})
        self._least_seconds = self._seconds = seconds
        self._paused = False
        self._ids = [f"dsh-{secrets.token_hex(6)}"]
        self._timer: asyncio.TimerHandle | None = None
        publish(mimebundle(transcript.parts(), running=True) | self._also, self._ids[0])

    def changed(self) -> None:
        """Paint soon."""
        if self._timer is None and not self._paused:
            self._timer = self._loop.call_later(self._seconds, self._paint)

    def show_again(self) -> None:
        """Show the turn in the output of the current cell, too; it ends there as well."""
        self._ids = [*self._ids, f"dsh-{secrets.token_hex(6)}"]
        bundle = mimebundle(self._transcript.parts(), running=True)
        publish(bundle | self._also, self._ids[-1])

    def pause(self) -> None:
        """Paint no more before the end: something better shows the turn."""
        self._paused = True
        self._cancel()

    def announce(self, note: str) -> None:
        """Paint at once, with a word on what is about to happen: nothing is painted meanwhile."""
        self._publish(running=True, note=note)

    def finish(self) -> None:
        """Paint the end."""
        self._cancel()
        self._publish(running=False)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _paint(self) -> None:
        self._timer = None
        began = time.perf_counter()
        self._publish(running=True)
        self._seconds = max(self._least_seconds, SHARE * (time.perf_counter() - began))

    def _publish(self, *, running: bool, note: str = "") -> None:
        try:
            short = PLAIN_CHARS if self._paused else None
            parts = self._transcript.parts()
            bundle = mimebundle(parts, running=running, note=note, plain_chars=short)
            for id in self._ids:
                publish(bundle | self._also if running else bundle, id, update=True)
        except Exception:  # what is shown must not end what runs
            log.exception("showing a turn failed")


class TerminalDisplay:
    """A turn in a terminal: each part is printed when it is finished; nothing is printed twice."""

    def __init__(self, transcript: TurnTranscript, loop: asyncio.AbstractEventLoop) -> None:
        self._transcript = transcript
        self._loop = loop
        self._printed = 0
        self._timer: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        """Print what is finished, soon."""
        if self._timer is None:
            self._timer = self._loop.call_later(TERMINAL_SECONDS, self._print)

    def announce(self, note: str) -> None:
        """Print what is finished at once."""
        self._print()

    def finish(self) -> None:
        """Print the rest."""
        if self._timer is not None:
            self._timer.cancel()
        self._print()

    def _print(self) -> None:
        self._timer = None
        for part in self._transcript.parts()[self._printed :]:
            if not self._transcript.ended and _goes_on(part):
                return
            self._printed += 1
            text = plain_part(part)
            if text:
                sys.stdout.write(f"{text}\n\n")
        sys.stdout.flush()


def _goes_on(part: Part) -> bool:
    if isinstance(part, ToolPart):
        return not part.settled
    return isinstance(part, (TextPart, ThinkingPart)) and part.open
