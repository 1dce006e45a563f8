"""Forking a log: a new session from the beginning of another one, valid at once.

Reads: messages, session.events, session.repair. Feeds: tables, notebook.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from operator import index

from dsh_nb.errors import SessionError
from dsh_nb.messages import JsonObject, ToolCallBlock
from dsh_nb.session.events import (
    AssistantMessage,
    SessionEvent,
    StepStart,
    ToolResult,
    ToolStart,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_nb.session.repair import closing_events

__all__ = ["Fork", "fork_events", "fork_name", "inherited_events"]


@dataclass(frozen=True, slots=True)
class Fork:
    """What a new session begins with.

    Attributes:
        events: Its events: the parent's up to the fork, then what closes a turn that is open there.
        header: Its lineage, for its header: ``parent`` is the id of the parent, ``kind`` is
            ``"fork"``, and the first ``inherited`` events are the parent's. What they billed is
            the parent's, see `inherited_events`.
    """

    events: tuple[SessionEvent, ...]
    header: JsonObject


def fork_events(
    log: Sequence[SessionEvent],
    *,
    at: int | None = None,
    before: str | int | None = None,
    turn: int | None = None,
) -> Fork:
    """The beginning of `log` for a session of its own; `log` itself is left alone.

    A turn that is open there ends as aborted, and each of its calls has a result that tells
    whether it had started. An approval that was given for one call lets nothing run in the fork;
    what people allowed *from then on* before the fork holds in it too.

    Args:
        log: A session, or its events.
        at: The ``seq`` of the last event that is taken over.
        before: A tool call, by its id or by its row in the table ``tool_calls`` (from 0, or from
            the end when negative). The fork ends before the step that asked for it: the model is
            asked anew.
        turn: The fork ends before this turn and the messages that started it, so that another
            message can take their place.

    Returns:
        The fork; of the whole log when nothing says where.

    Raises:
        TypeError: More than one place was given, or one is not a number.
        SessionError: There is no such place; the text says which ones there are.
    """
    given = [
        name
        for name, place in (("at", at), ("before", before), ("turn", turn))
        if place is not None
    ]
    if len(given) > 1:
        raise TypeError(f"a fork has one place, and {' and '.join(given)} were given; pass one")
    if at is not None:
        count = _after(log, index(at))
    elif before is not None:
        count = _before_call(log, before)
    elif turn is not None:
        count = _before_turn(log, index(turn))
    else:
        count = len(log)
    taken = log[:count]
    lineage: JsonObject = {"parent": getattr(log, "id", None), "kind": "fork", "inherited": count}
    return Fork((*taken, *closing_events(taken)), lineage)


def fork_name(parent: str, taken: Container[str], kind: str = "fork") -> str:
    """A name for a fork, or what else comes of `parent`, that is not `taken`: ``main-fork-2``."""
    name, number = f"{parent}-{kind}", 2
    while name in taken:
        name, number = f"{parent}-{kind}-{number}", number + 1
    return name


def inherited_events(log: object) -> int:
    """How many of the first events of `log` are another session's, as its header tells.

    What they billed was billed there: who adds up sessions counts it once when these are left out.
    """
    header = getattr(log, "header", None)
    count = header.get("inherited") if isinstance(header, dict) else None
    return count if type(count) is int and count > 0 else 0


def _after(log: Sequence[SessionEvent], seq: int) -> int:
    if 0 <= seq < len(log):
        return seq + 1
    there = f"its events are 0 to {len(log) - 1}" if len(log) else "it is empty"
    raise SessionError(f"the log has no event {seq!r} to fork at; {there}")


def _before_turn(log: Sequence[SessionEvent], turn: int) -> int:
    """Where the messages begin that started `turn`, or the turn when none did."""
    begin: int | None = None
    turns: list[int] = []
    for position, event in enumerate(log):
        data = event.data
        if isinstance(data, UserMessage) and begin is None:
            begin = position
        elif isinstance(data, TurnStart):
            if data.turn == turn:
                return position if begin is None else begin
            turns.append(data.turn)
        elif isinstance(data, TurnEnd):
            begin = None
    there = f"its turns are {turns[0]} to {turns[-1]}" if turns else "it has none"
    raise SessionError(f"the log has no turn {turn!r} to fork before; {there}")


def _before_call(log: Sequence[SessionEvent], call: str | int) -> int:
    calls = _calls(log)
    if isinstance(call, str):
        found = [begin for id, begin in calls if id == call]
        if len(found) == 1:
            return found[0]
        if found:
            raise SessionError(
                f"{len(found)} calls have the id {call!r}; pass the row of one in tool_calls"
            )
        newest = [id for id, _ in calls[-5:]]
        there = f"the newest calls are {newest}" if calls else "it has no calls"
        raise SessionError(f"the log has no call {call!r} to fork before; {there}")
    row = index(call)
    if -len(calls) <= row < len(calls):
        return calls[row][1]
    there = f"its rows are 0 to {len(calls) - 1}" if calls else "it has none"
    raise SessionError(f"the table tool_calls has no row {row!r} to fork before; {there}")


def _calls(log: Sequence[SessionEvent]) -> list[tuple[str, int]]:
    """The calls in the order of the table ``tool_calls``, each with where its step begins."""
    calls: list[tuple[str, int]] = []
    known: set[str] = set()
    step: int | None = None
    for position, event in enumerate(log):
        data = event.data
        begin = position if step is None else step
        if isinstance(data, StepStart):
            step = position
        elif isinstance(data, TurnEnd):
            step = None
        elif isinstance(data, AssistantMessage):
            asked = [block.id for block in data.content if isinstance(block, ToolCallBlock)]
            calls += [(id, begin) for id in asked]
            known.update(asked)
        elif isinstance(data, (ToolStart, ToolResult)) and data.call_id not in known:
            calls.append((data.call_id, begin))  # a part of a log may begin after its message
            known.add(data.call_id)
    return calls
