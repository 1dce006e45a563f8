"""How the demo model fills a tool's arguments from a text, by the tool's JSON schema.

Reads: messages, llm.demo_words. Feeds: llm.demo_plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dsh_nb.llm.demo_words import (
    CONSUMED,
    NUMBER_WORDS,
    QUOTE,
    Quotation,
    dates_in,
    is_filler,
    masked,
    name_words,
)
from dsh_nb.messages import JsonObject

__all__ = ["Filled", "Parameter", "fill", "parameters_of"]

_WHOLE = frozenset(
    """q query question prompt text message content body code sql expression formula note topic
    title description instruction instructions sentence words phrase keywords comment task""".split()
)
_SEPARATOR = r"\s*(?:=|:|\bis\b|\bto be\b|\bof\b|\bequals\b|\bto\b)\s*"
_TIGHT = r"\s*(?:=|:|\bis\b|\bequals\b)\s*"
_NUMBER = (
    r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"(?=\s*%|(?:km|kg|cm|mm|ms|min|[cfghms])?(?!\w))(?!\.\d)"
)
_COUNTED = r"rows?|lines?|items?|results?|hits?|entries|records?|points?|days?|times|steps?|bins?"
_LEADING = re.compile(r"(?i)\b(?:first|top|last|next|most|to|max|maximum|limit|bottom)\s+$")
_FOLLOWING = re.compile(rf"(?i)^\s*(?:{_COUNTED})\b")
_BACK = re.compile(r"(?i)\b(?:it|that|(?:the|this|that)\s+(?:result|answer|sum|product|number))\b")
_UNITS = {"c": "celsius|centigrade", "f": "fahrenheit", "k": "kelvin"}
_RUN = r"[A-ZÀ-ÞĀ-Ž][\w'’.-]*(?<![.])(?: (?:d[aeiou]|del|la|le|los|las|san|of|upon|am|von)? ?[A-ZÀ-Þ][\w'’-]*)*"
_LIST = rf"{_RUN}(?:(?:,? and |, ?| & )(?:(?:in|at|for) )?{_RUN})*"
_PREPOSITIONS = "in|at|for|of|near|from|to|about|on|by|into|column"
_HINTS = [
    (frozenset({"from", "origin", "source", "departure", "since"}), "from|since"),
    (frozenset({"to", "destination", "target", "recipient", "receiver", "into"}), "to|into"),
    (frozenset({"by", "group", "groupby"}), "by|per"),
]
_SHAPES = [
    (frozenset({"url", "uri", "link"}), r"https?://[^\s\0)>]+"),
    (frozenset({"email", "recipient", "to"}), r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    (
        frozenset({"path", "file", "filename", "filepath", "folder", "directory"}),
        r"(?<!\w)(?:[\w.~-]*/[\w./~-]*\w/?|[\w-]+\.[A-Za-z]\w{0,5})(?!\w)",
    ),
]


class Parameter(NamedTuple):
    """One parameter of a tool, with its schema reduced to what the demo model understands.

    Attributes:
        name: Its name.
        kind: ``integer``, ``number``, ``boolean``, ``string``, ``date``, ``enum``, ``array`` or
            ``other``.
        required: Whether a call must give it.
        description: What the schema says of it; ``""`` for nothing.
        choices: The values of an enum, or of an array's items.
        items: Kind of an array's items.
    """

    name: str
    kind: str
    required: bool
    description: str = ""
    choices: tuple[object, ...] = ()
    items: str = ""


class Filled(NamedTuple):
    """What a text gives for a tool.

    Attributes:
        calls: The arguments of each call; more than one when the text lists several values for
            the one text parameter, none when something is missing.
        missing: The required parameters that the text does not give.
    """

    calls: tuple[JsonObject, ...]
    missing: tuple[Parameter, ...] = ()


def parameters_of(schema: JsonObject) -> list[Parameter]:
    """The parameters of a tool, in the order of its schema."""
    required = schema.get("required", ())
    properties: dict[str, JsonObject] = schema.get("properties", {})
    return [_parameter(name, given, schema, name in required) for name, given in properties.items()]


def fill(
    schema: JsonObject, text: str, *, mention: tuple[int, int] = (0, 0), back: float | None = None
) -> Filled:
    """Fill the parameters of `schema` from `text`.

    Args:
        schema: JSON schema of the arguments.
        text: What the person said.
        mention: Span of the words of `text` that name the tool.
        back: The number that words like "it" and "the result" stand for.
    """
    parameters = parameters_of(schema)
    whole = _json_in(text, {parameter.name for parameter in parameters})
    if whole is not None:
        missing = [p for p in parameters if p.required and p.name not in whole]
        return Filled((), tuple(missing)) if missing else Filled((whole,))
    reading = _Reading.of(text, mention, back)
    for parameter in parameters:
        reading.named(parameter)
    reading.typed(parameters)
    reading.texts(parameters)
    missing = [p for p in parameters if p.required and p.name not in reading.values]
    return Filled((), tuple(missing)) if missing else Filled(tuple(reading.variants(parameters)))


def _parameter(name: str, given: JsonObject, root: JsonObject, required: bool) -> Parameter:
    given = _plain(given, root)
    items = _plain(given.get("items", {}), root)
    choices = items.get("enum", ()) if "items" in given else given.get("enum", ())
    return Parameter(
        name,
        _kind(given),
        required,
        str(given.get("description", "")),
        tuple(choices),
        _kind(items),
    )


def _plain(given: object, root: JsonObject) -> JsonObject:
    """`given` without reference, optionality and wrapping; the outer description stays."""
    if not isinstance(given, dict):
        return {}
    inner: object = None
    if "$ref" in given:
        inner = root.get("$defs", {}).get(str(given["$ref"]).rpartition("/")[2], {})
    for union in ("anyOf", "oneOf", "allOf"):
        if union in given:
            inner = next((one for one in given[union] if one != {"type": "null"}), {})
    return (
        given
        if inner is None
        else {**_plain(inner, root), **given, "$ref": None}
        if ("$ref" not in given)
        else {**_plain(inner, root), **{key: given[key] for key in given if key != "$ref"}}
    )


def _kind(given: JsonObject) -> str:
    kind = given.get("type", "string" if given.get("enum") or not given else "other")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "other")
    if given.get("enum"):
        return "enum"
    if kind == "string" and given.get("format") in ("date", "date-time"):
        return str(given["format"])
    return str(kind)
