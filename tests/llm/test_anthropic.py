"""The Messages API adapter, over real HTTP, against a server that is as strict as the API."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_nb.core import Context
from dsh_nb.errors import LlmError, MissingKeyError
from dsh_nb.llm.anthropic import AnthropicModel, encode_request
from dsh_nb.llm.anthropic.stream import MessageStream
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.rebuild import rebuild_requests
from dsh_nb.messages import (
    Finish,
    FinishReason,
    ImageBlock,
    Message,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    Usage,
    text_of,
)
from dsh_nb.plugins.retry import retry
from dsh_nb.session.assembler import BlockAssembler
from dsh_nb.session.check import check_log
from dsh_nb.session.events import ToolResult, TurnEnd, TurnReason
from dsh_nb.testing import MessagesServer, Reply, TestAgent, reply, running_agent

PNG = "iVBORw0KGgo="
DATA = Path(__file__).parent / "sse"
MODEL = "claude-test"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fast_retry(ctx: Context) -> None:
    """The retry plugin without its waits."""
    ctx.plugin(retry, {"first_delay_seconds": 0})


async def answer(script: Any, **options: Any) -> BlockAssembler:
    """What the adapter makes of the only reply of `script`."""
    assembler = BlockAssembler()
    with MessagesServer(script) as server:
        model = AnthropicModel(api_key="key-for-tests", base_url=server.base_url, **options)
        request = ModelRequest(MODEL, [Message("user", (TextBlock("hi"),))])
        try:
            async for chunk in model.stream(request):
                assembler.feed(chunk)
        finally:
            await model.close()
    return assembler


class Run:
    """An agent on the adapter, with the server beside it."""

    def __init__(self, test: TestAgent, server: MessagesServer) -> None:
        self.test, self.server = test, server

    @property
    def ending(self) -> TurnReason:
        found = [one.data for one in self.test.log if isinstance(one.data, TurnEnd)]
        return found[-1].reason

    @property
    def results(self) -> list[str]:
        found = [one.data for one in self.test.log if isinstance(one.data, ToolResult)]
        return [text_of(one.content) for one in found]


class run:  # noqa: N801 - used as a function
    """``async with run(script, tools=…) as one``: an agent against a scripted server."""

    def __init__(self, script: Any, *, images: bool = True, **how: Any) -> None:
        self.server = MessagesServer(script)
        self.images = images
        self.how = how

    async def __aenter__(self) -> Run:
        self.server.__enter__()
        self.model = AnthropicModel(
            api_key="key-for-tests", base_url=self.server.base_url, images=self.images
        )
        self.context = running_agent(self.model, model_name=MODEL, **self.how)
        return Run(await self.context.__aenter__(), self.server)

    async def __aexit__(self, *exception: Any) -> None:
        await self.context.__aexit__(None, None, None)
        await self.model.close()
        self.server.__exit__(None, None, None)


# -- A: assembly, and the end of a stream ------------------------------------------------------


@pytest.mark.rule("M2", "T3")
async def test_tool_input_in_one_byte_pieces_or_none_is_joined_and_run_once() -> None:
    given: list[Any] = []

    async def note(text: str) -> str:
        """Note it."""
        given.append(text)
        return "ok"

    async def ping() -> str:
        """Ping."""
        given.append("ping")
        return "pong"

    script = [
        reply.blocks(
            [
                {"type": "tool_use", "id": "t1", "name": "note", "input": {"text": "héllo"}},
                {"type": "tool_use", "id": "t2", "name": "ping", "input_json": ""},
            ],
            stop_reason="tool_use",
        ).split(1),
        reply.text("done"),
    ]
    async with run(script, tools=[note, ping]) as one:
        await one.test.say("hi")

        assert (given, one.ending.kind) == (["héllo", "ping"], "completed")
        assert one.server.problems == []


async def test_arguments_that_are_no_object_are_not_run_and_quoted_to_the_model() -> None:
    script = [
        reply.blocks(
            [
                {"type": "tool_use", "id": "t1", "name": "add", "input_json": '{"a": 1, oops'},
                {"type": "tool_use", "id": "t2", "name": "add", "input_json": "[1, 2]"},
            ],
            stop_reason="tool_use",
        ),
        reply.text("I see"),
    ]
    async with run(script, tools=[add]) as one:
        await one.test.say("hi")

        assert "not one JSON object: '{\"a\": 1, oops'" in one.results[0]
        assert "not one JSON object: '[1, 2]'" in one.results[1]
        assert (one.ending.kind, one.server.problems) == ("completed", [])


HALF = reply.blocks(
    [
        {"type": "text", "text": "I will write the file now."},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
    ],
    stop_reason="tool_use",
)


@pytest.mark.rule("L16")
@pytest.mark.parametrize("how", ["end", "cut"])
async def test_stream_that_stops_at_any_event_runs_no_tool_and_completes_no_turn(how: str) -> None:
    count = _events_of(HALF)
    for at in range(1, count):
        ended = HALF.end(after_events=at) if how == "end" else HALF.cut(after_events=at)
        async with run([ended, reply.text("fine")], tools=[add]) as one:
            await one.test.say("hi")
            failed = one.ending
            await one.test.say("again")

            assert failed.kind == "error", at
            assert failed.code in ("STREAM_ENDED", "CONNECTION"), at
            assert "tool/call" not in one.test.types, at
            assert (one.ending.kind, one.server.problems) == ("completed", []), at
            check_log(one.test.log, ended=True)


def _events_of(made: Reply) -> int:
    with MessagesServer([made]) as server:
        import urllib.request

        body = json.dumps(
            {
                "model": MODEL,
                "max_tokens": 9,
                "stream": True,
                "messages": [{"role": "user", "content": "hi"}],
            }
        ).encode()
        headers = {"x-api-key": "x", "anthropic-version": "1", "content-type": "application/json"}
        request = urllib.request.Request(f"{server.base_url}/v1/messages", body, headers)
        with urllib.request.urlopen(request) as response:
            return int(response.read().count(b"\n\n"))


@pytest.mark.parametrize("after", [0, 4])
async def test_overload_inside_a_200_is_told_by_its_type_and_tried_again(after: int) -> None:
    failing = reply.text("Here is the plan for you").error_event(after_events=after)
    script = [failing, reply.text("The whole answer")]
    async with run(script, plugins=[fast_retry]) as one:
        await one.test.say("hi")

        retries = [
            event.data.chunk
            for event in one.test.log
            if event.type == "assistant/chunk" and type(event.data.chunk).__name__ == "Retry"
        ]
        assert [chunk.code for chunk in retries] == ["overloaded_error"]
        assert [text_of(message.content) for message in one.test.agent.session.messages] == [
            "hi",
            "The whole answer",
        ]
        check_log(one.test.log, ended=True)


@pytest.mark.parametrize(
    "data",
    [
        {"code": 500, "message": "it does not parse", "type": "server_error"},  # llama.cpp
        {"error": {"message": "it does not parse", "type": "server_error"}},
        {"type": "error", "error": {"message": "it does not parse", "type": "server_error"}},
    ],
)
def test_error_event_tells_what_the_server_said_in_any_envelope(data: dict[str, Any]) -> None:
    record = f"event: error\ndata: {json.dumps(data)}\n\n".encode()

    with pytest.raises(LlmError, match=r"failed while it answered: it does not parse") as failed:
        list(MessageStream().feed(record))

    assert failed.value.code == "server_error"


@pytest.mark.parametrize("data", ["plain words", '"plain words"', "[1]"])
def test_error_event_of_another_form_is_still_an_error(data: str) -> None:
    with pytest.raises(LlmError, match=r"plain words|\[1\]"):
        list(MessageStream().feed(f"event: error\ndata: {data}\n\n".encode()))


async def test_overload_without_a_retry_is_never_a_finished_answer() -> None:
    async with run([reply.text("Here is").error_event(after_events=3)]) as one:
        await one.test.say("hi")

        assert (one.ending.kind, one.ending.code) == ("error", "overloaded_error")


async def test_pings_noise_and_odd_line_ends_leave_the_text_exact() -> None:
    text = "one\u2028two\u0085three é 😀"
    for noisy in (reply.text(text).with_pings(), reply.text(text).with_noise()):
        for pieces in (noisy, noisy.split(1), noisy.split(7)):
            assembled = await answer([pieces])

            assert text_of(assembled.blocks()) == text
            assert assembled.reason == FinishReason("stop")


async def test_unknown_block_is_kept_and_sent_back_untouched() -> None:
    odd: dict[str, Any] = {"type": "dream", "content": {"deep": [1, None]}}
    script = [
        reply.blocks([odd, {"type": "text", "text": "hello"}], stop_reason="end_turn"),
        reply.text("bye"),
    ]
    async with run(script) as one:
        await one.test.say("hi")
        await one.test.say("more")

        sent = one.server.requests[1].body["messages"][1]["content"]
        assert sent[0] == odd
        assert one.server.problems == []


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
async def test_recorded_bodies_pass_through_unchanged_in_meaning(name: str) -> None:
    body = (DATA / name).read_bytes()
    expected: dict[str, tuple[tuple[Any, ...], FinishReason, Usage]] = {
        "basic_response.txt": ((TextBlock("Hello there!"),), FinishReason("stop"), Usage(11, 6)),
        "tool_use_response.txt": (
            (
                TextBlock("I'll check the current weather in Paris for you."),
                ToolCallBlock(
                    "toolu_01NRLabsLyVHZPKxbKvkfSMn",
                    "get_weather",
                    '{"location": "Paris"}',
                    {"caller": {"type": "direct"}},
                ),
            ),
            FinishReason("tool-calls"),
            Usage(377, 65),
        ),
        "refusal_response.txt": (
            (TextBlock(""),),
            FinishReason(
                "refusal",
                "the model refused to answer: This request was refused due to policy.",
                "cyber",
            ),
            Usage(20, 0),
        ),
        "compaction_response.txt": (
            (
                OpaqueBlock(
                    "anthropic",
                    {
                        "type": "compaction",
                        "content": "Earlier conversation summarized.",
                        "encrypted_content": "EpwBCioIDxgCEAEYASJALd_opaque_compaction_payload",
                    },
                ),
                TextBlock("Hello there!"),
            ),
            FinishReason("stop"),
            Usage(30, 8),
        ),
    }
    for made in (reply.raw(body), reply.raw(body).split(1)):
        assembled = await answer([made])

        usage = assembled.usage
        assert usage is not None
        assert (assembled.blocks(), assembled.reason, usage.usage) == expected[name]


# -- B: stop reasons -----------------------------------------------------------------------------


@pytest.mark.rule("M3")
@pytest.mark.parametrize(
    ("reason", "kind", "code"),
    [
        ("end_turn", "completed", None),
        ("stop_sequence", "completed", None),
        ("max_tokens", "error", "MAX_TOKENS"),
        ("model_context_window_exceeded", "error", "MAX_TOKENS"),
        ("refusal", "error", "REFUSAL"),
        ("moon_phase", "error", "MOON_PHASE"),
        (None, "error", "STREAM_ENDED"),
    ],
)
async def test_every_stop_reason_has_its_ending(reason: Any, kind: str, code: str | None) -> None:
    blocks = [{"type": "text", "text": "so"}]
    async with run([reply.blocks(blocks, stop_reason=reason)]) as one:
        await one.test.say("hi")

        assert (one.ending.kind, one.ending.code) == (kind, code)


async def test_paused_turn_is_sent_back_unchanged_with_nothing_added() -> None:
    paused: list[dict[str, Any]] = [
        {"type": "text", "text": "Searching. "},
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "x"}},
    ]
    script = [reply.blocks(paused, stop_reason="pause_turn"), reply.text("Found it")]
    async with run(script) as one:
        await one.test.say("hi")

        last = one.server.requests[1].body["messages"][-1]
        assert last == {"role": "assistant", "content": paused}
        assert (one.ending.kind, one.server.problems) == ("completed", [])


async def test_paused_turn_whose_resumption_is_cut_does_not_poison_the_session() -> None:
    """A server's call without an answer once stayed in the history, and every request failed."""
    paused: list[dict[str, Any]] = [
        {"type": "text", "text": "Searching. "},
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "x"}},
    ]
    script = [
        reply.blocks(paused, stop_reason="pause_turn"),
        reply.text("Found it now").cut(after_events=4),
        reply.text("more"),
    ]
    async with run(script) as one:
        await one.test.say("hi")
        await one.test.say("again")

        assert (one.ending.kind, one.server.problems) == ("completed", [])


