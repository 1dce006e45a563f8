"""The type hints of a function, resolved where it was written, and those of it redefined since.

Reads: errors. Feeds: tools.parameters, tools.schema.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typing_extensions

from dsh_nb.errors import ToolDefinitionError

__all__ = ["Names", "innermost", "names_of", "newest", "resolve", "with_typed_dicts"]

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Names:
    """What the hints of a function may name.

    Attributes:
        module: The live globals of the function.
        local: Names of its closure and of the functions around it, which hide globals.
        spare: Names of the caller and of the owning class, for what is found nowhere else.
    """

    module: dict[str, Any]
    local: dict[str, Any]
    spare: dict[str, Any]

    def merged(self) -> dict[str, Any]:
        """All of them in one, the nearest first."""
        return {**self.spare, **self.module, **self.local}


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function inside partials, methods, wrappers and callable objects."""
    found: Any = function
    while True:
        if isinstance(found, functools.partial):
            found = found.func
        elif inspect.ismethod(found):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        elif inspect.isroutine(found) or isinstance(found, type):
            return typing.cast("Callable[..., Any]", found)
        else:
            found = type(found).__call__


def names_of(function: Callable[..., Any]) -> Names:
    """The names that `function` may use in its hints, seen from whoever called this package."""
    plain: Any = innermost(function)
    code = getattr(plain, "__code__", None)
    module = getattr(plain, "__globals__", {})
    local: dict[str, Any] = {}
    spare: dict[str, Any] = _owner_names(function)
    for number, frame in enumerate(_callers()):
        if frame.f_locals is not frame.f_globals and _encloses(frame.f_code, code):
            local = {**frame.f_locals, **local}
        elif number == 0:
            spare.update(frame.f_locals)
    return Names(module, {**local, **_closure(plain)}, spare)


def _owner_names(function: object) -> dict[str, Any]:
    owner = getattr(function, "__self__", None)
    return {} if owner is None else dict(vars(owner if isinstance(owner, type) else type(owner)))


def _callers() -> Iterator[FrameType]:
    """The frames of the caller, its caller and so on, this package's own left out."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            yield frame
        frame = frame.f_back


def _encloses(outer: CodeType, inner: CodeType | None) -> bool:
    """Whether `inner` was written inside `outer`, perhaps in a class in it."""
    if inner is None or not inner.co_qualname.startswith(outer.co_qualname):
        return False
    parts = [part for part in outer.co_consts if isinstance(part, CodeType)]
    return any(part is inner or _encloses(part, inner) for part in parts)


def _closure(function: Any) -> dict[str, Any]:
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def resolve(parameter: str, hint: object, names: Names) -> Any:  # Any: a type form
    """`hint` without any text in it, its classes the newest of their names.

    Raises:
        ToolDefinitionError: It names what does not exist. The text names the parameter.
    """
    if hint is inspect.Parameter.empty:
        return Any
    bearer = SimpleNamespace(__annotations__={parameter: hint})
    try:
        found = typing.get_type_hints(
            bearer,
            globalns={**names.spare, **names.module},
            localns=names.local,
            include_extras=True,
        )[parameter]
    except Exception as error:
        raise ToolDefinitionError(
            f"the hint {hint!r} of the parameter {parameter!r} cannot be resolved "
            f"({type(error).__name__}: {error}); define what it names before the tool is made"
        ) from error
    return newest(found, names.module)


def newest(hint: Any, module: dict[str, Any]) -> Any:
    """`hint` with each class that its module has redefined since replaced by the new one."""
    if isinstance(hint, type) and not get_args(hint):
        if hint.__module__ != module.get("__name__"):
            return hint
        found = module.get(hint.__qualname__)
        return found if isinstance(found, type) else hint
    return _rebuilt(hint, lambda part: newest(part, module))


def with_typed_dicts(hint: Any) -> Any:
    """`hint` with each `typing.TypedDict` as one that pydantic reads on this Python."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return _readable(hint)
    return _rebuilt(hint, with_typed_dicts)


def _readable(hint: Any) -> Any:
    fields = typing.get_type_hints(hint, include_extras=True)
    made = {name: _marked(hint, name, field) for name, field in fields.items()}
    again: Any = typing_extensions.TypedDict
    return again(hint.__name__, made)


def _marked(owner: Any, name: str, field: Any) -> Any:
    if get_origin(field) in (typing.Required, typing.NotRequired):
        mark, inner = get_origin(field), get_args(field)[0]
    else:
        optional = name in owner.__optional_keys__
        mark, inner = (typing.NotRequired if optional else typing.Required), field
    return mark[with_typed_dicts(inner)]


def _rebuilt(hint: Any, change: Callable[[Any], Any]) -> Any:
    """`hint` with `change` applied to its arguments; itself when that changes nothing."""
    origin, args = get_origin(hint), get_args(hint)
    if not args or origin is Literal:
        return hint
    if origin is Annotated:
        inner = change(args[0])
        return hint if inner is args[0] else Annotated[(inner, *args[1:])]
    made = tuple(part if isinstance(part, list) else change(part) for part in args)
    if all(new is old for new, old in zip(made, args, strict=True)):
        return hint
    if origin in (Union, UnionType):
        return Union[made]  # noqa: UP007  # made at run time, from any number of hints
    return hint.copy_with(made) if hasattr(hint, "copy_with") else origin[made]
