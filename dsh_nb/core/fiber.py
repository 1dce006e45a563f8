"""A fiber: one mounted plugin's life, and all that must be undone when it ends.

::

    pending ──services there──> loading ──started──> active
       ^                           │                   │
       └──────a service went away──┴───────────────────┤
                                   └──error──> failed  │
    any ──dispose──> disposed  <───────────────────────┘

Reads: core.keys. Feeds: core.context.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal

from dsh_nb.errors import DisposedError

if TYPE_CHECKING:
    from dsh_nb.core.context import Context

__all__ = ["FINISHED", "Disposer", "Fiber", "FiberState"]

FiberState = Literal["pending", "loading", "active", "failed", "disposed"]


class Disposer:
    """The undo of one registration; calling it twice is harmless.

    Calling it returns what the undo returned, which may be awaitable.
    """

    __slots__ = ("_owner", "_undo", "label")

    def __init__(self, undo: Callable[[], object], owner: list[Disposer], label: str) -> None:
        self._undo: Callable[[], object] | None = undo
        self._owner = owner
        self.label = label
        owner.append(self)

    def __call__(self) -> object:
        """Undo it; the answer is the undo's own."""
        undo, self._undo = self._undo, None
        if undo is None:
            return None
        if self in self._owner:
            self._owner.remove(self)
        return undo()

    def forget(self) -> None:
        """Give the registration up without undoing it: something else undid it."""
        self._undo = None
        if self in self._owner:
            self._owner.remove(self)

    def __repr__(self) -> str:
        return f"<Disposer {self.label} {'done' if self._undo is None else 'armed'}>"


class Fiber:
    """One mounted plugin. ``await fiber`` waits until it is active and raises its start-up error.

    Attributes:
        name: The plugin's name.
        state: Where in its life it is.
        error: Why it failed; ``None`` otherwise.
        inject: Names of the services it waits for.
        ctx: The context the plugin was given; what it registers there belongs to this fiber.
    """

    def __init__(
        self,
        name: str,
        make_context: Callable[[Fiber], Context],
        *,
        inject: tuple[str, ...] = (),
        start: Callable[[Context], object] = lambda ctx: None,
        detach: Callable[[Fiber], object] = lambda fiber: None,
    ) -> None:
        self.name = name
        self.state: FiberState = "pending"
        self.error: BaseException | None = None
        self.inject = inject
        self.ctx = make_context(self)
        self._start = start
        self._detach = detach
        self._effects: list[Disposer] = []
        self._loading: asyncio.Task[None] | None = None
        self._unwinding: asyncio.Future[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<Fiber {self.name} {self.state}>"

    def __await__(self) -> Generator[Any, None, Fiber]:  # Any: what a Future yields to its loop
        while self.state in ("pending", "loading"):
            waiter = self.ctx.loop.create_future()
            self._waiters.append(waiter)
            yield from waiter.__await__()
        self.check()
        return self

    def check(self) -> None:
        """Raise the start-up error if there is one, without waiting."""
        if self.error is not None:
            raise self.error

    def effect(self, undo: Callable[[], object], label: str = "effect") -> Disposer:
        """Own a registration: `undo` runs when the fiber ends, last in first out.

        Args:
            undo: Takes the registration back; may return an awaitable, which is awaited.
            label: What it is, for reports.

        Raises:
            DisposedError: The fiber is gone; nothing was registered.
        """
        if self.state in ("failed", "disposed"):
            raise DisposedError(f"plugin {self.name!r} is {self.state}; mount it again to register")
        return Disposer(undo, self._effects, label)

    def fail(self, error: BaseException) -> None:
        """End the start-up with `error` and take back what was registered."""
        self.error = error
        waited_for = bool(self._waiters)
        self._settle("failed")
        self._unwind()
        if not waited_for:
            self.ctx.report(error, f"starting plugin {self.name!r}")

    def evaluate(self) -> None:
        """Load or unload according to the services that are there now."""
        if self.state in ("failed", "disposed") or self._unwinding is not None:
            return
        missing = [name for name in self.inject if not self.ctx.provides(name)]
        if self.state == "pending" and not missing:
            self._load()
        elif self.state in ("loading", "active") and missing:
            self.state = "pending"
            self._unwind()

    def dispose(self) -> Awaitable[None]:
        """Unwind for good. What can be undone at once is undone when this returns.

        Returns:
            An awaitable that is done when everything has unwound. Disposing twice is harmless.
        """
        if self.state != "disposed":
            self._settle("disposed")
            self._detach(self)
            self._unwind()
        return FINISHED if self._unwinding is None else self._unwinding

    def unwound(self) -> Awaitable[None] | None:
        """What is still unwinding, if anything is."""
        return self._unwinding

    def _load(self) -> None:
        self.state = "loading"
        try:
            started = self._start(self.ctx)
        except Exception as error:
            self.fail(error)
            return
        if inspect.isawaitable(started):
            self._loading = self.ctx.loop.create_task(
                self._finish(started), name=f"dsh:start:{self.name}"
            )
        else:
            self._settle("active")

    async def _finish(self, started: Awaitable[object]) -> None:
        try:
            await started
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._loading = None
            self.fail(error)
            return
        self._loading = None
        self._settle("active")

    def _settle(self, state: FiberState) -> None:
        self.state = state
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _unwind(self) -> None:
        """Undo what can be undone at once; the rest, in order, in a task."""
        if self._unwinding is not None:
            return
        first: Awaitable[object] | None = None
        loading, self._loading = self._loading, None
        if loading is not None and not loading.done() and loading is not _current_task():
            loading.cancel()
            first = asyncio.wait({loading})
        else:
            first = self._undo_until_wait()
        if first is not None:
            self._unwinding = self.ctx.loop.create_task(
                self._rest(first), name=f"dsh:unwind:{self.name}"
            )

    def _undo_until_wait(self) -> Awaitable[object] | None:
        while self._effects:
            disposer = self._effects[-1]
            try:
                undone = disposer()
            except Exception as error:  # a failing undo must not keep the others
                self.ctx.report(error, f"undoing {disposer.label} of plugin {self.name!r}")
                continue
            if inspect.isawaitable(undone):
                return undone
        return None

    async def _rest(self, first: Awaitable[object]) -> None:
        waiting: Awaitable[object] | None = first
        while waiting is not None:
            try:
                await waiting
            except Exception as error:
                self.ctx.report(error, f"unwinding plugin {self.name!r}")
            waiting = self._undo_until_wait()
        self._unwinding = None
        self.evaluate()


def _current_task() -> asyncio.Task[Any] | None:  # Any: whatever the task returns
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class _Finished:
    """An awaitable that is done; unlike a coroutine, nobody minds when it is not awaited."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


FINISHED = _Finished()
