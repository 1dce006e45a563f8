"""Comparing two logs: what was said and done in each, side by side, as plain data.

Reads: session.events, session.items. Feeds: tables.diff, notebook.diff.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeVar

from dsh_nb.session.events import SessionEvent
from dsh_nb.session.items import Item, items_of

__all__ = ["Pair", "Span", "Status", "TurnPair", "compare", "spans_of"]

T = TypeVar("T")
Status = Literal["same", "changed", "added", "removed"]

_MOST_MATCHED = 1_000
"""Longer lists that differ are not matched, but taken step by step, and then place by place."""

_MOST_ALIKE = 30_000
"""Nor are those with more pairs of the same: matching takes time with them."""

_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Pair:
    """What stands side by side; None where one side has nothing."""

    a: Item | None
    b: Item | None

    @property
    def status(self) -> Status:
        """``added`` is in b alone, ``removed`` in a alone."""
        if self.a is None:
            return "added"
        if self.b is None:
            return "removed"
        return "same" if _says(self.a) == _says(self.b) else "changed"

    @property
    def one(self) -> Item:
        """The item of a, else that of b."""
        item = self.a or self.b
        assert item is not None  # a pair has at least one
        return item


@dataclass(frozen=True, slots=True)
class TurnPair:
    """Two turns of one number; what came before the first turn has the number 0."""

    turn: int
    pairs: tuple[Pair, ...]

    @property
    def status(self) -> Status:
        """That of all its pairs where they have the same one, else ``changed``."""
        found = {pair.status for pair in self.pairs}
        return found.pop() if len(found) == 1 else "changed" if found else "same"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text; what is not `same` is not in the other text."""

    text: str
    same: bool


def compare(a: Iterable[SessionEvent], b: Iterable[SessionEvent]) -> list[TurnPair]:
    """Two logs side by side, turn by turn.

    Turns are paired by number. In a turn, what is the same in both keeps its order and stands side
    by side; between, what is of one kind (the calls of one tool, the texts, …) is paired in
    order, and the rest stands alone. Ids, times and streaming do not count; results are compared
    by what the model was told.

    Args:
        a: A session, or its events.
        b: Another one.
    """
    ours, theirs = _by_turn(items_of(a)), _by_turn(items_of(b))
    return [
        TurnPair(turn, tuple(_paired(ours.get(turn, []), theirs.get(turn, []))))
        for turn in sorted(ours.keys() | theirs.keys())
    ]


def spans_of(a: str, b: str) -> tuple[list[Span], list[Span]]:
    """Two texts in pieces: what both have, in order, and what only one has.

    Words are compared; of long texts lines, and of very long ones what stands between their
    common beginning and end.
    """
    for pattern in (_WORDS, _LINES):
        ours, theirs = _Words(pattern.findall(a)), _Words(pattern.findall(b))
        if ours.keys == theirs.keys:  # only the white space differs
            ours.keys, theirs.keys = ours.words, theirs.words
        head, tail = _common_ends(ours.keys, theirs.keys)
        if _matchable(ours.middle(head, tail), theirs.middle(head, tail)):
            return _matched_spans(ours, theirs, head, tail)
    return ours.spans(head, tail, []), theirs.spans(head, tail, [])