async def test_refused_exchange_is_visible_not_retried_and_not_sent_again() -> None:
    script = [reply.raw((DATA / "refusal_response.txt").read_bytes()), reply.text("Sure")]
    async with run(script, plugins=[fast_retry]) as one:
        await one.test.say("bad request")
        refused = one.ending
        await one.test.say("good request")

        assert "refused" in str(refused.message)
        assert "category cyber" in str(refused.message)
        assert len(one.server.requests) == 2
        assert "bad request" not in repr(one.server.requests[1].body)


# -- C: what is sent -----------------------------------------------------------------------------


@pytest.mark.rule("M1", "S5")
async def test_thinking_comes_back_byte_for_byte_also_after_a_resume() -> None:
    script = [
        reply.blocks(
            [
                {"type": "thinking", "thinking": "", "signature": "c2lnLTE="},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
            ],
            stop_reason="tool_use",
        ),
        reply.thinking("so it is", text="3"),
        reply.text("bye"),
    ]
    with MessagesServer(script) as server:
        model = AnthropicModel(api_key="key-for-tests", base_url=server.base_url)
        async with running_agent(model, model_name=MODEL, tools=[add]) as test:
            await test.say("hi")
            seed = test.log
        async with running_agent(model, model_name=MODEL, tools=[add], seed=seed) as test:
            await test.say("again")
            log = test.log
        await model.close()

        sent = server.requests[2].body["messages"][1]["content"]
        assert sent[0] == {"type": "thinking", "thinking": "", "signature": "c2lnLTE="}
        assert sent[1] == {"type": "redacted_thinking", "data": "b3BhcXVl"}
        assert server.problems == []
        rebuilt = [encode_request(step.request) for step in rebuild_requests(log)]
        assert rebuilt == [request.raw for request in server.requests]


