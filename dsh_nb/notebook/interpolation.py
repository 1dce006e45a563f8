"""The fields of a prompt: ``{expression}`` becomes what the expression comes to.

Reads: errors, messages, session.events, tools.results, tools.text.
Feeds: notebook.commands, notebook.magics.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from numbers import Number
from typing import NamedTuple

from dsh_nb.errors import AgentError
from dsh_nb.messages import ImageBlock, TextBlock
from dsh_nb.session.events import UserContent
from dsh_nb.tools.results import to_outcome
from dsh_nb.tools.text import clipped

__all__ = ["interpolate"]

FIELD_CHARS = 1_000
"""Longest field that is looked for: a line of code without its end costs no more than that."""

VALUE_BYTES = 50_000
"""Most bytes of text that a value comes to, unless it is a string."""

_OPENING = re.compile(r"(\{+)(?=[^\W\d])")
_MARK = re.compile(
    r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|[(\[{]|[)\]}]|:|\n|['"]"""
)  # a whole string, a bracket, a colon; a line end or a lone quote ends the search
_CONVERSION = re.compile(r"!([rsa])\s*\Z")
_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}


def interpolate(text: str, evaluate: Callable[[str], object]) -> str | list[UserContent]:
    """`text` with the values of its fields, written as in an f-string.

    A field is a brace, at once a name, and on the same line the rest of one Python expression,
    with ``!r`` or ``:.2f`` if need be. Whatever else stands in braces is text and stays as it
    is: JSON, dicts, sets with a blank, CSS, ``{name: string}``, tuples, code over several lines.
    ``{{name}}`` is the text ``{name}``.

    Args:
        text: The prompt.
        evaluate: The value of an expression.

    Returns:
        Text; blocks where a value is an image or a figure. Frames, dicts, lists and other
        values read as a tool's result would, bounded; strings are whole.

    Raises:
        AgentError: An expression failed; the text says which and how.
    """
    said: list[str | ImageBlock] = []
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        field = _field(text, opening.end())
        said.append(text[at : opening.start()])
        if field is None:
            said.append(opening[0])
            at = opening.end()
            continue
        braces = min(len(opening[0]), _closing(text, field.end))
        said.append("{" * (len(opening[0]) - braces + braces // 2))
        inside = text[opening.end() : field.end]
        said.extend(_value(field, inside, evaluate) if braces % 2 else [inside])
        said.append("}" * (braces // 2))
        at = field.end + braces
    said.append(text[at:])
    return _joined(said)


class _Field(NamedTuple):
    """What stands between the braces, and where its closing brace is."""

    expression: str
    conversion: str
    spec: str
    end: int


def _field(text: str, start: int) -> _Field | None:
    """The field whose inside begins at `start`; None when it is none."""
    depth, colon = 0, -1
    for mark in _MARK.finditer(text, start, start + FIELD_CHARS):
        char = mark[0]
        if char in ("\n", "'", '"'):
            return None
        if char == ":" and depth == 0 and colon < 0:
            colon = mark.start()
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return _parsed(text, start, colon, mark.start()) if char == "}" else None
    return None


def _parsed(text: str, start: int, colon: int, end: int) -> _Field | None:
    spec = "" if colon < 0 else text[colon + 1 : end]
    if spec[:1].isspace():  # {name: string} is code
        return None
    expression = text[start : end if colon < 0 else colon]
    conversion = _CONVERSION.search(expression)
    if conversion is not None:
        expression = expression[: conversion.start()]
    try:
        body = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(body, ast.Tuple):
        return None
    return _Field(expression, conversion[1] if conversion else "", spec, end)


def _closing(text: str, at: int) -> int:
    return len(text[at : at + FIELD_CHARS]) - len(text[at : at + FIELD_CHARS].lstrip("}"))


def _value(field: _Field, inside: str, evaluate: Callable[[str], object]) -> list[str | ImageBlock]:
    __tracebackhide__ = True
    try:
        value = evaluate(field.expression)
        if field.conversion:
            value = _CONVERSIONS[field.conversion](value)
        spec = str(interpolate(field.spec, evaluate))
        return [format(value, spec)] if spec else _natural(value)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise AgentError(
            f"{{{inside}}} in the prompt failed: {said}; nothing was sent,"
            f" write {{{{{inside}}}}} where the braces are text"
        ) from error


def _natural(value: object) -> list[str | ImageBlock]:
    if value is None or isinstance(value, (str, Number)):
        return [str(value)]
    outcome = to_outcome(value, limit_bytes=VALUE_BYTES)
    said = [block.text if isinstance(block, TextBlock) else block for block in outcome.content]
    if outcome.overflow is None:
        return said
    # No tool reads on in a prompt, as the note in the bounded text would have it.
    images = [block for block in said if isinstance(block, ImageBlock)]
    return [clipped(outcome.overflow, VALUE_BYTES), *images]


def _joined(said: list[str | ImageBlock]) -> str | list[UserContent]:
    """Text that follows text is one."""
    blocks: list[UserContent] = []
    for part in said:
        before = blocks[-1] if blocks else None
        if not isinstance(part, str):
            blocks.append(part)
        elif isinstance(before, TextBlock):
            blocks[-1] = TextBlock(before.text + part)
        elif part:
            blocks.append(TextBlock(part))
    if any(isinstance(block, ImageBlock) for block in blocks):
        return [block for block in blocks if isinstance(block, ImageBlock) or block.text.strip()]
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))
