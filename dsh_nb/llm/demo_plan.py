"""Which tools a text asks the demo model to call, in which steps and with which arguments.

Reads: messages, llm.demo_words, llm.demo_parameters, llm.demo_arguments. Feeds: llm.demo.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsh_nb.llm.demo_arguments import fill
from dsh_nb.llm.demo_parameters import Parameter, parameters_of
from dsh_nb.llm.demo_words import is_filler, masked, name_words, stem, synonym
from dsh_nb.messages import JsonObject, ToolSchema

__all__ = ["CHARS_READ", "Lack", "Plan", "Planned", "is_named", "plan_calls"]

CHARS_READ = 2_000
"""How much of a text is read: enough for what people ask a demo, and quick."""

_NAMED = 10.0
_WORDS_NAMED = 6.0
_MEANT = 3.0
_ENOUGH = 2.0
_CLOSE_CHARS = 8
_GENERIC = frozenset(
    "get show list run do make fetch compute calculate the a tool my is to".split()
)
_ORDER = r"\band then\b|\bthen\b|\bafter that\b|\bafterwards\b|\bfinally\b"
_BREAK = re.compile(
    rf"(?i)(?P<order>,?\s*(?:{_ORDER}),?|;|\n|[.!?](?=\s))|,(?=\s)|\band\b|\bas well as\b"
)
_POINTING = re.compile(r"(?i)\b(?:it|that|result|answer|sum|product)\b")
_REFUSED = re.compile(r"(?i)\b(?:don['’]?t|do not|never|without|not)\s+(?:\w+\s+){0,2}$")
_USING = re.compile(r"(?i)\b(?:use|using|call|run|try|with|via)\s+(?:the\s+|your\s+|my\s+)?$")
_POLITE = re.compile(r"(?i)\W*(?:(?:please|can|could|would|you|now|also|first|let|us|me)\W+)*")
_OPERATOR = re.compile(r"(?:\d|\b(?:it|that|result))\s*([-+*/×÷])\s*[\d(]")
_OPERATORS = {"+": "add", "-": "subtract", "*": "multiply", "×": "multiply"} | {
    "/": "divide",
    "÷": "divide",
}


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


class _Score(NamedTuple):
    """How well a tool fits a text; a higher tuple fits better."""

    score: float
    earliness: int  # minus the place of the tool's name
    rank: int  # minus the place of the tool in its list
    tool: ToolSchema
    mention: tuple[int, int]


def plan_calls(
    texts: Sequence[str], tools: Sequence[ToolSchema], backs: Sequence[float | None] = ()
) -> Plan:
    """Plan the calls that `texts` ask for.

    Args:
        texts: The prompt, then what was added to it since.
        tools: What may be called.
        backs: The number that each step so far came to, which "it" in the next step stands for.
    """
    plan = Plan()
    for text in texts:
        for clause in _clauses(_legible(text), tools):
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
    return _names_one(_legible(text), tools)


def _legible(text: str) -> str:
    """What is read of `text`, without the characters that stand for masked and taken text."""
    return re.sub("[\0\x02\x03]", " ", text[:CHARS_READ])


def _names_one(text: str, tools: Sequence[ToolSchema]) -> bool:
    readable = _readable(text, tools)
    said = _said(readable)
    return any(_name_score(readable, tool, said)[0] >= _WORDS_NAMED for tool in tools)


def _points_back(clause: _Clause) -> bool:
    numeric = any(parameter.is_number for parameter in parameters_of(clause.tool.parameters))
    return numeric and _POINTING.search(clause.text) is not None


def _clauses(text: str, tools: Sequence[ToolSchema]) -> Iterator[_Clause]:
    """The parts of `text` that each name a tool, or the whole when it only describes one."""
    begins: list[tuple[int, bool]] = []
    named = False
    for start, end, order in _fragments(text):
        if not begins:
            begins.append((0, True))
        if _names_one(text[start:end], tools):
            if named:
                begins.append((start, order))
            named = True
    ends = [start for start, _ in begins[1:]] + [len(text)]
    for (start, apart), end in zip(begins, ends, strict=True):
        part = _without_ending(text[start:end])
        best = _best(part, tools, _ENOUGH)
        if best and not _REFUSED.search(part[: best.mention[0]]):
            yield _Clause(part, best.tool, best.mention, best.score >= _WORDS_NAMED, apart)


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


def _best(text: str, tools: Sequence[ToolSchema], enough: float) -> _Score | None:
    common = Counter(word for tool in tools for word in _description_words(tool))
    readable = _readable(text, tools)
    scores = [_score(readable, tool, -rank, common) for rank, tool in enumerate(tools)]
    good = [score for score in scores if score.score >= enough]
    return max(good, key=lambda score: score[:3]) if good else None


def _readable(text: str, tools: Sequence[ToolSchema]) -> str:
    """`text` without its quotations, but for those that name a tool."""
    return masked(text, frozenset(tool.name.lower() for tool in tools))[0]


def _said(text: str) -> dict[str, tuple[int, int]]:
    """The stems of the words of `text`, with the first place of each."""
    words = list(re.finditer(r"[^\W_]+(?:['’]s)?", text))
    return {stem(found[0]): found.span() for found in reversed(words)}


def _score(text: str, tool: ToolSchema, rank: int, common: Counter[str]) -> _Score:
    said = _said(text)
    named, mention = _name_score(text, tool, said)
    described = sum(1 / common[word] for word in _description_words(tool) if word in said)
    hints = 0.5 * len(_parameter_words(tool) & set(said))
    return _Score(named + min(described, 3.0) + hints, -mention[0], rank, tool, mention)


def _name_score(
    text: str, tool: ToolSchema, said: dict[str, tuple[int, int]]
) -> tuple[float, tuple[int, int]]:
    mention = _mention(text, tool.name)
    if mention is not None:
        return _NAMED, mention
    words = name_words(tool.name)
    words = [word for word in words if word not in _GENERIC] or words
    spans = [said[stem(word)] for word in words if stem(word) in said]
    if len(spans) == len(words):
        return _WORDS_NAMED, _together(sorted(spans))
    if stem(words[0]) in said and _POLITE.fullmatch(text[: said[stem(words[0])][0]]):
        return _ENOUGH, said[stem(words[0])]
    meant = _meant(text)
    alike = [meant[synonym(word)] for word in words if synonym(word) in meant]
    return _MEANT * len(alike) / len(words), min(alike, default=(0, 0))


def _together(spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """One span from the first of `spans` over those that follow it closely."""
    begin, end = spans[0]
    for start, stop in spans[1:]:
        end = stop if start - end < _CLOSE_CHARS else end
    return begin, end


def _mention(text: str, name: str) -> tuple[int, int] | None:
    """Where `text` says the name; with "use add to add …" up to the second time."""
    pattern = re.sub(r"[_-]", "[ _-]", re.escape(name).replace(r"\-", "-"))
    found = [match.span() for match in re.finditer(rf"(?i)(?<!\w){pattern}(?!\w)", text)]
    if not found:
        return None
    first, second = found[0], found[min(1, len(found) - 1)]
    using = _USING.search(text[: first[0]])
    return (first[0], second[1] if using and second[0] - first[1] < 15 else first[1])


def _meant(text: str) -> dict[str, tuple[int, int]]:
    """What the words and operators of `text` mean, as the words that tools are called by."""
    words = list(re.finditer(r"(?i)\blook up\b|[^\W\d_]+", text))
    meant = {synonym(found[0]): found.span() for found in reversed(words)}
    for found in _OPERATOR.finditer(text):
        meant.setdefault(_OPERATORS[found[1]], (0, 0))
    return meant


def _description_words(tool: ToolSchema) -> frozenset[str]:
    first = tool.description.strip().partition("\n\n")[0]
    words = re.findall(r"[^\W\d_]{3,}", first)
    return frozenset(stem(word) for word in words if not is_filler(word)) - {
        stem(word) for word in name_words(tool.name)
    }


def _parameter_words(tool: ToolSchema) -> frozenset[str]:
    parameters = parameters_of(tool.parameters)
    words = [word for parameter in parameters for word in parameter.words]
    words += [str(choice) for parameter in parameters for choice in parameter.choices]
    return frozenset(stem(word) for word in words if len(word) > 2)
