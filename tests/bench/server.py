"""A fast Messages API server in a process of its own: whole bodies made beforehand.

The first segment of the path names the scenario; which step it is, is read off the request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

import uvloop

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_bench\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
WORDS = (
    "the quick brown fox jumps over a lazy dog and then it rests in the shade of an old tree"
).split()


def event(data: dict[str, object]) -> bytes:
    """One server-sent event."""
    text = json.dumps(data, separators=(",", ":"))
    return f"event: {data['type']}\ndata: {text}\n\n".encode()


def answer(deltas: int, calls: int, tag: str) -> list[bytes]:
    """The events of one answer: a text of `deltas` pieces, then `calls` calls of ``add``."""
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": f"msg_{tag}", "type": "message", "role": "assistant", "model": "claude-bench"}
    events = [
        event(
            {
                "type": "message_start",
                "message": {**message, "content": [], "stop_reason": None, "usage": usage},
            }
        )
    ]
    if deltas:
        events.append(_start(0, {"type": "text", "text": ""}))
        for n in range(deltas):
            text = f"{WORDS[n % len(WORDS)]} {WORDS[(n * 7) % len(WORDS)]} "
            events.append(_delta(0, {"type": "text_delta", "text": text}))
        events.append(event({"type": "content_block_stop", "index": 0}))
    for n in range(calls):
        index = n + bool(deltas)
        call: dict[str, object] = {
            "type": "tool_use",
            "id": f"toolu_{tag}_{n}",
            "name": "add",
            "input": {},
        }
        events.append(_start(index, call))
        for piece in ("", '{"a"', f": {n}", ', "b"', f": {n + 1}", "}"):
            events.append(_delta(index, {"type": "input_json_delta", "partial_json": piece}))
        events.append(event({"type": "content_block_stop", "index": index}))
    reason = "tool_use" if calls else "end_turn"
    events.append(
        event(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": deltas * 3 + calls * 20},
            }
        )
    )
    return [*events, event({"type": "message_stop"})]


def _start(index: int, block: dict[str, object]) -> bytes:
    return event({"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, delta: dict[str, object]) -> bytes:
    return event({"type": "content_block_delta", "index": index, "delta": delta})


SCENARIOS = {
    "empty": [answer(5, 0, "e")],
    "burst": [answer(2_000, 0, "b")],
    "long": [answer(20_000, 0, "l")],
    "agents": [answer(200, 0, "a")],
    "steps": [*(answer(14, 1, f"s{n}") for n in range(50)), answer(20, 0, "s50")],
}


class Connection(asyncio.Protocol):
    """One client: requests one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own is no subclass
        self.buffer = b""
        self.task: asyncio.Task[None] | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.index(b"content-length:") + 15
            length = int(head[at:].split(b"\r\n", 1)[0])
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            self.answer(head.split(b" ", 2)[1].decode(), body)

    def answer(self, path: str, body: bytes) -> None:
        scenario, _, mode = path.split("/")[1].partition(".")
        step = body.count(b'"role":"assistant"')
        steps = SCENARIOS[scenario]
        events = steps[min(step, len(steps) - 1)]
        if mode == "paced":
            self.task = asyncio.get_running_loop().create_task(self.paced(events))
            return
        whole = b"".join(events)
        self.transport.write(HEAD + b"%x\r\n" % len(whole) + whole + b"\r\n0\r\n\r\n")

    async def paced(self, events: list[bytes]) -> None:
        self.transport.write(HEAD)
        for one in events:
            self.transport.write(b"%x\r\n" % len(one) + one + b"\r\n")
            await asyncio.sleep(0.001)
        self.transport.write(b"0\r\n\r\n")


async def main() -> None:
    """Serve until the standard input ends; the port is printed first."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