async def test_tools_and_system_are_the_same_bytes_each_time_and_marks_are_at_most_four() -> None:
    script = [reply.calls(("add", {"a": n, "b": n})) for n in range(4)] + [reply.text("done")]
    from dsh_nb.agent.agent_loop import AgentOptions

    options = AgentOptions(system_prompt="Be brief.")
    async with run(script, tools=[add], options=options) as one:
        await one.test.say("hi")

        heads = {json.dumps([r.body["system"], r.body["tools"]]) for r in one.server.requests}
        marks = [r.raw.count(b"cache_control") for r in one.server.requests]
        assert (len(heads), max(marks), marks[0]) == (1, 4, 3)
        assert one.server.problems == []


@pytest.mark.rule("M1")
def test_marks_asked_for_by_many_are_kept_from_the_end() -> None:
    messages = [
        Message("user" if n % 2 == 0 else "assistant", (TextBlock(f"m{n}", cache=True),))
        for n in range(7)
    ]
    tools = tuple(ToolSchema(name, name, {"type": "object"}) for name in ("b", "a"))

    body = json.loads(encode_request(ModelRequest(MODEL, messages, "system", tools)))

    marked = [one["content"][0]["text"] for one in body["messages"] if "cache_control" in repr(one)]
    assert marked == ["m3", "m4", "m5", "m6"]
    assert [one["name"] for one in body["tools"]] == ["a", "b"]
    assert "cache_control" not in repr(body["tools"]) + repr(body["system"])


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        ("/9j/4AAQ", "image/jpeg"),
        ("R0lGODlh", "image/gif"),
        ("UklGRgAAAABXRUJQ", "image/webp"),
    ],
)
def test_image_is_sent_as_what_its_bytes_say(data: str, kind: str) -> None:
    message = Message("user", (ImageBlock(f"data:image/jpg;base64,{data}", "image/jpg"),))

    body = json.loads(encode_request(ModelRequest(MODEL, [message])))

    assert body["messages"][0]["content"][0]["source"]["media_type"] == kind


