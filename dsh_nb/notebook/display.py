"""A turn shown in its cell by display updates, which ends as a static transcript.

Reads: notebook.kernel, notebook.transcript, notebook.static. Feeds: notebook.turn.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time

from dsh_nb.notebook.kernel import publish
from dsh_nb.notebook.static import mimebundle
from dsh_nb.notebook.transcript import TurnTranscript

__all__ = ["TurnDisplay"]

FIRST_SECONDS = 0.1
SHARE = 20
"""An update may take a twentieth of the time: a long transcript is painted less often."""

log = logging.getLogger("dsh_nb")


class TurnDisplay:
    """Paints a transcript now and then; nothing of it runs in the path of a chunk but a flag."""

    def __init__(self, transcript: TurnTranscript, loop: asyncio.AbstractEventLoop) -> None:
        self._transcript = transcript
        self._loop = loop
        self._id = f"dsh-{secrets.token_hex(6)}"
        self._timer: asyncio.TimerHandle | None = None
        self._seconds = FIRST_SECONDS
        publish(mimebundle(transcript.parts(), running=True), self._id)

    def changed(self) -> None:
        """Paint soon."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._paint)

    def announce(self, note: str) -> None:
        """Paint at once, with a word on what is about to happen: nothing is painted meanwhile."""
        self._publish(running=True, note=note)

    def finish(self) -> None:
        """Paint the end, once."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._publish(running=False)

    def _paint(self) -> None:
        self._timer = None
        began = time.perf_counter()
        self._publish(running=True)
        self._seconds = max(FIRST_SECONDS, SHARE * (time.perf_counter() - began))

    def _publish(self, *, running: bool, note: str = "") -> None:
        try:
            bundle = mimebundle(self._transcript.parts(), running=running, note=note)
            publish(bundle, self._id, update=True)
        except Exception:  # what is shown must not end what runs
            log.exception("showing a turn failed")
