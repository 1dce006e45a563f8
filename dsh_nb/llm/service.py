"""The LLM service: adapters by model name, and the one way to call a model.

Reads: core, messages, session.assembler, llm.protocol. Feeds: agent, plugins, notebook.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from dsh_nb.core import Context, Disposer, Emit, Pipe, Service, ServiceKey, Waterfall
from dsh_nb.errors import DuplicateAdapterError, NoAdapterError
from dsh_nb.llm.protocol import Adapter, ModelRequest, closing, failure_of
from dsh_nb.messages import Block, Chunk, FinishReason, UsageChunk
from dsh_nb.session.assembler import BlockAssembler

__all__ = ["LLM", "LLM_ADAPTER_CHANGE", "LLM_GENERATE", "LLM_STREAM", "Answer", "LlmService"]


class Answer(msgspec.Struct, frozen=True):
    """A whole answer.

    Attributes:
        content: Its blocks.
        reason: Why the model stopped.
        usage: What it was billed; ``None`` when the adapter did not say.
    """

    content: tuple[Block, ...]
    reason: FinishReason
    usage: UsageChunk | None = None


LLM_STREAM: Pipe[ModelRequest, Chunk] = Pipe("llm/stream")
"""Wrap a streamed model call: retry, cache, routing.

Mode: pipe. Fired once a call with the request. Return: the stream of chunks.
Default: the adapter's stream.
"""

LLM_GENERATE: Waterfall[ModelRequest, Answer] = Waterfall("llm/generate")
"""Wrap a model call that waits for the whole answer.

Mode: waterfall. Fired once a call with the request. Return: the answer.
Default: the ``llm/stream`` of the request, assembled.
"""

LLM_ADAPTER_CHANGE: Emit[()] = Emit("llm/adapter-change")
"""An adapter came or went. Mode: emit."""


class LlmService(Service):
    """Adapters by the names of the models that they serve; ``*`` in a name matches anything."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx)
        self._adapters: dict[str, Adapter] = {}

    def register(
        self, adapter: Adapter, models: Sequence[str], ctx: Context | None = None
    ) -> Disposer:
        """Serve `models` with `adapter`; all or nothing.

        Args:
            adapter: The adapter.
            models: Model names, or one; ``claude-*`` serves all that match, an exact name wins
                over it.
            ctx: Whose fiber owns the registration; the service's own by default.

        Returns:
            What takes it back.

        Raises:
            DuplicateAdapterError: A name is registered already. Nothing was registered.
        """
        self.ctx.check_thread("llm.register")
        names = (models,) if isinstance(models, str) else tuple(models)
        for name in names:
            if name in self._adapters or names.count(name) > 1:
                taken = self._adapters.get(name, adapter).name
                raise DuplicateAdapterError(
                    f"model {name!r} has an adapter already, {taken!r}; dispose that one first"
                )
        undo = (ctx or self.ctx).fiber.effect(
            lambda: self._unregister(names), f"adapter {adapter.name}"
        )
        self._adapters.update(dict.fromkeys(names, adapter))
        self.ctx.emit(LLM_ADAPTER_CHANGE)
        return undo

    def models(self) -> list[str]:
        """The registered names, sorted; those with ``*`` stand for many."""
        return sorted(self._adapters)

    def adapter(self, model: str) -> Adapter:
        """The adapter that serves `model`.

        Raises:
            NoAdapterError: None does.
        """
        found = self._adapters.get(model)
        if found is None:
            fitting = [name for name in self._adapters if fnmatchcase(model, name)]
            if not fitting:
                raise NoAdapterError(self._unknown(model))
            found = self._adapters[max(fitting, key=len)]
        return found

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """The answer as chunks, through ``llm/stream``.

        Raises:
            NoAdapterError: No adapter serves the model (when the innermost stream is made).
        """
        return self.ctx.pipe(LLM_STREAM, self._adapter_stream, request)

    async def stream_blocks(self, request: ModelRequest) -> AsyncIterator[Block]:
        """The answer as blocks, in stream order as they complete.

        Raises:
            LlmError: The call failed, or its stream just ended.
        """
        assembler = BlockAssembler()
        async with closing(self.stream(request)) as chunks:
            async for chunk in chunks:
                for block in assembler.feed(chunk):
                    yield block
        _finished(assembler)

    async def generate(self, request: ModelRequest) -> Answer:
        """The whole answer, through ``llm/generate``.

        Raises:
            LlmError: The call failed, or its stream just ended.
        """
        return await self.ctx.waterfall(LLM_GENERATE, self._generate, request)

    async def _generate(self, request: ModelRequest) -> Answer:
        assembler = BlockAssembler()
        async with closing(self.stream(request)) as chunks:
            async for chunk in chunks:
                assembler.feed(chunk)
        return Answer(assembler.blocks(), _finished(assembler), assembler.usage)

    def _adapter_stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        return self.adapter(request.model).stream(request)

    def _unregister(self, models: Sequence[str]) -> None:
        for name in models:
            self._adapters.pop(name, None)
        self.ctx.emit(LLM_ADAPTER_CHANGE)

    def _unknown(self, model: str) -> str:
        near = get_close_matches(model, self._adapters, n=1)
        guess = f"did you mean {near[0]!r}" if near else f"there are {self.models()}"
        return (
            f"no adapter serves model {model!r}; {guess}, or register one "
            "(a server that speaks the Messages API: pass base_url=)"
        )


LLM: ServiceKey[LlmService] = ServiceKey("llm")
LlmService.provides = LLM


def _finished(assembler: BlockAssembler) -> FinishReason:
    """Why the model stopped; a stream without an end, or with a failed one, is an error."""
    error = failure_of(assembler.reason)
    if error is not None:
        raise error
    assert assembler.reason is not None  # what has no reason has an error
    return assembler.reason
