"""A text while the demo model takes the arguments of a tool out of it.

Reads: messages, llm.demo_words, llm.demo_parameters. Feeds: llm.demo_arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from dsh_nb.llm.demo_parameters import Parameter
from dsh_nb.llm.demo_words import CONSUMED, QUOTE, is_filler, masked
from dsh_nb.messages import JsonObject

__all__ = ["NUMBER", "RUN", "Reading", "number_of"]

NUMBER = (
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"(?=(?:km|kg|cm|mm|ms|min|[cfghms])?(?!\w))(?!\.\d)"
)
"""Pattern of a number in figures; a unit may stand at its end."""

_UPPER = "A-ZÀ-ÖØ-Þ"
_SMALL = "d[aeiou]|del|la|le|los|las|of|upon|am|von"
RUN = rf"[{_UPPER}][\w'’-]*(?: (?:(?:{_SMALL}) )?[{_UPPER}][\w'’-]*)*"
"""Pattern of a name: words that begin with a capital letter."""

_EQUALS = r"\s*(?:=|:|\bis\b|\bequals\b)\s*"
_OF = r"\s*(?:=|:|\b(?:is|to be|of|equals|to|named|called)\b)\s*|\s+"
_SPOKEN = {"c": "celsius|centigrade", "f": "fahrenheit", "k": "kelvin", "hist": "histogram"}


class Reading:
    """A text while arguments are taken out of it; what is taken cannot be read twice.

    Attributes:
        original: The text.
        text: The text with `CONSUMED` for what was taken and masks for its quotations, each
            character in its old place.
        begin: Where the words that name the tool begin.
        end: Where they end.
    """

    def __init__(self, text: str, mention: tuple[int, int]) -> None:
        self.original = text
        self.begin, self.end = mention
        readable, quotations = masked(text)
        self._quotations = {quotation.start: quotation.text for quotation in quotations}
        start, end = mention
        cut = readable[:start] + CONSUMED * (end - start) + readable[end:]
        # the name of a tool may stand in quotation marks of its own
        self.text = re.sub("\x03?\0+\x02*", lambda found: CONSUMED * len(found[0]), cut)
        self._values: JsonObject = {}
        self._listed: dict[str, list[str]] = {}

    def open(self, parameters: Iterable[Parameter], kind: str = "") -> list[Parameter]:
        """Those of `parameters` without a value, of one kind if it is given."""
        return [p for p in parameters if p.name not in self._values and kind in ("", p.kind)]

    def take(self, parameter: Parameter, value: object, start: int, end: int) -> None:
        """Give `parameter` its value and use up the span that said it."""
        self._values[parameter.name] = value
        self.text = self.text[:start] + CONSUMED * (end - start) + self.text[end:]

    def take_texts(self, parameter: Parameter, texts: list[str], start: int, end: int) -> None:
        """The same for one text or a list of texts, each of which is worth a call."""
        if parameter.kind == "array":
            self.take(parameter, texts, start, end)
        else:
            self.take(parameter, texts[0], start, end)
            self._listed[parameter.name] = texts

    def quoted(self, span: str, start: int) -> str:
        """The text of a span: without its marks when it is a quotation."""
        if span.startswith("\x03"):
            return self._quotations[start]
        return self.original[start : start + len(span)]

    def calls(self, parameters: Sequence[Parameter]) -> list[JsonObject]:
        """The arguments of each call, in the order of the schema."""
        names = [p.name for p in parameters if p.name in self._values]
        values = {name: self._values[name] for name in names}
        several = [(name, texts) for name, texts in self._listed.items() if len(texts) > 1]
        if len(several) != 1:
            return [values]
        name, texts = several[0]
        return [{**values, name: text} for text in dict.fromkeys(texts)]

    def named(self, parameter: Parameter) -> None:
        """Take a value that stands beside the parameter's name."""
        for pattern in parameter.patterns:
            for expression in _beside(parameter, pattern):
                for found in re.finditer(expression, self.text):
                    value = self._value(parameter, found)
                    if value is not None:
                        self.take(parameter, value, found.start(), found.end())
                        return

    def _value(self, parameter: Parameter, found: re.Match[str]) -> object:
        """What a match of `_beside` says; ``None`` when it is no value after all."""
        span = found["v"] or ""
        if parameter.is_number:
            return number_of(span, parameter.kind)
        if parameter.kind == "boolean":
            if span:
                return span.lower() in ("true", "yes", "on")
            return not found["no"]
        if parameter.kind == "array":
            return _items(span, parameter.items)
        if span.startswith("\x03"):
            return self.quoted(span, found.start("v"))
        text = self.quoted(span, found.start("v")).strip(" .?!")
        return (
            text if text and ("=" in found[0] or ":" in found[0] or not is_filler(text)) else None
        )

    def quotations(self) -> list[re.Match[str]]:
        """The quotations that are left."""
        return list(re.finditer(QUOTE, self.text))

    def choice(self, parameter: Parameter) -> None:
        """Take the value of an enum that the text says, preferably beside the parameter's name."""
        found = [
            (not _is_beside(parameter, self.text, match), match.start(), -len(match[0]), n, match)
            for n, value in enumerate(parameter.choices)
            for match in re.finditer(_choice_pattern(str(value)), self._with_quotations())
        ]
        if not found:
            return
        if parameter.kind == "array":
            said = dict.fromkeys(n for _, _, _, n, _ in sorted(found, key=lambda one: one[1]))
            values = [parameter.choices[n] for n in said]
            self.take(parameter, values, min(f[1] for f in found), max(f[4].end() for f in found))
            return
        _, start, _, n, match = min(found, key=lambda one: one[:4])
        self.take(parameter, parameter.choices[n], start, match.end())

    def _with_quotations(self) -> str:
        """The text with its quotations readable, for values that come from a closed set."""
        shown = zip(self.text, self.original, strict=True)
        return "".join(there if here in "\x02\x03" else here for here, there in shown)


