"""Zstandard files as plain bytes: any number of frames, as much of a torn one as is whole.

Reads: errors. Feeds: imports.lines.
"""

from __future__ import annotations

from dsh_nb.errors import SessionError

__all__ = ["ZSTD_MAGIC", "decompress"]

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def decompress(packed: bytes) -> tuple[bytes, list[str]]:
    """What the frames of `packed` hold, one after the other, and what is wrong with them.

    A damaged frame is left out and the next one read; of a frame without its end, what can be
    decoded is kept.

    Raises:
        SessionError: The package that reads Zstandard is not installed.
    """
    try:
        from backports import zstd
    except ImportError:
        raise SessionError(
            "the file is compressed with zstd; install backports.zstd to read it"
        ) from None
    view, at, last, number = memoryview(packed), 0, 0, 0
    parts: list[bytes] = []
    faults: list[str] = []
    while at < len(packed):
        number += 1
        try:
            size = zstd.get_frame_size(view[at:])
        except zstd.ZstdError:
            part, fault = _torn(view[at:])
            parts.append(part)
            faults.append(f"frame {number} of the zstd file {fault}")
            # What begins as no frame does is in the middle of one that a torn one ran into.
            torn = packed.startswith(ZSTD_MAGIC, at)
            last = at = _next_frame(packed, at if torn else last)
            continue
        last = at
        try:
            parts.append(zstd.decompress(view[at : at + size]))
            at += size
        except zstd.ZstdError as error:
            faults.append(f"frame {number} of the zstd file is damaged: {error}")
            at = _next_frame(packed, at)
    return b"".join(parts), faults


def _next_frame(packed: bytes, at: int) -> int:
    """Where the next frame begins, as far as its first bytes tell; the end when none does."""
    found = packed.find(ZSTD_MAGIC, at + 1)
    return found if found >= 0 else len(packed)


def _torn(rest: memoryview) -> tuple[bytes, str]:
    """What a frame without its end holds, a little at a time, and what is wrong with it."""
    from backports import zstd

    reader, parts = zstd.ZstdDecompressor(), []
    try:
        for start in range(0, len(rest), 256):
            parts.append(reader.decompress(rest[start : start + 256]))
    except (zstd.ZstdError, EOFError) as error:
        return b"".join(parts), f"is damaged: {error}"
    return b"".join(parts), "ends in the middle"
