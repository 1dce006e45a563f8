"""A Messages API on loopback that answers from a script and refuses what the API would refuse.

Reads: messages, testing.replies, testing.validator. Feeds: tests.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from time import monotonic

from dsh_nb.messages import JsonObject
from dsh_nb.testing.replies import Hold, Reply, blocks_in, reply
from dsh_nb.testing.validator import validate_request

__all__ = ["MessagesServer", "RecordedRequest", "Script"]

Answer = Callable[[JsonObject], Reply]
Script = Answer | Sequence[Reply | Answer]
"""One callable for all requests, or a reply or callable for each; it gets the request's body."""

_KEY_HEADERS = frozenset({"authorization", "x-api-key"})
_POLL_SECONDS = 0.005
_MODELS = ("claude-test", "claude-test-small")


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came in.

    Attributes:
        path: With the query.
        headers: Names in lower case; keys of people are masked.
        raw: The bytes of the body.
        body: The body as a JSON object; empty when it is none.
        problems: What `validate_request` found in it.
    """

    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: JsonObject
    problems: tuple[str, ...] = ()


class MessagesServer:
    """The fake API; serves inside ``with``, on a free port of 127.0.0.1 in a thread of its own.

    A request that breaks a rule, has no key or goes to an unknown path is answered with the API's
    error and uses up nothing of `script`. When the script is over, requests are answered 500.

    Args:
        script: The replies; see `Script`.
        strict: Whether requests that break a rule are refused, not only recorded.

    Attributes:
        requests: Every request so far, in order.

    Example:
        >>> with MessagesServer([reply.text("Hello")]) as server:
        ...     client = anthropic.AsyncAnthropic(api_key="x", base_url=server.base_url)
    """

    def __init__(self, script: Script, *, strict: bool = True) -> None:
        self.requests: list[RecordedRequest] = []
        self._answers = _answers(script)
        self._strict = strict
        self._sent: list[JsonObject] = []
        self._port: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="messages-server", daemon=True)

    def __enter__(self) -> MessagesServer:
        self._thread.start()
        self._port.result()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    @property
    def base_url(self) -> str:
        """Where it listens, without a path; asked for inside ``with``."""
        return f"http://127.0.0.1:{self._port.result()}"

    @property
    def problems(self) -> list[str]:
        """What was found wrong in all requests so far."""
        return [problem for request in self.requests for problem in request.problems]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._port.done():
                raise
            self._port.set_exception(error)  # the one who enters gets it

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        async with server:
            self._port.set_result(server.sockets[0].getsockname()[1])
            await self._closing.wait()
            # A connection accepted just now needs the open server for its transport, and then one
            # round of the loop for its task; closing any earlier would leak its socket.
            await asyncio.sleep(_POLL_SECONDS)
            server.close()
            await asyncio.sleep(0)
            for connection in self._connections:
                connection.cancel()
            if self._connections:
                await asyncio.wait(self._connections)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connection(_Wire(reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # Again, as a task that is cancelled before its first step runs no `finally`.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _connection(self, wire: _Wire) -> None:
        # A client that goes, in whatever way, is no error of the server.
        try:
            while request := await wire.request():
                if not await wire.answer(self._answer(request)):
                    break
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            await wire.close()

    def _answer(self, request: _Request) -> Reply:
        """The reply to `request`, with its body made; the request is recorded."""
        route = (request.method, request.path.partition("?")[0])
        body = _object(request.raw)
        problems: list[str] = []
        if not _KEY_HEADERS & request.headers.keys():
            answer = reply.error(401, "authentication_error", "x-api-key header is required")
        elif route == ("GET", "/v1/models"):
            answer = reply.raw(json.dumps(_models()).encode())
        elif route != ("POST", "/v1/messages"):
            answer = reply.error(404, "not_found_error", f"no such path: {' '.join(route)}")
        else:
            problems = validate_request(body, raw=request.raw, sent_blocks=self._sent)
            answer = self._checked(body, problems)
        self.requests.append(request.recorded(body, problems))
        return answer

    def _checked(self, body: JsonObject, problems: Sequence[str]) -> Reply:
        if problems and self._strict:
            return reply.error(400, "invalid_request_error", problems[0])
        try:
            answer = next(self._answers)(body)
        except StopIteration:
            return reply.error(500, "api_error", "the script is over; give it a reply for this")
        except Exception as error:  # a test's own code; the client shows its text
            return reply.error(500, "api_error", f"the script raised {error!r}")
        answer = _made(answer, body)
        self._sent += _blocks_sent(answer)
        return answer


def _answers(script: Script) -> Iterator[Answer]:
    if callable(script):
        while True:
            yield script
    for step in script:
        yield step if callable(step) else _always(step)


def _always(answer: Reply) -> Answer:
    return lambda _: answer


def _object(raw: bytes) -> JsonObject:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _models() -> JsonObject:
    listed = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
        for name in _MODELS
    ]
    return {"data": listed, "has_more": False, "first_id": _MODELS[0], "last_id": _MODELS[-1]}


def _made(answer: Reply, body: JsonObject) -> Reply:
    if answer.body is not None:
        return answer
    model = str(body.get("model"))
    if body.get("stream") is True:
        return replace(answer, body=b"".join(answer.events(model)))
    return replace(answer, body=json.dumps(answer.message(model)).encode())


def _blocks_sent(answer: Reply) -> list[JsonObject]:
    whole = _object(answer.body or b"")
    if whole:
        content = whole.get("content")
        return content if isinstance(content, list) else []
    events = answer.events()
    return blocks_in(events if answer.ending is None else events[: answer.ending[0]])


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes = field(repr=False)

    def recorded(self, body: JsonObject, problems: Sequence[str]) -> RecordedRequest:
        headers = {
            name: "***" if name in _KEY_HEADERS else value for name, value in self.headers.items()
        }
        return RecordedRequest(self.path, headers, self.raw, body, tuple(problems))


class _Wire:
    """One connection: HTTP/1.1 with keep-alive, bodies in chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._keep_alive = True
        # So that a drain waits until the system has all bytes, and a cut loses none of them.
        writer.transport.set_write_buffer_limits(high=0)

    async def request(self) -> _Request | None:
        """The next request; ``None`` when the client has said that there is none."""
        if not self._keep_alive:
            return None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, path, *_ = [*first.split(" "), "", ""]
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self._keep_alive = headers.get("connection", "").lower() != "close"
        return _Request(method, path, headers, await self._body(headers))

    async def answer(self, answer: Reply) -> bool:
        """Write `answer`; tell whether the connection can take another request."""
        head = _head(answer)
        for step in answer.writes(answer.events()):
            if isinstance(step, Hold):
                await self._hold(step)
            else:
                await self._write(head + b"%x\r\n%b\r\n" % (len(step), step))
                head = b""
        if answer.ending is not None and answer.ending[1] == "cut":
            self._writer.transport.abort()
            return False
        await self._write(head + b"0\r\n\r\n")
        return self._keep_alive

    async def close(self) -> None:
        """Let go of the socket; what was written has been drained, unless the client is gone."""
        self._writer.transport.abort()
        with suppress(OSError, asyncio.CancelledError):
            await self._writer.wait_closed()

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length") or 0))
        parts = []
        while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readuntil(b"\r\n")
        return b"".join(parts)

    async def _write(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()
        await asyncio.sleep(0)  # the client may be in this process; let it see each write

    async def _hold(self, hold: Hold) -> None:
        until = monotonic() + hold.seconds
        while monotonic() < until and not (hold.gate and hold.gate.is_set()):
            if self._reader.at_eof() or self._reader.exception() is not None:
                raise ConnectionResetError("the client is gone")
            await asyncio.sleep(min(_POLL_SECONDS, max(0.0, until - monotonic())))


def _head(answer: Reply) -> bytes:
    is_json = (answer.body or b"").startswith(b"{")
    headers = {
        "content-type": "application/json" if is_json else "text/event-stream; charset=utf-8",
        "transfer-encoding": "chunked",
        "request-id": f"req_{secrets.token_hex(12)}",
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _phrase(status: int) -> str:
    with suppress(ValueError):
        return HTTPStatus(status).phrase
    return "Overloaded"  # 529, which is the API's own
