"""A column of JSON: cells that share the log's data, and are copied when they are read.

Reads: messages. Feeds: tables.frame.

Copying the data of a million events into dicts takes longer and more memory than all other
columns together, and a column of dicts can neither be counted nor compared by pandas.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, take
from pandas.api.indexers import check_array_indexer

from dsh_nb.messages import lossless

__all__ = ["JsonArray", "JsonDtype"]


class JsonDtype(ExtensionDtype):
    """JSON of any shape; a cell reads as the dict, list or value that `json.loads` would make."""

    name = "json"
    type = object
    na_value = pd.NA

    @classmethod
    def construct_array_type(cls) -> builtins.type[JsonArray]:
        """The array of this dtype."""
        return JsonArray


class JsonArray(ExtensionArray):
    """Values that are JSON, or structs that encode to it.

    Reading a cell gives a copy: changing it changes neither the column nor the log.

    Args:
        cells: A one-dimensional array of objects, None for what is missing; it is kept.
    """

    def __init__(self, cells: np.ndarray[Any, Any]) -> None:  # Any: numpy's shape and dtype
        self._cells = cells

    @classmethod
    def of(cls, values: Sequence[object]) -> JsonArray:
        """The array that holds `values` themselves."""
        cells = np.empty(len(values), dtype=object)
        cells[:] = values
        return cls(cells)

    @classmethod
    def _from_sequence(
        cls, scalars: Iterable[object], *, dtype: object = None, copy: bool = False
    ) -> JsonArray:
        return cls.of([None if _missing(value) else value for value in scalars])

    @classmethod
    def _from_factorized(cls, values: Iterable[str], original: JsonArray) -> JsonArray:
        return cls.of([msgspec.json.decode(text) for text in values])

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[JsonArray]) -> JsonArray:
        return cls(np.concatenate([one._cells for one in to_concat]))

    @property
    def dtype(self) -> JsonDtype:
        """`JsonDtype`."""
        return JsonDtype()

    @property
    def nbytes(self) -> int:
        """Bytes of the references; the data belongs to the log."""
        return int(self._cells.nbytes)

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, item: Any) -> Any:  # Any: a position gives its value, else an array
        item = check_array_indexer(self, item)
        if isinstance(item, (int, np.integer)):
            return _plain(self._cells[item])
        return JsonArray(self._cells[item])

    def __setitem__(self, key: Any, value: object) -> None:  # Any: as above
        key = check_array_indexer(self, key)
        if isinstance(value, JsonArray):
            self._cells[key] = value._cells
        elif isinstance(key, (int, np.integer)) or isinstance(value, dict) or _missing(value):
            self._cells[key] = None if _missing(value) else value
        else:
            self._cells[key] = self._from_sequence(_each(value))._cells

    def __iter__(self) -> Iterator[object]:
        return map(_plain, self._cells)

    def __eq__(self, other: object) -> Any:  # Any: a mask, as in numpy
        if isinstance(other, (pd.Series, pd.Index, pd.DataFrame)):
            return NotImplemented
        others = other if isinstance(other, JsonArray) else [other] * len(self)
        return np.array([bool(a == b) for a, b in zip(self, others, strict=True)], dtype=bool)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        out = np.empty(len(self), dtype=object)
        out[:] = list(self)
        return out

    def __arrow_array__(self, type: object = None) -> Any:  # Any: pyarrow is optional
        """JSON text, which Parquet and other frames can hold."""
        pa: Any = import_module("pyarrow")  # Any: it may be missing where this is checked

        return pa.array(self.to_text(), type=type or pa.string())

    def to_text(self) -> list[str | None]:
        """Each cell as JSON text; None for a missing one."""
        return [None if cell is None else _text(cell) for cell in self._cells]

    def isna(self) -> np.ndarray[Any, Any]:
        """A mask of what is missing."""
        return np.fromiter((cell is None for cell in self._cells), dtype=bool, count=len(self))

    def take(
        self, indices: Any, *, allow_fill: bool = False, fill_value: object = None
    ) -> JsonArray:
        """The cells at `indices`; see `pandas.api.extensions.ExtensionArray.take`."""
        fill = None if _missing(fill_value) else fill_value
        # Any: what pandas makes of an array of numpy is one.
        cells: Any = take(self._cells, indices, fill_value=fill, allow_fill=allow_fill)
        if allow_fill:  # pandas would fill with a float
            cells[np.asarray(indices) == -1] = fill
        return JsonArray(cells)

    def copy(self) -> JsonArray:
        """An array of its own; what its cells hold is never changed."""
        return JsonArray(self._cells.copy())

    def unique(self) -> JsonArray:
        """Each value once, in the order of their first row."""
        _, first = np.unique(self.factorize()[0], return_index=True)
        return JsonArray(self._cells[np.sort(first)])

    def _values_for_factorize(self) -> tuple[np.ndarray[Any, Any], object]:
        texts = np.empty(len(self), dtype=object)
        texts[:] = self.to_text()
        return texts, None


def _missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _each(value: Any) -> list[object]:  # Any: whatever pandas assigns to several cells
    return list(value)


def _plain(cell: object) -> object:
    return pd.NA if cell is None else lossless(msgspec.to_builtins(cell))


def _text(cell: object) -> str:
    try:
        return msgspec.json.encode(cell).decode()
    except OverflowError:  # an integer beyond 64 bits
        import json

        return json.dumps(lossless(msgspec.to_builtins(cell)), separators=(",", ":"))
