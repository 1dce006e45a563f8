"""What the demo model understands of a tool's JSON schema: its parameters, reduced to kinds.

Reads: messages, llm.demo_words. Feeds: llm.demo_arguments, llm.demo_plan, llm.demo.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from dsh_nb.llm.demo_words import name_words
from dsh_nb.messages import JsonObject

__all__ = ["Parameter", "parameters_of"]

_WHOLE = frozenset(
    """q query question prompt text message content body code sql expression formula note topic
    title description instruction instructions sentence words phrase comment task""".split()
)
_PLACES = frozenset("city cities place location country town region state address area".split())
_COUNTS = frozenset(
    "n k limit count top num number max rows lines days hours items results size bins".split()
)
_NUMBERED = frozenset({"id", "name", "number", "code", "key"})


class Parameter(NamedTuple):
    """One parameter of a tool, with its schema reduced to what the demo model understands.

    Attributes:
        name: Its name.
        kind: ``integer``, ``number``, ``boolean``, ``string``, ``date``, ``date-time``, ``enum``,
            ``array``, or another type of JSON schema, of which only JSON text fills a value.
        required: Whether a call must give it.
        description: What the schema says of it; ``""`` for nothing.
        choices: The values of an enum, or of the items of an array.
        items: Kind of an array's items.
    """

    name: str
    kind: str
    required: bool
    description: str = ""
    choices: tuple[object, ...] = ()
    items: str = ""

    @property
    def words(self) -> frozenset[str]:
        """The words of the name."""
        return frozenset(name_words(self.name)) or frozenset({self.name.lower()})

    @property
    def is_number(self) -> bool:
        """Whether it takes a number."""
        return self.kind in ("integer", "number")

    @property
    def is_place(self) -> bool:
        """Whether its name says that it is a place, which follows "in" or "for"."""
        return bool(self.words & _PLACES)

    @property
    def is_count(self) -> bool:
        """Whether its name says that it counts or limits something."""
        return bool(self.words & _COUNTS)

    @property
    def is_whole(self) -> bool:
        """Whether its name says that it takes a sentence rather than a name."""
        return bool(self.words & _WHOLE)

    @property
    def patterns(self) -> list[str]:
        """Patterns of the name as people write it, the fullest first."""
        words = name_words(self.name) or [self.name]
        names = [words]
        if len(words) > 1 and words[-1] in _NUMBERED:
            names.append(words[:-1])
        if len(words) > 1 and self.is_number:
            names.append(words[-1:])
        return ["[ _-]?".join(map(re.escape, name)) for name in names]


def parameters_of(schema: JsonObject) -> list[Parameter]:
    """The parameters of a tool, in the order of its schema."""
    required = schema.get("required", ())
    properties: Mapping[str, object] = schema.get("properties", {})
    return [_parameter(name, given, schema, name in required) for name, given in properties.items()]


def _parameter(name: str, given: object, root: JsonObject, required: bool) -> Parameter:
    plain = _plain(given, root)
    items = _plain(plain.get("items"), root)
    listed = items if "items" in plain else plain
    choices = tuple(choice for choice in listed.get("enum", ()) if choice is not None)
    description = str(plain.get("description", ""))
    return Parameter(name, _kind(plain), required, description, choices, _kind(items))


def _plain(given: object, root: JsonObject, depth: int = 0) -> JsonObject:
    """`given` without reference, union with null and wrapping; what stands outside wins."""
    if not isinstance(given, dict) or depth > 8:  # a schema may refer to itself
        return {}
    inner: object = {}
    if "$ref" in given:
        inner = root.get("$defs", {}).get(str(given["$ref"]).rpartition("/")[2])
    for union in ("anyOf", "oneOf", "allOf"):
        if union in given:
            inner = next((one for one in given[union] if one != {"type": "null"}), {})
    outer = {key: given[key] for key in given if key not in ("$ref", "anyOf", "oneOf", "allOf")}
    return {**_plain(inner, root, depth + 1), **outer} if inner else outer


def _kind(plain: JsonObject) -> str:
    if plain.get("enum"):
        return "enum"
    kind = plain.get("type", "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "string")
    if kind == "string" and plain.get("format") in ("date", "date-time"):
        return str(plain["format"])
    return str(kind)
