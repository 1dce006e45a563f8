"""A model that plays a script: for demos without a key, for teaching, and for tests.

Reads: errors, messages, llm.protocol, llm.voice. Feeds: testing, notebook.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from dsh_nb.errors import LlmError
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.voice import Call, Cut, Fail, Halt, Part, Pause, Say, Think, Voice
from dsh_nb.messages import Chunk, FinishReason, lossless

__all__ = [
    "Script",
    "ScriptedModel",
    "Step",
    "call",
    "cut",
    "fail",
    "finish",
    "pause",
    "say",
    "think",
]

Step: TypeAlias = str | Part | Sequence[str | Part]
"""What answers one request: text, a part, or several of them in order."""

Script: TypeAlias = Sequence[Step] | Callable[[ModelRequest], Step | Awaitable[Step]]
"""Steps, one for each request, or a function (async or not) that gives the step of a request."""


def say(text: str) -> Part:
    """A text block; a plain string in a step says the same."""
    return Say(text)


def think(text: str) -> Part:
    """A reasoning block."""
    return Think(text)


def call(
    tool: str,
    /,
    *,
    arguments_text: str | None = None,
    **arguments: Any,  # Any: whatever JSON the tool takes
) -> Part:
    """A tool call.

    Args:
        tool: Name of the tool.
        arguments_text: The raw text of the arguments, which may be broken JSON.
        arguments: The arguments by name, when there is no `arguments_text`.

    Raises:
        ValueError: Both are given, or a number is not finite.
        TypeError: An argument is not JSON.
    """
    if arguments_text is None:
        plain = lossless(arguments, "arguments")
        return Call(tool, json.dumps(plain, ensure_ascii=False))
    if arguments:
        raise ValueError(
            f"call of {tool!r} has arguments_text and arguments {sorted(arguments)!r}; pass one"
        )
    return Call(tool, arguments_text)


def pause(seconds: float) -> Part:
    """Silence of `seconds` of real time, at any pace."""
    return Pause(seconds)


def finish(kind: str, *, message: str | None = None, code: str | None = None) -> Part:
    """The end, for a reason of one's own; without it a step ends with stop or tool-calls."""
    return Halt(FinishReason(kind, message, code))


def fail(message: str, *, code: str = "overloaded_error", mid_block: bool = False) -> Part:
    """An `LlmError`; `mid_block` leaves the block before it without its end."""
    return Fail(message, code, mid_block)


def cut(*, mid_block: bool = False) -> Part:
    """The stream just ends, with no finish; `mid_block` leaves the block before it open."""
    return Cut(mid_block)


class ScriptedModel:
    """A model that plays a script instead of thinking: offline, deterministic, free.

    Attributes:
        name: Name of the adapter.
        requests: Every request so far, oldest first, failed and cancelled ones included.

    Example:
        >>> model = ScriptedModel([[think("Two numbers."), call("add", a=2, b=3)], "It is 5."])
    """

    def __init__(
        self, script: Script, *, name: str = "scripted", pace: float = 0.0, seed: int = 0
    ) -> None:
        """Take the script; nothing is played yet.

        Args:
            script: Steps, one consumed by each request, or a function ``(request) -> step``.
            name: Name of the adapter.
            pace: How slow to speak: 1.0 is about 40 pieces a second, 0.5 twice as fast, 0.0
                without any wait but those of `pause`.
            seed: Seed of the pieces and of the jitter.

        Raises:
            TypeError: The script is one text or part, or a step is not made of texts and parts.
            ValueError: A step goes on after its end.
        """
        if isinstance(script, (str, msgspec.Struct)):
            raise TypeError(f"script is {script!r}; pass a list of steps, for example [{script!r}]")
        self.name = name
        self.requests: list[ModelRequest] = []
        self._script = script if callable(script) else tuple(_parts(step) for step in script)
        self._played = 0
        self._voice = Voice(pace=pace, seed=seed)

    def __repr__(self) -> str:
        return f"ScriptedModel({self.name!r}, {len(self.requests)} requests)"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Play the next step.

        Raises:
            LlmError: The script has no step left (code ``SCRIPT_ENDED``), or says `fail`.
        """
        self.requests.append(request)
        # one generator, not two nested ones: closing it leaves nothing behind
        for move in self._voice.moves(await self._next(request), request):
            if isinstance(move, float):
                await asyncio.sleep(move)
            else:
                yield move

    async def _next(self, request: ModelRequest) -> tuple[Part, ...]:
        if callable(self._script):
            answer = self._script(request)
            if inspect.isawaitable(answer):
                answer = await answer
            return _parts(answer)
        if self._played == len(self._script):
            raise LlmError(
                f"the script of model {self.name!r} has {self._played} steps and all are played; "
                "add a step, or pass a function instead of a list",
                code="SCRIPT_ENDED",
            )
        self._played += 1
        return self._script[self._played - 1]


def _parts(step: Step) -> tuple[Part, ...]:
    """`step` as parts, checked: an end is the last of them."""
    listed = step if isinstance(step, (list, tuple)) else (step,)
    parts = tuple(_part(item) for item in listed)
    for part in parts[:-1]:
        if isinstance(part, (Halt, Fail, Cut)):
            raise ValueError(f"step goes on after {part!r}; make that the last part")
    return parts


def _part(item: object) -> Part:
    if isinstance(item, str):
        return Say(item)
    if isinstance(item, (Say, Think, Call, Pause, Halt, Fail, Cut)):
        return item
    raise TypeError(f"step has {item!r}; use texts and parts such as say(…) or call(…)")
