"""How the demo model fills a tool's arguments from what a person says.

Reads: messages, llm.demo_words, llm.demo_parameters, llm.demo_reading. Feeds: llm.demo_plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dsh_nb.llm.demo_parameters import Parameter, parameters_of
from dsh_nb.llm.demo_reading import NUMBER, RUN, Reading, number_of
from dsh_nb.llm.demo_words import NUMBER_WORDS, dates_in, is_filler
from dsh_nb.messages import JsonObject

__all__ = ["Filled", "fill"]

_BACK = r"\b(?:it|that|(?:the|this|that)\s+(?:result|answer|sum|product|number))\b"
_SWAPPED = re.compile(r"(?i)\b(?:subtract|take|deduct|remove)\b.*\bfrom\b")
_LEADING = re.compile(r"(?i)\b(?:first|top|last|next|at most|up to|max|maximum|limit|bottom)\s+$")
_FOLLOWING = re.compile(
    r"(?i)^\s*(?:rows?|lines?|items?|results?|hits?|entries|records?|points?|days?|hours?|times"
    r"|steps?|bins?)\b(?:\s+of\b)?"
)
_LIST = rf"{RUN}(?:(?:,? and |, ?| & )(?:(?:in|at|for) )?{RUN})*"
_WORD = r"[^\W_](?:[\w.'’-]*\w)?"
_WORDS = rf"{_WORD}(?: {_WORD}){{0,2}}"
_WORD_LIST = rf"{_WORD}(?:(?:,? and |, ?){_WORD})+(?=\s*[.?!]?\s*(?:\0|$))"
_BETWEEN = re.compile(r"(?:,? and |, ?| & )(?:(?:in|at|for) )?")
_PREPOSITION = re.compile(
    r"(?i)\b(?:in|at|for|of|near|from|to|about|on|by|into)\s+(?:(?:the|a|an|my)\s+)?"
)
_ARTICLES = re.compile(
    r"(?i)[\s,:(]*(?:(?:tool|function)\b\s*)?(?:(?:the|a|an|my|our|all)\s+)*"
    r"(?:(?:table|dataframe|data frame|frame|dataset)\s+(?=\w))?"
)
_HINTS = [
    (frozenset({"from", "origin", "source", "departure", "since"}), "from|since"),
    (frozenset({"to", "destination", "target", "recipient", "into"}), "to|into"),
    (frozenset({"by", "group", "groupby"}), "by|per"),
]
_SHAPES = [
    (frozenset({"url", "uri", "link"}), r"https?://[^\s\0)>]*[^\s\0)>.,;!?]"),
    (frozenset({"email", "recipient", "to"}), r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    (
        frozenset({"path", "file", "filename", "filepath", "folder", "directory"}),
        r"(?<![\w/])(?:[\w.~-]*/[\w./~-]*\w/?|[\w-]+\.[A-Za-z]\w{0,5})(?!\w)",
    ),
]
_LEAD_WORDS = re.compile(
    r"(?i)^(?:(?:the )?(?:web|internet|net|docs|documentation|database) for\b|"
    r"(?:look up|for|the|a|an|about|on|of|me|us|please|to|some|tool|with|this|that)\b|"
    r"[\s,:;.!?-])\s*"
)
_TRAIL_WORDS = re.compile(
    r"(?i)(?:\s+(?:on the (?:web|internet|net)|please|thanks|thank you|for me"
    r"|with|in|as|and|on|at|by|from|to|of|for))$"
)


class Filled(NamedTuple):
    """What a text gives for a tool.

    Attributes:
        calls: The arguments of each call: more than one when the text lists several values for
            the one text that the tool takes, none when something is missing.
        missing: The required parameters that the text does not give.
    """

    calls: tuple[JsonObject, ...]
    missing: tuple[Parameter, ...] = ()


def fill(
    schema: JsonObject, text: str, *, mention: tuple[int, int] = (0, 0), back: float | None = None
) -> Filled:
    """Fill the parameters of `schema` from `text`.

    Args:
        schema: JSON schema of the arguments.
        text: What the person said.
        mention: Span of the words of `text` that name the tool.
        back: The number that words like "it" and "the result" stand for.
    """
    parameters = parameters_of(schema)
    whole = _json_in(text, {parameter.name for parameter in parameters})
    if whole is None:
        reading = Reading(text, mention)
        _read(reading, parameters, back)
        calls = reading.calls(parameters)
    else:
        calls = [whole]
    missing = tuple(p for p in parameters if p.required and p.name not in calls[0])
    return Filled((), missing) if missing else Filled(tuple(calls))


def _json_in(text: str, names: set[str]) -> JsonObject | None:
    """The JSON object in `text` whose keys are all among `names`."""
    for start in (found.start() for found in re.finditer(r"\{\s*\"", text)):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            continue
        if isinstance(value, dict) and names.issuperset(value):
            return value
    return None


def _read(reading: Reading, parameters: Sequence[Parameter], back: float | None) -> None:
    """What is said most clearly is read first, so that the rest is left for what is not."""
    for parameter in reading.open(parameters, "string"):
        _shaped(reading, parameter)
    for parameter in reading.open(parameters):
        reading.named(parameter)
    _read_dates(reading, parameters)
    for parameter in reading.open(parameters):
        if parameter.kind == "enum" or (parameter.kind == "array" and parameter.choices):
            reading.choice(parameter)
    _read_numbers(reading, parameters, back)
    _read_texts(reading, parameters)


def _read_dates(reading: Reading, parameters: Sequence[Parameter]) -> None:
    wanted = [
        p
        for p in reading.open(parameters)
        if p.kind in ("date", "date-time") or (p.kind == "string" and p.words & {"date", "day"})
    ]
    for parameter, date in zip(wanted, dates_in(reading.text), strict=False):
        at = f"T{date.time or '00:00:00'}" if parameter.kind == "date-time" else ""
        reading.take(parameter, date.day + at, date.start, date.end)


class _Figure(NamedTuple):
    """A number in the text; it is `counted` when words beside it say that it counts something."""

    start: int
    end: int
    said: str
    counted: bool


def _read_numbers(reading: Reading, parameters: Sequence[Parameter], back: float | None) -> None:
    figures = _figures(reading, back)
    wanted = [p for p in reading.open(parameters) if p.is_number]
    required = [p for p in wanted if p.required]
    if len(required) == 2 and len(figures) > 1 and _SWAPPED.search(reading.original):
        figures[:2] = figures[1::-1]
    for parameter in required:
        _take_figure(reading, parameter, figures)
    for parameter in reading.open(parameters, "array"):
        if parameter.required and parameter.items in ("integer", "number") and figures:
            values = [number_of(figure.said, parameter.items) for figure in figures]
            reading.take(parameter, values, figures[0].start, figures[-1].end)
            figures = []
    optional = [p for p in wanted if not p.required]
    counts = [p for p in optional if p.is_count] or optional
    # a lone number is clear where no text could hold it; else a word must say that it counts
    texts = any(p.required and p.kind == "string" for p in reading.open(parameters))
    clear = [f for f in figures if f.counted or (not texts and f.said != "1")]
    if len(counts) == 1 and len(clear) == 1:
        _take_figure(reading, counts[0], clear)


def _take_figure(reading: Reading, parameter: Parameter, figures: list[_Figure]) -> None:
    """Give `parameter` the first of `figures` that it can have, and remove that one."""
    for figure in figures:
        value = number_of(figure.said, parameter.kind)
        if value is not None:
            reading.take(parameter, value, figure.start, figure.end)
            figures.remove(figure)
            return


def _figures(reading: Reading, back: float | None) -> list[_Figure]:
    """The numbers that are left, in order, with the words that belong to them."""
    words = "|".join(NUMBER_WORDS)
    pointers = rf"|(?P<back>(?i:{_BACK}))" if back is not None else ""
    dates = dates_in(reading.text)
    return [
        _figure(reading.text, found, str(back))
        for found in re.finditer(rf"{NUMBER}|(?i:\b(?:{words})\b){pointers}", reading.text)
        if not any(date.start <= found.start() < date.end for date in dates)
    ]


def _figure(text: str, found: re.Match[str], back: str) -> _Figure:
    word = found[0]
    said = str(NUMBER_WORDS.get(word.lower(), word))
    if "back" in found.re.groupindex and found["back"]:
        said = back
    leading = _LEADING.search(text, 0, found.start())
    following = _FOLLOWING.search(text[found.end() :])
    start = leading.start() if leading else found.start()
    end = found.end() + (following.end() if following else 0)
    return _Figure(start, end, said, bool(leading or following))


def _read_texts(reading: Reading, parameters: Sequence[Parameter]) -> None:
    wanted = [p for p in reading.open(parameters) if p.kind == "string"]
    for parameter in wanted:
        _hinted(reading, parameter)
    lists = [p for p in reading.open(parameters, "array") if p.required and p.items == "string"]
    required = [p for p in reading.open(wanted) if p.required] + lists
    _quoted(reading, sorted(required, key=lambda parameter: not parameter.is_whole))
    required = reading.open(required)
    direct = not any(parameter.is_whole for parameter in required)
    for parameter in sorted(required, key=lambda parameter: not parameter.is_place):
        if not parameter.is_whole:
            _name(reading, parameter, direct)
    for parameter in reading.open(required):
        if parameter.is_whole:
            _remainder(reading, parameter)


def _shaped(reading: Reading, parameter: Parameter) -> None:
    """Take what looks like the parameter: an address or a path."""
    for words, pattern in _SHAPES:
        found = re.search(pattern, reading.text) if parameter.words & words else None
        if found:
            reading.take(parameter, found[0], found.start(), found.end())
            return


def _hinted(reading: Reading, parameter: Parameter) -> None:
    """Take what a preposition that the parameter's name holds or implies leads to."""
    for words, prepositions in _HINTS:
        if parameter.words & words:
            led = re.compile(rf"(?i)\b(?:{prepositions})\s+(?:(?:the|a|an)\s+)?")
            if any(_run(reading, parameter, found.end()) for found in led.finditer(reading.text)):
                return


