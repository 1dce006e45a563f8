"""A turn shown live in its cell, which ends as a static transcript.

Reads: agent, plugins, notebook.display, notebook.live.page, notebook.live.view,
notebook.transcript. Feeds: notebook.turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.display import TurnDisplay
from dsh_nb.notebook.live.intents import Steered
from dsh_nb.notebook.live.page import LivePage, Op
from dsh_nb.notebook.live.view import LiveView
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.notebook.wording import money_text, token_words

__all__ = ["LiveTurn", "turn_status"]

PATIENCE_SECONDS = 3.0
"""A page that has not shown the widget by then gets display updates, too, as seldom as this."""


class LiveTurn:
    """The widget of a turn, and the output that it stands in.

    Args:
        transcript: What is shown.
        steered: What its buttons steer.
        stop: What Stop does.
        waiting: Gives what waits for a person, and what is pending, as `status` holds it.
        loop: Where the turn runs.
    """

    def __init__(
        self,
        transcript: TurnTranscript,
        steered: Steered,
        stop: Callable[[], object],
        waiting: Callable[[], JsonObject],
        loop: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        self._transcript = transcript
        self._waiting = waiting
        self._page = LivePage()
        self._note = ""
        self._view = LiveView(self, steered, stop, loop, mounted=self._mounted)
        self._display = TurnDisplay(
            transcript, loop(), also=self._view.bundle, seconds=PATIENCE_SECONDS
        )

    def changed(self) -> None:
        """Show what is new, soon."""
        if self._view.is_mounted:
            self._view.changed()
        else:
            self._display.changed()

    def announce(self, note: str) -> None:
        """Show what is new at once, with a word on what is about to happen."""
        self._note = note
        if self._view.is_mounted:
            self._view.flush()
        else:
            self._display.announce(note)
        self._note = ""

    def finish(self) -> None:
        """Show the end, and leave it as the output without a widget."""
        self._view.flush()
        self._view.leave(self._display.finish)

    def show_again(self) -> None:
        """Show the widget in the output of the current cell, too."""
        self._display.show_again()

    def update(self) -> list[Op]:
        """As `Shown` has it."""
        return self._page.update(self._transcript)

    def snapshot(self) -> list[Op]:
        """As `Shown` has it."""
        return self._page.snapshot()

    def status(self) -> JsonObject:
        """As `Shown` has it."""
        return turn_status(self._transcript, self._note) | self._waiting()

    def _mounted(self) -> None:
        self._display.pause()


def turn_status(transcript: TurnTranscript, note: str = "") -> JsonObject:
    """How far a turn is, in words and numbers."""
    state = "ended" if transcript.ended else "running" if transcript.begun else "queued"
    cost = transcript.cost
    said = [*token_words(transcript.usage), *([] if cost is None else [money_text(cost)])]
    return {
        "state": state,
        "turn": transcript.turn,
        "since": transcript.began,
        "said": " · ".join(said),
        "note": note,
    }
