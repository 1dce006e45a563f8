"""The plugin core: fibers, services, effects, configs, threads."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from dsh_nb.core import CORE_ERROR, Context, Emit, Service, ServiceKey
from dsh_nb.errors import (
    ConfigError,
    DisposedError,
    ServiceMissingError,
    ServiceTakenError,
    WrongThreadError,
)

CLOCK: ServiceKey[Clock]


class Clock(Service):
    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx)
        self.now = 1


CLOCK = ServiceKey("clock")
Clock.provides = CLOCK
PING: Emit[str] = Emit("test/ping")


def declare(**declared: object) -> Callable[[Any], Any]:
    """Set a plugin's declarations on a function."""

    def decorate(plugin: Any) -> Any:
        for name, value in declared.items():
            setattr(plugin, name, value)
        return plugin

    return decorate


@pytest.mark.rule("C1")
async def test_plugin_is_active_at_once_when_sync_and_after_awaiting_when_async() -> None:
    ctx, started = Context(), []

    def quick(ctx: Context, config: object) -> None:
        started.append("quick")

    async def slow(ctx: Context, config: object) -> None:
        await asyncio.sleep(0)
        started.append("slow")

    first, second = ctx.plugin(quick), ctx.plugin(slow)

    assert (first.state, second.state) == ("active", "loading")
    await second
    assert (second.state, started) == ("active", ["quick", "slow"])


@pytest.mark.rule("C1")
async def test_awaiting_a_fiber_raises_its_start_up_error() -> None:
    ctx = Context()
    reported: list[str] = []
    ctx.on(CORE_ERROR, lambda error, doing: reported.append(str(error)))

    async def broken(ctx: Context, config: object) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("no disk")

    fiber = ctx.plugin(broken)

    with pytest.raises(RuntimeError, match="no disk"):
        await fiber
    assert (fiber.state, reported) == ("failed", [])


@pytest.mark.rule("C1")
async def test_start_up_error_nobody_awaits_is_reported() -> None:
    ctx = Context()
    reported: list[str] = []
    ctx.on(CORE_ERROR, lambda error, doing: reported.append(f"{doing}: {error}"))

    def broken(ctx: Context) -> None:
        raise RuntimeError("no disk")

    ctx.plugin(broken)

    assert reported == ["starting plugin 'broken': no disk"]


@pytest.mark.rule("C2")
async def test_fiber_waits_for_its_services_and_follows_them() -> None:
    ctx, seen = Context(), []

    @declare(inject=("clock",))
    def user(ctx: Context) -> None:
        seen.append("up")
        ctx.fiber.effect(lambda: seen.append("down"))
        ctx.plugin(child)

    def child(ctx: Context) -> None:
        seen.append("child up")
        ctx.fiber.effect(lambda: seen.append("child down"))

    fiber = ctx.plugin(user)
    states = [fiber.state]
    provider = ctx.plugin(Clock)
    states.append(fiber.state)
    await provider.dispose()
    states.append(fiber.state)
    ctx.plugin(Clock)
    states.append(fiber.state)

    assert states == ["pending", "active", "pending", "active"]
    assert seen == ["up", "child up", "child down", "down", "up", "child up"]


@pytest.mark.rule("C2")
async def test_async_unload_finishes_before_its_provider_is_gone() -> None:
    ctx, seen = Context(), []
    provider = ctx.plugin(Clock)
    provider.effect(lambda: seen.append("provider effects"))

    async def unwind() -> None:
        await asyncio.sleep(0.01)
        seen.append("user")

    @declare(inject=(CLOCK,))
    def user(ctx: Context) -> None:
        ctx.fiber.effect(unwind)

    ctx.plugin(user)
    await provider.dispose()

    assert seen == ["provider effects", "user"]


@pytest.mark.rule("C3")
async def test_bad_config_fails_that_fiber_alone_and_names_plugin_path_and_value() -> None:
    class Server(BaseModel):
        port: int

    class Config(BaseModel):
        model_config = ConfigDict(extra="forbid")
        server: Server

    ctx, started = Context(), []

    @declare(Config=Config, name="web")
    def web(ctx: Context, config: Config) -> None:
        started.append(config.server.port)

    good = ctx.plugin(web, {"server": {"port": 80}})
    bad = ctx.plugin(web, {"server": {"port": "many"}})
    wrong = ctx.plugin(web, {"server": {"port": 1}, "hots": 1})

    with pytest.raises(
        ConfigError, match=r"'web'.*server\.port is 'many'.*valid integer"
    ) as caught:
        bad.check()
    with pytest.raises(ConfigError, match=r"hots is 1, expected: no such field"):
        wrong.check()
    assert (caught.value.plugin, caught.value.path) == ("web", "server.port")
    assert (good.state, bad.state, started) == ("active", "failed", [80])