class _Words:
    """A text in words or lines, which are the same when they are so but for space behind them."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.keys = [word.rstrip() or word for word in words]

    def middle(self, head: int, tail: int) -> list[str]:
        """What is left without the first `head` and the last `tail`."""
        return self.keys[head : len(self.keys) - tail]

    def spans(self, head: int, tail: int, same: Iterable[tuple[int, int]]) -> list[Span]:
        """The text in pieces; `same` are places in the middle that the other has too."""
        end = len(self.words) - tail
        spans, at = [self._span(0, head, True)], head
        for start, stop in same:
            spans += [
                self._span(at, head + start, False),
                self._span(head + start, head + stop, True),
            ]
            at = head + stop
        spans += [self._span(at, end, False), self._span(end, len(self.words), True)]
        return _joined(spans)

    def _span(self, start: int, stop: int, same: bool) -> Span:
        return Span("".join(self.words[start:stop]), same)


def _matched_spans(
    ours: _Words, theirs: _Words, head: int, tail: int
) -> tuple[list[Span], list[Span]]:
    a, b = ours.middle(head, tail), theirs.middle(head, tail)
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    left = ours.spans(head, tail, [(one.a, one.a + one.size) for one in blocks])
    return left, theirs.spans(head, tail, [(one.b, one.b + one.size) for one in blocks])


def _by_turn(items: Iterable[Item]) -> dict[int, list[Item]]:
    turns: dict[int, list[Item]] = {}
    for item in items:
        turns.setdefault(item.turn, []).append(item)
    return turns


def _says(item: Item) -> tuple[str, str, str]:
    return item.what, item.name, item.text


def _kind(item: Item) -> tuple[str, str]:
    return item.what, item.name


def _paired(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Pair]:
    """The items of one turn, or of a part of it, side by side."""
    head, tail = _common_ends([_says(one) for one in a], [_says(one) for one in b])
    for one, other in zip(a[:head], b[:head], strict=True):
        yield Pair(one, other)
    yield from _middle(a[head : len(a) - tail], b[head : len(b) - tail])
    for one, other in zip(a[len(a) - tail :], b[len(b) - tail :], strict=True):
        yield Pair(one, other)


def _middle(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Pair]:
    if _matchable([*map(_kind, a)], [*map(_kind, b)]):
        yield from _matched(a, b, _says, lambda a, b: _matched(a, b, _kind, _alone))
        return
    ours, theirs = _by_step(a), _by_step(b)
    if len(ours.keys() | theirs.keys()) > 1:
        for step in sorted(ours.keys() | theirs.keys()):
            yield from _paired(ours.get(step, []), theirs.get(step, []))
    else:
        yield from _alike_by_place(a, b)


def _matchable(a: Sequence[Hashable], b: Sequence[Hashable]) -> bool:
    """Whether matching two lists takes no time that a reader would notice."""
    if max(len(a), len(b)) > _MOST_MATCHED:
        return False
    ours, theirs = Counter(a), Counter(b)
    return sum(count * theirs[one] for one, count in ours.items()) <= _MOST_ALIKE


def _matched(
    a: Sequence[Item],
    b: Sequence[Item],
    key: Callable[[Item], object],
    between: Callable[[Sequence[Item], Sequence[Item]], Iterable[Pair]],
) -> Iterator[Pair]:
    """Pairs of what has the same `key`, in order, and what `between` makes of the rest."""
    matcher = SequenceMatcher(None, [*map(key, a)], [*map(key, b)], autojunk=False)
    for same, a1, a2, b1, b2 in matcher.get_opcodes():
        if same == "equal":
            yield from map(Pair, a[a1:a2], b[b1:b2])
        else:
            yield from between(a[a1:a2], b[b1:b2])


def _alone(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Pair]:
    yield from (Pair(one, None) for one in a)
    yield from (Pair(None, one) for one in b)


def _alike_by_place(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Pair]:
    """Pairs of what stands in the same place and is of one kind."""
    for one, other in zip(a, b, strict=False):
        yield from [Pair(one, other)] if _kind(one) == _kind(other) else _alone([one], [other])
    yield from _alone(a[len(b) :], b[len(a) :])


def _by_step(items: Iterable[Item]) -> dict[int, list[Item]]:
    steps: dict[int, list[Item]] = {}
    for item in items:
        steps.setdefault(item.step, []).append(item)
    return steps


def _common_ends(a: Sequence[T], b: Sequence[T]) -> tuple[int, int]:
    """How many of the first and of the last are the same."""
    shorter = min(len(a), len(b))
    head = next((n for n in range(shorter) if a[n] != b[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if a[-1 - n] != b[-1 - n]), rest)
    return head, tail


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Neighbours of one kind as one, without empty ones."""
    joined: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if joined and joined[-1].same == span.same:
            joined[-1] = Span(joined[-1].text + span.text, span.same)
        else:
            joined.append(span)
    return joined
