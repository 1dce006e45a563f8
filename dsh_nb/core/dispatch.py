"""The typed face of the bus: listening to live events, and dispatching them.

Reads: core.keys, core.bus, core.fiber, core.scope. Feeds: core.context.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeVarTuple, Unpack

from dsh_nb.core.bus import Listener
from dsh_nb.core.fiber import Disposer, Fiber
from dsh_nb.core.keys import (
    Bail,
    Emit,
    LiveEvent,
    Parallel,
    Pipe,
    Proceed,
    ProceedPipe,
    Serial,
    Waterfall,
)
from dsh_nb.core.scope import Root

__all__ = ["Dispatch"]

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
Asked: TypeAlias = Awaitable[R | bool | None] | R | bool | None


class Dispatch:
    """The half of a context that deals with live events."""

    _root: Root
    fiber: Fiber

    def check_thread(self, doing: str) -> None:
        """Raise `WrongThreadError`, naming `doing`, when called off the context's thread."""
        self._root.check_thread(doing)

    @overload
    def on(
        self,
        event: Emit[Unpack[Ts]],
        listener: Callable[[Unpack[Ts]], object],
        *,
        prepend: bool = ...,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        event: Parallel[Unpack[Ts]],
        listener: Callable[[Unpack[Ts]], object],
        *,
        prepend: bool = ...,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        event: Serial[Unpack[Ts], R],
        listener: Callable[[Unpack[Ts]], Asked[R]],
        *,
        prepend: bool = ...,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        event: Bail[Unpack[Ts], R],
        listener: Callable[[Unpack[Ts]], R | bool | None],
        *,
        prepend: bool = ...,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        event: Waterfall[Unpack[Ts], R],
        listener: Callable[[Unpack[Ts], Proceed[R]], Awaitable[R] | R],
        *,
        prepend: bool = ...,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        event: Pipe[Unpack[Ts], R],
        listener: Callable[[Unpack[Ts], ProceedPipe[R]], AsyncIterator[R]],
        *,
        prepend: bool = ...,
    ) -> Disposer: ...
    @overload
    def on(self, event: str, listener: Listener, *, prepend: bool = ...) -> Disposer: ...

    def on(self, event: LiveEvent | str, listener: Listener, *, prepend: bool = False) -> Disposer:
        """Listen to `event`, a key or its name, for as long as this fiber lives.

        Args:
            event: What to listen to.
            listener: Gets the event's arguments; of a waterfall or pipe also ``proceed``.
            prepend: True to come before all that are registered now.
        """
        self.check_thread("ctx.on")
        if not callable(listener):
            raise TypeError(f"listener of {_name(event)!r} is {listener!r}; pass a function")
        remove = self._root.bus.add(_name(event), listener, prepend=prepend)
        return self.fiber.effect(remove, f"listener of {_name(event)}")

    def emit(self, event: Emit[Unpack[Ts]], *args: Unpack[Ts]) -> None:
        """Tell all, in order; a listener's exception is raised here."""
        for listener in self._root.bus.listeners.get(event.name, ()):
            listener(*args)

    async def parallel(self, event: Parallel[Unpack[Ts]], *args: Unpack[Ts]) -> None:
        """Tell all and wait for all; failures are raised when all have finished."""
        await self._root.bus.parallel(event.name, *args)

    async def serial(self, event: Serial[Unpack[Ts], R], *args: Unpack[Ts]) -> R | None:
        """The first answer that is neither None nor False."""
        return cast("R | None", await self._root.bus.serial(event.name, *args))

    def bail(self, event: Bail[Unpack[Ts], R], *args: Unpack[Ts]) -> R | None:
        """The first answer that is neither None nor False, without waiting."""
        return cast("R | None", self._root.bus.bail(event.name, *args))

    async def waterfall(
        self,
        event: Waterfall[Unpack[Ts], R],
        final: Callable[[Unpack[Ts]], Awaitable[R] | R],
        *args: Unpack[Ts],
    ) -> R:
        """What the listeners, wrapped around `final`, make of `args`."""
        return cast(R, await self._root.bus.waterfall(event.name, final, *args))

    def pipe(
        self,
        event: Pipe[Unpack[Ts], R],
        final: Callable[[Unpack[Ts]], AsyncIterator[R]],
        *args: Unpack[Ts],
    ) -> AsyncIterator[R]:
        """The stream that the listeners, wrapped around `final`, make of `args`."""
        return cast("AsyncIterator[R]", self._root.bus.pipe(event.name, final, *args))


def _name(event: LiveEvent | str) -> str:
    return event if isinstance(event, str) else event.name
