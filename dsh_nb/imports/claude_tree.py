"""The tree of a Claude Code transcript: its main path, its branches and its sub-agents.

Reads: messages, imports.claude_content, imports.fields, imports.lines, imports.report.
Feeds: imports.claude_code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dsh_nb.imports.claude_content import result_ids
from dsh_nb.imports.fields import as_object, as_text
from dsh_nb.imports.lines import Line
from dsh_nb.imports.report import ImportReport
from dsh_nb.messages import JsonObject

__all__ = ["Chain", "Unit", "chains_of"]


@dataclass(slots=True, eq=False)
class Unit:
    """Lines that belong together: a prompt, or a message of the model with its results.

    Attributes:
        lane: ``""`` for the session itself, else the sub-agent.
        parent: The unit before it.
        message_id: The provider's id, of a message of the model.
        lines: In file order; those that say something, and those that only stand by.
        newest: Number of its last line that says something; 0 when none does.
        chain: The path that it is on.
    """

    lane: str
    parent: Unit | None
    message_id: str = ""
    lines: list[Line] = field(default_factory=list)
    newest: int = 0
    leaf: bool = True
    chain: Chain | None = None


@dataclass(slots=True, eq=False)
class Chain:
    """A path of units, oldest first.

    Attributes:
        lane: As of its units.
        units: The path, without what it shares with the chain that it leaves.
        leaves: The unit of another chain after which this one goes its own way.
    """

    lane: str
    units: list[Unit]
    leaves: Unit | None = None


def chains_of(lines: Iterable[Line], report: ImportReport) -> list[Chain]:
    """The paths of a transcript; of each lane first the one that leads to its newest message.

    What is not on that path is a chain of its own that leaves an earlier one: each line is on
    exactly one chain. A line whose parent is not in the file follows the line before it.
    """
    tree = _Tree(report)
    for line in lines:
        tree.place(line)
    return tree.chains()


class _Tree:
    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._units: list[Unit] = []
        self._of_uuid: dict[str, Unit] = {}
        self._first: dict[str, Line] = {}
        self._of_message: dict[tuple[str, str], Unit] = {}
        self._of_call: dict[str, Unit] = {}
        self._last: dict[str, Unit] = {}
        self._side = ""
        self._sides = 0

    def place(self, line: Line) -> None:
        """Put the next line into its unit."""
        number, row = line
        uuid = as_text(row.get("uuid"))
        before = self._first.get(uuid) if uuid else None
        if before is not None and before.value == row:
            self._report.skip(number, f"repeats line {before.number}")
            return
        parent = self._parent(number, row)
        lane = self._lane(row, parent)
        if parent is not None and parent.lane != lane:
            parent = None  # a sub-agent's first line may name the line that called it
        unit = self._unit(row, lane, parent or self._last.get(lane))
        unit.lines.append(line)
        if before is not None:
            self._report.note(number, f"has the uuid of line {before.number}")
        elif uuid:
            self._of_uuid[uuid], self._first[uuid] = unit, line
        if row.get("type") in ("user", "assistant"):
            unit.newest = number
            self._last[lane] = unit
            self._register(row, unit)
        self._last.setdefault(lane, unit)

    def _parent(self, number: int, row: JsonObject) -> Unit | None:
        name = row.get("parentUuid") or row.get("logicalParentUuid")
        if not name:
            return None
        found = self._of_uuid.get(as_text(name))
        if found is None:
            self._report.note(number, f"follows {name!r}, which is not before it in the file")
        return found

    def _lane(self, row: JsonObject, parent: Unit | None) -> str:
        if row.get("isSidechain") is not True:
            return ""
        agent = row.get("agentId")
        if isinstance(agent, str) and agent:
            lane = f"agent-{agent}"
        elif parent is not None and parent.lane:
            lane = parent.lane
        elif self._side and (row.get("type") != "user" or row.get("parentUuid")):
            lane = self._side
        else:
            self._sides += 1
            lane = f"sidechain-{self._sides}"
        self._side = lane
        return lane

    def _unit(self, row: JsonObject, lane: str, parent: Unit | None) -> Unit:
        kind, message = row.get("type"), as_object(row.get("message"))
        if kind == "assistant":
            id = as_text(message.get("id"))
            same = self._of_message.get((lane, id)) if id else None
            return same if same is not None and same is parent else self._new(lane, parent, id)
        if kind == "user":
            answered = (self._of_call.get(id) for id in result_ids(message.get("content")))
            unit = next((unit for unit in answered if unit and unit.lane == lane), None)
            return unit or self._new(lane, parent)
        return parent or self._new(lane, None)

    def _new(self, lane: str, parent: Unit | None, message_id: str = "") -> Unit:
        if parent is not None:
            parent.leaf = False
        unit = Unit(lane, parent, message_id)
        self._units.append(unit)
        return unit

    def _register(self, row: JsonObject, unit: Unit) -> None:
        if row.get("type") != "assistant":
            return
        message = as_object(row.get("message"))
        self._of_message[(unit.lane, unit.message_id)] = unit
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._of_call[as_text(block.get("id"))] = unit

    def chains(self) -> list[Chain]:
        """The paths: from the newest leaf up to what an earlier path holds already."""
        leaves = [unit for unit in self._units if unit.leaf]
        found: list[Chain] = []
        for leaf in sorted(leaves, key=lambda unit: -unit.newest):
            chain, unit = Chain(leaf.lane, []), leaf
            while unit.chain is None:
                unit.chain = chain
                chain.units.append(unit)
                if unit.parent is None:
                    break
                unit = unit.parent
            else:
                chain.leaves = unit
            chain.units.reverse()
            found.append(chain)
        return found
