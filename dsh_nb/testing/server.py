"""A Messages API on loopback that answers from a script and refuses what the API would refuse.

Reads: messages, testing.replies, testing.validator, testing.wire. Feeds: tests.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import NamedTuple

from dsh_nb.messages import JsonObject
from dsh_nb.testing.replies import Reply, reply
from dsh_nb.testing.sse import blocks_in, encode_json
from dsh_nb.testing.validator import validate_request
from dsh_nb.testing.wire import Request, Wire

__all__ = ["MessagesServer", "RecordedRequest", "Script"]

Answer = Callable[[JsonObject], Reply]
Script = Answer | Sequence[Reply | Answer]
"""One callable for all requests, or a reply or callable for each; it gets the request's body."""

_KEY_HEADERS = frozenset({"authorization", "x-api-key"})
_POLL_SECONDS = 0.005
_MODELS = ("claude-test", "claude-test-small")
_MESSAGES_PATH = "/v1/messages"
_COUNT_PATH = "/v1/messages/count_tokens"
_MODELS_PATH = "/v1/models"
_ROUTES = frozenset({("POST", _MESSAGES_PATH), ("POST", _COUNT_PATH), ("GET", _MODELS_PATH)})
_BYTES_OF_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came in.

    Attributes:
        path: With the query.
        headers: Names in lower case; keys of people are masked.
        raw: The bytes of the body.
        body: The body as a JSON object; empty when it is none.
        problems: What `validate_request` found in it, or what went wrong in the script.
    """

    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: JsonObject
    problems: tuple[str, ...] = ()


class _Answered(NamedTuple):
    reply: Reply
    problems: list[str]


class MessagesServer:
    """The fake API; serves inside ``with``, on a free port of 127.0.0.1 in a thread of its own.

    Messages are answered from `script`; tokens are counted (crudely) and models listed without it.
    A request that breaks a rule, has no key or version or goes to an unknown path is answered with
    the API's error and uses up nothing of `script`. When the script is over or raises, that is
    a problem, too, and the request is answered 500.

    Args:
        script: The replies; see `Script`.
        strict: Whether requests that break a rule are refused, not only recorded.

    Attributes:
        requests: Every request so far, in order.
        connections: How many TCP connections it has accepted so far.

    Example:
        >>> async with MessagesServer([reply.text("Hello")]) as server:
        ...     client = anthropic.AsyncAnthropic(api_key="x", base_url=server.base_url)
    """

    def __init__(self, script: Script, *, strict: bool = True) -> None:
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self._answers = _answers(script)
        self._strict = strict
        self._sent: list[list[JsonObject]] = []
        self._port: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="messages-server", daemon=True)

    def __enter__(self) -> MessagesServer:
        self._thread.start()
        self._port.result()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    async def __aenter__(self) -> MessagesServer:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    @property
    def base_url(self) -> str:
        """Where it listens, without a path; asked for inside ``with``."""
        return f"http://127.0.0.1:{self._port.result()}"

    @property
    def problems(self) -> list[str]:
        """What was found wrong in all requests so far, and in the script when it was asked."""
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
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._connection(Wire(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Again, as a task that is cancelled before its first step runs no `finally`.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _connection(self, wire: Wire) -> None:
        # A client that goes, in whatever way, is no error of the server.
        try:
            while request := await wire.request():
                if not await wire.answer(self._answer(request)):
                    break
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            await wire.close()

    def _answer(self, request: Request) -> Reply:
        """The reply to `request`, with its body made; the request is recorded."""
        body = _object(request.raw)
        problems: list[str] = []
        answer = _refusal(request)
        if answer is None:
            answer, problems = self._accepted(request, body)
        self.requests.append(_recorded(request, body, problems))
        return _with_request_id(answer)

    def _accepted(self, request: Request, body: JsonObject) -> _Answered:
        """The reply to a request that goes where it may go, and its problems."""
        path = _route(request)[1]
        if path == _MODELS_PATH:
            return _Answered(reply.raw(encode_json(_models())), [])
        counting = path == _COUNT_PATH
        problems = validate_request(
            body, raw=request.raw, sent_messages=self._sent, counting=counting
        )
        if problems and self._strict:
            return _Answered(reply.error(400, "invalid_request_error", problems[0]), problems)
        if counting:
            count = reply.raw(encode_json({"input_tokens": _tokens(request.raw)}))
            return _Answered(count, problems)
        return self._scripted(body, problems)

    def _scripted(self, body: JsonObject, problems: list[str]) -> _Answered:
        """The next reply of the script."""
        try:
            answer = _made(next(self._answers)(body), body)
        except StopIteration:
            problem = "the script is over; give it a reply for this request"
        except Exception as error:  # a test's own code; the client shows its text
            problem = f"the script raised {error!r}"
        else:
            self._sent.append(_blocks_sent(answer))
            return _Answered(answer, problems)
        return _Answered(reply.error(500, "api_error", problem), [*problems, f"script: {problem}"])


def _answers(script: Script) -> Iterator[Answer]:
    if callable(script):
        while True:
            yield script
    for step in script:
        yield step if callable(step) else _always(step)


def _always(answer: Reply) -> Answer:
    return lambda _: answer


def _refusal(request: Request) -> Reply | None:
    """The error for a request whose body does not matter."""
    route = _route(request)
    if not _KEY_HEADERS & request.headers.keys():
        return reply.error(401, "authentication_error", "x-api-key header is required")
    if route not in _ROUTES:
        return reply.error(404, "not_found_error", f"no such path: {' '.join(route)}")
    if not request.headers.get("anthropic-version"):
        return reply.error(400, "invalid_request_error", "anthropic-version: header is required")
    return None


def _route(request: Request) -> tuple[str, str]:
    return request.method, request.path.partition("?")[0]


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


def _tokens(raw: bytes) -> int:
    """A crude count, which grows with the request."""
    return -(-len(raw) // _BYTES_OF_A_TOKEN)


def _made(answer: object, body: JsonObject) -> Reply:
    if not isinstance(answer, Reply):
        raise TypeError(f"a callable gave {answer!r}, not a Reply; make one with reply")
    if answer.body is not None:
        return answer
    model = str(body.get("model"))
    if body.get("stream") is True:
        return replace(answer, body=b"".join(answer.events(model)))
    return replace(answer, body=encode_json(answer.message(model)))


def _with_request_id(answer: Reply) -> Reply:
    """`answer` with an id in its headers, and in the body of an error that has none."""
    body = _object(answer.body or b"")
    name = body.get("request_id") or f"req_{secrets.token_hex(12)}"
    headers = {"request-id": name, **answer.headers}
    if answer.status < HTTPStatus.BAD_REQUEST or body.get("type") != "error":
        return replace(answer, headers=headers)
    named = body | {"request_id": headers["request-id"]}
    return replace(answer, headers=headers, body=encode_json(named))


def _blocks_sent(answer: Reply) -> list[JsonObject]:
    whole = _object(answer.body or b"")
    if whole:
        content = whole.get("content")
        return content if isinstance(content, list) else []
    events = answer.events()
    end = len(events) if answer.ending is None else answer.ending[0]
    return blocks_in(events[:end], with_open_text=True)


def _recorded(request: Request, body: JsonObject, problems: Sequence[str]) -> RecordedRequest:
    headers = {
        name: "***" if name in _KEY_HEADERS else value for name, value in request.headers.items()
    }
    return RecordedRequest(request.path, headers, request.raw, body, tuple(problems))