def _beside(parameter: Parameter, name: str) -> Iterator[str]:
    """Expressions for a value, group ``v``, beside the name of `parameter`."""
    start = rf"(?<!\w)(?i:{name})"
    short = len(parameter.name) == 1
    if parameter.is_number:
        yield rf"{start}(?:{_EQUALS if name.lower() in 'ai' else _OF})(?P<v>{NUMBER})"
        if not short:
            yield rf"(?P<v>{NUMBER})[ -](?i:{name}s?)(?!\w)"
    elif parameter.kind == "boolean":
        no = r"(?P<no>(?i:\b(?:without|no|not|exclude|excluding|skip|hide)\s+(?:the\s+|any\s+)?))?"
        yield rf"{no}{start}(?i:s?)(?:(?:{_OF})(?P<v>(?i:true|false|yes|no|on|off)))?(?!\w)"
    elif parameter.kind == "array":
        yield rf"{start}(?:{_OF})?\[(?P<v>[^\]\0]*)\]"
    elif parameter.kind == "string":
        bare = r"[^\s,;()\0\x02\x03]+"
        rest = r"[^\n;\0\x02\x03]+" if parameter.is_whole else rf"{RUN}|{bare}"
        yield rf"{start}\s*=\s*(?P<v>{QUOTE}|{bare})"
        yield rf"{start}\s*:\s*(?P<v>{QUOTE}|{rest})"
        if not short:
            yield from _near(parameter, start, name if name == parameter.patterns[0] else "")


def _near(parameter: Parameter, start: str, name: str) -> Iterator[str]:
    """Expressions for a text after a name with neither = nor :, and before `name` if given."""
    between = r"\s+(?:(?:is|of|named|called)\s+)?"
    yield rf"{start}{between}(?P<v>{QUOTE})"
    if parameter.is_whole:
        return
    words = r"[^\W_][\w-]*(?: [a-z][\w-]*){0,2}" if parameter.is_place else r"[^\W_][\w.-]*\w|\w"
    yield rf"{start}{between}(?P<v>{RUN}|{words})"
    if name and parameter.required and not parameter.is_place:
        yield rf"(?P<v>{QUOTE}|(?<!\w)[^\W_][\w-]*)\s+(?i:{name})(?!\w)"


def _is_beside(parameter: Parameter, text: str, match: re.Match[str]) -> bool:
    before = text[: match.start()]
    return any(re.search(rf"(?i)(?<!\w){p}(?:{_OF})$", before) for p in parameter.patterns)


def _choice_pattern(value: str) -> str:
    """A pattern of a value of an enum as people say it."""
    if len(value) == 1 and value.isalpha():
        letter = f"°{value}|{_SPOKEN.get(value.lower(), 'degrees ' + value)}"
        before = r"(?:(?<=in )|(?<==)|(?<=: )|(?<=unit )|(?<=\"))"
        return rf"(?:(?i:{before}{value}|{letter})|(?<!\w)(?!I\b|A\b){value.upper()})(?!\w)"
    words = "[ _-]?".join(map(re.escape, re.split("[ _-]", value)))
    return rf"(?i)(?<!\w)(?:{words}|{_SPOKEN.get(value.lower(), words)})s?(?!\w)"


def number_of(span: str, kind: str) -> float | None:
    """The number that `span` says, if a parameter of that kind can have it."""
    plain = span.replace(",", "")
    if plain.lstrip("+-").isdecimal():
        return int(plain)
    value = float(plain)
    if kind == "number" and math.isfinite(value):
        return value
    return int(value) if value.is_integer() else None


def _items(span: str, kind: str) -> list[object] | None:
    if kind in ("integer", "number"):
        return [
            n for found in re.findall(NUMBER, span) if (n := number_of(found, kind)) is not None
        ]
    return [item.strip(" \"'") for item in span.split(",") if item.strip()] or None
