"""The lines of a log file as JSON objects; what cannot be one goes into the report.

Reads: messages, imports.report, imports.zstd. Feeds: imports.read.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dsh_nb.imports.report import ImportReport
from dsh_nb.imports.zstd import ZSTD_MAGIC, decompress
from dsh_nb.messages import JsonObject, lossless

__all__ = ["Line", "read_lines"]

_BOM = b"\xef\xbb\xbf"
_DEEPEST = 200
_DEEP = (b"]" * 100, b"}" * 100, b"]}" * 50)  # where a line ends many levels at once
_MARKS = ("seq", "uuid", "sessionId", "leafUuid")
_START = re.compile(rb'\{"[A-Za-z]+":')


class Line(NamedTuple):
    """One line: its number, from 1, and the object it holds."""

    number: int
    value: JsonObject


def read_lines(path: Path, report: ImportReport) -> Iterator[Line]:
    """The lines of the file in order, plain or compressed with zstd.

    Byte order marks, carriage returns, NUL bytes around a line and blank lines do no harm;
    invalid UTF-8, NaN and what is glued to the end of a torn line are mended, with a note.

    Raises:
        OSError: The file cannot be read.
        SessionError: It is compressed, and what reads that is not installed.
    """
    with path.open("rb") as file:
        if file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC:
            plain, faults = decompress(path.read_bytes())
            for fault in faults:
                report.note(0, fault)
            yield from _lines(io.BytesIO(plain), report)
        else:
            file.seek(0)
            yield from _lines(file, report)


def _lines(raw: Iterable[bytes], report: ImportReport) -> Iterator[Line]:
    for number, line in enumerate(raw, 1):
        report.lines = number
        text = line.removeprefix(_BOM).strip(b" \t\r\n\0")
        if not text:
            report.blank += 1
            continue
        value = _value(text, number, report)
        if isinstance(value, dict):
            yield Line(number, value)
        elif value is not None:
            report.skip(number, f"is JSON but not an object: {text[:40]!r}")


def _value(text: bytes, number: int, report: ImportReport) -> object:
    """What the line holds; None, and a word in the report, when it is no JSON."""
    try:
        value: object = _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return _mended(text, number, report, str(error))
    if any(run in text for run in _DEEP) and _too_deep(value):
        report.skip(number, "is nested too deeply")
        return None
    return [] if value is None else value


_decode = msgspec.json.Decoder().decode


def _mended(text: bytes, number: int, report: ImportReport, reason: str) -> object:
    try:
        value = _loads(text)
    except RecursionError:
        report.skip(number, "is nested too deeply")
        return None
    except ValueError:
        value = _glued(text)
        if value is None:
            report.skip(number, f"is not JSON: {reason}")
        else:
            report.note(number, "begins with a piece of another line, which is lost")
        return value
    if _too_deep(value):
        report.skip(number, "is nested too deeply")
        return None
    report.note(number, f"was mended: {reason}")
    cleaned: object = lossless(value)
    return cleaned


def _loads(text: bytes) -> object:
    """JSON that is less strict; NaN and infinite numbers become text."""
    said = text.decode("utf-8", "replace")
    value: object = json.loads(said, strict=False, parse_constant=str, parse_float=_number)
    return value


def _number(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def _glued(text: bytes) -> object:
    """The whole line at the end of one that was torn; None when there is none."""
    for found in [*_START.finditer(text, 1)][:50]:
        try:
            value: object = _decode(text[found.start() :])
        except (msgspec.DecodeError, RecursionError):
            continue
        # An object inside the torn line may end where the line does; it has no mark of a line.
        if isinstance(value, dict) and any(mark in value for mark in _MARKS):
            return value
    return None


def _too_deep(value: object) -> bool:
    """Whether `value` is nested so deeply that copying it would exhaust the stack."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for nest in level
            if isinstance(nest, (dict, list))
            for item in (nest.values() if isinstance(nest, dict) else nest)
        ]
        if not level:
            return False
    return True
