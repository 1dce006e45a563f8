"""A session as a file to share: a page, Markdown, JSON lines or Parquet, redacted on its way.

Reads: messages, session, tables, notebook.document.
Feeds: notebook.record.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from dsh_nb.messages import JsonObject, lossless
from dsh_nb.notebook.document import to_document, to_page
from dsh_nb.session.files import dumps
from dsh_nb.session.redaction import Redact, Redaction, redaction_of
from dsh_nb.session.session import Session
from dsh_nb.tables.events import events

__all__ = ["export_session"]


def export_session(
    session: Session,
    path: str | os.PathLike[str],
    *,
    redact: Redact | Iterable[Redact] | bool | None = True,
    overwrite: bool = False,
) -> Path:
    """Write `session` to a file; see `dsh_nb.notebook.record.NotebookRecord.export`."""
    target = Path(os.path.abspath(Path(path).expanduser()))
    form = _FORMS.get(target.suffix.lower())
    if form is None:
        raise ValueError(
            f"cannot export to {target.suffix!r}; name the file .html, .md, .jsonl or .parquet"
        )
    _check_place(target, overwrite)
    redaction = redaction_of(redact)
    copy = Session(session.id, [*session], header=_plain(session.header))
    shared = copy if redaction is None else redaction.session(copy)
    _write(target, form(shared, redaction), overwrite)
    return target


def _check_place(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r}; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; name a file")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{str(target)!r} is there already; pass overwrite=True")


def _plain(header: JsonObject) -> JsonObject:
    """What of a header can be written: somebody may have put there what is not JSON."""
    plain: JsonObject = {}
    for name, value in header.items():
        try:
            plain |= lossless({name: value})
        except (TypeError, ValueError):
            continue
    return plain


def _write(target: Path, content: bytes, overwrite: bool) -> None:
    """Write all of it, or nothing."""
    half = target.with_name(f".{target.name}.{os.getpid()}.half")
    try:
        half.write_bytes(content)
        _check_place(target, overwrite)  # it may have come meanwhile
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)


def _page(session: Session, redaction: Redaction | None) -> bytes:
    return to_page(session, redaction).encode()


def _markdown(session: Session, redaction: Redaction | None) -> bytes:
    return to_document(session, redaction).encode()


def _lines(session: Session, redaction: Redaction | None) -> bytes:
    return dumps(session)


def _parquet(session: Session, redaction: Redaction | None) -> bytes:
    """The table `events`, its column ``data`` as JSON text."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            "Parquet needs pyarrow, which is not installed; pip install dsh-nb[parquet]"
        )
    frame = events(session)
    frame["data"] = frame["data"].array.to_text()
    if redaction is not None:  # what was said in pieces stands in one cell
        said = frame["text"]
        frame["text"] = said.map(redaction.mask, na_action="ignore").astype(said.dtype)
    file = io.BytesIO()
    frame.to_parquet(file, engine="pyarrow", index=False)
    return file.getvalue()


_FORMS: Mapping[str, Callable[[Session, Redaction | None], bytes]] = {
    ".html": _page,
    ".jsonl": _lines,
    ".md": _markdown,
    ".parquet": _parquet,
}
