"""The scripted model: what a script says, and how it ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import cast

import pytest

from dsh_nb.errors import LlmError
from dsh_nb.llm.protocol import Adapter, ModelRequest
from dsh_nb.llm.scripted import (
    ScriptedModel,
    Step,
    call,
    cut,
    fail,
    finish,
    pause,
    say,
    think,
)
from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    Message,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    UsageChunk,
    text_of,
)

REQUEST = ModelRequest("scripted", (Message("user", (TextBlock("Hello you"),)),))


async def played(model: Adapter, request: ModelRequest = REQUEST) -> list[Chunk]:
    return [chunk async for chunk in model.stream(request)]


def joined(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def blocks(chunks: list[Chunk]) -> list[object]:
    return [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)]


@pytest.mark.rule("M2")
async def test_step_becomes_blocks_then_usage_then_finish() -> None:
    model = ScriptedModel([[think("Hm."), "Yes.", call("add", a=2)]])

    chunks = await played(model)

    assert chunks == [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "Hm."),
        BlockEnd(0, ReasoningBlock("Hm.")),
        BlockStart(1, "text"),
        TextDelta(1, "Yes."),
        BlockEnd(1, TextBlock("Yes.")),
        BlockStart(2, "tool-call", "call_1", "add"),
        ToolCallDelta(2, "call_1", '{"a":'),
        ToolCallDelta(2, "call_1", " 2}"),
        BlockEnd(2, ToolCallBlock("call_1", "add", '{"a": 2}')),
        UsageChunk(
            Usage(input_tokens=3, output_tokens=4, reasoning_tokens=1), model="scripted"
        ),
        Finish(FinishReason("tool-calls")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "step", ["Hi there.", say("Hi there."), ["Hi ", "there."], (say("Hi there."),)]
)
async def test_step_may_be_text_a_part_or_several(step: Step) -> None:
    chunks = await played(ScriptedModel([step]))

    assert joined(chunks) == "Hi there."
    assert chunks[-1] == Finish(FinishReason("stop"))


async def test_each_request_consumes_one_step() -> None:
    model = ScriptedModel(["one", "two"])

    texts = [joined(await played(model)) for _ in range(2)]

    assert texts == ["one", "two"]


async def test_script_that_ran_out_says_so() -> None:
    model = ScriptedModel(["one"], name="demo-1")
    await played(model)

    with pytest.raises(LlmError, match="script of model 'demo-1' has 1 steps and all") as caught:
        await played(model)

    assert caught.value.code == "SCRIPT_ENDED"


async def test_function_gives_the_step_of_its_request() -> None:
    model = ScriptedModel(lambda request: text_of(request.messages[-1].content).upper())

    assert joined(await played(model)) == "HELLO YOU"


async def test_async_function_gives_the_step_of_its_request() -> None:
    async def script(request: ModelRequest) -> Step:
        await asyncio.sleep(0)
        return [f"{request.model} ", "answers"]

    assert joined(await played(ScriptedModel(script))) == "scripted answers"


async def test_requests_are_kept_even_of_failed_steps() -> None:
    model = ScriptedModel([fail("busy"), "fine"])
    second = ModelRequest("other", ())

    with pytest.raises(LlmError, match="busy"):
        await played(model)
    await played(model, second)

    assert model.requests == [REQUEST, second]


async def test_call_ids_are_unique_over_the_life_of_a_model() -> None:
    model = ScriptedModel([[call("a"), call("a")], call("a")])

    ids = [cast("ToolCallBlock", b).id for _ in range(2) for b in blocks(await played(model))]

    assert ids == ["call_1", "call_2", "call_3"]


@pytest.mark.parametrize("text", ["", '{"a": 1, broken', '{"a":  1}\n'])
async def test_call_keeps_raw_arguments_as_they_are(text: str) -> None:
    chunks = await played(ScriptedModel([call("add", arguments_text=text)]))

    deltas = [chunk.arguments_delta for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert "".join(deltas) == text
    assert blocks(chunks) == [ToolCallBlock("call_1", "add", text)]


def test_call_with_two_kinds_of_arguments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'add' has arguments_text and arguments \['b'\]"):
        call("add", arguments_text="{}", b=1)


def test_call_with_arguments_that_are_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match=r"arguments\.a is a set"):
        call("add", a={1})


@pytest.mark.rule("M3")
async def test_finish_names_its_own_reason() -> None:
    chunks = await played(ScriptedModel([["Half", finish("max-tokens", message="full")]]))

    assert chunks[-1] == Finish(FinishReason("max-tokens", "full"))
    assert isinstance(chunks[-2], UsageChunk)


@pytest.mark.rule("M4")
async def test_fail_raises_after_what_was_said() -> None:
    model = ScriptedModel([["Well", fail("too busy", code="rate_limit_error")]])
    seen: list[Chunk] = []

    async def listen() -> None:
        async for chunk in model.stream(REQUEST):
            seen.append(chunk)

    with pytest.raises(LlmError, match="too busy") as caught:
        await listen()

    assert caught.value.code == "rate_limit_error"
    assert seen == [BlockStart(0, "text"), TextDelta(0, "Well"), BlockEnd(0, TextBlock("Well"))]


async def test_cut_ends_without_usage_or_finish() -> None:
    chunks = await played(ScriptedModel([["Well", cut()]]))

    assert chunks == [BlockStart(0, "text"), TextDelta(0, "Well"), BlockEnd(0, TextBlock("Well"))]


async def test_cut_in_mid_block_leaves_the_block_open() -> None:
    chunks = await played(ScriptedModel([["Well", pause(0), cut(mid_block=True)]]))

    assert chunks == [BlockStart(0, "text"), TextDelta(0, "Well")]


@pytest.mark.parametrize("end", [finish("stop"), fail("no"), cut()])
def test_step_that_goes_on_after_its_end_is_refused(end: Step) -> None:
    with pytest.raises(ValueError, match="step goes on after"):
        ScriptedModel([[cast("str", end), "more"]])


def test_script_that_is_one_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"script is 'Hello'; pass a list"):
        ScriptedModel("Hello")


def test_step_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="step has 3; use texts and parts"):
        ScriptedModel([[cast("str", 3)]])


async def test_cancelling_is_felt_at_once_and_leaves_nothing() -> None:
    model = ScriptedModel([["Well", pause(3600)], "next"])
    reached = asyncio.Event()

    async def listen() -> None:
        async with aclosing(model.stream(REQUEST)) as stream:
            async for _ in stream:
                reached.set()

    task = asyncio.create_task(listen())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert joined(await played(model)) == "next"


async def test_closing_a_stream_early_leaves_the_model_usable() -> None:
    model = ScriptedModel(["a long text here", "next"])
    stream = model.stream(REQUEST)

    first = await anext(stream)
    await stream.aclose()

    assert first == BlockStart(0, "text")
    assert joined(await played(model)) == "next"


async def test_long_text_gives_others_a_turn() -> None:
    model = ScriptedModel(["word " * 200])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await played(model)
    counting.cancel()

    assert 5 < turns < 30


def test_repr_does_not_show_the_requests() -> None:
    assert repr(ScriptedModel([])) == "ScriptedModel('scripted', 0 requests)"
