"""How the demo model reads words: stems, synonyms, fillers, numbers, dates and quotations.

Feeds: llm.demo_parameters, llm.demo_reading, llm.demo_arguments, llm.demo_choice, llm.demo_plan.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = [
    "CONSUMED",
    "NUMBER_WORDS",
    "QUOTE",
    "Date",
    "Quotation",
    "dates_in",
    "is_filler",
    "masked",
    "name_words",
    "stem",
    "synonym",
]

CONSUMED = "\0"
"""Stands for a character that an argument or the tool's name has used up."""

QUOTE = "\x03\x02*"
"""Pattern of a masked quotation."""

_FILLERS = frozenset(  # words that are never a value by themselves
    """a about according add also am an and any are as at be been but by can could current currently
    degrees did do does for from get give had has have help how i if in into is it
    its just kindly know let like look main make may me might my near need no not now of on or our
    out over per please quick quickly right run shall should show so some somewhere tell than thank
    thanks that the their them there these they this those to today tomorrow tonight tool try up us
    use using via want was we were what whats which while who why will with within would yesterday
    you your function parameter argument compute calculate find call result chart
    graph figure plot histogram named called then next
    versus vs against above below under greater less more least between equal where when here
    outside report info information conditions forecast""".split()
)

NUMBER_WORDS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()
    )
}
"""Small numbers as words."""

_SYNONYMS = {
    "plus": "add", "sum": "add", "+": "add",
    "minus": "subtract", "difference": "subtract", "deduct": "subtract",
    "times": "multiply", "product": "multiply", "multiplied": "multiply", "*": "multiply",
    "×": "multiply", "divided": "divide", "quotient": "divide", "/": "divide", "÷": "divide",
    "chart": "plot", "graph": "plot", "draw": "plot", "visualize": "plot", "visualise": "plot",
    "histogram": "plot", "look up": "search", "lookup": "search", "google": "search",
    "find": "search",
    "temperature": "weather", "forecast": "weather", "average": "mean", "avg": "mean",
    "summarize": "describe", "summarise": "describe", "summary": "describe",
    "mail": "email", "picture": "image", "photo": "image",
}  # fmt: skip
_MONTHS = "january february march april may june july august september october november december"
_MONTH = "|".join(f"{month}|{month[:3]}" for month in _MONTHS.split())
_QUOTED = re.compile(
    r"```(?:\w*\n)?(.+?)```|`([^`\n]+)`|\"([^\"\n]*)\"|“([^”\n]*)”|«([^»\n]*)»"
    r"|(?<!\w)'([^'\n]+)'(?!\w)|(?<!\w)‘([^’\n]+)’(?!\w)",
    re.DOTALL,
)
_ISO_DATE = r"(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?:[T ](?P<t>\d\d:\d\d(?::\d\d)?))?"
_DATES = [
    re.compile(rf"(?<!\w){_ISO_DATE}(?!\w)"),
    re.compile(rf"(?i)(?<!\w)(?P<d>\d{{1,2}})\.? (?P<m>{_MONTH})\.?,? (?P<y>\d{{4}})(?!\w)"),
    re.compile(rf"(?i)(?<!\w)(?P<m>{_MONTH})\.? (?P<d>\d{{1,2}}),? (?P<y>\d{{4}})(?!\w)"),
    re.compile(r"(?<!\w)(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})(?!\w)"),
]


class Quotation(NamedTuple):
    """What stood in quotation marks, and where: `start` is that of the opening mark."""

    start: int
    text: str


class Date(NamedTuple):
    """A date in ISO form, with the span of the text that says it; `time` is ``""`` without one."""

    day: str
    time: str
    start: int
    end: int


def stem(word: str) -> str:
    """`word` in lower case without the commonest endings."""
    word = word.lower().removesuffix("'s").removesuffix("’s")
    if len(word) <= 3:
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending) + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def synonym(word: str) -> str:
    """The stem of the word that tools are usually called by, for what `word` means."""
    return stem(_SYNONYMS.get(word.lower(), word))


def is_filler(word: str) -> bool:
    """Whether `word` says nothing by itself."""
    if word == "US":
        return False  # the country
    lowered = word.lower().replace("’", "'")
    return lowered.partition("'")[0] in _FILLERS or lowered.endswith("n't")


def name_words(name: str) -> list[str]:
    """The words of an identifier: ``getWeather_now`` is get, weather, now."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]


def masked(text: str, keep: frozenset[str] = frozenset()) -> tuple[str, tuple[Quotation, ...]]:
    """`text` with its quotations made unreadable in place, and the quotations.

    Args:
        text: What to read.
        keep: Quoted texts, in lower case, that stay readable: names of tools.
    """
    quotations: list[Quotation] = []

    def hidden(found: re.Match[str]) -> str:
        inner = next((group for group in found.groups() if group is not None), "")
        if inner.lower() in keep:
            return " " + inner + " " * (len(found[0]) - len(inner) - 1)
        quotations.append(Quotation(found.start(), inner.strip("\n")))
        return "\x03" + "\x02" * (len(found[0]) - 1)

    return _QUOTED.sub(hidden, text), tuple(quotations)


def dates_in(text: str) -> list[Date]:
    """The dates that `text` says in figures or with the month's name, in order."""
    found = [
        date for pattern in _DATES for match in pattern.finditer(text) if (date := _date(match))
    ]
    return sorted(found, key=lambda date: date.start)


def _date(match: re.Match[str]) -> Date | None:
    month = match["m"].lower()
    number = int(month) if month.isdigit() else _MONTHS.split().index(_full(month)) + 1
    if not (1 <= number <= 12 and 1 <= int(match["d"]) <= 31):
        return None
    day = f"{int(match['y']):04}-{number:02}-{int(match['d']):02}"
    return Date(day, match.groupdict().get("t") or "", match.start(), match.end())


def _full(month: str) -> str:
    return next(name for name in _MONTHS.split() if name.startswith(month))
