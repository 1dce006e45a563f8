"""What a tool returned or raised as an outcome: bounded for the model, rich for people.

Reads: messages, tools.arguments, tools.frames, tools.media, tools.plain, tools.rich,
    tools.text, tools.tool.
Feeds: tools.registry, tools.run, plugins.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from dsh_nb.messages import ImageBlock, JsonObject, ResultContent, TextBlock
from dsh_nb.tools.arguments import ToolArgumentError
from dsh_nb.tools.frames import frame_text, is_frame
from dsh_nb.tools.media import figure_of, image_of, release_figure
from dsh_nb.tools.plain import array_text, bytes_text, is_array, is_plain, json_text, plain
from dsh_nb.tools.rich import display_of, json_display
from dsh_nb.tools.text import bounded, clipped, message_of, safe_str, type_name, visible_text
from dsh_nb.tools.tool import ToolOutcome

__all__ = ["error_outcome", "text_outcome", "to_outcome"]

_LIMIT_BYTES = 50_000
_ERROR_BYTES = 4_000
_MESSAGE_BYTES = 3_000  # leaves room for where it happened
_ARRAY_ITEMS = 1_000  # of an array that is shown whole
_IMAGES = 20
_PACKAGE = str(Path(__file__).resolve().parents[1])
_LIBRARIES = ("site-packages", "dist-packages", f"{Path(traceback.__file__).parent}")


def text_outcome(text: str, is_error: bool = False) -> ToolOutcome:
    """`text` as an outcome, bounded and cleaned like any other.

    Args:
        text: What the model is told.
        is_error: True when it tells a failure.
    """
    return ToolOutcome(content=(_text(clipped(_shown(text), _LIMIT_BYTES)),), is_error=is_error)


def to_outcome(value: object, *, limit_bytes: int = _LIMIT_BYTES, call_id: str = "") -> ToolOutcome:
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
        text = f"<{type_name(value)} object; it could not be shown: {_message(error)}>"
        said = _Said((_text(text),))
    return _bounded(said, limit_bytes, call_id)


def error_outcome(exc: BaseException, *, tool: str) -> ToolOutcome:
    """The outcome of a call that raised `exc`: its type, its text and where it came from.

    Args:
        exc: What was raised. Of a `ToolArgumentError` the model gets the text alone.
        tool: Name of the tool, for an error without a text.
    """
    if isinstance(exc, ToolArgumentError):
        text = safe_str(exc)
    else:
        text = clipped(_message(exc), _MESSAGE_BYTES)
        text += "" if message_of(exc) else f": the tool {tool!r} failed without a text"
        text += _inner(exc) + _place(exc.__traceback__)
    return ToolOutcome(content=(_text(clipped(_shown(text), _ERROR_BYTES)),), is_error=True)


@dataclass(frozen=True, slots=True)
class _Said:
    """What a value says, before it is bounded."""

    content: tuple[ResultContent, ...]
    display: JsonObject | None = None


def _text(text: str) -> TextBlock:
    return TextBlock(_shown(text))


def _shown(text: str) -> str:
    text = visible_text(text)
    return text if text.strip() else "(empty text)"


def _said(value: object) -> _Said:
    image = _picture(value)
    if image is not None:
        return _Said((image,), _png_display(image) if figure_of(value) is not None else None)
    if isinstance(value, (list, tuple, dict)) and _holds_media(value):
        return _illustrated(value) if isinstance(value, dict) else _mixed(value)
    if isinstance(value, TextBlock):
        return _Said((_text(value.text),))
    if is_frame(value):
        return _Said((_text(frame_text(value)),), display_of(value))
    if is_plain(value):
        said = _structured(value)
        return _Said(said.content, display_of(value) or said.display)
    return _Said((_text(_other_text(value)),), display_of(value))


def _picture(value: object) -> ImageBlock | None:
    """`value` as an image, where it is one; the call shows it, so nothing else has to."""
    image = image_of(value)
    figure = None if image is None else figure_of(value)
    if figure is not None:
        release_figure(figure)
    return image


def _png_display(image: ImageBlock) -> JsonObject | None:
    head, _, data = image.url.partition(",")
    return {"image/png": data} if head.startswith("data:image/png") else None


def _holds_media(values: list[object] | tuple[object, ...] | dict[object, object]) -> bool:
    return any(
        _is_media(item) for item in (values.values() if isinstance(values, dict) else values)
    )


def _is_media(item: object) -> bool:
    if isinstance(item, (TextBlock, ImageBlock)) or figure_of(item) is not None:
        return True
    return image_of(item) is not None


def _mixed(values: Iterable[object]) -> _Said:
    """A list with pictures in it as one block an item, in order."""
    said = [_structured(v) if isinstance(v, (list, tuple)) else _said(v) for v in values]
    return _Said(tuple(block for part in said for block in part.content))


def _illustrated(fields: dict[object, object]) -> _Said:
    """A dict with pictures in it: JSON in which they have numbers, and then the pictures."""
    images: list[ImageBlock] = []
    made: dict[object, object] = {}
    for name, item in fields.items():
        image = _picture(item)
        if image is not None:
            images.append(image)
        made[name] = item if image is None else f"(image {len(images)})"
    said = _structured(made)
    return _Said((*said.content, *images), said.display)


def _structured(value: object) -> _Said:
    """A value that JSON can say: as text when it is only a word or a number."""
    if value is None:
        return _Said((_text("(no result)"),))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _Said((_text(bytes_text(bytes(value))),))
    if is_array(value) and getattr(value, "size", 1) > _ARRAY_ITEMS:
        return _Said((_text(array_text(value)),))
    made = plain(value)
    if isinstance(made, str):
        return _Said((_text(made),))
    shown = json_display(made) if isinstance(made, (dict, list)) else None
    display = None if shown is None else {"application/json": shown}
    return _Said((_text(json_text(made)),), display)


def _other_text(value: object) -> str:
    return _message(value) if isinstance(value, BaseException) else safe_str(value)


def _bounded(said: _Said, limit_bytes: int, call_id: str) -> ToolOutcome:
    content = _fewer_images(said.content)
    text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
    shown, overflow = bounded(text, limit_bytes=limit_bytes, call_id=call_id)
    if overflow is not None:
        images = [block for block in content if isinstance(block, ImageBlock)]
        content = (TextBlock(shown), *images)
    return ToolOutcome(
        content=content,
        display=said.display,
        overflow=overflow,
    )


def _fewer_images(content: tuple[ResultContent, ...]) -> tuple[ResultContent, ...]:
    images = [block for block in content if isinstance(block, ImageBlock)]
    if len(images) <= _IMAGES:
        return content
    dropped = {id(block) for block in images[_IMAGES:]}
    note = TextBlock(f"({len(dropped)} of {len(images)} images left out)")
    return (*(block for block in content if id(block) not in dropped), note)


def _message(exc: BaseException) -> str:
    """``TypeName: message``, the name alone when there is no message."""
    message = message_of(exc)
    return f"{type_name(exc)}: {message}" if message else type_name(exc)


def _inner(exc: BaseException) -> str:
    """The notes of an error, and the errors inside a group."""
    notes = getattr(exc, "__notes__", None)
    lines = [safe_str(note) for note in notes[:5]] if isinstance(notes, list) else []
    if isinstance(exc, BaseExceptionGroup):
        lines += [_message(inner) for inner in exc.exceptions[:5]]
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
