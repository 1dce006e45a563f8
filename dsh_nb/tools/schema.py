"""Tools from plain functions: one route from the signature to a schema, and back to a call.

Reads: errors, messages, tools.docstrings, tools.hints, tools.json_schema, tools.parameters,
    tools.tool.
Feeds: tools.registry, agent, plugins.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, overload

from dsh_nb.errors import ToolDefinitionError
from dsh_nb.messages import JsonObject, clean_text
from dsh_nb.tools.arguments import ToolArgumentError, check_names
from dsh_nb.tools.docstrings import Doc, read_docstring
from dsh_nb.tools.hints import innermost
from dsh_nb.tools.json_schema import checked_root
from dsh_nb.tools.parameters import Parameters
from dsh_nb.tools.tool import Approve, Tool, ToolExecution

__all__ = ["ToolArgumentError", "tool", "tool_of"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EMPTY = Doc("", {})


@overload
def tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    parallel: bool = False,
    main_thread: bool = False,
    timeout_seconds: float | None = None,
    approve: Approve = False,
) -> Tool: ...


@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    parallel: bool = False,
    main_thread: bool = False,
    timeout_seconds: float | None = None,
    approve: Approve = False,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    parallel: bool = False,
    main_thread: bool = False,
    timeout_seconds: float | None = None,
    approve: Approve = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool from a function; a decorator, with arguments or without.

    The hints become the schema, and the model's JSON becomes values of those types. A parameter
    annotated with `ToolExecution` receives the call; ``*args`` and ``**kwargs`` are not asked for.

    Args:
        fn: The function, sync or async, a method, a partial or a callable object.
        name: Its name for the model; that of the function by default.
        description: What it does; the summary of its docstring by default.
        parameters: The JSON schema, where the hints are not to be used; the arguments are passed
            as they come then.
        parallel: True when calls may run at once with others.
        main_thread: True to run on the thread of the kernel's loop.
        timeout_seconds: Longest run; ``None`` for no limit.
        approve: True or ``"ask"`` to ask a person before each call, or a function of the arguments
            that says which calls to ask about.

    Returns:
        The tool, or the decorator that makes it.

    Raises:
        ToolDefinitionError: A name or hint cannot be told to a model, or `approve` is none of
            what it may be. The text says which.
    """

    def make(function: Callable[..., Any]) -> Tool:
        title = _checked_name(function, name)
        doc = _doc(function)
        route = _inferred(function, title, doc) if parameters is None else None
        schema, run = route or _explicit(function, title, checked_root(parameters or {}, title))
        return Tool(
            name=title,
            description=clean_text(description or "") or _summary(title, doc),
            parameters=schema,
            run=run,
            parallel=parallel,
            main_thread=main_thread,
            timeout_seconds=timeout_seconds,
            approve=approve,
            function=function,
        )

    return make if fn is None else make(fn)


def tool_of(value: Tool | Callable[..., Any]) -> Tool:
    """`value` itself when it is a tool; else the tool that its function makes.

    Raises:
        ToolDefinitionError: It cannot become one.
    """
    return value if isinstance(value, Tool) else tool(value)


Run = Callable[[JsonObject, ToolExecution], Any]


def _checked_name(function: object, name: str | None) -> str:
    if isinstance(function, type) or not callable(function):
        raise ToolDefinitionError(f"{function!r} is no function; pass a function or a Tool")
    inner = innermost(function)
    own = inner.__name__ if inner.__name__ != "__call__" else type(function).__name__
    found = own if name is None else name
    if not _NAME.fullmatch(found):
        raise ToolDefinitionError(
            f"the tool name {found!r} is not 1 to 64 characters of A-Za-z0-9_-; pass name="
        )
    return found


def _doc(function: Callable[..., Any]) -> Doc:
    inner = innermost(function)
    text = inner.__doc__
    if text is None and inner.__name__ == "__call__":
        text = type(function).__doc__
    return read_docstring(clean_text(text or "")) if text else _EMPTY


def _summary(name: str, doc: Doc) -> str:
    if not doc.summary:
        warnings.warn(
            f"the tool {name!r} has no description; write a docstring, or pass description=",
            UserWarning,
            stacklevel=4,
        )
    return doc.summary


def _inferred(function: Callable[..., Any], name: str, doc: Doc) -> tuple[JsonObject, Run]:
    taken = Parameters(function)

    def run(arguments: JsonObject, execution: ToolExecution) -> object:
        return taken.call(name, taken.converted(name, arguments), execution)

    return taken.schema(doc), run


def _explicit(
    function: Callable[..., Any], name: str, schema: JsonObject
) -> tuple[JsonObject, Run]:
    taken = Parameters(function, convert=False)
    closed = schema.get("additionalProperties") is False
    allowed = list(schema["properties"]) if closed else None

    def run(arguments: JsonObject, execution: ToolExecution) -> object:
        problems = check_names(arguments, schema.get("required", []), allowed)
        if problems:
            raise ToolArgumentError.of(name, problems)
        return taken.call(name, dict(arguments), execution)

    return schema, run
