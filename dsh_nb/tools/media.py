"""Pictures for the model: their type is read from their bytes, never from a name.

Reads: messages. Feeds: tools.results.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import sys
from typing import Any

from dsh_nb.messages import ImageBlock

__all__ = ["figure_of", "image_of", "image_type", "release_figure"]

_MODEL_BYTES = 3_500_000  # base64 makes a third more of it, and a provider takes 5 MB
_MODEL_PIXELS = 2000
_PILLOW_MAGIC = (b"BM", b"II*\x00", b"MM\x00*")
_DATA_URL = re.compile(r"data:image/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,")


def image_type(data: bytes) -> str | None:
    """The MIME type that the first bytes tell: PNG, JPEG, GIF or WebP; ``None`` for all else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def image_of(value: object) -> ImageBlock | None:
    """`value` as a picture that a model takes; ``None`` when it is none or cannot become one.

    Bytes, ``data:`` URLs, Pillow images, and matplotlib figures and axes can be pictures.
    """
    if isinstance(value, ImageBlock):
        return _checked(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(value))
    if isinstance(value, str):
        return _from_url(value)
    figure = figure_of(value)
    if figure is not None:
        return _from_figure(figure)
    if isinstance(value, _loaded("PIL.Image", "Image")):
        return _from_pillow(value)
    return None


def figure_of(value: object) -> Any | None:  # Any: matplotlib's class is known only once loaded
    """The matplotlib figure that `value` is or belongs to; matplotlib is never imported for it."""
    if isinstance(value, _loaded("matplotlib.figure", "FigureBase")):
        return getattr(value, "figure", value)
    if isinstance(value, _loaded("matplotlib.axes", "Axes")):
        return getattr(value, "figure", None)
    if isinstance(value, _loaded("numpy", "ndarray")):
        axes: Any = value  # a grid of axes as plt.subplots gives it
        return figure_of(axes.flat[0]) if axes.dtype == object and axes.size else None
    return None


def release_figure(figure: Any) -> None:  # Any: as above
    """Keep Jupyter from showing `figure` once more when the cell ends; it stays usable.

    The inline backend shows every figure of pyplot that is still open by then.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and "inline" in pyplot.get_backend():
        pyplot.close(figure)


def _loaded(module: str, name: str) -> tuple[type, ...]:
    """The class of that name for `isinstance`; empty while its module was not imported."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def _checked(block: ImageBlock) -> ImageBlock | None:
    return _from_url(block.url) if block.url.startswith("data:") else block


def _from_url(text: str) -> ImageBlock | None:
    head = _DATA_URL.match(text)
    if head is None:
        return None
    try:
        return _from_bytes(base64.b64decode(text[head.end() :].strip(), validate=True))
    except (binascii.Error, ValueError):
        return None


def _from_bytes(data: bytes) -> ImageBlock | None:
    kind = image_type(data)
    if kind is not None and len(data) <= _MODEL_BYTES:
        url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return ImageBlock(url=url, mime_type=kind)
    if kind is not None or data.startswith(_PILLOW_MAGIC):
        return _opened(data)
    return None


def _opened(data: bytes) -> ImageBlock | None:
    """What Pillow makes of `data`, where it is installed and can read it."""
    try:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            return _from_pillow(image)
    except Exception:  # not installed, or broken bytes: the model gets text instead
        return None


def _from_pillow(image: Any) -> ImageBlock | None:  # Any: Pillow may not be installed
    plain = image if image.mode in {"1", "L", "LA", "P", "RGB", "RGBA"} else image.convert("RGB")
    if max(plain.size) > _MODEL_PIXELS:
        plain = plain.copy()
        plain.thumbnail((_MODEL_PIXELS, _MODEL_PIXELS))
    target = io.BytesIO()
    plain.save(target, format="PNG")
    if target.tell() > _MODEL_BYTES:
        target = io.BytesIO()
        plain.convert("RGB").save(target, format="JPEG", quality=80)
    return _from_small(target.getvalue())


def _from_small(data: bytes) -> ImageBlock | None:
    return _from_bytes(data) if len(data) <= _MODEL_BYTES else None


def _from_figure(figure: Any) -> ImageBlock | None:
    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    return _from_bytes(target.getvalue())
