"""The session: an append-only log of events, the only durable state.

Reads: messages, session.events, session.history, session.check. Feeds: agent, tables, notebook.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import overload

import msgspec

from dsh_nb.errors import SessionError
from dsh_nb.messages import (
    JsonObject,
    lossless,
)
from dsh_nb.session.check import LogChecker
from dsh_nb.session.events import EVENT_TYPES, AssistantChunk, EventData, SessionEvent
from dsh_nb.session.history import History, HistoryView

__all__ = ["Session", "event_data", "now_ms"]


def now_ms() -> int:
    """Unix epoch in milliseconds."""
    return time.time_ns() // 1_000_000


class Session(Sequence[SessionEvent]):
    """One append-only log and its identity; a sequence of its events.

    Args:
        id: Its name.
        seed: Events that it starts with, copied: of a saved log, or of a fork's parent.
        header: Metadata that is not an event, for example a title.
        check: True to hold each appended event against the log invariants first.
        clock: Gives the time of an event, Unix epoch in milliseconds.
    """

    def __init__(
        self,
        id: str,
        seed: Iterable[SessionEvent] = (),
        *,
        header: JsonObject | None = None,
        check: bool = False,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.id = id
        self.header: JsonObject = dict(header or {})
        self.turn = 0
        self.history = History()
        self._events: list[SessionEvent] = []
        self._clock = clock
        self._checker = LogChecker() if check else None
        self._listeners: tuple[Callable[[Session, SessionEvent], object], ...] = ()
        self._telling = False
        self._unheard: list[SessionEvent] = []
        for event in seed:
            self._take(msgspec.structs.replace(event, seq=len(self._events)))
        self.seeded = len(self._events)

    def append(self, type: str, data: EventData | Mapping[str, object]) -> SessionEvent:
        """Add an event. Synchronous, and never blocks on I/O.

        Args:
            type: ``subject/verb``.
            data: The struct of a known type, or JSON; JSON of a known type becomes its struct.

        Returns:
            The event, with the next ``seq`` and the time.

        Raises:
            SessionError: The data does not fit the type. Nothing was appended.
            TypeError, ValueError: The data is not lossless JSON. Nothing was appended.
            LogError: The log is checked, and the event breaks an invariant. Nothing was appended.
        """
        event = SessionEvent(len(self._events), self._clock(), type, event_data(type, data))
        self._take(event)
        self._tell(event)
        return event

    def append_chunk(self, data: AssistantChunk) -> SessionEvent:
        """`append` of an ``assistant/chunk`` whose chunk is clean (`clean_chunk`), at less cost."""
        event = SessionEvent(len(self._events), self._clock(), "assistant/chunk", data)
        if self._checker is not None:
            self._checker.feed(event)
        self._events.append(event)
        if self._listeners:
            self._tell(event)
        return event

    def listen(self, listener: Callable[[Session, SessionEvent], object]) -> Callable[[], None]:
        """Call `listener` with the session and each event appended from now on.

        An event appended by a listener is told when all have heard the one before it. What a
        listener raises reaches the one who appended; the event stays in the log.

        Returns:
            What ends it; calling it twice is harmless.
        """
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return stop

    @property
    def messages(self) -> HistoryView:
        """The history that a model would be shown now; a view that later appends do not change."""
        return self.history.view()

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> SessionEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[SessionEvent]: ...
    def __getitem__(self, index: int | slice) -> SessionEvent | list[SessionEvent]:
        return self._events[index]

    def __iter__(self) -> Iterator[SessionEvent]:
        return iter(self._events)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} {len(self._events)} events, {self.turn} turns>"

    def _take(self, event: SessionEvent) -> None:
        if self._checker is not None:
            self._checker.feed(event)
        self._events.append(event)
        if event.type == "turn/start":
            self.turn = event.data.turn
        self.history.feed(event)

    def _tell(self, event: SessionEvent) -> None:
        """Tell the listeners, one event after the other, those of re-entrant appends last."""
        if self._telling:
            self._unheard.append(event)
            return
        self._telling = True
        try:
            for listener in self._listeners:
                listener(self, event)
            while self._unheard:
                heard = self._unheard.pop(0)
                for listener in self._listeners:
                    listener(self, heard)
        finally:
            self._telling = False
            self._unheard.clear()


def event_data(type: str, data: EventData | Mapping[str, object]) -> EventData | JsonObject:
    """`data` as an event of `type` holds it: its struct, or a JSON copy for an unknown type.

    Raises:
        SessionError: It does not fit the type.
        TypeError, ValueError: It is not lossless JSON.
    """
    struct = EVENT_TYPES.get(type)
    if struct is None:
        if isinstance(data, EventData):
            raise SessionError(
                f"event type {type!r} is not one that holds a {data.__class__.__name__}"
            )
        plain: JsonObject = lossless(dict(data), type)
        return plain
    if isinstance(data, EventData) and not isinstance(data, struct):
        raise SessionError(
            f"event {type!r} got a {data.__class__.__name__}; pass a {struct.__name__} or its JSON"
        )
    try:
        return msgspec.convert(_json(data, type), struct)
    except msgspec.ValidationError as error:
        raise SessionError(f"data of event {type!r} does not fit: {error}") from error


def _json(data: EventData | Mapping[str, object], path: str) -> object:
    """A lossless JSON copy, made through the struct's own encoding."""
    builtins = msgspec.to_builtins(data) if isinstance(data, EventData) else dict(data)
    return lossless(builtins, path)
