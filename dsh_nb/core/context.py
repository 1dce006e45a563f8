"""The context: what a plugin receives, and the root that a program composes.

Reads: core.keys, core.fiber, core.scope, core.dispatch, core.config. Feeds: all services.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, ClassVar, TypeVar, cast

from dsh_nb.core.config import validate_config
from dsh_nb.core.dispatch import Dispatch
from dsh_nb.core.fiber import FINISHED, Disposer, Fiber
from dsh_nb.core.keys import Emit, LiveEvent, ServiceKey
from dsh_nb.core.scope import MISSING, Root, Scope
from dsh_nb.errors import ConfigError, ContextError, ServiceMissingError, ServiceTakenError

__all__ = ["CORE_ERROR", "Context", "Plugin", "Service"]

T = TypeVar("T")
Plugin = Callable[..., Any]  # Any: (ctx, config) -> None, an awaitable, or a Service instance

CORE_ERROR: Emit[BaseException, str] = Emit("core/error")
"""Something failed where nobody waits: a failing undo, an owned task.

Mode: emit. Fired with the error and what was being done. Default: written to the ``dsh_nb`` logger.
"""

log = logging.getLogger("dsh_nb")


class Service:
    """Base of plugins that provide a service: mounting the class provides its instance.

    Subclasses may take `config` of the type of their ``Config`` and may define
    ``async def start(self)``, which runs before the service is provided.

    Attributes:
        provides: The key under which the instance is provided.
        inject: Keys or names of the services that must be there first.
    """

    provides: ClassVar[ServiceKey[Any]]  # Any: each subclass names its own type
    inject: ClassVar[tuple[ServiceKey[Any] | str, ...]] = ()
    Config: ClassVar[type | None] = None

    def __init__(self, ctx: Context, config: Any = None) -> None:  # Any: an instance of Config
        self.ctx = ctx


class Context(Dispatch):
    """Services by key, live events, and a fiber that owns what is registered through it.

    ``Context()`` makes a root; plugins get contexts of their own, which share its events and
    services. It belongs to the thread and event loop on which it was made (made outside a loop, it
    binds to the first loop that it is used on); every method raises `WrongThreadError` elsewhere,
    but `post`.

    Args:
        replace_plugins: True to let a plugin mounted under a taken name replace the former one,
            as a re-run notebook cell wants.
    """

    def __init__(self, *, replace_plugins: bool = False) -> None:
        self._root = Root(replace_plugins)
        self._scope = Scope(None)
        self.fiber = Fiber("root", lambda fiber: self)
        self.fiber.evaluate()

    @classmethod
    def _of(cls, root: Root, scope: Scope, fiber: Fiber) -> Context:
        ctx = cls.__new__(cls)
        ctx._root, ctx._scope, ctx.fiber = root, scope, fiber
        return ctx

    def __repr__(self) -> str:
        return f"<Context {self.fiber.name} {self.fiber.state} services={sorted(self._names())}>"

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._names()]

    # Any: services by attribute are for people at a prompt; typed code says ctx.get(KEY)
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_scope" not in self.__dict__:
            raise AttributeError(name)
        return self._resolve(name)

    # -- the loop it belongs to ---------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that the context belongs to.

        Raises:
            ContextError: No loop is running, and it is bound to none yet.
        """
        return self._root.bound_loop()

    @property
    def thread(self) -> int:
        """Identity of the thread that the context belongs to."""
        return self._root.thread

    def bind(self, loop: asyncio.AbstractEventLoop, *, move: bool = False) -> None:
        """Make `loop`, which this thread runs or will run, the context's own.

        Args:
            loop: The loop.
            move: True to leave another loop for it; only when nothing of the context runs there.

        Raises:
            ContextError: It belongs to another loop that is not closed, and is not to `move`.
        """
        self._root.bind(loop, move=move)

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` on the context's thread: at once when on it, else soon. Safe anywhere."""
        if threading.get_ident() == self._root.thread:
            call()
        elif self._root.loop is None:
            raise ContextError("the context has no event loop yet; use it on its own thread first")
        else:
            self._root.loop.call_soon_threadsafe(call, context=self._root.variables.copy())

    def spawn(self, work: Coroutine[Any, Any, object], name: str) -> asyncio.Task[object]:
        """Run `work` as a task of this fiber: cancelled and awaited when the fiber ends.

        Its failure is reported (`CORE_ERROR`), for nobody needs to await it.
        """
        task = self.loop.create_task(work, name=f"dsh:{name}")

        async def stop() -> None:
            if task is not asyncio.current_task():
                task.cancel()
                await asyncio.wait({task})

        undo = self.fiber.effect(lambda: None if task.done() else stop(), f"task {name}")

        def done(task: asyncio.Task[object]) -> None:
            undo()
            if not task.cancelled() and (error := task.exception()) is not None:
                self.report(error, f"task {name}")

        task.add_done_callback(done)
        return task

    def report(self, error: BaseException, doing: str) -> None:
        """Tell of a failure that nobody waits for; never raises."""
        listeners = self._root.bus.listeners.get(CORE_ERROR.name)
        try:
            if listeners:
                self._root.bus.emit(CORE_ERROR.name, error, doing)
                return
        except Exception:
            log.exception("a listener of %r failed", CORE_ERROR.name)
        log.error("%s failed: %s", doing, error, exc_info=error)

    # -- plugins ------------------------------------------------------------------------------

    def plugin(self, plugin: Plugin, config: object = None, *, name: str | None = None) -> Fiber:
        """Mount `plugin` and return its fiber at once; ``await fiber`` waits until it is active.

        Args:
            plugin: A callable ``(ctx, config)``, sync or async, or a `Service` subclass. It may
                have ``name``, ``inject`` (service keys or names), ``Config`` (a schema) and
                ``defaults`` (what to mount for an injected service that nobody provides).
            config: Validated against ``Config``.
            name: Instead of the plugin's own name.

        Raises:
            DisposedError: The context is gone.
            WrongThreadError: Called off the context's thread.
        """
        self.check_thread("ctx.plugin")
        label = name or str(getattr(plugin, "name", None) or getattr(plugin, "__name__", plugin))
        if self._root.replace:
            self._dispose_namesake(label)
        for key, default in getattr(plugin, "defaults", {}).items():
            if not self.provides(key.name):
                self.plugin(default)
        fiber = Fiber(
            label,
            lambda own: Context._of(self._root, self._scope, own),
            inject=tuple(_name_of(key) for key in getattr(plugin, "inject", ())),
            start=lambda ctx: _start(plugin, ctx, valid),
            detach=lambda own: self._root.waiting.remove(own),
        )
        self._own(fiber)
        self._root.waiting.append(fiber)
        try:
            valid = validate_config(label, getattr(plugin, "Config", None), config)
        except ConfigError as error:
            fiber.fail(error)
        else:
            fiber.evaluate()
        return fiber

    # -- services -----------------------------------------------------------------------------

    def provide(self, key: ServiceKey[T], service: T) -> Disposer:
        """Provide `service` under `key` to this context's scope; returns what withdraws it.

        Raises:
            ServiceTakenError: The scope has a provider of that name. Nothing changed.
        """
        self.check_thread("ctx.provide")
        services = self._scope.services
        if key.name in services:
            raise ServiceTakenError(
                f"service {key.name!r} is provided already, by {services[key.name]!r}; dispose "
                "that provider first, or provide yours in ctx.scope()"
            )
        services[key.name] = service
        undo = self.fiber.effect(lambda: self._withdraw(key.name), f"service {key.name}")
        self._service_changed(key.name)
        return undo

    def get(self, key: ServiceKey[T]) -> T:
        """The nearest provider of `key`.

        Raises:
            ServiceMissingError: Nobody provides it.
        """
        return cast(T, self._resolve(key.name))  # provide() put a T there

    def provides(self, name: str) -> bool:
        """Whether a service of that name is there."""
        return self._scope.find(name) is not MISSING

    def scope(self) -> Context:
        """A context whose services shadow those of this one; it ends with this fiber."""
        fiber = Fiber(
            f"{self.fiber.name}/scope",
            lambda own: Context._of(self._root, Scope(self._scope), own),
        )
        self._own(fiber)
        fiber.evaluate()
        return fiber.ctx

    # -- the end ------------------------------------------------------------------------------

    def dispose(self) -> Awaitable[None]:
        """End this context's fiber and all it owns. Safe from any thread; twice is harmless.

        Returns:
            An awaitable that is done when everything has unwound. From another thread the
            unwinding is posted, and the awaitable says nothing.
        """
        if threading.get_ident() != self._root.thread:
            self.post(self.fiber.dispose)
            return FINISHED
        return self.fiber.dispose()

    def _own(self, fiber: Fiber) -> None:
        """Make `fiber` a child of this one: it ends with it, at the latest."""
        undo = self.fiber.effect(fiber.dispose, f"plugin {fiber.name}")
        fiber.effect(undo.forget, "place in its parent")

    def _dispose_namesake(self, name: str) -> None:
        for fiber in [fiber for fiber in self._root.waiting if fiber.name == name]:
            fiber.dispose()

    def _withdraw(self, name: str) -> Awaitable[None] | None:
        """Take a service away; returns what waits until those that used it have unwound."""
        del self._scope.services[name]
        unwinding = self._service_changed(name)
        return _all(unwinding) if unwinding else None

    def _service_changed(self, name: str) -> list[Awaitable[None]]:
        users = [fiber for fiber in self._root.waiting if name in fiber.inject]
        for fiber in users:
            fiber.evaluate()
        return [wait for fiber in users if (wait := fiber.unwound()) is not None]

    def _names(self) -> set[str]:
        names: set[str] = set()
        scope: Scope | None = self._scope
        while scope is not None:
            names.update(scope.services)
            scope = scope.parent
        return names

    def _resolve(self, name: str) -> object:
        service = self._scope.find(name)
        if service is MISSING:
            there = ", ".join(sorted(self._names())) or "none"
            raise ServiceMissingError(
                f"no service {name!r} here (there: {there}); mount a plugin that provides it, or "
                f"declare inject = ({name!r},) to wait for one"
            )
        return service


def _name_of(key: ServiceKey[Any] | LiveEvent | str) -> str:  # Any: only the name is read
    return key if isinstance(key, str) else key.name


# Any: isinstance would narrow a Plugin to object
def _start(plugin: Any, ctx: Context, config: object) -> object:
    """Call the plugin; what it returns is awaited when it can be."""
    if isinstance(plugin, type) and issubclass(plugin, Service):
        service = plugin(ctx, config)
        if hasattr(service, "start"):
            return _start_service(service)
        ctx.provide(service.provides, service)
        return None
    if len(inspect.signature(plugin).parameters) == 1:
        return plugin(ctx)
    return plugin(ctx, config)


async def _start_service(service: Service) -> None:
    await service.start()  # type: ignore[attr-defined]  # optional, the caller asked hasattr
    service.ctx.provide(service.provides, service)


async def _all(waits: list[Awaitable[None]]) -> None:
    for wait in waits:
        await wait
