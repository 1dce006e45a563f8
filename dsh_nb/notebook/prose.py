"""A transcript as Markdown and as plain text, for readers without HTML.

Reads: notebook.parts, notebook.arguments, notebook.literal, notebook.wording.
Feeds: notebook.static.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from dsh_nb.notebook.arguments import on_one_line
from dsh_nb.notebook.literal import (
    code_span,
    fenced,
    is_literal,
    line_text,
    literal_markdown,
    quoted,
)
from dsh_nb.notebook.parts import (
    EndPart,
    ErrorPart,
    ImagePart,
    Part,
    RetryPart,
    TextPart,
    ThinkingPart,
    ToolPart,
    UserPart,
)
from dsh_nb.notebook.wording import (
    RUNNING,
    SAVED_WHILE_RUNNING,
    UNFINISHED,
    attempt_line,
    author,
    count,
    end_line,
    plain_display,
    seconds_text,
    state_icon,
    state_word,
    strip_controls,
)

__all__ = ["plain_part", "to_markdown", "to_plain"]

MAX_ARGUMENTS = 200
MAX_THINKING = 200
MAX_RESULT = 4_000
"""Characters of each that these forms show; the HTML has more, the log all."""

_Form = Callable[[Any], str]  # Any: the class of part that the form is for


def to_markdown(parts: Iterable[Part], *, running: bool = False, note: str = "") -> str:
    """A turn as Markdown without HTML: raw HTML in it is escaped, remote images are links."""
    parts = tuple(parts)
    stop = f"*{RUNNING}* `agent.stop()`" if running else ""
    last = f"*{line_text(note)}*" if note else ""
    text = _joined(parts, _markdown_forms(strict=False), stop, last)
    if is_literal(text):
        return text
    return _joined(parts, _markdown_forms(strict=True), stop, last)


def to_plain(parts: Iterable[Part], *, running: bool = False, note: str = "") -> str:
    """A turn as plain text; what would steer a terminal is left out."""
    stop = f"{RUNNING} agent.stop()" if running else ""
    return _joined(tuple(parts), _PLAIN, stop, strip_controls(note))


def plain_part(part: Part) -> str:
    """One part as plain text; what would steer a terminal is left out."""
    return _PLAIN[type(part)](part)


def _joined(parts: tuple[Part, ...], forms: dict[type, _Form], stop: str, note: str) -> str:
    pieces = [forms[type(part)](part) for part in parts]
    if stop:
        pieces.append(f"{stop} stops it. {SAVED_WHILE_RUNNING}")
    elif parts and not isinstance(parts[-1], EndPart):
        pieces.append(UNFINISHED)
    return "\n\n".join(filter(None, (*pieces, note)))


def _cut(text: str, limit: int) -> str:
    text = text.strip("\n")
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {count(len(text) - limit, 'more character')}"


def _short_thought(part: ThinkingPart) -> str:
    text = " ".join(part.text.split())
    return text if len(text) <= MAX_THINKING else text[:MAX_THINKING] + "…"


def _result_text(part: ToolPart) -> str:
    text = part.content if part.state != "done" else ""
    text = text or plain_display(part.display, "text/plain") or part.content
    return _cut(strip_controls(text), MAX_RESULT)


def _pictures(part: ToolPart) -> int:
    shown = sum(kind.startswith("image/") for kind in part.display or ())
    return shown or len(part.images)


def _tool_end(part: ToolPart) -> str:
    seconds = "" if part.seconds is None else f", {seconds_text(part.seconds)}"
    pictures = _pictures(part)
    return f"{state_word(part)}{seconds}" + (f", {count(pictures, 'image')}" if pictures else "")


def _markdown_user(part: UserPart, *, strict: bool) -> str:
    # On lines of its own: the text may begin with a fence.
    text = literal_markdown(part.text.strip("\n"), strict=strict)
    return quoted(f"**{line_text(author(part))}:**\n\n{text}")


def _markdown_thinking(part: ThinkingPart) -> str:
    text = _short_thought(part)
    return f"*Thinking:* {line_text(text)}" if text else ""


def _markdown_text(part: TextPart, *, strict: bool) -> str:
    text = literal_markdown(part.text.strip("\n"), strict=strict)
    return f"{text}\n\n*(interrupted)*" if part.interrupted else text


def _markdown_tool(part: ToolPart) -> str:
    call = code_span(f"{part.name}({on_one_line(part.arguments, MAX_ARGUMENTS)})")
    head = f"{state_icon(part)} **tool** {call} → {_tool_end(part)}"
    text = _result_text(part)
    return f"{head}\n\n{fenced(text)}" if text else head


def _markdown_image(part: ImagePart) -> str:
    return f"*({line_text(part.alt)})*"


def _markdown_retry(part: RetryPart) -> str:
    return f"*{line_text(attempt_line(part))}*"


def _markdown_error(part: ErrorPart) -> str:
    code = f" ({line_text(part.code)})" if part.code else ""
    return f"**Error{code}:** {line_text(part.message)}"


def _markdown_end(part: EndPart) -> str:
    icon = "✓" if part.kind == "completed" else "■"
    return f"*{f'{icon} {line_text(end_line(part))}'.rstrip()}*"


def _plain_user(part: UserPart) -> str:
    return f"{author(part)}: {strip_controls(part.text.strip())}"


def _plain_thinking(part: ThinkingPart) -> str:
    text = strip_controls(_short_thought(part))
    return f"Thinking: {text}" if text else ""


def _plain_text(part: TextPart) -> str:
    text = strip_controls(part.text.strip("\n"))
    return f"{text}\n(interrupted)" if part.interrupted else text


def _plain_tool(part: ToolPart) -> str:
    return "\n".join(_plain_tool_lines(part))


def _plain_tool_lines(part: ToolPart) -> Iterator[str]:
    arguments = on_one_line(part.arguments, MAX_ARGUMENTS)
    yield strip_controls(f"{state_icon(part)} {part.name}({arguments}) → {_tool_end(part)}")
    text = _result_text(part)
    if text:
        yield textwrap.indent(text, "    ")


def _plain_image(part: ImagePart) -> str:
    return f"({strip_controls(part.alt)})"


def _plain_retry(part: RetryPart) -> str:
    return strip_controls(attempt_line(part))


def _plain_error(part: ErrorPart) -> str:
    code = f" ({part.code})" if part.code else ""
    return strip_controls(f"Error{code}: {part.message}")


def _plain_end(part: EndPart) -> str:
    icon = "✓" if part.kind == "completed" else "■"
    return strip_controls(f"{icon} {end_line(part)}".rstrip())


def _markdown_forms(*, strict: bool) -> dict[type, _Form]:
    return {
        EndPart: _markdown_end,
        ErrorPart: _markdown_error,
        ImagePart: _markdown_image,
        RetryPart: _markdown_retry,
        TextPart: partial(_markdown_text, strict=strict),
        ThinkingPart: _markdown_thinking,
        ToolPart: _markdown_tool,
        UserPart: partial(_markdown_user, strict=strict),
    }


_PLAIN: dict[type, _Form] = {
    EndPart: _plain_end,
    ErrorPart: _plain_error,
    ImagePart: _plain_image,
    RetryPart: _plain_retry,
    TextPart: _plain_text,
    ThinkingPart: _plain_thinking,
    ToolPart: _plain_tool,
    UserPart: _plain_user,
}
