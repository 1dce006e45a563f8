"""What a tool returned or raised as an outcome: bounded for the model, rich for people.

Reads: messages, tools.arguments, tools.media, tools.plain, tools.rich, tools.text, tools.tool.
Feeds: tools.registry, tools.run, plugins.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from dsh_nb.messages import ImageBlock, JsonObject, ResultContent, TextBlock
from dsh_nb.tools.arguments import ToolArgumentError
from dsh_nb.tools.media import figure_of, image_of
from dsh_nb.tools.plain import bytes_text, number_text, plain
from dsh_nb.tools.rich import display_of, frame_text, is_frame, json_display
from dsh_nb.tools.text import bound_text, model_text, safe_text
from dsh_nb.tools.tool import ToolOutcome

__all__ = ["error_outcome", "text_outcome", "to_outcome"]

_LIMIT_BYTES = 50_000
_ERROR_BYTES = 4_000
_IMAGES = 20
_PACKAGE = str(Path(__file__).resolve().parents[1])
_LIBRARIES = ("site-packages", "dist-packages", f"{Path(traceback.__file__).parent}")


def text_outcome(text: str, is_error: bool = False) -> ToolOutcome:
    """`text` as an outcome, bounded and cleaned like any other.

    Args:
        text: What the model is told.
        is_error: True when it tells a failure.
    """
    bounded = bound_text(_shown(text), _LIMIT_BYTES, "")
    return ToolOutcome(
        content=(TextBlock(bounded.text),), is_error=is_error, overflow=bounded.overflow
    )


def to_outcome(
    value: object, *, limit_bytes: int = _LIMIT_BYTES, call_id: str = ""
) -> ToolOutcome:
    """The outcome of a tool that returned `value`. Never raises, whatever `value` is.

    Args:
        value: Anything; a `ToolOutcome` is passed through.
        limit_bytes: Most UTF-8 bytes of text that the model gets; the rest is `overflow`.
        call_id: Named in the note that tells the model how to read on.

    Returns:
        Valid Unicode and strict JSON throughout; the content is never blank.
    """
    if isinstance(value, ToolOutcome):
        return value
    try:
        said = _said(value)
    except Exception as error:  # a value that lies about what it is
        text = f"<{type(value).__name__} object; it could not be shown: {_message(error)}>"
        said = _Said((TextBlock(_shown(text)),))
    return _bounded(said, limit_bytes, call_id)


def error_outcome(exc: BaseException, *, tool: str) -> ToolOutcome:
    """The outcome of a call that raised `exc`: its type, its text and where it came from.

    Args:
        exc: What was raised. Of a `ToolArgumentError` the model gets the text alone.
        tool: Name of the tool, for an error without a text.
    """
    if isinstance(exc, ToolArgumentError):
        text = safe_text(exc)
    else:
        text = _message(exc) or f"{type(exc).__name__}: the tool {tool!r} failed without a text"
        text += _inner(exc) + _place(exc.__traceback__)
    bounded = bound_text(_shown(text), _ERROR_BYTES, "")
    return ToolOutcome(content=(TextBlock(bounded.text),), is_error=True)


@dataclass(frozen=True, slots=True)
class _Said:
    """What a value says, before it is bounded."""

    content: tuple[ResultContent, ...]
    display: JsonObject | None = None


def _said(value: object) -> _Said:
    image = image_of(value)
    if image is not None:
        return _Said((image,), _png_display(image) if figure_of(value) is not None else None)
    if isinstance(value, (list, tuple)) and any(_is_media(item) for item in value):
        return _mixed(value)
    if is_frame(value):
        return _Said((TextBlock(_shown(frame_text(value))),), display_of(value))
    text = _simple_text(value)
    if text is not None:
        return _Said((TextBlock(_shown(text)),))
    display = display_of(value)
    if display is not None:
        return _Said((TextBlock(_shown(safe_text(value))),), display)
    return _structured(value)


def _png_display(image: ImageBlock) -> JsonObject | None:
    head, _, data = image.url.partition(",")
    return {"image/png": data} if head.startswith("data:image/png") else None


def _is_media(item: object) -> bool:
    return isinstance(item, (TextBlock, ImageBlock)) or image_of(item) is not None


def _mixed(values: Iterable[object]) -> _Said:
    """A list with pictures in it as one block an item, in order."""
    said = [_said(item) for item in values]
    return _Said(tuple(block for part in said for block in part.content))


def _simple_text(value: object) -> str | None:
    """The text of a value that needs no JSON around it."""
    if value is None:
        return "(no result)"
    if isinstance(value, TextBlock):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) in (int, float):
        return number_text(value)  # type: ignore[arg-type]  # narrowed by its exact type
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes_text(bytes(value))
    if isinstance(value, BaseException):
        return _message(value) or type(value).__name__
    return None


def _structured(value: object) -> _Said:
    images: list[ImageBlock] = []
    made = plain(value, images)
    if isinstance(made, str):
        text = model_text(value) if isinstance(value, str) else made
        return _Said((TextBlock(_shown(text)), *images))
    text = json.dumps(made, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    shown = json_display(made) if isinstance(made, (dict, list)) else None
    display = None if shown is None else {"application/json": shown}
    return _Said((TextBlock(_shown(text)), *images), display)


def _shown(text: str) -> str:
    text = model_text(text)
    return text if text.strip() else "(empty text)"


def _bounded(said: _Said, limit_bytes: int, call_id: str) -> ToolOutcome:
    content = _fewer_images(said.content)
    text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
    bounded = bound_text(text, limit_bytes, call_id)
    if bounded.overflow is not None:
        images = [block for block in content if isinstance(block, ImageBlock)]
        content = (TextBlock(bounded.text), *images)
    return ToolOutcome(
        content=content or (TextBlock("(no result)"),),
        display=said.display,
        overflow=bounded.overflow,
    )


def _fewer_images(content: tuple[ResultContent, ...]) -> tuple[ResultContent, ...]:
    images = [block for block in content if isinstance(block, ImageBlock)]
    if len(images) <= _IMAGES:
        return content
    dropped = {id(block) for block in images[_IMAGES:]}
    note = TextBlock(f"({len(dropped)} of {len(images)} images left out)")
    return (*(block for block in content if id(block) not in dropped), note)


def _message(exc: BaseException) -> str:
    """``TypeName: message``; ``""`` when there is no message."""
    try:
        message = str(exc).strip()
    except Exception as error:
        message = f"(its text raised {type(error).__name__})"
    return f"{type(exc).__name__}: {message}" if message else ""


def _inner(exc: BaseException) -> str:
    """The notes of an error, and the errors inside a group."""
    notes = getattr(exc, "__notes__", None)
    lines = [safe_text(note) for note in notes[:5]] if isinstance(notes, list) else []
    if isinstance(exc, BaseExceptionGroup):
        lines += [_message(inner) or type(inner).__name__ for inner in exc.exceptions[:5]]
    return "".join(f"\n- {line[:500]}" for line in lines)


def _place(trace: TracebackType | None) -> str:
    """Where the user's own code was last, for the model to mend it."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(trace)]
    ours = [place for place in frames if not place[0].co_filename.startswith(_PACKAGE)]
    own = [place for place in ours if not _is_library(place[0].co_filename)]
    if not own:
        return ""
    code, line = own[-1]
    return f"\n({Path(code.co_filename).name}, line {line}, in {code.co_name})"


def _is_library(filename: str) -> bool:
    return any(part in filename for part in _LIBRARIES)
