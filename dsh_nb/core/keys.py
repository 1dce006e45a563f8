"""Typed keys: a name that carries the types of what is dispatched or provided under it.

Feeds: core.bus, core.context, and every room that declares a live event or a service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Generic, Protocol, TypeVar

from typing_extensions import TypeVarTuple, Unpack

__all__ = [
    "Bail",
    "Emit",
    "LiveEvent",
    "Parallel",
    "Pipe",
    "Proceed",
    "ProceedPipe",
    "Serial",
    "ServiceKey",
    "Waterfall",
]

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class _Key:
    """A name; two keys of one name are the same moment or capability."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class LiveEvent(_Key):
    """A named moment that other code may observe or wrap; gone when it was dispatched."""

    __slots__ = ()


class Emit(LiveEvent, Generic[Unpack[Ts]]):
    """Tell all, in order, synchronously; a listener's exception reaches the emitter."""

    __slots__ = ()


class Parallel(LiveEvent, Generic[Unpack[Ts]]):
    """Tell all and wait for all."""

    __slots__ = ()


class Serial(LiveEvent, Generic[Unpack[Ts], R]):
    """Ask in order and wait; the first answer that is neither None nor False wins."""

    __slots__ = ()


class Bail(LiveEvent, Generic[Unpack[Ts], R]):
    """Ask in order, synchronously; the first answer that is neither None nor False wins."""

    __slots__ = ()


class Waterfall(LiveEvent, Generic[Unpack[Ts], R]):
    """Listeners wrap one another around a final function; each proceeds or answers alone."""

    __slots__ = ()


class Pipe(LiveEvent, Generic[Unpack[Ts], T]):
    """A waterfall whose answer is a stream: listeners are async generator functions."""

    __slots__ = ()


class Proceed(Protocol[R_co]):
    """The rest of a waterfall: call it once, with changed arguments or with none."""

    def __call__(self, *args: object) -> Awaitable[R_co]:
        """Run the rest."""
        ...

    def again(self) -> Proceed[R_co]:
        """A fresh one, for a listener that means to run the rest another time."""
        ...


class ProceedPipe(Protocol[R_co]):
    """The rest of a pipe: call it once, with changed arguments or with none."""

    def __call__(self, *args: object) -> AsyncIterator[R_co]:
        """The rest of the stream."""
        ...

    def again(self) -> ProceedPipe[R_co]:
        """A fresh one, for a listener that means to run the rest another time."""
        ...


class ServiceKey(_Key, Generic[T]):
    """The name of a capability together with the type of what provides it."""

    __slots__ = ()