def _quoted(reading: Reading, parameters: Sequence[Parameter]) -> None:
    quotations = reading.quotations()
    if len(parameters) == 1 and quotations:
        texts = [reading.quoted(found[0], found.start()) for found in quotations]
        reading.take_texts(parameters[0], texts, quotations[0].start(), quotations[-1].end())
        return
    for parameter, found in zip(parameters, quotations, strict=False):
        text = reading.quoted(found[0], found.start())
        reading.take(parameter, text, found.start(), found.end())


def _name(reading: Reading, parameter: Parameter, direct: bool) -> None:
    """Take a name: the tool's object ("plot revenue"), or one after a preposition."""
    ways: list[Callable[[Reading, Parameter], bool]] = [_led]
    if direct:
        ways.insert(len(ways) if parameter.is_place else 0, _object)
    for way in [*ways, _before, _anywhere]:
        if way(reading, parameter):
            return


def _led(reading: Reading, parameter: Parameter) -> bool:
    places = [found.end() for found in _PREPOSITION.finditer(reading.text)]
    capital = [place for place in places if reading.text[place : place + 1].isupper()]
    return any(_run(reading, parameter, place) for place in [*capital, *places])


def _object(reading: Reading, parameter: Parameter) -> bool:
    skipped = _ARTICLES.match(reading.text, reading.end)
    start = skipped.end() if skipped else reading.end
    name = re.compile(rf"(?i){parameter.patterns[0]}\s+").match(reading.text, start)
    return _run(reading, parameter, name.end() if name else start)


