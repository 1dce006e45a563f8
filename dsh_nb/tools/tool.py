"""A tool: a name, a description, a JSON schema, and what runs when the model calls it.

Reads: errors, messages. Feeds: tools.registry, agent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from dsh_nb.errors import ToolDefinitionError
from dsh_nb.messages import JsonObject, ResultContent, ToolSchema

__all__ = ["Approve", "Tool", "ToolCall", "ToolExecution", "ToolOutcome"]

Approve = bool | Literal["ask"] | Callable[[JsonObject], bool]
"""Whether a person is asked before a call runs: True and ``"ask"`` mean each time; a function of
the call's arguments, as the model sent them, decides each time anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that a registry can hold.

    Attributes:
        name: 1 to 64 characters of ``A-Za-z0-9_-``, unique in its registry.
        description: What it does, for the model.
        parameters: JSON schema of the arguments; its root is an object without combinators.
        run: Called with ``(arguments, execution)``, where `arguments` is the decoded JSON object.
            May be sync, async, a generator or an async generator. What it returns becomes a
            `ToolOutcome` through `dsh_nb.tools.results.to_outcome`.
        parallel: True when calls of this tool may run at once with other such calls.
        main_thread: True to run on the thread of the kernel's loop, which is blocked meanwhile;
            a sync tool runs on a thread of its own otherwise.
        timeout_seconds: Longest run; ``None`` for no limit.
        approve: Whether a person is asked first, where no rule says otherwise; without the
            permission plugin a call that must be asked about does not run.
        function: What the tool was made from, for people who look.

    Raises:
        ToolDefinitionError: `approve` is none of what it may be.
    """

    name: str
    description: str
    parameters: JsonObject
    run: Callable[[JsonObject, ToolExecution], Any]  # Any: a tool may return whatever it likes
    parallel: bool = False
    main_thread: bool = False
    timeout_seconds: float | None = None
    approve: Approve = False
    function: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not _can_approve(self.approve):
            raise ToolDefinitionError(
                f"approve of the tool {self.name!r} is {self.approve!r}; pass True, False, 'ask' "
                "or a plain function of the arguments that returns a bool"
            )

    @property
    def schema(self) -> ToolSchema:
        """What the model is told."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters)


def _can_approve(approve: object) -> bool:
    """Whether it can say what needs approval; what must be awaited cannot."""
    if not callable(approve):
        return isinstance(approve, bool) or (isinstance(approve, str) and approve == "ask")
    awaited = map(inspect.iscoroutinefunction, (approve, type(approve).__call__))
    return not (isinstance(approve, type) or any(awaited))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call as the waterfall ``tools/execute`` sees it.

    Attributes:
        id: The provider's id of the call.
        name: The tool that the model named; it may not exist.
        arguments: The decoded JSON value, ``{}`` when empty; the raw text when it is not JSON.
        agent: Id of the calling agent; ``""`` when nobody's.
        turn: Owning turn, from 1; 0 outside an agent.
        step: Owning step, from 1; 0 outside an agent.
        approved: True when a listener of ``tools/execute`` that decides about calls let it run; a
            tool that asks for approval runs only then.
    """

    id: str
    name: str
    arguments: object
    agent: str = ""
    turn: int = 0
    step: int = 0
    approved: bool = False


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """What a running tool knows of its call; a parameter annotated with this class receives it.

    Attributes:
        call: The call.
    """

    call: ToolCall
    _progress: Callable[[object], None] = field(default=lambda value: None, repr=False)

    def progress(self, value: object) -> None:
        """Show `value` as the tool's progress; safe from any thread, never raises."""
        self._progress(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What a call came to.

    Attributes:
        content: What the model gets: bounded, non-blank text and images.
        is_error: True when the call failed; the content tells the model why.
        display: What the person sees: a MIME bundle (``text/html``, ``image/png`` as base64,
            ``application/json``, ``text/plain``); ``None`` when the content says it all.
        overflow: The whole text when `content` holds only its head and tail; else ``None``.
        interrupted: True when the tool asked to stop the turn (it raised KeyboardInterrupt).
        denied: True when a listener of ``tools/execute`` did not let it run.
    """

    content: tuple[ResultContent, ...]
    is_error: bool = False
    display: JsonObject | None = None
    overflow: str | None = None
    interrupted: bool = False
    denied: bool = False
