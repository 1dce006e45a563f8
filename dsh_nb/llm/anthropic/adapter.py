"""The Messages API adapter: the official SDK for authentication, requests and transport.

Reads: llm.protocol, llm.anthropic.wire, llm.anthropic.stream. Feeds: notebook.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from dsh_nb.errors import LlmError, MissingKeyError
from dsh_nb.llm.anthropic.blocks import PROVIDER
from dsh_nb.llm.anthropic.stream import MessageStream
from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import Chunk

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream

__all__ = ["AnthropicModel", "Transport", "has_key"]

Transport = Literal["httpx", "aiohttp"]

_KEY_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
)
_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
_DRAIN_SECONDS = 0.25


def has_key() -> bool:
    """Whether the environment holds credentials that the SDK would find."""
    return any(os.environ.get(name) for name in _KEY_VARIABLES)


class AnthropicModel:
    """Speaks the Messages API.

    Args:
        api_key: The key; ``None`` to let the SDK find one in the environment. It is never shown,
            logged or part of an error.
        base_url: Another server that speaks the Messages API; ``None`` for the SDK's default.
            A server on this machine needs no key.
        timeout_seconds: Longest wait for the next bytes; ``None`` for the SDK's default.
        transport: ``"aiohttp"`` costs half the CPU when chunks come one by one; it needs
            ``pip install dsh-nb[aiohttp]``.
        cache: False to send no prompt-cache marks.
        images: False for a model that takes no pictures: it is told where one was.

    Raises:
        MissingKeyError: No key was given or found, and the server is not on this machine.
    """

    name = PROVIDER

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_seconds: float | None = None,
        transport: Transport = "httpx",
        cache: bool = True,
        images: bool = True,
    ) -> None:
        base = base_url or os.environ.get("ANTHROPIC_BASE_URL")
        if api_key is None and base is not None and urlsplit(base).hostname in _LOCAL:
            api_key = "none-needed"  # a real key of the environment has no business there
        if api_key is None and not has_key():
            raise MissingKeyError(
                "no key for the Messages API was given or found in ANTHROPIC_API_KEY; set it, pass "
                'api_key=, name a local server with base_url=, or use model="demo"'
            )
        self.base_url = base_url
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._transport = transport
        self._cache = cache
        self._images = images

    def __repr__(self) -> str:
        return f"<AnthropicModel {self.base_url or 'default server'}>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """The answer as chunks.

        A stream that is cut raises; one that just ends yields no finish.

        Raises:
            LlmError: The provider refused or failed (its error type is the ``code``), or the
                connection did (``CONNECTION``, ``TIMEOUT``).
        """
        client = await self._client()
        body = encode_request(request, cache=self._cache, images=self._images)
        response = await self._post(client, body)
        parts = MessageStream()
        try:
            _check_streamed(response.response.headers.get("content-type", ""))
            async for data in _bytes(response, parts):
                for chunk in parts.feed(data):
                    yield chunk
            for chunk in parts.close():
                yield chunk
        finally:
            await response.close()
        if parts.ended:
            yield parts.finish()

    async def close(self) -> None:
        """Close the connections that no other adapter on this loop uses; it may be used again."""
        clients = _clients.get(asyncio.get_running_loop(), {})
        held = clients.get(self._key())
        if held is None:
            return
        held.users.discard(id(self))
        if not held.users:
            del clients[self._key()]
            await held.client.close()

    async def _client(self) -> AsyncAnthropic:
        """The client of this loop, shared by all adapters for the same server and key."""
        if "anthropic" not in sys.modules:  # takes seconds, during which the kernel must live
            await asyncio.to_thread(importlib.import_module, "anthropic")
        clients = _clients.setdefault(asyncio.get_running_loop(), {})
        held = clients.get(self._key())
        if held is None:
            held = clients[self._key()] = _Held(self._make_client())
        held.users.add(id(self))
        return held.client

    def _key(self) -> tuple[object, ...]:
        return (self._api_key, self.base_url, self._transport, self._timeout_seconds)

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAioHttpClient

        options: dict[str, Any] = {"max_retries": 0}  # retrying is a plugin's, which logs it
        if self._timeout_seconds is not None:
            options["timeout"] = self._timeout_seconds
        if self._transport == "aiohttp":
            options["http_client"] = DefaultAioHttpClient()
        return AsyncAnthropic(api_key=self._api_key, base_url=self.base_url, **options)

    async def _post(self, client: AsyncAnthropic, body: bytes) -> AsyncStream[object]:
        """Send the request; the SDK's own stream object gives the bytes and closes them."""
        from anthropic import AnthropicError, APIConnectionError, APIStatusError, AsyncStream

        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        try:
            return await client.post(
                "/v1/messages",
                content=body,
                options={"headers": headers},
                cast_to=object,
                stream=True,
                stream_cls=AsyncStream[object],
            )
        except APIStatusError as error:
            raise _status_error(error) from error
        except APIConnectionError as error:
            raise _connection_error(error.__cause__ or error) from error
        except (AnthropicError, TypeError) as error:  # how the SDK says that it has no credentials
            raise MissingKeyError(f"the SDK refused the request: {error}") from error


class _Held:
    """A shared client and the adapters that use it."""

    def __init__(self, client: AsyncAnthropic) -> None:
        self.client = client
        self.users: set[int] = set()


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], _Held]] = (
    WeakKeyDictionary()
)


async def _bytes(response: AsyncStream[object], parts: MessageStream) -> AsyncIterator[bytes]:
    """The bytes of the body; after the message has stopped only a moment more is waited.

    A body that is read to its end leaves a connection that can be used again.
    """
    import httpx2

    data = response.response.aiter_bytes()
    try:
        async for piece in data:
            yield piece
            if parts.ended:
                break
    except httpx2.HTTPError as error:
        raise _connection_error(error) from error
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in data:
                pass
    except (TimeoutError, httpx2.HTTPError):
        pass  # the message is whole, what follows it does not matter


def _check_streamed(content_type: str) -> None:
    """Refuse an answer that is no stream; an odd or missing type may still be one.

    Raises:
        LlmError: It is a whole JSON answer or a web page (``BAD_STREAM``).
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/json", "text/html"):
        raise LlmError(
            f"the server answered with {kind} instead of a stream of events; base_url must be that "
            "of a server that speaks the Messages API and streams this model",
            code="BAD_STREAM",
        )


def _status_error(error: Any) -> LlmError:  # Any: APIStatusError, which is imported late
    message = error.api_message or str(error.message)
    code = str(error.type or f"HTTP_{error.status_code}")
    wait = error.response.headers.get("retry-after")
    blind = "image input is not supported" in message  # llama.cpp, of a model without eyes
    advice = "; pass images=False for a model that takes no pictures" if blind else ""
    return LlmError(
        f"the provider answered {error.status_code} ({code}): {message}{advice}",
        code=code,
        final=blind,
        status=error.status_code,
        retry_after_seconds=_seconds(wait),
    )


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


def _connection_error(error: BaseException) -> LlmError:
    what = type(error).__name__
    code = "TIMEOUT" if "Timeout" in what else "CONNECTION"
    return LlmError(
        f"the connection to the provider failed: {what}: {error}".rstrip(": "), code=code
    )