def _before(reading: Reading, parameter: Parameter) -> bool:
    """Take the name that stands right before the tool's: "Paris weather"."""
    words = rf"(?:{RUN}|(?<!\w){_WORD})(?=\s*$)"
    found = re.search(words, reading.text[: reading.begin])
    return found is not None and _run(reading, parameter, found.start())


def _anywhere(reading: Reading, parameter: Parameter) -> bool:
    """Take the first name after the tool's; of places, only one that begins with a capital."""
    words = RUN if parameter.is_place else rf"(?<!\w){_WORD}"
    starts = [m.start() for m in re.finditer(words, reading.text) if m.start() >= reading.end]
    return any(_run(reading, parameter, start) for start in starts)


def _run(reading: Reading, parameter: Parameter, start: int) -> bool:
    """Take the name, or the list of names, that begins at `start`; False when none does."""
    for pattern in (_LIST, _WORD_LIST, _WORDS):
        found = re.compile(pattern).match(reading.text, start)
        if found is None:
            continue
        names = _BETWEEN.split(found[0]) if pattern != _WORDS else [_plain_words(found[0])]
        if all(name and not is_filler(name.split()[0]) for name in names):
            end = found.end() if pattern != _WORDS else start + len(names[0])
            reading.take_texts(parameter, names, start, end)
            return True
    return False


def _plain_words(said: str) -> str:
    """The words up to the first one that says nothing."""
    kept: list[str] = []
    for word in said.split(" "):
        if is_filler(word):
            break
        kept.append(word)
    return " ".join(kept)


def _remainder(reading: Reading, parameter: Parameter) -> None:
    """Take what is left of the text: what follows the tool's name, else what precedes it."""
    spans = [found.span() for found in re.finditer(r"[^\0]+", reading.text)]
    after = [span for span in spans if span[0] >= reading.end]
    for start, end in [*after, *(span for span in spans if span not in after)]:
        text = _trimmed(reading.original[start:end])
        if any(not is_filler(word) for word in re.findall(r"[\w'’]+", text)):
            reading.take(parameter, text, start, end)
            return


def _trimmed(text: str) -> str:
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:]:
        text = text[1:-1]
    while (
        shorter := _TRAIL_WORDS.sub("", _LEAD_WORDS.sub("", text)).rstrip(" \t\n.,:;!?")
    ) != text:
        text = shorter
    return text