def test_image_that_cannot_be_sent_becomes_text() -> None:
    message = Message("user", (ImageBlock("data:image/bmp;base64,Qk0="), TextBlock("look")))

    body = json.loads(encode_request(ModelRequest(MODEL, [message])))

    assert body["messages"][0]["content"][0]["type"] == "text"


def see() -> ImageBlock:
    """Look."""
    return ImageBlock(f"data:image/png;base64,{PNG}", "image/png")


async def test_model_that_takes_no_pictures_is_told_where_one_was() -> None:
    script = [reply.calls(("see", {})), reply.text("I see")]
    async with run(script, tools=[see], images=False) as one:
        await one.test.say("look")
        body = one.server.requests[-1].body
        (result,) = body["messages"][-1]["content"]
        logged = one.test.agent.session.messages[-2].content[0]

    said = [{"type": "text", "text": "[a picture, which the user sees and this model cannot]"}]
    assert (result["type"], result["content"]) == ("tool_result", said)
    assert isinstance(logged, ToolResultBlock)
    assert isinstance(logged.content[0], ImageBlock)


def test_pictures_in_a_prompt_are_named_and_the_rest_is_sent_as_it_is() -> None:
    picture = ImageBlock(f"data:image/png;base64,{PNG}", "image/png")
    messages = [Message("user", (TextBlock("look"), picture))]

    body = json.loads(encode_request(ModelRequest(MODEL, messages), cache=False, images=False))
    whole = json.loads(encode_request(ModelRequest(MODEL, messages), cache=False))

    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "text"]
    assert [block["type"] for block in whole["messages"][0]["content"]] == ["text", "image"]


