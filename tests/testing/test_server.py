"""Tests of the fake Messages API, through the SDK that people use and through bare sockets."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import anthropic
import httpx2
import pytest
from anthropic.types import ContentBlockParam, Message, MessageParam

from dsh_nb.messages import JsonObject
from dsh_nb.testing.clock import FakeClock
from dsh_nb.testing.replies import Reply, reply
from dsh_nb.testing.server import MessagesServer, RecordedRequest
from dsh_nb.testing.sse import blocks_in

VERSION = {"anthropic-version": "2023-06-01"}
HI: list[MessageParam] = [{"role": "user", "content": "Hi"}]
WORDS = "Grüße, \u2028 \u0085 \U0001f600 und “mehr”"
RECORDED = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    b'"role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: ping\ndata: {"type": "ping"}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Hello"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn",'
    b'"stop_sequence":null},"usage":{"output_tokens":6}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}'
)


@asynccontextmanager
async def client_of(server: MessagesServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        api_key="x", base_url=server.base_url, max_retries=0
    ) as client:
        yield client


async def stream(client: anthropic.AsyncAnthropic, messages: list[MessageParam] = HI) -> Message:
    async with client.messages.stream(model="m", max_tokens=9, messages=messages) as events:
        return await events.get_final_message()


async def answer_to(script: Reply) -> Message:
    with MessagesServer([script]) as server:
        async with client_of(server) as client:
            return await stream(client)


async def bytes_from(server: MessagesServer) -> bytes:
    async with httpx2.AsyncClient() as client:
        answer = await client.post(
            f"{server.base_url}/v1/messages",
            headers={"x-api-key": "secret", "Authorization": "Bearer secret", **VERSION},
            json={"model": "m", "max_tokens": 9, "messages": HI, "stream": True},
        )
        return answer.content


def blocks_of(message: Message) -> list[JsonObject]:
    return [block.model_dump(exclude_unset=True) for block in message.content]


async def test_reply_comes_as_a_stream_or_as_a_whole() -> None:
    script = reply.blocks(
        [{"type": "text", "text": WORDS}, *reply.calls(("add", {"a": 1})).blocks],
        stop_reason="tool_use",
    )
    with MessagesServer([script, script]) as server:
        async with client_of(server) as client:
            streamed = await stream(client)
            whole = await client.messages.create(model="m", max_tokens=9, messages=HI)

    assert blocks_of(streamed) == blocks_of(whole) == list(script.blocks)
    assert (streamed.model, streamed.stop_reason) == (whole.model, whole.stop_reason)
    assert streamed.usage.output_tokens == whole.usage.output_tokens == 5
    assert streamed.id != whole.id
    assert server.problems == []


def test_text_comes_in_so_many_pieces() -> None:
    events = reply.text("Hello", pieces=4).events()

    assert [event.split(b'"text": ')[1] for event in events if b"text_delta" in event] == [
        b'"He"}}\n\n',
        b'"ll"}}\n\n',
        b'"o"}}\n\n',
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "x", "citations": [{"type": "other", "cited_text": "y"}]},
        {"type": "thinking", "thinking": "", "signature": "c2VhbA=="},
        {"type": "thinking", "thinking": "long thought", "signature": "c2VhbA=="},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": {"type": "direct"}},
        {"type": "server_tool_use", "id": "t", "name": "n", "input": {"q": WORDS}},
        {"type": "web_search_tool_result", "tool_use_id": "t", "content": []},
        {"type": "of_tomorrow", "payload": {"a": [1]}},
    ],
)
def test_block_is_the_same_after_its_events(block: JsonObject) -> None:
    assert blocks_in(reply.blocks([block]).with_noise().events()) == [block]


def test_tool_input_may_be_broken_json() -> None:
    script = reply.calls(("add", '{"a": '), text="So")

    assert b'{\\"a' in b"".join(script.events())
    assert [block.get("input") for block in blocks_in(script.events())] == [None, {}]


@pytest.mark.parametrize(
    "disturb",
    [
        lambda script: script.split(1),
        lambda script: script.split(7),
        lambda script: script.split(seed=3).with_pings(),
        lambda script: script.with_pings(),
        lambda script: script.pace(0.001),
        lambda script: script.stall(after_events=2, seconds=0.001),
    ],
)
async def test_way_of_the_bytes_changes_nothing(disturb: Callable[[Reply], Reply]) -> None:
    script = reply.thinking("Hm", text=WORDS)

    message = await answer_to(disturb(script))

    assert blocks_of(message) == list(script.blocks)


def test_split_cuts_inside_a_character() -> None:
    script = reply.text("\U0001f600").split(3)

    writes = list(script.writes(script.events()))

    assert {len(write) for write in writes[:-1] if isinstance(write, bytes)} == {3}
    with pytest.raises(UnicodeDecodeError):
        [write.decode() for write in writes if isinstance(write, bytes)]


async def test_noise_is_all_that_a_client_must_skip() -> None:
    script = reply.thinking("Hm", text=WORDS)
    with MessagesServer([script.with_noise().with_pings().split(seed=5)]) as server:
        body = await bytes_from(server)

    assert blocks_in([body]) == list(script.blocks)
    assert body.count(b"event: ping\r\n") == len(script.events())
    assert b"\n" not in body.replace(b"\r\n", b"")
    assert b"\r\n: a comment\r\n" in body
    assert b"data: sunny, {not JSON" in body
    assert body.endswith(b"data: [DONE]\r\n\r\n")


async def test_recorded_body_is_answered_byte_for_byte() -> None:
    with MessagesServer([reply.raw(RECORDED)]) as server:
        body = await bytes_from(server)

    assert body == RECORDED
    assert blocks_in(reply.raw(RECORDED).events()) == [{"type": "text", "text": "Hello"}]
    [request] = server.requests
    assert (request.path, request.problems) == ("/v1/messages", ())
    assert (request.headers["x-api-key"], request.headers["authorization"]) == ("***", "***")
    assert request.body["messages"] == HI
    assert request.raw.startswith(b'{"model":"m"')


async def test_usage_steps_are_told_one_after_the_other() -> None:
    script = Reply(
        blocks=({"type": "text", "text": "x"},),
        usage_steps=({"output_tokens": 3}, {"output_tokens": 8}),
        stop_reason="of_tomorrow",
    )

    message = await answer_to(script)

    assert (message.stop_reason, message.usage.output_tokens) == ("of_tomorrow", 8)
    assert sum(b"event: message_delta" in event for event in script.events()) == 2


async def test_refusal_tells_its_details() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    message = await answer_to(reply.blocks([], stop_reason="refusal", stop_details=details))

    assert message.stop_reason == "refusal"
    assert message.to_dict()["stop_details"] == details


async def test_error_comes_with_its_status_and_headers() -> None:
    script = reply.error(529, "overloaded_error", "Overloaded", {"retry-after": "7"})

    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as caught:
        await answer_to(script)

    assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (529, "7")


async def test_error_event_raises_in_the_stream() -> None:
    with pytest.raises(anthropic.APIStatusError, match="too many") as caught:
        await answer_to(reply.text("x").error_event(3, "rate_limit_error", "too many"))

    assert caught.value.status_code == 200


@pytest.mark.parametrize("after_events", [0, 1, 4])
async def test_cut_breaks_the_body(after_events: int) -> None:
    with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
        await answer_to(reply.text("x").cut(after_events))


async def test_end_is_clean_without_message_stop() -> None:
    message = await answer_to(reply.text("Hello", pieces=1).end(after_events=3))

    assert (blocks_of(message), message.stop_reason) == ([{"type": "text", "text": "Hello"}], None)


async def test_gate_holds_the_next_event() -> None:
    gate = threading.Event()
    script = reply.text("ab", pieces=2).gate(gate, after_events=3)
    texts = []
    with MessagesServer([script]) as server:
        async with (
            client_of(server) as client,
            client.messages.stream(model="m", max_tokens=9, messages=HI) as events,
        ):
            async for text in events.text_stream:
                texts.append((text, gate.is_set()))
                gate.set()

    assert texts == [("a", False), ("b", True)]


async def test_stall_lasts_until_the_client_goes() -> None:
    script = reply.text("x").stall(after_events=1, seconds=3600)
    with MessagesServer([script, reply.text("y")]) as server:
        async with client_of(server) as client:
            async with client.messages.stream(model="m", max_tokens=9, messages=HI) as events:
                await anext(aiter(events))
            message = await stream(client)

    assert blocks_of(message) == [{"type": "text", "text": "y"}]


@pytest.mark.parametrize("stage", ["connected", "half a request", "half a reply"])
def test_server_closes_in_the_middle(stage: str) -> None:
    request = (
        b"POST /v1/messages HTTP/1.1\r\nx-api-key: x\r\nanthropic-version: 1\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n\r\n"
    )
    before = threading.active_count()
    with socket.socket() as bare:
        with MessagesServer([reply.text("x").stall(1, 3600)], strict=False) as server:
            bare.connect(("127.0.0.1", int(server.base_url.rpartition(":")[2])))
            if stage == "half a request":
                bare.sendall(request[:-5])
            elif stage == "half a reply":
                bare.sendall(request)
                bare.recv(1)

        assert threading.active_count() == before
        assert len(server.requests) == (stage == "half a reply")


async def test_script_gives_one_reply_for_each_request() -> None:
    def echo(body: JsonObject) -> Reply:
        return reply.text(body["messages"][0]["content"])

    def broken(body: JsonObject) -> Reply:
        raise KeyError("oops")

    with MessagesServer([reply.text("one"), echo, broken]) as server:
        async with client_of(server) as client:
            one, two = await stream(client), await stream(client)
            with pytest.raises(anthropic.InternalServerError, match="oops"):
                await stream(client)
            with pytest.raises(anthropic.InternalServerError, match="the script is over"):
                await stream(client)

    assert [blocks_of(one), blocks_of(two)] == [
        [{"type": "text", "text": "one"}],
        [{"type": "text", "text": "Hi"}],
    ]
    assert server.problems == [
        "script: the script raised KeyError('oops')",
        "script: the script is over; give it a reply for this request",
    ]
    assert [len(request.problems) for request in server.requests] == [0, 0, 1, 1]


async def test_callable_that_gives_no_reply_is_a_problem_of_the_script() -> None:
    script = cast("Callable[[JsonObject], Reply]", lambda body: "Hello")  # as a test may err
    with MessagesServer(script) as server:
        async with client_of(server) as client:
            with pytest.raises(anthropic.InternalServerError, match="not a Reply"):
                await stream(client)

    [problem] = server.problems
    assert problem.startswith("script: the script raised TypeError(")


async def test_server_serves_inside_async_with() -> None:
    async with MessagesServer([reply.text("Hello")]) as server, client_of(server) as client:
        message = await stream(client)

    assert blocks_of(message) == [{"type": "text", "text": "Hello"}]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server.base_url.rpartition(":")[2])))
    assert all(thread.name != "messages-server" for thread in threading.enumerate())


async def test_tokens_are_counted_by_the_same_rules_and_without_the_script() -> None:
    longer: list[MessageParam] = [{"role": "user", "content": "Hi " * 100}]
    async with MessagesServer([reply.text("x")]) as server, client_of(server) as client:
        few = await client.messages.count_tokens(model="m", messages=HI)
        many = await client.messages.count_tokens(model="m", messages=longer)
        with pytest.raises(anthropic.BadRequestError, match="text must not be blank"):
            await client.messages.count_tokens(
                model="m", messages=[{"role": "user", "content": " "}]
            )
        await stream(client)

    assert 0 < few.input_tokens < many.input_tokens
    assert server.problems == ["messages.0.content: text must not be blank"]


async def test_request_id_is_in_the_headers_and_in_the_body_of_an_error() -> None:
    script = [reply.text("x"), reply.error(529, "overloaded_error", "Overloaded")]
    body = {"model": "m", "max_tokens": 9, "messages": HI}
    with MessagesServer(script) as server:
        async with httpx2.AsyncClient(headers={"x-api-key": "x", **VERSION}) as client:
            whole, failed, refused = [
                await client.post(f"{server.base_url}/v1/messages", json=one)
                for one in (body, body, {})
            ]

    ids = [answer.headers["request-id"] for answer in (whole, failed, refused)]
    assert "request_id" not in whole.json()
    assert [answer.json()["request_id"] for answer in (failed, refused)] == ids[1:]
    assert len(set(ids)) == 3


async def test_request_id_of_a_scripted_error_is_kept() -> None:
    script = reply.error(500, "api_error", "no", {"request-id": "req_1"})
    with MessagesServer([script]) as server:
        async with client_of(server) as client:
            with pytest.raises(anthropic.InternalServerError, match="'request_id': 'req_1'"):
                await stream(client)


async def test_one_callable_answers_all_requests_on_one_connection() -> None:
    with MessagesServer(lambda body: reply.text("again")) as server:
        async with client_of(server) as client:
            messages = [await stream(client) for _ in range(3)]

    assert len({message.id for message in messages}) == 3
    assert server.connections == 1


async def test_connection_of_each_client_is_counted() -> None:
    with MessagesServer(lambda body: reply.text("again")) as server:
        for _ in range(2):
            async with client_of(server) as client:
                await stream(client)

    assert server.connections == 2


async def test_request_that_breaks_a_rule_is_refused_and_uses_no_reply() -> None:
    with MessagesServer([reply.text("x")]) as server:
        async with client_of(server) as client:
            with pytest.raises(anthropic.BadRequestError, match="text must not be blank"):
                await stream(client, [{"role": "user", "content": " "}])
            await stream(client)

    assert server.problems == ["messages.0.content: text must not be blank"]
    assert [request.problems for request in server.requests] == [
        ("messages.0.content: text must not be blank",),
        (),
    ]


async def test_lenient_server_only_records_what_is_wrong() -> None:
    with MessagesServer([reply.text("x")], strict=False) as server:
        async with client_of(server) as client:
            await stream(client, [{"role": "user", "content": " "}])

    assert server.problems == ["messages.0.content: text must not be blank"]


@pytest.mark.parametrize("cut", [False, True])
async def test_thinking_is_taken_back_when_all_of_it_was_sent(cut: bool) -> None:
    script = reply.thinking("Hm", text="Hello")
    [seal] = [block["signature"] for block in script.blocks if "signature" in block]
    content = cast("list[ContentBlockParam]", list(script.blocks))  # wire dicts, as typed ones
    back: list[MessageParam] = [
        *HI,
        {"role": "assistant", "content": content},
        {"role": "user", "content": "Go on"},
    ]
    with MessagesServer([script.end(5) if cut else script, reply.text("x")]) as server:
        async with client_of(server) as client:
            await stream(client)
            with suppress(anthropic.BadRequestError):
                await stream(client, back)

    assert len(base64.b64decode(seal, validate=True)) == 48
    assert server.problems == (
        ["messages.1.content.0: the thinking block was never sent so"] if cut else []
    )


async def test_paths_keys_and_versions_are_checked() -> None:
    with MessagesServer([]) as server:
        async with httpx2.AsyncClient(base_url=server.base_url) as client:
            key = {"authorization": "Bearer x"}
            answers = [
                await client.get("/v1/models?limit=2", headers={**key, **VERSION}),
                await client.get("/v1/messages", headers=key),
                await client.post("/v1/messages", json={}),
                await client.post("/v1/messages", headers=key, json={}),
            ]

    assert [answer.status_code for answer in answers] == [200, 404, 401, 400]
    assert [model["id"] for model in answers[0].json()["data"]] == [
        "claude-test",
        "claude-test-small",
    ]
    assert [answer.json()["error"] for answer in answers[1:]] == [
        {"type": "not_found_error", "message": "no such path: GET /v1/messages"},
        {"type": "authentication_error", "message": "x-api-key header is required"},
        {"type": "invalid_request_error", "message": "anthropic-version: header is required"},
    ]
    assert [request.path for request in server.requests] == [
        "/v1/models?limit=2",
        "/v1/messages",
        "/v1/messages",
        "/v1/messages",
    ]


async def test_body_in_chunks_is_read_whole() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b'{"model": "m", "max_tokens": 9, ', b'"messages": []', b"}"):
            yield chunk
            await asyncio.sleep(0)

    with MessagesServer([]) as server:
        async with httpx2.AsyncClient(base_url=server.base_url) as client:
            await client.post(
                "/v1/messages", content=chunks(), headers={"x-api-key": "x", **VERSION}
            )

    assert [(request.body, request.problems) for request in server.requests] == [
        (
            {"model": "m", "max_tokens": 9, "messages": []},
            ("messages: at least one message is required",),
        )
    ]


def test_recorded_request_is_equal_to_its_like() -> None:
    assert RecordedRequest("/", {}, b"", {}) == RecordedRequest("/", {}, b"", {}, ())


def test_clock_goes_on_by_itself_and_by_hand() -> None:
    clock = FakeClock(start_ms=100, step_ms=2)
    first = clock()
    clock.advance(1.5)

    assert (first, clock(), clock()) == (100, 1602, 1604)
