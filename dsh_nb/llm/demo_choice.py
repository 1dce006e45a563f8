"""Which tool a text names or describes best.

Reads: messages, llm.demo_words, llm.demo_parameters. Feeds: llm.demo_plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dsh_nb.llm.demo_parameters import parameters_of
from dsh_nb.llm.demo_words import is_filler, masked, name_words, stem, synonym
from dsh_nb.messages import ToolSchema

__all__ = ["Chooser", "Fit"]

_EXACTLY_NAMED = 10.0
_NAMED = 6.0
_MEANT = 3.0
_ENOUGH = 2.0
_DESCRIBED_AT_MOST = 3.0
_CLOSE_CHARS = 8
_GENERIC = frozenset(
    "get show list run do make fetch compute calculate the a tool my is to".split()
)
_USING = re.compile(r"(?i)\b(?:use|using|call|run|try|with|via)\s+(?:the\s+|your\s+|my\s+)?$")
_POLITE = re.compile(r"(?i)\W*(?:(?:please|can|could|would|you|now|also|first|let|us|me)\W+)*")
_OPERATOR = re.compile(r"(?:\d|\b(?:it|that|result))\s*([-+*/×÷])\s*[\d(]")
_OPERATORS = dict(
    zip("+-*×/÷", "add subtract multiply multiply divide divide".split(), strict=True)
)


class Fit(NamedTuple):
    """A tool that fits a text.

    Attributes:
        tool: The tool.
        mention: Span of the words that name it; empty where none does.
        named: Whether the text names it rather than describes it.
        meant: Whether it names it or uses other words for its name.
    """

    tool: ToolSchema
    mention: tuple[int, int]
    named: bool
    meant: bool


class Chooser:
    """Chooses among tools by the words of their names, descriptions and parameters."""

    def __init__(self, tools: Sequence[ToolSchema]) -> None:
        self._names = frozenset(tool.name.lower() for tool in tools)
        self._tools = [(tool, _description_words(tool), _parameter_words(tool)) for tool in tools]
        # a word that describes several tools tells little
        self._common = Counter(word for _, described, _ in self._tools for word in described)

    def names_one(self, text: str) -> bool:
        """Whether `text` names a tool."""
        readable, _ = masked(text, self._names)
        said = _said(readable)
        return any(_name_score(readable, tool, said)[0] >= _NAMED for tool, _, _ in self._tools)

    def best(self, text: str) -> Fit | None:
        """The tool that fits `text` best: of equals the one named first, then the first one."""
        readable, _ = masked(text, self._names)
        said = _said(readable)
        found: list[tuple[float, int, Fit]] = []
        for tool, described, hinted in self._tools:
            name, mention = _name_score(readable, tool, said)
            words = sum(1 / self._common[word] for word in described if word in said)
            score = name + min(words, _DESCRIBED_AT_MOST) + len(hinted & said.keys()) / 2
            if score >= _ENOUGH:
                fit = Fit(tool, mention, name >= _NAMED, name >= _MEANT)
                found.append((score, -mention[0], fit))
        return max(found, key=lambda one: one[:2])[2] if found else None


def _said(text: str) -> dict[str, tuple[int, int]]:
    """The stems of the words of `text`, with the first place of each."""
    words = list(re.finditer(r"[^\W_]+(?:['’]s)?", text))
    return {stem(found[0]): found.span() for found in reversed(words)}


def _name_score(
    text: str, tool: ToolSchema, said: dict[str, tuple[int, int]]
) -> tuple[float, tuple[int, int]]:
    mention = _mention(text, tool.name)
    if mention is not None:
        return _EXACTLY_NAMED, mention
    words = name_words(tool.name)
    words = [word for word in words if word not in _GENERIC] or words
    spans = [said[stem(word)] for word in words if stem(word) in said]
    if len(spans) == len(words):
        return _NAMED, _together(sorted(spans))
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