async def test_server_that_takes_no_pictures_is_not_asked_again_and_what_to_do_is_said() -> None:
    failing = reply.error(500, "server_error", "image input is not supported - hint: mmproj")
    async with run([failing, reply.text("never")], plugins=[fast_retry]) as one:
        await one.test.say("hi")

        assert len(one.server.requests) == 1
        assert (one.ending.message or "").endswith(
            "pass images=False for a model that takes no pictures"
        )


@pytest.mark.rule("M1")
def test_unsealed_thinking_and_foreign_blocks_are_left_out() -> None:
    said = (ReasoningBlock("hm"), OpaqueBlock("other", {"type": "x"}), TextBlock("hello"))
    messages = [Message("user", (TextBlock("hi"),)), Message("assistant", said)]

    body = json.loads(encode_request(ModelRequest(MODEL, messages), cache=False))

    assert body["messages"][1]["content"] == [{"type": "text", "text": "hello"}]


async def test_lone_surrogate_in_a_stream_does_not_poison_the_session() -> None:
    raw = (DATA / "basic_response.txt").read_bytes().replace(b" there", b"\\ud83d there")
    async with run([reply.raw(raw), reply.text("fine")]) as one:
        await one.test.say("hi")
        await one.test.say("again")

        assert text_of(one.test.agent.session.messages[1].content) == "Hello\ufffd there!"
        assert (one.ending.kind, one.server.problems) == ("completed", [])


# -- E: usage and failures ------------------------------------------------------------------------


