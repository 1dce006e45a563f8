"""What of one session has reached its file, and what has not yet.

Reads: messages, session, plugins.persistence.file. Feeds: plugins.persistence.service.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from dsh_nb.messages import JsonObject, lossless
from dsh_nb.plugins.persistence.file import FileLostError, SessionFile
from dsh_nb.session.files import SessionHeader, encode_events, header_of, masked_header
from dsh_nb.session.masking import NO_MASKS, Masks, StreamMask, current_masks
from dsh_nb.session.session import Session

__all__ = ["Journal"]

_BATCH = 20_000


class Journal:
    """Writes one session; used by one thread at a time.

    Args:
        session: The session.
        folder: Where its file is made when there is something to write.
        mask: Whether secrets are masked.
    """

    def __init__(self, session: Session, folder: Path, *, mask: bool = True) -> None:
        self._session = session
        self._folder = folder
        self._mask = mask
        self._file: SessionFile | None = None
        self._begin()

    def _begin(self) -> None:
        self._written = 0
        self._header: SessionHeader | None = None
        self._pending: tuple[bytes, int] | None = None
        self._stream = StreamMask()

    def go_on(self, file: SessionFile, written: int, header: SessionHeader) -> None:
        """Append to `file`, which has the first `written` events and the `header`."""
        self._file, self._written, self._header = file, written, header

    @property
    def path(self) -> Path | None:
        """The file; None before there is one."""
        return None if self._file is None else self._file.path

    def save(self, *, final: bool = False, sync: bool = False) -> None:
        """Write what is not written yet.

        The end of a stream that may be the beginning of a secret waits for what follows it.

        Args:
            final: True when nothing follows.
            sync: True to wait until the disk has it.

        Raises:
            FileLostError: The file was not as it was left. The session begins another one with
                the next call.
            OSError: Not all could be written; the next call tries again.
        """
        if self._file is None:
            if not len(self._session):
                return
            self._file = SessionFile.create(self._folder, self._session.id)
        try:
            while self._pending or self._encode(self._file, final=final):
                assert self._pending is not None  # one of the two has made it
                lines, count = self._pending
                self._file.append(lines)
                self._written += count
                self._pending = None
            if sync:
                self._file.sync()
        except FileLostError:
            self.close()
            raise

    def close(self) -> None:
        """Close and unlock the file; twice is harmless."""
        file, self._file = self._file, None
        self._begin()
        if file is not None:
            file.close()

    def _encode(self, file: SessionFile, *, final: bool) -> bool:
        """Make the next lines; False when there are none."""
        masks = current_masks() if self._mask else NO_MASKS
        events = self._session[self._written : self._written + _BATCH]
        if not final or len(events) == _BATCH:
            events = events[: self._stream.cut(events, masks)]
        header = self._new_header(file, masks)
        if not events and (header is None or self._header is None):
            return False
        lines = b"" if header is None else header.encode()
        self._header = header or self._header
        masked = self._stream.mask(events, masks)
        self._pending = (lines + encode_events(masked, masks.line), len(events))
        return True

    def _new_header(self, file: SessionFile, masks: Masks) -> SessionHeader | None:
        """The header, when the file has another one or none."""
        said = _plain(self._session.header)
        if self._header is not None and masks.value(said) == self._header.header:
            return None
        created = None if self._header is None else self._header.created
        header = header_of(self._session, id=file.id, created=created)
        return masked_header(msgspec.structs.replace(header, header=said), masks)


def _plain(header: JsonObject) -> JsonObject:
    """What of a header can be saved: what somebody put there that is not JSON cannot."""
    try:
        plain: JsonObject = lossless(dict(header))
    except (TypeError, ValueError):
        return {}
    return plain
