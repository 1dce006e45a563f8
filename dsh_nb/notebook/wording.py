"""The words of a transcript that its HTML, Markdown and plain form share.

Reads: notebook.parts, messages. Feeds: notebook.cards, notebook.prose, notebook.static.
"""

from __future__ import annotations

import re

from dsh_nb.messages import JsonObject, Usage
from dsh_nb.notebook.parts import EndPart, RetryPart, ThinkingPart, ToolPart, UserPart

__all__ = [
    "RUNNING",
    "SAVED_WHILE_RUNNING",
    "UNFINISHED",
    "attempt_line",
    "author",
    "count",
    "decision_note",
    "end_line",
    "money_text",
    "plain_display",
    "progress_text",
    "seconds_text",
    "state_icon",
    "state_word",
    "strip_controls",
    "thinking_note",
    "token_words",
]

RUNNING = "running…"
"""Stands at the end of a turn that runs."""

SAVED_WHILE_RUNNING = (
    "In a saved notebook this means that the turn had not ended when it was saved;"
    " the session log has what came after."
)
"""What a reader without a kernel must know of a turn that runs."""

UNFINISHED = "The log ends here: the turn has no end."
"""Stands at the end of a turn that neither runs nor has ended."""

_ICONS = {
    "waiting for approval": "⚠",
    "running": "◌",
    "done": "✓",
    "failed": "✗",
    "interrupted": "■",
    "denied": "⊘",
    "not started": "○",
}
_UNDECIDED = {
    "rule": "denied by a rule",
    "nobody": "nobody was there to be asked",
    "timeout": "nobody decided in time",
    "stopped": "stopped before anybody decided",
    "disposed": "its agent ended before anybody decided",
}
_ENDINGS = {"aborted": "stopped", "error": "failed", "disposed": "ended with its agent"}
# Colours and cursor movements (CSI), titles and links (OSC), and what else steers a terminal.
_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def author(part: UserPart) -> str:
    """Who speaks, in words: ``You``, ``You, while it ran``, ``Context from plugin memory``."""
    source = part.source
    who = "You" if source.kind == "user" else " ".join(filter(None, (source.kind, source.name)))
    if part.kind == "context":
        return "Context from you" if who == "You" else f"Context from {who}"
    return f"{who}, while it ran" if part.kind == "steering" else who


def thinking_note(part: ThinkingPart) -> str:
    """How long the thinking was, in words."""
    if part.open:
        return "…"
    if not part.text.strip():
        return "hidden by the provider"
    if part.seconds:
        return seconds_text(part.seconds)
    return count(len(part.text), "character")


def state_word(part: ToolPart, running: bool = False) -> str:
    """The state of a call; one without a result waits as long as the turn runs."""
    waits = running and part.state == "not started" and not part.settled
    return "waiting" if waits else part.state


def state_icon(part: ToolPart) -> str:
    """A character for the state, beside the word."""
    return _ICONS.get(part.state, "○")


def decision_note(data: JsonObject) -> str:
    """What was decided about a call, from the data of its ``approval/decided``."""
    outcome, by = data.get("outcome"), data.get("by")
    if outcome == "approved":
        who = "you" if by == "user" else str(by)
        how = f"approved by {who}" + (" with changed arguments" if data.get("edited") else "")
        return how + (", and from now on" if data.get("remembered") else "")
    if outcome == "denied":
        said = data.get("reason")
        return f"denied by {'you' if by == 'user' else by}" + (f": {said}" if said else "")
    return _UNDECIDED.get(str(outcome), "")


def progress_text(progress: float | str) -> str:
    """A share as a percentage; words as they are."""
    return f"{progress:.0%}" if isinstance(progress, float) else progress


def attempt_line(part: RetryPart) -> str:
    """What became of an attempt."""
    return f"Attempt {part.attempt} failed and was repeated: {part.message}"


def end_line(part: EndPart) -> str:
    """The end in one line: how, steps, seconds, tokens."""
    how = "" if part.kind == "completed" else _ENDINGS.get(part.kind, part.kind)
    if how and part.reason:
        how = f"{how}: {part.reason}"
    steps = count(part.steps, "step") if part.steps else ""
    seconds = "" if part.seconds is None else seconds_text(part.seconds)
    price = () if part.cost is None else (money_text(part.cost),)
    return " · ".join(filter(None, (how, steps, seconds, *token_words(part.usage), *price)))


def token_words(usage: Usage) -> tuple[str, ...]:
    """What went in and came out, in words; nothing when no tokens were counted."""
    into = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    out = usage.output_tokens + usage.reasoning_tokens
    if not into + out:
        return ()
    share = usage.cache_read_tokens / into if into else 0
    cached = f" ({share:.0%} from cache)" if share else ""
    return f"{count(into, 'token')} in{cached}", f"{out:,} out"


def money_text(dollars: float) -> str:
    """A price: ``$0.0123``, ``$1.20``."""
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"


def seconds_text(seconds: float) -> str:
    """A duration: ``30 ms``, ``0.1 s``, ``42 s``, ``2 min 05 s``."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


def count(number: int, noun: str) -> str:
    """``1 step``, ``1,234 steps``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def strip_controls(text: str) -> str:
    """`text` without what would steer a terminal; of an overwritten line the last form."""
    if "\r" in text:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub("", text)


def plain_display(display: JsonObject | None, kind: str) -> str:
    """One form of a MIME bundle, its lines joined; ``""`` when there is none as text."""
    value = (display or {}).get(kind, "")
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else ""
