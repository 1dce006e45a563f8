"""Secrets: which texts are keys, and the marker that stands for one wherever it is written down.

Reads: messages, session.events, session.packing. Feeds: plugins.persistence, notebook.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec

from dsh_nb.messages import BlockEnd, Retry, ToolCallDelta
from dsh_nb.session.events import AssistantChunk, AssistantMessage, SessionEvent, StepEnd, StepStart
from dsh_nb.session.packing import Delta, delta_text, run_end

__all__ = ["NO_MASKS", "Masks", "StreamMask", "current_masks", "know_secret", "mask_text"]

_LEAST = 12
_SECRET_NAME = re.compile(r"(?:API_KEY|ACCESS_KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_SHAPES = {  # how a key begins: its whole form, and what its beginning may look like
    "sk-": (r"sk-(?:(?:ant|proj|or|svcacct|admin)-[\w-]{16,}|[A-Za-z0-9]{20,})", r"sk-[\w-]*"),
    "sk_": (r"sk_(?:live|test)_[A-Za-z0-9]{16,}", r"sk_\w*"),
    "rk_": (r"rk_(?:live|test)_[A-Za-z0-9]{16,}", r"rk_\w*"),
    **{
        f"gh{kind}_": (rf"gh{kind}_[A-Za-z0-9]{{20,}}", rf"gh{kind}_[A-Za-z0-9]*")
        for kind in "pousr"
    },
    "github_pat_": (r"github_pat_\w{20,}", r"github_pat_\w*"),
    "glpat-": (r"glpat-[\w-]{16,}", r"glpat-[\w-]*"),
    "hf_": (r"hf_[A-Za-z0-9]{20,}", r"hf_[A-Za-z0-9]*"),
    "xox": (r"xox[abeprs]-[A-Za-z0-9-]{10,}", r"xox[A-Za-z0-9-]*"),
    "AIza": (r"AIza[\w-]{30,}", r"AIza[\w-]*"),
    "AKIA": (r"AKIA[A-Z0-9]{16}", r"AKIA[A-Z0-9]{0,16}"),
    "ASIA": (r"ASIA[A-Z0-9]{16}", r"ASIA[A-Z0-9]{0,16}"),
}
_BEARER = r"[A-Za-z0-9._~+/=-]"
# What a key may follow: no letter and no digit, unless that ends an escape of JSON in a text.
_BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
_CONTEXT = 8  # characters before a text that say whether a key begins in it
_WINDOW = 2_000  # chunks at the end of a batch that are looked at for the beginning of a key


class Masks:
    """Finds secrets: those of known value, and those that look like a key.

    Args:
        values: Secrets by the name that their marker shows; short ones are left out.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in values.items():
            if len(value) >= _LEAST:
                self._names[value] = name
                self._names[_inside_json(value)] = name  # arguments of a call are JSON in text
        known = sorted(self._names, key=len, reverse=True)
        self._begins = (*known, *_SHAPES, "Bearer ", "bearer ")
        self._traces = (*known, *_SHAPES, "earer ")
        self._traces_in_json = tuple(_inside_json(trace).encode() for trace in self._traces)
        shapes = "|".join(whole for whole, _ in _SHAPES.values())
        self._value = re.compile("|".join(map(re.escape, known)) or r"(?!)")
        self._shape = re.compile(
            rf"{_BEFORE}(?:{shapes})|(?<=[Bb]earer ){_BEARER}{{16,}}", re.ASCII
        )
        begun = "|".join(beginning for _, beginning in _SHAPES.values())
        self._begun = re.compile(rf"(?:{_BEFORE}(?:{begun})|[Bb]earer {_BEARER}*)\Z", re.ASCII)

    def text(self, text: str) -> str:
        """`text` with a marker for each secret; itself when there is none."""
        spans = self.spans(text)
        return "".join(_with_markers(text, 0, spans)) if spans else text

    def value(self, value: Any) -> Any:  # Any: structs and JSON, the same comes back
        """`value`, a struct or JSON, with a marker for each secret in its texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            masked = {name: self.value(old) for name, old in fields.items()}
            return msgspec.structs.replace(value, **masked) if masked != fields else value
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.value(item) for item in value)
        return value

    def suspects(self, line: bytes) -> bool:
        """Whether a line of JSON may hold a secret; told at little cost."""
        return any(trace in line for trace in self._traces_in_json)

    def line(self, event: SessionEvent, line: bytes) -> bytes:
        """`line`, the JSON of `event`, with a marker for each secret; itself when there is none."""
        if not self.suspects(line):
            return line
        return _encode(msgspec.structs.replace(event, data=self.value(event.data)))

    def spans(self, text: str, start: int = 0) -> list[tuple[int, int, str]]:
        """Where the secrets of `text` are, from `start` on, each with its marker."""
        if not any(trace in text for trace in self._traces):
            return []
        found = [(*match.span(), "key") for match in self._shape.finditer(text, start)]
        for match in self._value.finditer(text, start):
            found.append((*match.span(), self._names[match[0]]))
        return _merged(found)

    def open_tail(self, text: str) -> int:
        """How many characters at the end of `text` may be the beginning of a secret."""
        match = self._begun.search(text)
        tail = len(text) - match.start() if match else 0
        for begin in self._begins:
            for length in range(min(len(begin), len(text)), tail, -1):
                if text.endswith(begin[:length]):
                    tail = length
                    break
        return tail


class _NoMasks(Masks):
    """Finds nothing."""

    def spans(self, text: str, start: int = 0) -> list[tuple[int, int, str]]:
        return []

    def suspects(self, line: bytes) -> bool:
        return False

    def open_tail(self, text: str) -> int:
        return 0


class StreamMask:
    """Masks the chunks of one session, whose secrets may come in pieces, batch after batch.

    The pieces of a secret become its marker in the first of them and nothing in the others, so
    that the chunks of a block assemble to its masked text.
    """

    def __init__(self) -> None:
        self._before: dict[_Block, str] = {}
        self._attempt = 0

    def cut(self, events: Sequence[SessionEvent], masks: Masks) -> int:
        """How many of `events` can be masked now: what the others begin may be a secret."""
        cut = len(events)
        secrets = [
            secret
            for positions in _open_blocks(events).values()
            for secret in _whereabouts([_text(events[one]) for one in positions], positions, masks)
        ]
        while inside := [begin for begin, end in secrets if begin < cut <= end]:
            cut = min(inside)
        return cut

    def mask(self, events: Sequence[SessionEvent], masks: Masks) -> Sequence[SessionEvent]:
        """`events` with their chunks masked; those that follow the ones of the call before."""
        masked: list[SessionEvent] | None = None
        blocks = self._blocks(events)
        for block, positions in blocks.items():
            texts = [_text(events[position]) for position in positions]
            before = self._before.get(block, "")
            joined = before + "".join(texts)
            self._before[block] = joined[-_CONTEXT:]
            spans = masks.spans(joined, len(before))
            if spans:
                masked = [*events] if masked is None else masked
                cuts = [*accumulate(map(len, texts), initial=len(before))]
                for position, text in zip(positions, _pieces(joined, cuts, spans), strict=True):
                    masked[position] = _saying(events[position], text)
        if blocks:  # those of earlier steps do not go on
            newest = max(blocks)[:3]
            self._before = {one: self._before[one] for one in self._before if one[:3] == newest}
        return events if masked is None else masked

    def _blocks(self, events: Sequence[SessionEvent]) -> dict[_Block, list[int]]:
        """Where the deltas of each block are."""
        blocks: dict[_Block, list[int]] = {}
        position = 0
        while position < len(events):
            end = run_end(events, position)
            data = events[position].data
            if end > position:
                block = (data.turn, data.step, self._attempt, data.chunk.index)
                blocks.setdefault(block, []).extend(range(position, end))
            elif isinstance(data, AssistantChunk) and isinstance(data.chunk, Retry):
                self._attempt += 1
            position = max(end, position + 1)
        return blocks


_Block = tuple[int, int, int, int]


def know_secret(value: str, name: str = "key") -> None:
    """Mask `value` from now on wherever something is written down; `name` is what is shown."""
    _known[name] = value


def mask_text(text: str) -> str:
    """`text` with a readable marker for each secret: keys of the environment, and what looks so."""
    return current_masks().text(text)


def current_masks() -> Masks:
    """The masks for the keys that are in the environment now and those that were made known."""
    global _newest
    names = [name for name in os.environ if _SECRET_NAME.search(name)]
    values = {name: os.environ.get(name, "") for name in names}  # another thread may drop one
    values |= _known
    if _newest is None or _newest[0] != values:
        _newest = (values, Masks(values))
    return _newest[1]


_known: dict[str, str] = {}
_newest: tuple[dict[str, str], Masks] | None = None


_encode = msgspec.json.Encoder().encode


def _inside_json(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


def _text(event: SessionEvent) -> str:
    return delta_text(event.data.chunk)


def _saying(event: SessionEvent, text: str) -> SessionEvent:
    """The same delta with another text."""
    chunk = event.data.chunk
    if isinstance(chunk, ToolCallDelta):
        chunk = msgspec.structs.replace(chunk, arguments_delta=text)
    else:
        chunk = msgspec.structs.replace(chunk, text=text)
    data = msgspec.structs.replace(event.data, chunk=chunk)
    return msgspec.structs.replace(event, data=data)


def _open_blocks(events: Sequence[SessionEvent]) -> dict[int, list[int]]:
    """Where the deltas are, near the end, of the blocks that may still go on; by block index."""
    blocks: dict[int, list[int]] = {}
    closed: set[int] = set()
    for position in range(len(events) - 1, max(-1, len(events) - _WINDOW), -1):
        data = events[position].data
        if isinstance(data, AssistantMessage | StepStart | StepEnd):
            break
        if not isinstance(data, AssistantChunk):
            continue
        if isinstance(data.chunk, Retry):
            break
        if isinstance(data.chunk, BlockEnd):
            closed.add(data.chunk.index)
        elif isinstance(data.chunk, Delta) and data.chunk.index not in closed:
            blocks.setdefault(data.chunk.index, []).append(position)
    return {index: positions[::-1] for index, positions in blocks.items()}


def _whereabouts(
    texts: Sequence[str], positions: Sequence[int], masks: Masks
) -> Iterator[tuple[int, float]]:
    """The positions of the first and the last event of each secret in the texts of a block.

    One that may only have begun ends nowhere yet.
    """
    joined, ends = "".join(texts), [*accumulate(map(len, texts))]
    for begin, end, _ in masks.spans(joined):
        yield positions[bisect_right(ends, begin)], positions[bisect_right(ends, end - 1)]
    tail = masks.open_tail(joined)
    if tail:
        yield positions[bisect_right(ends, len(joined) - tail)], math.inf


def _merged(found: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Secrets in order, those that overlap as one, with the marker of each."""
    merged: list[tuple[int, int, str]] = []
    for begin, end, name in sorted(found):
        marker = f"[masked {name}]"
        if merged and begin < merged[-1][1]:
            first, last, before = merged.pop()
            begin, end, marker = (
                first,
                max(last, end),
                before if marker == before else before + marker,
            )
        merged.append((begin, end, marker))
    return merged


def _with_markers(text: str, start: int, spans: Iterable[tuple[int, int, str]]) -> Iterable[str]:
    for begin, end, marker in spans:
        yield text[start:begin]
        yield marker
        start = end
    yield text[start:]


def _pieces(text: str, cuts: Sequence[int], spans: Iterable[tuple[int, int, str]]) -> Iterable[str]:
    """`text` between `cuts`, with a marker in the piece where its secret begins."""
    waiting = [*spans]
    for begin, end in pairwise(cuts):
        piece: list[str] = []
        at = begin
        while waiting and waiting[0][0] < end:
            first, last, marker = waiting[0]
            if first >= begin:
                piece += (text[at:first], marker)
            at = min(last, end)
            if last > end:
                break
            waiting.pop(0)
        piece.append(text[at:end])
        yield "".join(piece)


NO_MASKS = _NoMasks({})
"""Masks that find nothing."""