@pytest.mark.rule("C4")
async def test_effects_unwind_last_in_first_out_and_a_failing_one_is_reported() -> None:
    ctx, seen, reported = Context(), [], []
    ctx.on(CORE_ERROR, lambda error, doing: reported.append(str(error)))

    def fail() -> None:
        raise RuntimeError("stuck")

    def plugin(ctx: Context) -> None:
        ctx.fiber.effect(lambda: seen.append(1))
        ctx.fiber.effect(fail, "the stuck one")
        ctx.fiber.effect(lambda: seen.append(3))

    fiber = ctx.plugin(plugin)
    await fiber.dispose()
    await fiber.dispose()

    assert (seen, reported, fiber.state) == ([3, 1], ["stuck"], "disposed")


@pytest.mark.rule("C4")
async def test_disposer_undoes_once_and_leaves_nothing_behind() -> None:
    ctx = Context()
    heard: list[str] = []
    undo = ctx.on(PING, heard.append)
    ctx.emit(PING, "one")
    undo()
    undo()

    ctx.emit(PING, "two")

    assert heard == ["one"]
    assert "PING" not in repr(ctx.fiber)


@pytest.mark.rule("C4")
async def test_registering_on_a_disposed_fiber_is_refused() -> None:
    ctx = Context()
    fiber = ctx.plugin(lambda ctx: None, name="gone")
    await fiber.dispose()

    with pytest.raises(DisposedError, match="'gone' is disposed; mount it again"):
        fiber.ctx.on(PING, print)


@pytest.mark.rule("C5")
async def test_missing_service_names_itself_and_how_to_get_it() -> None:
    ctx = Context()

    with pytest.raises(ServiceMissingError, match=r"no service 'clock'.*inject = \('clock',\)"):
        _ = ctx.clock
    assert not hasattr(ctx, "clock")


@pytest.mark.rule("C5")
async def test_nearest_provider_is_found_and_a_second_one_refused() -> None:
    ctx = Context()
    outer, inner = Clock(ctx), Clock(ctx)
    ctx.provide(CLOCK, outer)
    scope = ctx.scope()
    scope.provide(CLOCK, inner)

    with pytest.raises(ServiceTakenError, match="'clock' is provided already"):
        ctx.provide(CLOCK, inner)
    assert (ctx.clock, scope.get(CLOCK)) == (outer, inner)


@pytest.mark.rule("C8")
async def test_other_threads_are_refused_clearly_and_may_post() -> None:
    ctx, done = Context(), asyncio.Event()
    problems: list[str] = []

    def elsewhere() -> None:
        for call in (lambda: ctx.on(PING, print), lambda: ctx.plugin(Clock)):
            try:
                call()
            except WrongThreadError as error:
                problems.append(str(error))
        ctx.post(done.set)

    threading.Thread(target=elsewhere, name="visitor").start()
    await asyncio.wait_for(done.wait(), 5)

    assert [text.split(" was called")[0] for text in problems] == ["ctx.on", "ctx.plugin"]
    assert all("'visitor'" in text and "ctx.post" in text for text in problems)


@pytest.mark.rule("C8")
async def test_dispose_is_safe_from_another_thread() -> None:
    ctx, gone = Context(), asyncio.Event()
    ctx.fiber.effect(gone.set)

    threading.Thread(target=ctx.dispose).start()
    await asyncio.wait_for(gone.wait(), 5)

    assert ctx.fiber.state == "disposed"


@pytest.mark.rule("C9")
async def test_dispose_leaves_no_task_file_or_thread() -> None:
    def count() -> tuple[int, int, int]:
        gc.collect()
        return len(asyncio.all_tasks()), threading.active_count(), len(os.listdir("/proc/self/fd"))

    before = count()
    ctx = Context()

    async def forever() -> None:
        with open(os.devnull) as file:  # noqa: ASYNC230 - the file is what is counted
            await asyncio.sleep(1000)
            file.read()

    def plugin(ctx: Context) -> None:
        ctx.spawn(forever(), "forever")
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()

        def join() -> None:
            stop.set()
            thread.join()

        ctx.fiber.effect(join)

    ctx.plugin(plugin)
    await asyncio.sleep(0)
    during = count()
    await ctx.dispose()

    assert during > before
    assert count() == before


async def test_failure_of_an_owned_task_is_reported() -> None:
    ctx, reported = Context(), asyncio.Queue[str]()
    ctx.on(CORE_ERROR, lambda error, doing: reported.put_nowait(f"{doing}: {error}"))

    async def broken() -> None:
        raise RuntimeError("lost")

    ctx.spawn(broken(), "worker")

    assert await reported.get() == "task worker: lost"


async def test_plugin_of_a_taken_name_replaces_when_the_context_says_so() -> None:
    ctx, seen = Context(replace_plugins=True), []

    def gate(ctx: Context) -> None:
        seen.append("up")
        ctx.fiber.effect(lambda: seen.append("down"))

    first = ctx.plugin(gate)
    second = ctx.plugin(gate)

    assert (first.state, second.state, seen) == ("disposed", "active", ["up", "down", "up"])
