"""The whole session as a live panel: every turn, what waits, and a box to say the next thing.

Reads: session, notebook.display, notebook.live.page, notebook.live.turn, notebook.live.view,
notebook.static, notebook.transcript. Feeds: notebook.agent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from functools import partial

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.kernel import has_widgets, in_kernel, publish
from dsh_nb.notebook.live.intents import Steered
from dsh_nb.notebook.live.page import LivePage, Op
from dsh_nb.notebook.live.turn import turn_status
from dsh_nb.notebook.live.view import LiveView
from dsh_nb.notebook.parts import Part
from dsh_nb.notebook.static import mimebundle
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.session import Session

__all__ = ["LivePanel", "session_parts"]


class LivePanel:
    """A panel on a session; the last line of a cell shows it.

    Without a page that shows widgets it is the transcript so far.

    Args:
        session: What is shown, from its first turn on.
        steered: What its buttons steer.
        stop: What Stop does.
        waiting: Gives what waits for a person, and what is pending.
        loop: Where the turns run.
    """

    def __init__(
        self,
        session: Session,
        steered: Steered,
        stop: Callable[[], object],
        waiting: Callable[[], JsonObject],
        loop: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        self._session = session
        self._waiting = waiting
        self._transcript = TurnTranscript()
        self._pages = [LivePage()]
        self._unseen: list[tuple[LivePage, TurnTranscript]] = []
        self._is_over = False
        self._id = f"dsh-{secrets.token_hex(6)}"
        self._make = partial(LiveView, self, steered, stop, loop, panel=True)
        self._view: LiveView | None = None  # made when a page first shows it
        self._read = 0
        self._unlisten = session.listen(self._hear)

    def changed(self) -> None:
        """Show what is new, soon."""
        if self._view is not None:
            self._view.changed()

    def close(self) -> None:
        """Leave the transcript so far in the place of the panel, without a widget."""
        if self._is_over:
            return
        self._is_over = True
        self._unlisten()
        if self._view is not None:
            self._view.flush()
            self._view.leave(self._replace)

    def _ipython_display_(self) -> None:
        bundle = self._bundle()
        if not in_kernel():
            publish({"text/plain": bundle["text/plain"]})
        elif self._is_over or not has_widgets():
            publish(bundle)
        else:
            if self._view is None:
                self._view = self._make()
            publish({**bundle, **self._view.bundle}, self._id)

    def __repr__(self) -> str:
        return f"<LivePanel of {self._session!r}>"

    # -- as `Shown` has it ------------------------------------------------------------------

    def update(self) -> list[Op]:
        """Ops for what is new since the last time."""
        self._catch_up()
        ops = [op for page, transcript in self._unseen for op in page.update(transcript)]
        self._unseen = []
        return ops + self._pages[-1].update(self._transcript)

    def snapshot(self) -> list[Op]:
        """Ops for all of it."""
        return [op for page in self._pages for op in page.snapshot()]

    def status(self) -> JsonObject:
        """The state of the session."""
        status = turn_status(self._transcript)
        if self._is_over:
            status["state"] = "over"
        elif not self._transcript.begun:
            status["state"] = "idle"
        return status | self._waiting()

    def _hear(self, session: Session, event: SessionEvent) -> None:
        self.changed()

    def _catch_up(self) -> None:
        """Fold what the log has more; a turn that has ended is shown once more, and then left."""
        for event in self._session[self._read :]:
            self._transcript.feed(event)
            if self._transcript.ended:
                page = self._pages[-1]
                self._unseen.append((page, self._transcript))
                self._pages.append(LivePage(page.first + len(self._transcript.entries)))
                self._transcript = TurnTranscript()
        self._read = len(self._session)

    def _replace(self) -> None:
        publish(self._bundle(), self._id, update=True)

    def _bundle(self) -> dict[str, object]:
        return dict(mimebundle(tuple(session_parts(self._session))))


def session_parts(session: Session) -> Iterator[Part]:
    """What there is to see of all turns of a session, the running one as far as it is."""
    transcript = TurnTranscript()
    for event in session:
        transcript.feed(event)
        if transcript.ended:
            yield from transcript.parts()
            transcript = TurnTranscript()
    yield from transcript.parts()
