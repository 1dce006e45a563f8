"""JSON schemas as providers take them: an object at the root, no titles, parts in their place.

Reads: errors, messages. Feeds: tools.parameters, tools.schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsh_nb.errors import ToolDefinitionError
from dsh_nb.messages import JsonObject, lossless

__all__ = ["checked_root", "tidy"]

_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs")
_VALUES = ("default", "const", "enum", "examples", "required", "example")
_ROOT_COMBINATORS = ("anyOf", "oneOf", "allOf", "not", "if", "$ref")
_REF = "#/$defs/"


def checked_root(schema: Mapping[str, Any], tool: str) -> JsonObject:
    """A copy of a schema that a person wrote, its root an object for certain.

    Raises:
        ToolDefinitionError: It is not JSON, or its root is no object or has combinators.
    """
    try:
        made: JsonObject = lossless(dict(schema), "parameters")
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(f"the schema of {tool!r} is not JSON: {error}") from error
    kind = made.setdefault("type", "object")
    if kind != "object":
        raise ToolDefinitionError(
            f"the schema of {tool!r} has the root type {kind!r}; providers take only 'object'"
        )
    wrong = [word for word in _ROOT_COMBINATORS if word in made]
    if wrong:
        raise ToolDefinitionError(
            f"the schema of {tool!r} has {wrong!r} at its root, which providers refuse; "
            "say the rule in the description, or move it into a property"
        )
    made.setdefault("properties", {})
    return made


def tidy(root: JsonObject) -> JsonObject:
    """`root` with what it refers to in place, without titles and without unasked properties.

    A part that contains itself stays in ``$defs``.
    """
    defs: Mapping[str, JsonObject] = root.get("$defs", {})
    recursive = {name for name in defs if name in _reached(defs, name)}
    bare = {key: part for key, part in root.items() if key != "$defs"}
    made = _walk(bare, defs, recursive)
    kept = sorted(recursive & _reached_from(bare, defs))
    if kept:
        made["$defs"] = {name: _walk(defs[name], defs, recursive) for name in kept}
    return made


def _reached(defs: Mapping[str, JsonObject], name: str) -> set[str]:
    return _reached_from(defs[name], defs)


def _reached_from(node: JsonObject, defs: Mapping[str, JsonObject]) -> set[str]:
    """The names that `node` refers to, itself or through others."""
    found: set[str] = set()
    waiting = _refs(node)
    while waiting:
        name = waiting.pop()
        if name not in found and name in defs:
            found.add(name)
            waiting |= _refs(defs[name])
    return found


def _refs(node: object) -> set[str]:
    found: set[str] = set()

    def visit(part: JsonObject) -> JsonObject:
        name = _ref(part)
        if name is not None:
            found.add(name)
        return _parts(part, visit)

    if isinstance(node, dict):
        visit(node)
    return found


def _ref(node: JsonObject) -> str | None:
    ref = node.get("$ref")
    return ref.removeprefix(_REF) if isinstance(ref, str) and ref.startswith(_REF) else None


def _walk(node: JsonObject, defs: Mapping[str, JsonObject], recursive: set[str]) -> JsonObject:
    name = _ref(node)
    if name is not None and name in defs and name not in recursive:
        beside = {key: part for key, part in node.items() if key != "$ref"}
        return _walk({**defs[name], **beside}, defs, recursive)
    made = _parts(node, lambda part: _walk(part, defs, recursive))
    made.pop("title", None)
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


def _parts(node: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """A copy of `node` with `change` applied to each schema directly inside it."""
    made: JsonObject = {}
    for key, part in node.items():
        if key in _NAMED_SCHEMAS and isinstance(part, dict):
            made[key] = {name: change(inner) for name, inner in part.items()}
        elif key in _VALUES:
            made[key] = part
        elif isinstance(part, dict):
            made[key] = change(part)
        elif isinstance(part, list):
            made[key] = [change(inner) if isinstance(inner, dict) else inner for inner in part]
        else:
            made[key] = part
    return made
