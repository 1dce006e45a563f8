"""How long calls waited for a person, from the events of the plugins that ask.

Reads: session.events, tables.frame. Feeds: tables.tool_calls, tables.turns.
"""

from __future__ import annotations

from dsh_nb.session.events import SessionEvent, ToolResult, TurnEnd
from dsh_nb.tables.frame import seconds_between

__all__ = ["Waits"]


class Waits:
    """Folds ``approval/asked {callId}`` and ``approval/decided {callId, edited}``.

    ``question/asked`` and ``question/answered`` count in the same way.
    A call waits from the question until the decision or answer, or until its result or the end of
    its turn if none comes.

    Attributes:
        edited: Ids of the calls whose arguments the person changed.
    """

    def __init__(self) -> None:
        self.edited: set[str] = set()
        self._asked: dict[str, int] = {}
        self._waited: dict[str, float] = {}
        self._since = 0
        self._busy = 0.0

    def feed(self, event: SessionEvent) -> None:
        """Take the next event."""
        if type(event.data) is dict:
            self._plugin_event(event)
        elif type(event.data) is ToolResult:
            self._decided(event.data.call_id, event.time)
        elif type(event.data) is TurnEnd:
            for call_id in list(self._asked):
                self._decided(call_id, event.time)

    def _plugin_event(self, event: SessionEvent) -> None:
        call_id = event.data.get("callId")
        if not isinstance(call_id, str):
            return
        if event.type in ("approval/asked", "question/asked"):
            if not self._asked:
                self._since = event.time
            self._asked.setdefault(call_id, event.time)
        elif event.type in ("approval/decided", "question/answered"):
            self._decided(call_id, event.time)
            if event.data.get("edited") is True:
                self.edited.add(call_id)

    def _decided(self, call_id: str, time: int) -> None:
        asked = self._asked.pop(call_id, None)
        if asked is None:
            return
        waited = seconds_between(asked, time) or 0.0
        self._waited[call_id] = self._waited.get(call_id, 0.0) + waited
        if not self._asked:
            self._busy += seconds_between(self._since, time) or 0.0

    def of_call(self, call_id: str) -> float | None:
        """Seconds that a call waited; 0.0 for one that was never asked, None while it waits."""
        return None if call_id in self._asked else self._waited.get(call_id, 0.0)

    def take(self) -> float | None:
        """Seconds since the last `take` in which any call waited; None while one waits."""
        busy, self._busy = self._busy, 0.0
        return None if self._asked else busy
