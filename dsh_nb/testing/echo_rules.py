"""The rules of the Messages API for what the server sent and gets back.

Reads: messages, testing.block_rules, testing.message_rules. Feeds: testing.validator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dsh_nb.messages import JsonObject, clean_text
from dsh_nb.testing.block_rules import OWN_KEYS, THINKING_TYPES
from dsh_nb.testing.message_rules import Placed, assistant_runs, open_server_calls

__all__ = ["echo_findings"]

_OPEN_TYPES = frozenset({"text", "tool_use"})

Sent = Sequence[Sequence[JsonObject]]
"""The blocks of every message that the server has sent, in order."""


def echo_findings(messages: list[JsonObject], sent: Sent) -> Iterator[str]:
    """Where assistant messages differ from the ones that were `sent`.

    A message with a block that the client cannot make up (thinking, unknown types) must be one
    that was sent, with all its blocks in their order, and such messages must keep theirs. What may
    be left out: blank text, a server's call without its result, thinking at the end, and the end
    of a message that was cut, also inside its last text. Other messages are only held to the keys
    and values of their blocks.
    """
    sent = _with_open_ids(sent)
    after = 0
    for run in assistant_runs(messages):
        for placed in run:
            yield from _values(placed, sent)
        end = _end_of(run, sent, after)
        if end is None:
            yield _difference(run, sent, after)
        else:
            after = end


def _with_open_ids(sent: Sent) -> Sent:
    """`sent` with ``None`` for the ids that were sent before: the client had to find another."""
    seen: set[object] = set()
    opened = []
    for message in sent:
        opened.append([{**block, "id": None} if _id(block) in seen else block for block in message])
        seen |= {_id(block) for block in message} - {None}
    return opened


def _id(block: JsonObject) -> object:
    return block.get("id") if block.get("type") == "tool_use" else None


def _values(placed: Placed, sent: Sent) -> Iterator[str]:
    """Keys of a text or call that are not the client's own, and what was sent otherwise."""
    path, block = placed
    kind = block["type"]
    if kind not in _OPEN_TYPES:
        return
    if kind == "text" and block.keys() <= OWN_KEYS[kind]:
        return  # a text may lose what the server said about it
    origins = [origin for message in sent for origin in message if _is_same(block, origin)]
    if any(_is_equal(block, origin) for origin in origins):
        return
    own = {key: block[key] for key in OWN_KEYS[kind] & block.keys()}
    origin = origins[-1] if origins else own
    for key in sorted((block.keys() | origin.keys()) - {"cache_control"}):
        if key not in origin:
            yield f"{path}.{kind}.{key}: extra inputs are not permitted"
        elif key not in block or _canonical_value(block[key]) != _canonical_value(origin[key]):
            yield f"{path}.{kind}.{key}: must come back as it was sent"


def _end_of(run: list[Placed], sent: Sent, after: int, *, begun: bool = False) -> int | None:
    """Past which sent message `run` ends; ``None`` if it is not made of those from `after` on."""
    if not run or not (begun or any(_is_sealed(block) for _, block in run)):
        return after
    for number in range(after, len(sent)):
        fit = _fit(run, sent[number])
        if fit.is_whole:
            end = _end_of(run[fit.taken :], sent, number + 1, begun=True)
            if end is not None:
                return end
    return None


class _Fit(NamedTuple):
    """How many blocks of a run are those of a sent message, and whether nothing else is amiss."""

    taken: int
    is_whole: bool


def _fit(run: list[Placed], message: Sequence[JsonObject]) -> _Fit:
    taken = 0
    for place, origin in enumerate(message):
        if taken == len(run):
            break  # the rest of the message is not there, as after a cut
        block = run[taken].block
        is_last = taken == len(run) - 1
        if _is_same(block, origin) or (is_last and _is_beginning(block, origin)):
            taken += 1
        elif not _may_be_left_out(message, place):
            return _Fit(taken, is_whole=False)
    return _Fit(taken, is_whole=taken > 0)


def _is_same(block: JsonObject, origin: JsonObject) -> bool:
    if block["type"] != origin.get("type"):
        return False
    if block["type"] == "text":
        return bool(block["text"] == clean_text(str(origin.get("text"))))
    if block["type"] == "tool_use":
        is_open = origin.get("id") is None
        return _is_equal(block, origin) if is_open else bool(block["id"] == origin["id"])
    return _is_equal(block, origin)


def _is_equal(block: JsonObject, origin: JsonObject) -> bool:
    same_id = {"id": None} if block["type"] == "tool_use" and origin.get("id") is None else {}
    return _canonical({**block, **same_id}) == _canonical(origin)


def _is_beginning(block: JsonObject, origin: JsonObject) -> bool:
    """Whether it is a text that the client has not got to its end."""
    if block["type"] != "text" or origin.get("type") != "text":
        return False
    return clean_text(str(origin.get("text"))).startswith(block["text"])


def _may_be_left_out(message: Sequence[JsonObject], place: int) -> bool:
    refused = open_server_calls([*message])
    rest = [block for block in message[place:] if not _is_blank(block) and block not in refused]
    ends_thinking = all(block.get("type") in THINKING_TYPES for block in rest)
    return ends_thinking or message[place] not in rest


def _is_blank(block: JsonObject) -> bool:
    return block.get("type") == "text" and not str(block.get("text")).strip()


def _is_sealed(block: JsonObject) -> bool:
    return block["type"] not in _OPEN_TYPES


def _difference(run: list[Placed], sent: Sent, after: int) -> str:
    everything = {_canonical(block) for message in sent for block in message}
    for path, block in run:
        if _is_sealed(block) and _canonical(block) not in everything:
            return f"{path}: the {block['type']} block was never sent so"
    path, block = run[_reach(run, sent, after)]
    return f"{path}: the {block['type']} block was not sent in this place"


def _reach(run: list[Placed], sent: Sent, after: int) -> int:
    """How many blocks of `run` can at best be said to come from `sent`."""
    best = 0
    for number in range(after, len(sent)):
        fit = _fit(run, sent[number])
        more = _reach(run[fit.taken :], sent, number + 1) if fit.is_whole else 0
        best = max(best, fit.taken + more)
    return best


def _canonical(block: JsonObject) -> str:
    """JSON that is equal where values and key sets are; the client may add a cache mark.

    An input that is no object cannot be sent back, and neither can half a surrogate pair.
    """
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
        bare["input"] = {}
    return _canonical_value(bare)


def _canonical_value(value: object) -> str:
    return clean_text(json.dumps(value, sort_keys=True, ensure_ascii=False))
