"""Transcripts of Claude Code as sessions: the main path, branches, and sub-agents.

Reads: messages, session.session, imports.claude_path, imports.claude_tree, imports.fields,
imports.lines, imports.report. Feeds: imports.read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from dsh_nb.imports.claude_path import Path, Spent
from dsh_nb.imports.claude_tree import Chain, Unit, chains_of
from dsh_nb.imports.fields import as_text
from dsh_nb.imports.lines import Line
from dsh_nb.imports.report import ImportReport
from dsh_nb.messages import JsonObject
from dsh_nb.session.session import Session

__all__ = ["read_claude_code"]

_NAMED = {"cwd": "cwd", "gitBranch": "gitBranch", "version": "version", "slug": "slug"}
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


def read_claude_code(
    lines: Iterable[Line], report: ImportReport, name: str, spent: Spent
) -> list[Session]:
    """The sessions of one transcript: first the main path, then branches and sub-agents.

    Args:
        lines: Of the file.
        report: Takes what is not understood.
        name: Id of the session where no line names one.
        spent: Messages whose usage is counted already; those of this file are added.
    """
    facts = _Facts(name)
    chains = chains_of(facts.watch(lines), report)
    if not chains:
        return [Session(name)]
    main = next((chain for chain in chains if not chain.lane), chains[0])
    ordered = [main, *(chain for chain in chains if chain is not main)]
    paths = _Paths(facts, main, report, spent)
    sessions = [paths.session(chain) for chain in ordered]
    report.settle(facts.numbers, [path.draft.lines for path in paths.paths])
    report.events = sum(map(len, sessions))
    return sessions


class _Facts:
    """What the lines say of the session as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = ""
        self.header: JsonObject = {}
        self.numbers = array("Q")
        self._titles: dict[str, str] = {}

    def watch(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines as they come; the newest value of each fact stays."""
        for line in lines:
            row = line.value
            self.numbers.append(line.number)
            self.id = as_text(row.get("sessionId")) or self.id
            for key, field in _NAMED.items():
                if isinstance(row.get(key), str):
                    self.header[field] = row[key]
            kind = as_text(row.get("type"))
            if kind in _TITLES:
                self._titles[kind] = as_text(row.get(_TITLES[kind]))
            yield line

    @property
    def title(self) -> str | None:
        """What a person called the session, else what the model did."""
        found = (self._titles.get(kind) for kind in ("custom-title", "ai-title", "summary"))
        return next((title for title in found if title), None)


class _Paths:
    """Makes a session of each chain, with its lineage in the header."""

    def __init__(self, facts: _Facts, main: Chain, report: ImportReport, spent: Spent) -> None:
        self._facts, self._main, self._report, self._spent = facts, main, report, spent
        self._id = facts.id or facts.name
        self.paths: list[Path] = []
        self._made: dict[Chain, tuple[str, Path]] = {}
        self._branches = 0

    def session(self, chain: Chain) -> Session:
        path = Path(self._report, self._spent)
        for unit in chain.units:
            path.take(unit)
        path.end()
        self.paths.append(path)
        id, lineage = self._lineage(chain, path)
        self._made[chain] = (id, path)
        header = {**self._facts.header, **lineage}
        if chain is self._main and self._facts.title:
            header["title"] = self._facts.title
        if path.model:
            header["model"] = path.model
        if path.draft.events:
            header["created"] = path.draft.events[0].time
        return Session(id, path.draft.events, header=header)

    def _lineage(self, chain: Chain, path: Path) -> tuple[str, JsonObject]:
        if chain.leaves is not None:
            return self._branch(chain.leaves)
        if not chain.lane:
            return self._id, {}
        if chain is self._main and self._facts.name.startswith("agent-"):
            id = f"{self._id}.{self._facts.name}"  # the file of one sub-agent
        else:
            id = f"{self._id}.{chain.lane}"
        return id, {"parent": self._id, "kind": "sidechain", **self._caller(chain, path)}

    def _branch(self, leaves: Unit) -> tuple[str, JsonObject]:
        self._branches += 1
        parent, at = self._id, None
        if leaves.chain in self._made:
            parent, path = self._made[leaves.chain]
            at = path.ends.get(leaves)
        lineage: JsonObject = {"parent": parent, "kind": "branch", "at": at}
        return f"{self._id}.branch-{self._branches}", lineage

    def _caller(self, chain: Chain, path: Path) -> JsonObject:
        """The call on the main path that a sub-agent worked for, where it can be told."""
        if self._main not in self._made:
            return {}
        _, main = self._made[self._main]
        agent = chain.lane.removeprefix("agent-")
        call_id = main.agents.get(agent) or main.asked.get(path.prompt)
        if call_id is None:
            return {}
        return {"callId": call_id, "at": main.calls.get(call_id)}
