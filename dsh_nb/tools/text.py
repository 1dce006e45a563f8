"""Text as a model can take it: valid Unicode, without terminal codes, bounded.

Reads: messages. Feeds: tools.frames, tools.plain, tools.rich, tools.results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dsh_nb.messages import clean_text

__all__ = [
    "OVERFLOW_CHARS",
    "Bounded",
    "bounded",
    "clipped",
    "message_of",
    "safe_repr",
    "safe_str",
    "type_name",
    "visible_text",
]

OVERFLOW_CHARS = 10_000_000
"""Most characters of a text that are kept for reading on."""

_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]  # all but tab and line feed
_CONTROL = re.compile("[" + "".join(map(chr, _CONTROLS)) + "]")
_NO_CONTROLS = dict.fromkeys(_CONTROLS)
_LINE_END = re.compile(r"\r+\n")
_ERASED = re.compile(r"\x1b\[2K|\r\x1b\[0?K")
_CODE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x9b[0-?]*[ -/]*[@-~]"  # the same in one byte
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"  # the short ones
)


def visible_text(text: str) -> str:
    """`text` as a terminal would leave it: no codes, overwritten parts gone, valid Unicode."""
    text = clean_text(text)
    if not _CONTROL.search(text):
        return text
    return "\n".join(map(_visible_line, _LINE_END.sub("\n", text).split("\n")))


def _visible_line(line: str) -> str:
    line = _ERASED.split(line)[-1]
    line = _overwritten(_CODE.sub("", line).split("\r"))
    if "\b" in line:
        line = _backspaced(line)
    return line.translate(_NO_CONTROLS)


def _overwritten(parts: list[str]) -> str:
    """What is left when each of `parts` was written from the start of one line."""
    kept: list[str] = []
    covered = 0
    for part in reversed(parts):
        kept.append(part[covered:])
        covered = max(covered, len(part))
    return "".join(kept)


def _backspaced(line: str) -> str:
    kept: list[str] = []
    for char in line:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)


class Bounded(NamedTuple):
    """A text that may have been too long.

    Attributes:
        shown: The text, or its head and tail with a note between.
        overflow: The whole text, at most `OVERFLOW_CHARS` of it, when `shown` is only a part.
    """

    shown: str
    overflow: str | None = None


def bounded(text: str, *, limit_bytes: int, call_id: str = "") -> Bounded:
    """`text` in at most `limit_bytes` of UTF-8, or in its note alone where even that is longer.

    Args:
        text: Valid Unicode.
        limit_bytes: Most bytes of what is shown, the note included.
        call_id: The call that the note names.
    """
    if _fits(text, limit_bytes):
        return Bounded(text)
    whole = _kept(text)
    room = max(0, limit_bytes - len(_note(len(whole), whole, call_id, start=len(whole)).encode()))
    head = _head(whole, room * 2 // 3)
    tail = _tail(whole, room - room * 2 // 3)
    note = _note(len(whole) - len(head) - len(tail), whole, call_id, start=len(head))
    return Bounded(head + note + tail, whole)


def _kept(text: str) -> str:
    if len(text) <= OVERFLOW_CHARS:
        return text
    end = f"\n[… the rest of {len(text)} characters was not kept]"
    return text[: OVERFLOW_CHARS - len(end)] + end


def _note(left_out: int, whole: str, call_id: str, *, start: int) -> str:
    return (
        f"\n\n[… {left_out} of {len(whole)} characters left out; call "
        f"read_result(call_id={clean_text(call_id)!r}, start={start}) to read on …]\n\n"
    )


def clipped(text: str, limit_bytes: int) -> str:
    """`text` in at most `limit_bytes` of UTF-8, with an ellipsis in the middle when it is cut."""
    if _fits(text, limit_bytes):
        return text
    room = limit_bytes - len(" … ".encode())
    return _head(text, room * 2 // 3) + " … " + _tail(text, room // 3)


def _fits(text: str, limit_bytes: int) -> bool:
    if len(text) > limit_bytes:
        return False
    return text.isascii() or len(text.encode()) <= limit_bytes


def _head(text: str, size: int) -> str:
    return text[:size].encode()[:size].decode(errors="ignore")


def _tail(text: str, size: int) -> str:
    return text[-size:].encode()[-size:].decode(errors="ignore") if size > 0 else ""


def type_name(value: object) -> str:
    """Name of the type of `value`, without its module."""
    return visible_text(type(value).__name__)


def safe_repr(value: object) -> str:
    """``repr(value)``, or a line that says why there is none."""
    return _safely(value, repr, "repr")


def safe_str(value: object) -> str:
    """``str(value)``, or a line that says why there is none."""
    own = type(value).__str__ is not object.__str__  # without one, str() asks for the repr
    return _safely(value, str, "str" if own else "repr")


def _safely(value: object, form: Callable[[object], str], what: str) -> str:
    try:
        return visible_text(form(value))
    except Exception as failure:
        said = _joined([type_name(failure), message_of(failure)])
        return f"<{type_name(value)} object; its {what} raised {said}>"


def message_of(failure: BaseException) -> str:
    """What `failure` says, without its type; ``""`` when nothing or when it cannot be told."""
    try:
        return visible_text(str(failure)).strip()
    except Exception:
        return ""


def _joined(parts: Iterable[str]) -> str:
    return ": ".join(part for part in parts if part)
