"""What a view has after the ops that it was told: a model of its own, which counts as a browser."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Screen", "seen"]

_TAG = re.compile(r"<[^>]*>")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}


@dataclass
class Screen:
    """Parts, each a frame and its blocks.

    Attributes:
        parts: As ``[frame, blocks]``.
    """

    parts: list[tuple[str, list[str]]] = field(default_factory=list)

    def apply(self, ops: Iterable[Sequence[Any]]) -> Screen:  # Any: an op holds what JSON holds
        for kind, *rest in ops:
            getattr(self, f"_{kind}")(*rest)
        return self

    def blocks(self, part: int = 0) -> list[str]:
        return self.parts[part][1] if part < len(self.parts) else []

    def _part(self, part: int, frame: str) -> None:
        if part < len(self.parts):
            self.parts[part] = (frame, self.parts[part][1])
        else:
            assert part == len(self.parts), "a part was left out"
            self.parts.append((frame, []))

    def _block(self, part: int, index: int, value: str) -> None:
        blocks = self.parts[part][1]
        assert index <= len(blocks), "a block was left out"
        blocks[index:] = [value, *blocks[index + 1 :]]

    def _edit(self, part: int, index: int, keep: int, value: str) -> None:
        blocks = self.parts[part][1]
        units = blocks[index].encode("utf-16-le")
        assert 0 <= keep <= len(units) // 2
        blocks[index] = units[: 2 * keep].decode("utf-16-le") + value

    def _add(self, part: int, index: int, text: str, depth: int) -> None:
        blocks = self.parts[part][1]
        before, *ends = re.split("(?=</)", blocks[index])
        at = len(ends) - depth
        assert at >= 0
        literal = "".join(_ENTITIES.get(char, char) for char in text)
        blocks[index] = "".join([before, *ends[:at], literal, *ends[at:]])

    def _trim(self, part: int, count: int) -> None:
        assert count <= len(self.parts[part][1])
        del self.parts[part][1][count:]

    def _cut(self, count: int) -> None:
        assert count <= len(self.parts)
        del self.parts[count:]


def seen(blocks: Iterable[str]) -> str:
    """The words that a reader sees, each white space as one blank."""
    return " ".join(html.unescape(_TAG.sub("", " ".join(blocks))).split())