@pytest.mark.rule("M6")
async def test_usage_is_set_by_the_newest_report_and_never_summed() -> None:
    made = reply.blocks([{"type": "text", "text": "x"}], stop_reason="end_turn")
    from dataclasses import replace

    made = replace(
        made,
        usage={"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5},
        usage_steps=(
            {"output_tokens": 7},
            {
                "output_tokens": 15,
                "input_tokens": 30,
                "output_tokens_details": {"thinking_tokens": 4},
            },
        ),
    )

    assembled = await answer([made])

    assert assembled.usage is not None
    assert assembled.usage.usage == Usage(30, 11, 5, 0, 4)


async def test_interrupted_attempt_keeps_its_last_numbers_and_is_flagged() -> None:
    script = [reply.text("Hello you there").cut(after_events=4), reply.text("Hello")]
    async with run(script, plugins=[fast_retry]) as one:
        await one.test.say("hi")

        usage = [event.data for event in one.test.log if event.type == "usage"]
        assert [(one.attempt, one.interrupted) for one in usage] == [(1, True), (2, False)]
        assert len({one.message_id for one in usage}) == 2


@pytest.mark.parametrize(
    ("status", "type", "tries"),
    [
        (400, "invalid_request_error", 1),
        (401, "authentication_error", 1),
        (529, "overloaded_error", 4),
        (429, "rate_limit_error", 4),
    ],
)
async def test_providers_error_is_shown_and_the_session_goes_on(
    status: int, type: str, tries: int
) -> None:
    failing = reply.error(status, type, "please mind the gap")
    async with run([failing] * tries + [reply.text("ok")], plugins=[fast_retry]) as one:
        await one.test.say("hi")
        failed = one.ending
        await one.test.say("again")

        assert "please mind the gap" in str(failed.message)
        assert (failed.code, one.ending.kind) == (type, "completed")
        assert len(one.server.requests) == tries + 1
        assert "key-for-tests" not in repr(one.test.log) + repr(one.server.requests)


async def test_retry_after_longer_than_the_limit_is_not_waited_for() -> None:
    failing = reply.error(429, "rate_limit_error", "slow down", headers={"retry-after": "999"})
    async with run([failing], plugins=[fast_retry]) as one:
        await one.test.say("hi")

        assert one.ending.code == "rate_limit_error"


async def test_answer_that_is_no_stream_is_told_as_such_and_not_tried_again() -> None:
    async with run([reply.error(200, "message", "whole")], plugins=[fast_retry]) as one:
        await one.test.say("hi")

        assert one.ending.code == "BAD_STREAM"
        assert "application/json instead of a stream" in str(one.ending.message)
        assert len(one.server.requests) == 1


async def test_server_that_is_not_there_is_a_connection_error() -> None:
    model = AnthropicModel(api_key="k", base_url="http://127.0.0.1:9")
    request = ModelRequest(MODEL, [Message("user", (TextBlock("x"),))])
    with pytest.raises(LlmError, match="connection to the provider failed") as caught:
        await _drain(model.stream(request))
    await model.close()

    assert caught.value.code == "CONNECTION"


@pytest.mark.parametrize("transport", ["httpx", "aiohttp"])
async def test_silent_server_is_a_timeout_and_a_stopped_stream_frees_its_connection(
    transport: Any,
) -> None:
    stalled = reply.text("Hello you").stall(after_events=3, seconds=30)
    with pytest.raises(LlmError, match="failed") as caught:
        await answer([stalled], timeout_seconds=0.2, transport=transport)

    assert caught.value.code == "TIMEOUT"


@pytest.mark.parametrize("transport", ["httpx", "aiohttp"])
async def test_both_transports_stream_cut_and_cancel_alike(transport: Any) -> None:
    whole = await answer([reply.text("Hello you there").split(5)], transport=transport)
    cut = await _failure(reply.text("Hello you there").cut(after_events=4), transport)
    held = threading.Event()
    with MessagesServer([reply.text("Hello you").gate(held)]) as server:
        model = AnthropicModel(api_key="k", base_url=server.base_url, transport=transport)
        request = ModelRequest(MODEL, [Message("user", (TextBlock("hi"),))])
        task = asyncio.ensure_future(_drain(model.stream(request)))
        await asyncio.sleep(0.1)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=1)
        held.set()
        await model.close()

    assert text_of(whole.blocks()) == "Hello you there"
    assert cut == "CONNECTION"
    assert done == {task}
    assert task.cancelled()


