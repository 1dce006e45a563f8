from __future__ import annotations

import json
from pathlib import Path

import pytest
from backports import zstd

from dsh_nb.imports.lines import Line, read_lines
from dsh_nb.imports.report import ImportReport, LineNote


def lines_of(path: Path, raw: bytes) -> tuple[list[Line], ImportReport]:
    file = path / "log.jsonl"
    file.write_bytes(raw)
    report = ImportReport(str(file))
    return [*read_lines(file, report)], report


def compressed(n: int) -> bytes:
    """A frame of one line, with a checksum as dsh writes it."""
    options: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
    return zstd.compress(b'{"n": %d, "seq": 1}\n' % n, options=options)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1}\n{"b": 2}\n',
        b'\xef\xbb\xbf{"a": 1}\r\n{"b": 2}\r\n',
        b'{"a": 1}\n\0\0\0{"b": 2}',
    ],
    ids=["plain", "windows", "NUL bytes, no last newline"],
)
def test_lines_are_read_whatever_stands_around_them(tmp_path: Path, raw: bytes) -> None:
    lines, report = lines_of(tmp_path, raw)

    assert lines == [Line(1, {"a": 1}), Line(2, {"b": 2})]
    assert (report.lines, report.skipped, report.notes) == (2, [], [])


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    lines, report = lines_of(tmp_path, b'\n{"a": 1}\n  \n\r\n')

    assert ([line.number for line in lines], report.lines, report.blank) == ([2], 4, 3)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"a": ', "is not JSON: Input data was truncated"),
        (b"[1]", "is JSON but not an object: b'[1]'"),
        (b"null", "is JSON but not an object: b'null'"),
        (b'{"a":' * 250 + b"1" + b"}" * 250, "is nested too deeply"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_bad_line_in_the_middle_hides_nothing_after_it(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    lines, report = lines_of(tmp_path, b'{"a": 1}\n' + bad + b'\n{"b": 2}\n')

    assert [line.number for line in lines] == [1, 3]
    assert report.skipped == [LineNote(2, reason)]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a": "\xff"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        (b'{"a": NaN, "b": 1e999}', {"a": "NaN", "b": "1e999"}),
        (b'{"a": "\\ud800"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        (b'{"a": "x\ty"}', {"a": "x\ty"}),
    ],
    ids=["bytes", "numbers", "surrogate", "control"],
)
def test_line_that_is_nearly_json_is_mended_with_a_note(
    tmp_path: Path, raw: bytes, value: object
) -> None:
    lines, report = lines_of(tmp_path, raw)

    assert lines == [Line(1, value)]  # type: ignore[arg-type]  # the objects above
    assert [note.line for note in report.notes] == [1]


def test_line_glued_to_a_torn_one_is_kept(tmp_path: Path) -> None:
    whole = b'{"type": "user", "uuid": "u", "message": {"role": "user"}}'

    lines, report = lines_of(tmp_path, b'{"type": "user", "message": {"ro' + whole)

    assert lines == [Line(1, json.loads(whole))]
    assert report.notes == [LineNote(1, "begins with a piece of another line, which is lost")]


def test_object_inside_a_torn_line_is_not_taken_for_a_line(tmp_path: Path) -> None:
    lines, report = lines_of(tmp_path, b'{"type": "a", "data": {"type": "text"}')

    assert (lines, len(report.skipped)) == ([], 1)


def test_torn_last_frame_keeps_what_is_whole(tmp_path: Path) -> None:
    rows = [b'{"seq": %d, "x": "%s"}\n' % (n, b"pad" * n) for n in range(400)]
    packed = zstd.compress(rows[0]) + zstd.compress(b"".join(rows[1:]))

    lines, report = lines_of(tmp_path, packed[:-9])

    assert [line.value["seq"] for line in lines] == [*range(len(lines))]
    assert len(lines) >= 1
    assert report.notes[0] == LineNote(0, "frame 2 of the zstd file ends in the middle")


def test_damaged_frame_hides_nothing_after_it(tmp_path: Path) -> None:
    frames = [compressed(n) for n in range(3)]
    frames[1] = frames[1][:-1] + bytes([frames[1][-1] ^ 1])

    lines, report = lines_of(tmp_path, b"".join(frames))

    assert [line.value["n"] for line in lines] == [0, 2]
    assert [str(note)[:37] for note in report.notes] == [
        "frame 2 of the zstd file is damaged: "[:37]
    ]


def test_compressed_log_cut_anywhere_keeps_its_first_lines(tmp_path: Path) -> None:
    rows = [b'{"seq": %d, "x": "%s"}\n' % (n, bytes([97 + n]) * n) for n in range(5)]
    packed = b"".join(map(zstd.compress, rows))

    kept = []
    for cut in range(8, len(packed)):
        lines, _ = lines_of(tmp_path, packed[:cut])
        assert [line.value["seq"] for line in lines] == [*range(len(lines))]
        kept.append(len(lines))

    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (0, 5)


def test_torn_frame_in_the_middle_hides_nothing_after_it(tmp_path: Path) -> None:
    """A frame cut by a full disk, with the next one written right behind it, once ended the log."""
    frames = [compressed(n) for n in range(3)]

    for cut in range(5, len(frames[1])):
        lines, report = lines_of(tmp_path, frames[0] + frames[1][:cut] + frames[2])

        values = [line.value.get("n") for line in lines]
        assert (values[0], values[-1]) == (0, 2)
        assert report.notes
