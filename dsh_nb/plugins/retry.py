"""Retry: a model call that failed for a passing reason is made again, and the log says so.

Reads: core, messages, llm. Feeds: notebook.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

from pydantic import BaseModel, ConfigDict, Field

from dsh_nb.core import Context, ProceedPipe
from dsh_nb.errors import LlmError
from dsh_nb.llm.protocol import ModelRequest, closing, failure_of
from dsh_nb.llm.service import LLM_STREAM
from dsh_nb.messages import Chunk, Finish, FinishReason, Retry

__all__ = ["RetryConfig", "retry"]

_PASSING = {
    "overloaded_error",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "CONNECTION",
    "TIMEOUT",
    "STREAM_ENDED",
}
_PASSING_STATUS = {408, 429, 500, 502, 503, 504, 529}


class RetryConfig(BaseModel):
    """How a failed call is made again.

    Attributes:
        attempts: How many times in all.
        first_delay_seconds: The wait after the first failure; it doubles, with jitter upwards.
        longest_delay_seconds: The longest wait; a provider that asks for more is not waited for.
    """

    model_config = ConfigDict(extra="forbid")
    attempts: int = Field(default=4, ge=1)
    first_delay_seconds: float = Field(default=0.5, ge=0)
    longest_delay_seconds: float = Field(default=30.0, ge=0)


def retry(ctx: Context, config: RetryConfig) -> None:
    """Listen to ``llm/stream``: a failed attempt becomes a `Retry` chunk and another attempt.

    What the failed attempt streamed is withdrawn by the chunk; its cost stays in the log. Which
    failures pass is told from the provider's error type, for an overload may come inside a 200.
    """

    async def attempts(request: ModelRequest, proceed: ProceedPipe[Chunk]) -> AsyncIterator[Chunk]:
        attempt = 1
        while True:
            reason: FinishReason | None = None
            try:
                async with closing(proceed.again()()) as chunks:
                    async for chunk in chunks:
                        if type(chunk) is Finish:
                            reason = chunk.reason
                            _raise_failed(reason)
                        yield chunk
                _raise_failed(reason)
                return
            except LlmError as error:
                delay = _delay(config, attempt, error)
                if delay is None:
                    raise
                yield Retry(attempt, str(error), error.code, delay)
                await asyncio.sleep(delay)
                attempt += 1

    ctx.on(LLM_STREAM, attempts)


retry.Config = RetryConfig  # type: ignore[attr-defined]  # a plugin's declaration


def _raise_failed(reason: FinishReason | None) -> None:
    """Raise what the stream failed with; an abort is nobody's failure and passes."""
    error = failure_of(reason)
    if error is not None and (reason is None or reason.kind == "error"):
        raise error


def _delay(config: RetryConfig, attempt: int, error: LlmError) -> float | None:
    """How long to wait before the next attempt; None when there is none."""
    passing = error.code in _PASSING or error.status in _PASSING_STATUS
    if attempt >= config.attempts or error.final or not passing:
        return None
    asked = error.retry_after_seconds or 0.0
    if asked > config.longest_delay_seconds:
        return None
    growing: float = config.first_delay_seconds * 2.0 ** (attempt - 1)
    jittered = growing * (1 + random.random() / 2)
    return max(asked, min(jittered, config.longest_delay_seconds))