async def _drain(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


async def _failure(made: Reply, transport: Any) -> str:
    with pytest.raises(LlmError) as caught:
        await answer([made], transport=transport)
    return caught.value.code


async def test_connection_is_used_again_for_the_next_step() -> None:
    script = [reply.calls(("add", {"a": 1, "b": 1})), reply.text("done")]
    async with run(script, tools=[add]) as one:
        await one.test.say("hi")

        assert one.server.connections == 1


def test_missing_key_is_told_at_once_and_a_local_server_needs_none() -> None:
    with pytest.raises(MissingKeyError, match="ANTHROPIC_API_KEY; set it, pass api_key="):
        AnthropicModel()
    local = AnthropicModel(base_url="http://localhost:11434")

    assert repr(local) == "<AnthropicModel http://localhost:11434>"


def test_key_is_never_shown() -> None:
    model = AnthropicModel(api_key="sk-secret")

    assert "sk-secret" not in repr(model)
    assert Finish(FinishReason("stop")).reason.kind == "stop"


# -- everything at once ------------------------------------------------------------------------


def _replies() -> st.SearchStrategy[Reply]:
    whole = st.sampled_from(
        [
            reply.text("An answer of some words"),
            reply.thinking("let me think", text="It is so"),
            reply.calls(("add", {"a": 1, "b": 2}), ("broken", {})),
            reply.calls(("broken", {}), text="I try"),
            reply.calls(("missing", {"x": 1})),
            reply.blocks([{"type": "text", "text": " "}], stop_reason="end_turn"),
            reply.blocks(
                [{"type": "tool_use", "id": "tx", "name": "add", "input_json": '{"a"'}],
                stop_reason="max_tokens",
            ),
        ]
    )
    hurt = st.sampled_from(
        [
            lambda one: one,
            lambda one: one,
            lambda one: one.cut(after_events=5),
            lambda one: one.end(after_events=4),
            lambda one: one.error_event(after_events=3),
            lambda one: one.split(11),
        ]
    )
    return st.builds(lambda made, how: how(made), whole, hurt)


@pytest.mark.rule("S7")
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    actions=st.lists(
        st.sampled_from(["say", "steer", "abort", "inject", "resume"]), min_size=2, max_size=8
    ),
    replies=st.lists(_replies(), min_size=1, max_size=12),
)
def test_no_request_of_a_random_session_is_one_that_the_api_refuses(
    actions: list[str], replies: list[Reply]
) -> None:
    asyncio.run(_random_session(actions, replies))


async def _random_session(actions: list[str], replies: list[Reply]) -> None:
    async def broken() -> None:
        """Fail."""
        raise ValueError("broken on purpose")

    pending = [*replies]

    def script(body: dict[str, Any]) -> Reply:
        return pending.pop(0) if pending else reply.text("That is all")

    seed: Any = ()
    with MessagesServer(script) as server:
        model = AnthropicModel(api_key="k", base_url=server.base_url)
        for part in _parts(actions):
            async with running_agent(
                model, model_name=MODEL, tools=[add, broken], plugins=[fast_retry], seed=seed
            ) as test:
                for action in part:
                    await _act(test, action)
                await test.idle()
                seed = test.log
                check_log(seed, ended=True)
        await model.close()

        assert server.problems == []
        rebuilt = [encode_request(step.request) for step in rebuild_requests(seed)]
        sent = [request.raw for request in server.requests]
        assert set(rebuilt) <= set(sent)


def _parts(actions: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for action in actions:
        if action == "resume":
            parts.append([])
        else:
            parts[-1].append(action)
    return parts


async def _act(test: TestAgent, action: str) -> None:
    if action == "abort":
        test.agent.abort("random")
    elif action == "inject":
        test.agent.inject("a note")
    else:
        act: Callable[[str], str] = test.agent.send if action == "say" else test.agent.steer
        act(action)
    for _ in range(3):
        await asyncio.sleep(0.001)
