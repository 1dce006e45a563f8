"""Any Python value as strict JSON that says the same as far as JSON can.

Reads: tools.frames, tools.text. Feeds: tools.rich, tools.results.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import fractions
import ipaddress
import math
import pathlib
import re
import sys
import types
import uuid
from collections import ChainMap, deque
from collections.abc import ItemsView, Iterable, KeysView, ValuesView
from enum import Enum
from typing import Any

import msgspec
from pydantic import BaseModel

from dsh_nb.tools.frames import frame_text, is_frame
from dsh_nb.tools.text import clipped, safe_repr, safe_str, visible_text

__all__ = ["array_text", "bytes_text", "is_array", "is_plain", "json_text", "plain"]

_NODES = 1_000_000  # values in one tree; what follows is left out
_CHARS = 12_000_000  # of all texts in one tree, more than is kept for reading on
_DEPTH = 60  # levels of one tree
_REPR_BYTES = 10_000  # of a value inside another
_ARRAY_ITEMS = 1_000  # of an array inside another value
_PREVIEW_BYTES = 64

_BYTES = (bytes, bytearray, memoryview)
_DATES = (datetime.date, datetime.time)
_NAMED = (
    complex,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    pathlib.PurePath,
    uuid.UUID,
)
_MAPPINGS = (dict, types.MappingProxyType, ChainMap)
_LISTS = (list, tuple, deque, range, KeysView, ValuesView, ItemsView)
_SETS = (set, frozenset)
_RECORDS = (BaseModel, msgspec.Struct)
_PLAIN = (
    *(type(None), bool, int, float, str, Enum),
    *(*_BYTES, *_DATES, *_NAMED, *_MAPPINGS, *_LISTS, *_SETS, *_RECORDS),
)


def plain(value: object) -> Any:  # Any: JSON is recursive
    """`value` as JSON that msgspec and a strict `json` both take.

    Records become objects, sets sorted lists, dates ISO text, numbers that JSON cannot hold
    text (``"NaN"``), bytes a preview, anything else its repr. What contains itself, lies deeper
    than 60 levels, or follows the millionth value is named and left out. Never raises.
    """
    return _Walk().visit(value)


def is_plain(value: object) -> bool:
    """True when `plain` knows the kind of `value`, so that its JSON says more than its repr."""
    return isinstance(value, _PLAIN) or _is_dataclass(value) or is_array(value)


def json_text(value: object) -> str:
    """Compact JSON of what `plain` returned."""
    return msgspec.json.encode(value).decode()


def is_array(value: object) -> bool:
    """True for arrays and scalars of NumPy; never imports NumPy."""
    numpy = sys.modules.get("numpy")
    kinds = (getattr(numpy, "ndarray", None), getattr(numpy, "generic", None))
    return any(isinstance(kind, type) and isinstance(value, kind) for kind in kinds)


def array_text(array: Any) -> str:  # Any: NumPy is not imported here
    """Shape, type and the numbers of `array`, which NumPy itself shortens."""
    return f"array of shape {tuple(array.shape)}, {array.dtype}\n{safe_str(array)}"


def bytes_text(value: bytes) -> str:
    """How many bytes, and the first of them in hex."""
    more = "…" if len(value) > _PREVIEW_BYTES else ""
    return f"bytes of {len(value)}: {value[:_PREVIEW_BYTES].hex(' ')}{more}".removesuffix(": ")


class _Walk:
    """One conversion: what it is inside of, and how much it may still visit."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._left = _NODES
        self._room = _CHARS

    def visit(self, value: object) -> Any:
        try:
            return self._visit(value)
        except Exception:  # a property, a field or an iterator of the value's own
            return _short(value)

    def _visit(self, value: object) -> Any:
        self._left -= 1
        if isinstance(value, Enum):
            return self._enum(value)
        if value is None or isinstance(value, bool):
            return value
        for kinds, convert in _SCALARS:
            if isinstance(value, kinds):
                return self._afforded(convert(value))
        if is_array(value):
            return self._array(value)
        return self._container(value)

    def _afforded(self, said: Any) -> Any:
        """`said`; after a text that uses up the room, nothing more is visited."""
        if isinstance(said, str):
            self._room -= len(said)
            if self._room < 0:
                self._left = 0
        return said

    def _enum(self, value: Enum) -> Any:
        if isinstance(value.value, (bool, int, float, str)):
            return self._visit(value.value)
        return visible_text(value.name)

    def _array(self, value: Any) -> Any:  # Any: NumPy is not imported here
        if value.dtype.kind in "mM":  # dates lose their unit in item()
            return [self.visit(item) for item in value] if value.ndim else str(value)
        if value.size > _ARRAY_ITEMS:
            return clipped(array_text(value), _REPR_BYTES)
        items = value.tolist()
        return safe_str(value) if is_array(items) else self.visit(items)

    def _container(self, value: object) -> Any:
        if id(value) in self._inside:
            return f"<{type(value).__name__} that contains itself>"
        if len(self._inside) >= _DEPTH:
            return f"<{type(value).__name__} that lies too deep>"
        self._inside.add(id(value))
        try:
            return self._open(value)
        finally:
            self._inside.discard(id(value))

    def _open(self, value: object) -> Any:
        if (fields := _fields_of(value)) is not None:
            return self._mapping(fields)
        if isinstance(value, _SETS):
            return sorted(self._items(value), key=json_text)
        if isinstance(value, _LISTS):
            return self._items(value)
        if is_frame(value):
            return frame_text(value)
        return _short(value)

    def _items(self, items: Iterable[object]) -> list[Any]:
        found: list[Any] = []
        for item in items:
            if self._left <= 0:
                found.append("… more left out")
                break
            found.append(self.visit(item))
        return found

    def _mapping(self, pairs: Iterable[tuple[object, object]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in pairs:
            if self._left <= 0:
                found["…"] = "more left out"
                break
            found[_unused(self._key(key), found)] = self.visit(item)
        return found

    def _key(self, key: object) -> str:
        found = self.visit(key)
        return found if isinstance(found, str) else json_text(found)


def _unused(key: str, taken: dict[str, Any]) -> str:
    """`key`, marked when 1 and ``"1"`` were two keys of one dict."""
    while key in taken:
        key += "'"
    return key


def _fields_of(value: object) -> Iterable[tuple[object, object]] | None:
    """Keys and values of a mapping or record; ``None`` for anything else."""
    if isinstance(value, _MAPPINGS):
        return value.items()
    if isinstance(value, BaseModel):
        return _model_fields(value).items()
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value).items()
    if isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_asdict"):
        return zip(value._fields, value, strict=False)
    if _is_dataclass(value):
        return [
            (field.name, getattr(value, field.name))
            for field in dataclasses.fields(value)  # type: ignore[arg-type]  # it is one
            if hasattr(value, field.name)
        ]
    return None


def _model_fields(model: BaseModel) -> dict[Any, Any]:
    try:
        return model.model_dump(mode="json")  # applies the model's own serializers
    except Exception:  # bytes that are no text, or a field that pydantic cannot write
        return dict(model)


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _short(value: object) -> str:
    return clipped(safe_repr(value), _REPR_BYTES)


def _integer(value: int) -> int | str:
    if -(2**63) <= value < 2**64:  # what msgspec writes
        return int(value)
    try:
        return str(int(value))
    except ValueError:  # too many digits for Python's own limit
        return hex(value)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _raw(value: bytes | bytearray | memoryview) -> str:
    return bytes_text(bytes(value))


_SCALARS: tuple[tuple[Any, Any], ...] = (  # Any: each converter takes its own kinds
    (int, _integer),
    (float, _number),
    (str, lambda value: visible_text(str.__str__(value))),
    (_BYTES, _raw),
    (_DATES, lambda value: value.isoformat()),
    (re.Pattern, lambda value: visible_text(str(value.pattern))),
    (_NAMED, lambda value: visible_text(str(value))),
)
