"""Which tools a text asks the demo model to call, in which steps and with which arguments.

Reads: messages, llm.demo_words, llm.demo_parameters, llm.demo_choice, llm.demo_arguments.
Feeds: llm.demo.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsh_nb.llm.demo_arguments import fill
from dsh_nb.llm.demo_choice import Chooser, Fit
from dsh_nb.llm.demo_parameters import Parameter, parameters_of
from dsh_nb.llm.demo_words import masked
from dsh_nb.messages import JsonObject, ToolSchema

__all__ = ["CHARS_READ", "Lack", "Plan", "Planned", "is_named", "plan_calls"]

CHARS_READ = 2_000
"""How much of a text is read: enough for what people ask a demo, and quick."""

_ORDER = r"\band then\b|\bthen\b|\bafter that\b|\bafterwards\b|\bfinally\b"
_BREAK = re.compile(
    rf"(?i)(?P<order>,?\s*(?:{_ORDER}),?|;|\n|[.!?](?=\s))|,(?=\s)|\band\b|\bas well as\b"
)
_POINTING = re.compile(r"(?i)\b(?:it|that|result|answer|sum|product)\b")
_REFUSED = re.compile(r"(?i)\b(?:don['’]?t|do not|never|without|not)\s+(?:\w+\s+){0,2}$")


class Planned(NamedTuple):
    """A call to make: `named` is whether the text names the tool or only describes it."""

    tool: str
    arguments: JsonObject
    named: bool

    @property
    def text(self) -> str:
        """The arguments as raw JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


class Lack(NamedTuple):
    """A tool that the text names without saying what it needs."""

    tool: ToolSchema
    missing: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What texts ask for.

    Attributes:
        steps: The calls of each step, in order; no call comes twice.
        lacks: What was named and cannot be called.
    """

    steps: list[list[Planned]] = field(default_factory=list)
    lacks: list[Lack] = field(default_factory=list)

    def add(self, planned: Sequence[Planned], apart: bool) -> None:
        """Append the calls that are new, to a step of their own if `apart`."""
        known = {(call.tool, call.text) for step in self.steps for call in step}
        new = [call for call in planned if (call.tool, call.text) not in known]
        if new and (apart or not self.steps):
            self.steps.append(new)
        else:
            self.steps[-1:] = [[*step, *new] for step in self.steps[-1:]]


class _Clause(NamedTuple):
    """A part of a text that asks for one tool; `apart` when it follows what came before."""

    text: str
    tool: ToolSchema
    mention: tuple[int, int]
    named: bool
    apart: bool


def plan_calls(
    texts: Sequence[str], tools: Sequence[ToolSchema], backs: Sequence[float | None] = ()
) -> Plan:
    """Plan the calls that `texts` ask for.

    Args:
        texts: The prompt, then what was added to it since.
        tools: What may be called.
        backs: The number that each step so far came to, which "it" in the next step stands for.
    """
    plan, chooser = Plan(), Chooser(tools)
    for text in texts:
        for clause in _clauses(_legible(text), chooser):
            apart = clause.apart or _points_back(clause)
            number = len(plan.steps) - (0 if apart else 1)
            back = backs[number - 1] if 0 < number <= len(backs) else None
            filled = fill(clause.tool.parameters, clause.text, mention=clause.mention, back=back)
            calls = [Planned(clause.tool.name, one, clause.named) for one in filled.calls]
            plan.add(calls, apart)
            if filled.missing and clause.named:
                plan.lacks.append(Lack(clause.tool, filled.missing))
    return plan


def is_named(text: str, tools: Sequence[ToolSchema]) -> bool:
    """Whether `text` names one of `tools`."""
    return Chooser(tools).names_one(_legible(text))


def _legible(text: str) -> str:
    """What is read of `text`, without the characters that stand for masked and taken text."""
    return re.sub("[\0\x02\x03]", " ", text[:CHARS_READ])


def _points_back(clause: _Clause) -> bool:
    numeric = any(parameter.is_number for parameter in parameters_of(clause.tool.parameters))
    return numeric and _POINTING.search(clause.text) is not None


def _clauses(text: str, chooser: Chooser) -> Iterator[_Clause]:
    """The parts of `text` that each ask for a tool."""
    begins = [(0, True)]
    found: Fit | None = None
    for start, end, order in _fragments(text):
        fit = chooser.best(text[start:end])
        if fit and found and _is_another(fit, found, order):
            begins.append((start, order))
        found = fit or found
    ends = [start for start, _ in begins[1:]] + [len(text)]
    for (start, apart), end in zip(begins, ends, strict=True):
        part = _without_ending(text[start:end])
        best = chooser.best(part)
        if best and not _REFUSED.search(part[: best.mention[0]]):
            yield _Clause(part, best.tool, best.mention, best.named, apart)


def _is_another(fit: Fit, found: Fit, order: bool) -> bool:
    """Whether a fragment asks for a tool anew and does not go on about the one before."""
    if fit.tool is found.tool:
        return fit.meant and found.meant
    return fit.named or fit.meant or order


def _fragments(text: str) -> Iterator[tuple[int, int, bool]]:
    """Spans of `text` between words like "and", and whether each follows in order."""
    readable, _ = masked(text)
    start, order = 0, True
    for found in _BREAK.finditer(readable):
        if text[start : found.start()].strip():
            yield start, found.start(), order
        # "2 and 3, then": the word that orders may come after a mere comma
        order = bool(found["order"]) or (order and found.start() == start)
        start = found.end()
    yield start, len(text), order


def _without_ending(part: str) -> str:
    """`part` without the words that lead over to the next one."""
    return re.sub(rf"(?i)(?:[\s,;]|\band\b|{_ORDER}|\bas well as\b)+$", "", part)
