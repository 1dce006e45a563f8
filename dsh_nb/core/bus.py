"""The bus: who listens to which live event, and the five ways to dispatch one.

Reads: core.keys. Feeds: core.context.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from dsh_nb.errors import ProceedTwiceError

__all__ = ["Bus", "Listener"]

Listener = Callable[..., Any]  # Any: the typed face is `Context.on`, which knows each event's types


class Bus:
    """Listeners by event name, in registration order.

    The tuples are replaced and never changed, so that a listener which comes or goes during a
    dispatch changes the next dispatch and not the running one.
    """

    def __init__(self) -> None:
        self.listeners: dict[str, tuple[Listener, ...]] = {}

    def add(self, name: str, listener: Listener, *, prepend: bool = False) -> Callable[[], None]:
        """Register `listener`; returns what removes it."""
        before = self.listeners.get(name, ())
        self.listeners[name] = (listener, *before) if prepend else (*before, listener)

        def remove() -> None:
            rest = list(self.listeners.get(name, ()))
            for position, other in enumerate(rest):
                if other is listener:
                    del rest[position]
                    break
            self.listeners[name] = tuple(rest)

        return remove

    def emit(self, name: str, *args: object) -> None:
        """Call all, in order."""
        for listener in self.listeners.get(name, ()):
            listener(*args)

    async def parallel(self, name: str, *args: object) -> None:
        """Call all and wait for all; one failure is raised as it is, several as a group."""
        failures: list[Exception] = []

        async def call(listener: Listener) -> None:
            try:
                await _settle(listener(*args))
            except Exception as error:  # the others must finish before anything is raised
                failures.append(error)
            except (SystemExit, KeyboardInterrupt) as error:  # would end the loop with this task
                failures.append(RuntimeError(f"a listener of {name!r} raised {error!r}"))

        async with asyncio.TaskGroup() as group:
            for listener in self.listeners.get(name, ()):
                group.create_task(call(listener))
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup(f"{len(failures)} listeners of {name!r} failed", failures)

    async def serial(self, name: str, *args: object) -> object:
        """The first answer that is neither None nor False, or None."""
        for listener in self.listeners.get(name, ()):
            answer = await _settle(listener(*args))
            if answer is not None and answer is not False:
                return answer
        return None

    def bail(self, name: str, *args: object) -> object:
        """`serial` without waiting."""
        for listener in self.listeners.get(name, ()):
            answer = listener(*args)
            if answer is not None and answer is not False:
                return answer
        return None

    async def waterfall(self, name: str, final: Listener, *args: object) -> Any:
        """What the outermost listener returns; `final` is innermost.

        Returns:
            Any: the typed face is `Context.waterfall`.
        """
        chain = self.listeners.get(name, ())
        if not chain:
            return await _settle(final(*args))
        return await _Proceed(name, chain, 0, final, args, _settle)()

    def pipe(self, name: str, final: Listener, *args: object) -> Any:
        """The stream that the outermost listener makes; `final` is innermost.

        Returns:
            Any: the typed face is `Context.pipe`.
        """
        chain = self.listeners.get(name, ())
        if not chain:
            return final(*args)
        return _Proceed(name, chain, 0, final, args, _same)()


class _Proceed:
    """The rest of a chain from `index` on, usable once."""

    __slots__ = ("_args", "_chain", "_final", "_index", "_name", "_used", "_wrap")

    def __init__(
        self,
        name: str,
        chain: tuple[Listener, ...],
        index: int,
        final: Listener,
        args: tuple[object, ...],
        wrap: Callable[[object], object],
    ) -> None:
        self._name, self._chain, self._index = name, chain, index
        self._final, self._args, self._wrap = final, args, wrap
        self._used = False

    def again(self) -> _Proceed:
        """A fresh one, for a listener that means to run the rest another time."""
        return _Proceed(self._name, self._chain, self._index, self._final, self._args, self._wrap)

    def __call__(self, *changed: object) -> Any:
        if self._used:
            raise ProceedTwiceError(
                f"a listener of {self._name!r} called proceed() twice; keep its first answer"
            )
        self._used = True
        args = changed or self._args
        if self._index == len(self._chain):
            return self._wrap(self._final(*args))
        rest = _Proceed(self._name, self._chain, self._index + 1, self._final, args, self._wrap)
        return self._wrap(self._chain[self._index](*args, rest))


async def _settle(answer: object) -> object:
    """The answer of a listener that may be sync or async."""
    if inspect.isawaitable(answer):
        return await answer
    return answer


def _same(answer: object) -> object:
    return answer
