"""Retry: which failures pass, how often and how long, and what stays of a failed attempt."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from dsh_nb.core import Context
from dsh_nb.errors import ConfigError, LlmError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.scripted import ScriptedModel, Step, call, cut, fail, finish, say
from dsh_nb.messages import (
    Chunk,
    Finish,
    FinishReason,
    Retry,
    TextBlock,
    TextDelta,
    Usage,
    UsageChunk,
)
from dsh_nb.plugins.retry import RetryConfig, retry
from dsh_nb.session.events import (
    AssistantChunk,
    AssistantMessage,
    SessionEvent,
    TurnEnd,
    TurnReason,
    UsageReport,
)
from dsh_nb.testing import TestAgent, running_agent

AT_ONCE = RetryConfig(attempts=3, first_delay_seconds=0)


class Failing:
    """A model that fails with each of `errors`, and then answers."""

    name = "failing"

    def __init__(self, *errors: LlmError) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        yield TextDelta(0, "ok")
        yield Finish(FinishReason("stop"))


@asynccontextmanager
async def retried(
    model: ScriptedModel | Failing, config: RetryConfig = AT_ONCE
) -> AsyncIterator[TestAgent]:
    def plugin(ctx: Context) -> None:
        retry(ctx, config)

    async with running_agent(model, plugins=[plugin]) as test:
        yield test


def retries(log: Sequence[SessionEvent]) -> list[Retry]:
    chunks = [one.data.chunk for one in log if isinstance(one.data, AssistantChunk)]
    return [chunk for chunk in chunks if isinstance(chunk, Retry)]


def ending(log: Sequence[SessionEvent]) -> TurnReason:
    return next(one.data.reason for one in reversed(log) if isinstance(one.data, TurnEnd))


@pytest.mark.rule("M7")
@pytest.mark.parametrize(
    "failed",
    [
        fail("busy", code="overloaded_error"),
        fail("busy", code="rate_limit_error"),
        fail("busy", code="api_error"),
        fail("busy", code="timeout_error"),
        fail("busy", code="CONNECTION"),
        fail("busy", code="TIMEOUT"),
        [say("so"), fail("busy", mid_block=True)],
        [say("so"), finish("error", message="busy", code="overloaded_error")],
        [call("add", a=1), cut()],
        cut(),
    ],
)
async def test_passing_failure_is_tried_again(failed: Step) -> None:
    model = ScriptedModel([failed, say("ok")])
    async with retried(model) as test:
        await test.say("hi")

        first, second = model.requests
        assert [first.messages, second.messages] == [first.messages] * 2
        assert [one.attempt for one in retries(test.log)] == [1]
        assert ending(test.log) == TurnReason("completed")


@pytest.mark.parametrize(
    "failed",
    [
        fail("bad", code="invalid_request_error"),
        fail("bad", code="authentication_error"),
        fail("bad", code="not_found_error"),
        fail("bad", code="request_too_large"),
        fail("bad", code="RECORDING"),
        [say("so"), finish("error", message="bad", code="invalid_request_error")],
        [say("so"), finish("error", message="bad")],
    ],
)
async def test_lasting_failure_is_not_tried_again(failed: Step) -> None:
    model = ScriptedModel([failed, say("ok")])
    async with retried(model) as test:
        await test.say("hi")

        assert (len(model.requests), retries(test.log)) == (1, [])
        assert (ending(test.log).kind, ending(test.log).message) == ("error", "bad")


@pytest.mark.parametrize(
    ("status", "calls"),
    [(s, 2) for s in (408, 429, 500, 502, 503, 504, 529)]
    + [(s, 1) for s in (400, 401, 403, 404, 409, 413, 422)],
)
async def test_status_tells_a_passing_failure_where_the_code_does_not(
    status: int, calls: int
) -> None:
    model = Failing(LlmError("failed", code="odd", status=status))
    async with retried(model) as test:
        await test.say("hi")

        assert model.calls == calls


async def test_aborted_answer_is_not_tried_again() -> None:
    model = ScriptedModel([[say("so"), finish("aborted")], say("ok")])
    async with retried(model) as test:
        await test.say("hi")

        assert (len(model.requests), ending(test.log).kind) == (1, "aborted")


async def test_other_exceptions_are_not_tried_again() -> None:
    model = ScriptedModel(lambda request: [].pop())
    async with retried(model) as test:
        await test.say("hi")

        assert (len(model.requests), retries(test.log)) == (1, [])
        assert ending(test.log).message == "pop from empty list"


@pytest.mark.rule("M4")
async def test_last_attempt_fails_the_turn_with_its_own_error() -> None:
    model = ScriptedModel([fail("one"), fail("two"), fail("three"), say("ok")])
    async with retried(model) as test:
        await test.say("hi")

        told = [(one.attempt, one.message, one.code) for one in retries(test.log)]
        assert told == [(1, "one", "overloaded_error"), (2, "two", "overloaded_error")]
        assert len(model.requests) == 3
        reason = TurnReason("error", message="three", code="overloaded_error")
        assert ending(test.log) == reason


async def test_one_attempt_means_no_retry() -> None:
    model = ScriptedModel([fail("one"), say("ok")])
    async with retried(model, RetryConfig(attempts=1)) as test:
        await test.say("hi")

        assert (len(model.requests), ending(test.log).message) == (1, "one")


async def test_what_a_failed_attempt_said_is_in_the_log_and_not_in_the_history() -> None:
    failed = [say("half of it"), call("gone", a=1), fail("busy")]
    model = ScriptedModel([failed, say("whole"), say("next")])
    async with retried(model) as test:
        await test.say("hi")
        await test.say("and now")

        said = [one.data.content for one in test.log if isinstance(one.data, AssistantMessage)]
        assert said == [(TextBlock("whole"),), (TextBlock("next"),)]
        assert "half" in "".join(
            one.data.chunk.text
            for one in test.log
            if isinstance(one.data, AssistantChunk) and isinstance(one.data.chunk, TextDelta)
        )
        shown = [block for message in model.requests[-1].messages for block in message.content]
        assert shown == [TextBlock("hi"), TextBlock("whole"), TextBlock("and now")]


@pytest.mark.rule("M6")
async def test_cost_of_a_failed_attempt_stays_in_the_log() -> None:
    class Costly(Failing):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            self.calls += 1
            yield UsageChunk(Usage(10 * self.calls, 1))
            if self.calls == 1:
                raise LlmError("busy", code="overloaded_error")
            yield TextDelta(0, "ok")
            yield Finish(FinishReason("stop"))

    async with retried(Costly()) as test:
        await test.say("hi")

        reports = [one.data for one in test.log if isinstance(one.data, UsageReport)]
        told = [(one.attempt, one.usage.input_tokens, one.interrupted) for one in reports]
        assert told == [(1, 10, True), (2, 20, False)]


async def test_wait_that_the_provider_asks_for_is_kept() -> None:
    asked = LlmError("slow", code="rate_limit_error", retry_after_seconds=0.05)
    async with retried(Failing(asked)) as test:
        begin = time.monotonic()
        await test.say("hi")

        assert [one.delay_seconds for one in retries(test.log)] == [0.05]
        assert time.monotonic() - begin >= 0.05


async def test_wait_that_is_longer_than_the_limit_is_not_begun() -> None:
    asked = LlmError("slow", code="rate_limit_error", retry_after_seconds=60)
    model = Failing(asked)
    async with retried(model) as test:
        await test.say("hi")

        assert (model.calls, retries(test.log)) == (1, [])
        assert ending(test.log).code == "rate_limit_error"


async def test_waits_grow_and_are_never_longer_than_the_limit() -> None:
    config = RetryConfig(attempts=5, first_delay_seconds=0.001, longest_delay_seconds=0.004)
    async with retried(Failing(*[LlmError("busy", code="TIMEOUT")] * 4), config) as test:
        await test.say("hi")

        first, second, third, fourth = (one.delay_seconds for one in retries(test.log))
        assert 0.001 <= first <= 0.0015
        assert 0.002 <= second <= 0.003
        assert (third, fourth) == (0.004, 0.004)


@pytest.mark.rule("L7")
async def test_abort_is_felt_at_once_during_the_wait() -> None:
    model = ScriptedModel([[say("half"), fail("busy")], say("ok")])
    async with retried(model, RetryConfig(first_delay_seconds=20)) as test:
        test.agent.send("hi")
        await test.until("assistant/chunk", 4)  # start, half, end, retry
        assert len(retries(test.log)) == 1
        begin = time.monotonic()
        test.agent.abort("enough")
        await test.idle()

        assert time.monotonic() - begin < 0.25
        assert ending(test.log) == TurnReason("aborted", reason="enough")
        assert not [one for one in test.log if isinstance(one.data, AssistantMessage)]
        assert len(model.requests) == 1


@pytest.mark.rule("C9")
async def test_closing_the_stream_closes_that_of_the_adapter() -> None:
    closed: list[str] = []

    class Endless(Failing):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            try:
                while True:
                    yield TextDelta(0, "on and ")
            finally:
                closed.append("closed")

    async with retried(Endless()) as test:
        stream = test.agent.llm.stream(ModelRequest("failing", ()))
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator

        assert closed == ["closed"]


@pytest.mark.rule("C3")
async def test_bad_config_is_refused_with_plugin_and_field() -> None:
    ctx = Context()

    good = await ctx.plugin(retry, {"attempts": 2})
    bad = ctx.plugin(retry, {"attempts": 0}, name="second")

    assert good.state == "active"
    with pytest.raises(ConfigError, match=r"second.*attempts") as caught:
        await bad
    assert (caught.value.plugin, caught.value.path) == ("second", "attempts")
    await ctx.dispose()
