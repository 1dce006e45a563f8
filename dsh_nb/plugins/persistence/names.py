"""The name of a session's file: a safe form of its id.

Feeds: plugins.persistence.file, plugins.persistence.folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import count

__all__ = ["SUFFIX", "file_name", "file_names"]

SUFFIX = ".jsonl"
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,78}[a-z0-9_-])?")
_NUMBERED = re.compile(r"(.+)~(\d{1,6})")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")
_MOST_READABLE = 40


def file_name(id: str) -> str:
    """The file name of the session `id`: the id itself where every file system can hold it.

    Other ids (long, with capitals, separators, dots at an end, the names of devices) become what
    is readable of them and a digest after a ``~``, so that two ids never share a file.
    """
    numbered = _NUMBERED.fullmatch(id)
    if numbered is not None:
        return f"{_stem(numbered[1])}~{numbered[2]}{SUFFIX}"
    return f"{_stem(id)}{SUFFIX}"


def file_names(id: str) -> Iterator[tuple[str, str]]:
    """`id` and its file name, then the id with a number, ``main~2``, and so on."""
    yield id, file_name(id)
    for number in count(2):
        yield f"{id}~{number}", file_name(f"{id}~{number}")


def _stem(id: str) -> str:
    if _PLAIN.fullmatch(id) and not _DEVICE.fullmatch(id):
        return id
    readable = re.sub(r"[^a-z0-9]+", "-", id.lower()).strip("-")[:_MOST_READABLE]
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable or 'session'}~{digest}"
