"""The parameters of a function: their JSON schema, and the way back from JSON to a call.

Reads: errors, messages, tools.arguments, tools.docstrings, tools.hints, tools.json_schema,
    tools.tool.
Feeds: tools.schema.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import pydantic
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from dsh_nb.errors import ToolDefinitionError
from dsh_nb.messages import JsonObject, clean_text, lossless
from dsh_nb.tools.arguments import ToolArgumentError, check_names, misfits
from dsh_nb.tools.docstrings import Doc
from dsh_nb.tools.hints import Names, names_of, newest, resolve, with_typed_dicts
from dsh_nb.tools.json_schema import tidy
from dsh_nb.tools.tool import ToolExecution

__all__ = ["Parameters"]

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MUTABLE = (list, dict, set, bytearray, deque, pydantic.BaseModel)


class _Schemas(GenerateJsonSchema):
    """Pydantic's generator; a default that JSON cannot hold is left out without a warning."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: what matters is told by a `ToolDefinitionError`."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One parameter that the model is asked for."""

    name: str
    hint: Any  # a type form
    adapter: pydantic.TypeAdapter[Any]
    default: object  # inspect.Parameter.empty when it is required

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def fresh_default(self) -> object:
        """The default; a copy of one that the function could change."""
        found = self.default
        if isinstance(found, FieldInfo):
            return found.get_default(call_default_factory=True, validated_data={})
        changeable = isinstance(found, _MUTABLE) or _is_record(found)
        return copy.deepcopy(found) if changeable else found


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


class Parameters:
    """What a function takes.

    Args:
        function: Anything callable.
        convert: False when the schema is somebody else's and values are passed as they come.

    Raises:
        ToolDefinitionError: A hint has no JSON schema. The text names parameter and hint.
    """

    def __init__(self, function: Callable[..., Any], *, convert: bool = True) -> None:
        self._function = function
        self._names = names_of(function)
        self._signature = _signature(function)
        self._execution = self._execution_names()
        self._asked = [self._parameter(found) for found in self._candidates()] if convert else []

    def schema(self, doc: Doc) -> JsonObject:
        """The JSON schema of what the model is asked for, described by `doc`."""
        inputs = [(found.name, "validation", found.adapter) for found in self._asked]
        made, defs = pydantic.TypeAdapter.json_schemas(
            inputs,  # type: ignore[arg-type]  # a literal in a list
            schema_generator=_Schemas,
        )
        properties = {
            found.name: _described(made[found.name, "validation"], found, doc)
            for found in self._asked
        }
        root: JsonObject = {"type": "object", "properties": properties}
        required = [found.name for found in self._asked if found.required]
        if required:
            root["required"] = required
        return tidy({**root, "additionalProperties": False, "$defs": defs.get("$defs", {})})

    def converted(self, tool: str, arguments: JsonObject) -> dict[str, object]:
        """Typed values of `arguments`, defaults in place of what was left out.

        Raises:
            ToolArgumentError: They do not fit.
        """
        required = [found.name for found in self._asked if found.required]
        problems = check_names(arguments, required, [found.name for found in self._asked])
        values: dict[str, object] = {}
        for found in self._asked:
            if found.name not in arguments:
                values[found.name] = None if found.required else found.fresh_default()
                continue
            try:
                values[found.name] = self._value(found, arguments[found.name])
            except pydantic.ValidationError as error:
                problems += misfits(found.name, arguments[found.name], error)
        if problems:
            raise ToolArgumentError.of(tool, problems)
        return values

    def call(self, tool: str, values: dict[str, object], execution: ToolExecution) -> object:
        """What the function returns for `values`, each passed in the way its kind asks for.

        Raises:
            ToolArgumentError: The function does not take them.
        """
        given = {**values, **dict.fromkeys(self._execution, execution)}
        positional: list[object] = []
        for name, found in self._signature.parameters.items():
            if found.kind is inspect.Parameter.POSITIONAL_ONLY and name in given:
                positional.append(given.pop(name))
        try:
            self._signature.bind(*positional, **given)
        except TypeError as error:
            raise ToolArgumentError.of(tool, [str(error)]) from error
        return self._function(*positional, **given)

    def _candidates(self) -> list[inspect.Parameter]:
        return [
            found
            for name, found in self._signature.parameters.items()
            if found.kind not in _VARIADIC and name not in self._execution
        ]

    def _execution_names(self) -> tuple[str, ...]:
        """The parameters that receive the execution instead of something of the model's."""
        return tuple(
            name
            for name, found in self._signature.parameters.items()
            if found.kind not in _VARIADIC and _wants_execution(name, found, self._names)
        )

    def _parameter(self, found: inspect.Parameter) -> _Parameter:
        hint = resolve(found.name, found.annotation, self._names)
        default = found.default
        if isinstance(default, FieldInfo):
            hint = Annotated[hint, default]
            default = inspect.Parameter.empty if default.is_required() else default
        return _Parameter(found.name, hint, _adapter(found.name, hint, self._names), default)

    def _value(self, found: _Parameter, given: object) -> object:
        hint = newest(found.hint, self._names.module)
        adapter = found.adapter
        if hint is not found.hint:  # its class was defined anew since
            adapter = _adapter(found.name, hint, self._names)
        return adapter.validate_json(clean_text(json.dumps(given, ensure_ascii=False)))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature without what a partial has bound already."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"{function!r} has no signature that Python can read; wrap it in a function"
        ) from error
    bound: set[str] = set()
    inner: Any = function
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    kept = [found for name, found in signature.parameters.items() if name not in bound]
    return signature.replace(parameters=kept)


def _wants_execution(name: str, found: inspect.Parameter, names: Names) -> bool:
    if isinstance(found.annotation, str) and "ToolExecution" not in found.annotation:
        return False
    try:
        hint = resolve(name, found.annotation, names)
    except ToolDefinitionError:
        return False  # told when the parameter is made, if it is
    return hint is ToolExecution or ToolExecution in get_args(hint)


def _adapter(name: str, hint: Any, names: Names) -> pydantic.TypeAdapter[Any]:
    """What converts to `hint`; its schema was made once, so that it is known to have one."""
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(with_typed_dicts(hint))
        if not adapter.pydantic_complete:
            adapter.rebuild(force=True, _types_namespace=names.merged())
        adapter.json_schema(schema_generator=_Schemas)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ToolDefinitionError(
            f"the parameter {name!r} has the hint {hint!r}, which has no JSON schema ({reason}); "
            "use plain types, dataclasses or pydantic models, or pass parameters="
        ) from error
    return adapter


def _described(made: JsonObject, found: _Parameter, doc: Doc) -> JsonObject:
    """The schema of one parameter with its text and its default."""
    schema = dict(made)
    text = _said_at_hint(found.hint) or doc.parameters.get(found.name, "")
    if text:
        schema["description"] = text
    if not found.required and "default" not in schema:
        _add_default(schema, found)
    return schema


def _said_at_hint(hint: Any) -> str:
    """What stands in an `Annotated`: a bare text, or the description of a `Field`."""
    for mark in getattr(hint, "__metadata__", ()):
        said = mark.description if isinstance(mark, FieldInfo) else mark
        if isinstance(said, str) and said:
            return clean_text(said)
    return ""


def _add_default(schema: JsonObject, found: _Parameter) -> None:
    try:
        value = found.adapter.dump_python(found.default, mode="json", warnings="none")
        schema["default"] = lossless(value)
    except Exception:  # a default that JSON cannot say is told by being optional
        return
