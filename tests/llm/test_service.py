"""The LLM service: adapters by name, and the ways to call a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from dsh_nb.core import Context, Proceed, ProceedPipe
from dsh_nb.errors import DisposedError, DuplicateAdapterError, LlmError, NoAdapterError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.scripted import Step, call, cut, fail, finish, say, think
from dsh_nb.llm.service import (
    LLM,
    LLM_ADAPTER_CHANGE,
    LLM_GENERATE,
    LLM_STREAM,
    Answer,
    LlmService,
)
from dsh_nb.messages import (
    Block,
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    Usage,
    UsageChunk,
)
from dsh_nb.testing import ScriptedModel

REQUEST = ModelRequest("scripted", ())


@pytest.fixture
async def llm() -> AsyncIterator[LlmService]:
    ctx = Context()
    await ctx.plugin(LlmService)
    yield ctx.get(LLM)
    await ctx.dispose()


def scripted(llm: LlmService, *steps: Step) -> LlmService:
    """`llm` with a model that plays `steps`."""
    llm.register(ScriptedModel(steps), ["scripted"])
    return llm


class Plain:
    """An adapter whose stream is an iterator without a way to close it."""

    name = "plain"

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = chunks

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        return _Chunks(iter(self.chunks))


class _Chunks:
    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self.chunks = chunks

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> Chunk:
        for chunk in self.chunks:
            return chunk
        raise StopAsyncIteration


@pytest.mark.rule("M7")
def test_model_without_an_adapter_is_told_with_the_nearest_name(llm: LlmService) -> None:
    llm.register(ScriptedModel([]), ["claude-sonnet-4-5", "scripted"])

    with pytest.raises(NoAdapterError, match="did you mean 'claude-sonnet-4-5'") as caught:
        llm.adapter("claude-sonet-4-5")
    assert caught.value.code == "NO_ADAPTER"


@pytest.mark.rule("M7")
async def test_model_unlike_any_is_told_with_all_there_are(llm: LlmService) -> None:
    llm.register(ScriptedModel([]), ["b", "a-*"])

    with pytest.raises(
        NoAdapterError,
        match=r"no adapter serves model 'scripted'; there are \['a-\*', 'b'\], or register one",
    ):
        await llm.generate(REQUEST)


@pytest.mark.rule("M7")
def test_registering_a_taken_name_registers_nothing(llm: LlmService) -> None:
    llm.register(ScriptedModel([], name="first"), ["a"])

    with pytest.raises(
        DuplicateAdapterError, match="model 'a' has an adapter already, 'first'"
    ) as caught:
        llm.register(ScriptedModel([], name="second"), ["b", "a"])
    assert (caught.value.code, llm.models()) == ("DUPLICATE_ADAPTER", ["a"])


@pytest.mark.rule("M7")
def test_naming_a_model_twice_registers_nothing(llm: LlmService) -> None:
    with pytest.raises(DuplicateAdapterError, match="model 'a'"):
        llm.register(ScriptedModel([]), ["b", "a", "a"])
    assert llm.models() == []


@pytest.mark.parametrize(
    ("model", "served_by"),
    [("claude-x", "exact"), ("claude-y", "long"), ("clone", "short"), ("other", "any")],
)
def test_exact_name_wins_over_a_pattern_and_a_long_pattern_over_a_short_one(
    llm: LlmService, model: str, served_by: str
) -> None:
    for name, pattern in [
        ("any", "*"),
        ("long", "claude-*"),
        ("exact", "claude-x"),
        ("short", "cl*"),
    ]:
        llm.register(ScriptedModel([], name=name), [pattern])

    assert llm.adapter(model).name == served_by


@pytest.mark.rule("C4", "M7")
def test_disposer_takes_the_adapter_back_once_and_tells(llm: LlmService) -> None:
    told: list[list[str]] = []
    llm.ctx.on(LLM_ADAPTER_CHANGE, lambda: told.append(llm.models()))
    undo = llm.register(ScriptedModel([]), ["a", "b"])

    undo()
    llm.register(ScriptedModel([]), ["a"])
    undo()

    assert told == [["a", "b"], [], ["a"]]


@pytest.mark.rule("C4")
async def test_adapter_goes_with_the_fiber_that_registered_it(llm: LlmService) -> None:
    def provider(ctx: Context) -> None:
        llm.register(ScriptedModel([]), ["a"], ctx=ctx)

    fiber = llm.ctx.plugin(provider)
    there = llm.models()
    await fiber.dispose()

    assert (there, llm.models()) == (["a"], [])


@pytest.mark.rule("C4")
async def test_registering_for_a_fiber_that_is_gone_registers_nothing(llm: LlmService) -> None:
    fiber = llm.ctx.plugin(lambda ctx: None, name="gone")
    await fiber.dispose()

    with pytest.raises(DisposedError, match="plugin 'gone' is disposed"):
        llm.register(ScriptedModel([]), ["a"], ctx=fiber.ctx)
    assert llm.models() == []


def test_one_name_may_be_given_as_it_is(llm: LlmService) -> None:
    llm.register(ScriptedModel([]), "scripted")

    assert llm.models() == ["scripted"]


@pytest.mark.rule("C4")
def test_names_added_to_the_callers_list_later_are_not_taken_back(llm: LlmService) -> None:
    names = ["a"]
    undo = llm.register(ScriptedModel([]), names)
    llm.register(ScriptedModel([]), ["b"])

    names.append("b")
    undo()

    assert llm.models() == ["b"]


@pytest.mark.rule("M5")
async def test_blocks_come_in_stream_order(llm: LlmService) -> None:
    scripted(llm, [think("hm"), "Look.", call("add", a=1)])

    blocks = [block async for block in llm.stream_blocks(REQUEST)]

    assert blocks == [
        ReasoningBlock("hm"),
        TextBlock("Look."),
        ToolCallBlock("call_1", "add", '{"a": 1}'),
    ]


async def test_blocks_that_nobody_wants_any_more_close_the_stream(llm: LlmService) -> None:
    closed: list[str] = []

    class Long:
        name = "long"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            try:
                yield BlockEnd(0, TextBlock("one"))
                yield BlockEnd(1, TextBlock("two"))
            finally:
                closed.append("closed")

    llm.register(Long(), ["scripted"])
    blocks = llm.stream_blocks(REQUEST)

    first = await anext(blocks)
    await blocks.aclose()  # type: ignore[attr-defined]  # an async generator

    assert (first, closed) == (TextBlock("one"), ["closed"])


async def test_answer_has_blocks_reason_and_usage(llm: LlmService) -> None:
    scripted(llm, [say("four"), finish("refusal", message="no")])

    answer = await llm.generate(REQUEST)

    usage = UsageChunk(Usage(0, 1), model="scripted")
    assert answer == Answer((TextBlock("four"),), FinishReason("refusal", "no"), usage)


async def test_answer_of_an_adapter_that_says_no_usage_has_none(llm: LlmService) -> None:
    llm.register(Plain(TextDelta(0, "hi"), Finish(FinishReason("stop"))), ["scripted"])

    assert await llm.generate(REQUEST) == Answer((TextBlock("hi"),), FinishReason("stop"))


FAILURES: list[tuple[Step, str, str]] = [
    ([say("so"), fail("too busy")], "too busy", "overloaded_error"),
    (fail("too busy", code="x"), "too busy", "x"),
    ([say("so"), finish("error", message="broke", code="api_error")], "broke", "api_error"),
    (finish("error"), "the model call ended with error", "ERROR"),
    ([say("so"), finish("aborted")], "the model call ended with aborted", "ABORTED"),
    ([say("so"), cut()], "ended before the answer was complete", "STREAM_ENDED"),
    ([say("so"), cut(mid_block=True)], "ended before the answer was complete", "STREAM_ENDED"),
]


@pytest.mark.rule("M4")
@pytest.mark.parametrize(("step", "text", "code"), FAILURES)
async def test_failed_call_is_no_answer(llm: LlmService, step: Step, text: str, code: str) -> None:
    scripted(llm, step)

    with pytest.raises(LlmError, match=text) as caught:
        await llm.generate(REQUEST)
    assert caught.value.code == code


@pytest.mark.rule("M4")
@pytest.mark.parametrize(("step", "text", "code"), FAILURES)
async def test_failed_stream_of_blocks_raises_after_what_came_whole(
    llm: LlmService, step: Step, text: str, code: str
) -> None:
    scripted(llm, step)
    blocks: list[Block] = []

    async def collect() -> None:
        async for block in llm.stream_blocks(REQUEST):
            blocks.append(block)

    with pytest.raises(LlmError, match=text) as caught:
        await collect()
    assert caught.value.code == code
    assert set(blocks) <= {TextBlock("so")}


@pytest.mark.rule("M7")
async def test_generate_passes_both_waterfalls_from_the_outside_in(llm: LlmService) -> None:
    seen: list[str] = []

    async def whole(request: ModelRequest, proceed: Proceed[Answer]) -> Answer:
        seen.append(f"generate {request.model}")
        return await proceed(ModelRequest("scripted", ()))

    async def pieces(request: ModelRequest, proceed: ProceedPipe[Chunk]) -> AsyncIterator[Chunk]:
        seen.append(f"stream {request.model}")
        async for chunk in proceed():
            yield chunk

    scripted(llm, "hi").ctx.on(LLM_GENERATE, whole)
    llm.ctx.on(LLM_STREAM, pieces)

    answer = await llm.generate(ModelRequest("alias", ()))

    assert answer.content == (TextBlock("hi"),)
    assert seen == ["generate alias", "stream scripted"]


@pytest.mark.rule("M7")
async def test_listener_may_answer_instead_of_the_model(llm: LlmService) -> None:
    cached = Answer((TextBlock("known"),), FinishReason("stop"))

    async def cache(request: ModelRequest, proceed: Proceed[Answer]) -> Answer:
        return cached

    llm.ctx.on(LLM_GENERATE, cache)

    assert await llm.generate(REQUEST) == cached


@pytest.mark.rule("M7")
async def test_listener_may_route_a_stream_to_another_model(llm: LlmService) -> None:
    async def route(request: ModelRequest, proceed: ProceedPipe[Chunk]) -> AsyncIterator[Chunk]:
        async for chunk in proceed(ModelRequest("scripted", ())):
            yield chunk

    scripted(llm, "hi").ctx.on(LLM_STREAM, route)

    blocks = [block async for block in llm.stream_blocks(ModelRequest("unknown", ()))]

    assert blocks == [TextBlock("hi")]
