"""HTTP/1.1 for one connection of the fake server: requests in, replies out as they are scripted.

Reads: testing.replies. Feeds: testing.server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic

from dsh_nb.testing.replies import Hold, Reply

__all__ = ["Request", "Wire"]

_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in.

    Attributes:
        method: In upper case.
        path: With the query.
        headers: Names in lower case; keys of people are in it.
        raw: The bytes of the body.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    raw: bytes = field(repr=False)


class Wire:
    """One connection: HTTP/1.1 with keep-alive, bodies in chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._keep_alive = True
        # So that a drain waits until the system has all bytes, and a cut loses none of them.
        writer.transport.set_write_buffer_limits(high=0)

    async def request(self) -> Request | None:
        """The next request; ``None`` when the client has said that there is none."""
        if not self._keep_alive:
            return None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, path, *_ = [*first.split(" "), "", ""]
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self._keep_alive = headers.get("connection", "").lower() != "close"
        return Request(method, path, headers, await self._body(headers))

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
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _phrase(status: int) -> str:
    with suppress(ValueError):
        return HTTPStatus(status).phrase
    return "Overloaded"  # 529, which is the API's own
