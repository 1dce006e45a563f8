"""The error of arguments that do not fit, with a text that lets the model call again.

Reads: errors, messages. Feeds: tools.parameters, tools.schema, tools.results.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

import pydantic

from dsh_nb.errors import ToolError
from dsh_nb.messages import JsonObject

__all__ = ["ToolArgumentError", "check_names", "misfits"]

_SHOWN_CHARS = 200
_MISFITS = 10


class ToolArgumentError(ToolError):
    """The model's arguments do not fit; the text tells it what was given and what is allowed."""

    @classmethod
    def of(cls, tool: str, problems: Iterable[str]) -> ToolArgumentError:
        """The error of a call of `tool`, one line a problem."""
        lines = "".join(f"\n- {problem}" for problem in problems)
        return cls(
            f"the arguments of {tool!r} do not fit; the tool was not run, "
            f"call it again with these mended:{lines}"
        )


def check_names(
    arguments: JsonObject, required: Collection[str], allowed: Collection[str] | None
) -> list[str]:
    """What is wrong with the names of `arguments`; any name will do where `allowed` is ``None``."""
    problems = [
        f"the argument {name!r} is missing; required are {sorted(required)}"
        for name in required
        if name not in arguments
    ]
    if allowed is not None:
        problems += [
            f"there is no argument {name!r}; allowed are {sorted(allowed)}"
            for name in arguments
            if name not in allowed
        ]
    return problems


def misfits(name: str, value: object, error: pydantic.ValidationError) -> list[str]:
    """What is wrong with the value of the argument `name`, in words."""
    found = error.errors(include_url=False, include_context=False)
    lines = [_misfit(name, value, entry["loc"], entry["msg"]) for entry in found[:_MISFITS]]
    more = len(found) - _MISFITS
    return [*lines, f"and {more} more in {name!r}"] if more > 0 else lines


def _misfit(name: str, value: object, where: tuple[int | str, ...], message: str) -> str:
    """One line: the dotted path, what is allowed, and what was given there."""
    path, given = [name], value
    for step in where:
        if not _has(given, step):
            break  # the name of a union's branch, or a field that is missing
        path.append(str(step))
        given = given[step]  # type: ignore[index]  # checked by _has
    missing = [str(step) for step in where[len(path) - 1 :]] if message == "Field required" else []
    rule = message[:1].lower() + message[1:]
    return f"the argument {'.'.join(path + missing)!r}: {rule}; was given {_shown(given)}"


def _has(value: object, step: int | str) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
