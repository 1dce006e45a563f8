from __future__ import annotations

import base64
import io
import json
import sqlite3
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, NoReturn

import matplotlib as mpl
import msgspec
import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from dsh_nb.messages import ImageBlock, TextBlock
from dsh_nb.tools.arguments import ToolArgumentError
from dsh_nb.tools.results import error_outcome, text_outcome, to_outcome
from dsh_nb.tools.tool import ToolOutcome

mpl.use("agg")


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    color: Color


class Model(pydantic.BaseModel):
    at: date


class Struct(msgspec.Struct):
    name: str


Pair = namedtuple("Pair", "left right")


class BrokenRepr:
    def __repr__(self) -> str:
        raise ValueError("no repr")


class Html:
    def __init__(self, html: str) -> None:
        self._html = html

    def __str__(self) -> str:
        return "a table"

    def _repr_html_(self) -> str:
        return self._html


def picture(kind: str, size: tuple[int, int] = (3, 2)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size).save(target, kind)
    return target.getvalue()


def assert_travels(outcome: ToolOutcome, limit_bytes: int = 50_000) -> None:
    """The outcome encodes wherever it goes, and the model's part is non-blank and bounded."""
    msgspec.json.encode(outcome)
    text = json.dumps(msgspec.to_builtins(outcome), allow_nan=False, ensure_ascii=False)
    sqlite3.connect(":memory:").execute("select ?", (text,)).connection.close()
    texts = [block.text for block in outcome.content if isinstance(block, TextBlock)]
    assert outcome.content
    assert all(text.strip() for text in texts)
    assert sum(len(text.encode()) for text in texts) <= limit_bytes


def text_of(outcome: ToolOutcome) -> str:
    (block,) = outcome.content
    assert isinstance(block, TextBlock)
    return block.text


def mime_types(outcome: ToolOutcome) -> list[str]:
    for block in outcome.content:
        if isinstance(block, ImageBlock):
            data = base64.b64decode(block.url.partition(",")[2])
            with Image.open(io.BytesIO(data)) as image:
                assert image.get_format_mimetype() == block.mime_type
    return [block.mime_type or "" for block in outcome.content if isinstance(block, ImageBlock)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", "(empty text)"),
        (" \n", "(empty text)"),
        ("\x1b[2J", "(empty text)"),
        (None, "(no result)"),
        (True, "true"),
        (5, "5"),
        (10**30, "1" + "0" * 30),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ("cut \ud83d", "cut \ufffd"),
        ("\x1b[31mred\x1b[0m\x07", "red"),
        ("10%\r100%\r\nend", "100%\nend"),
        (b"abc", "bytes of 3: 61 62 63"),
        (date(2024, 2, 29), "2024-02-29"),
        (timedelta(hours=1), "1:00:00"),
        (Color.RED, "red"),
        (np.int64(3), "3"),
        (np.float32("nan"), "NaN"),
        (np.datetime64("2024-02-29"), "2024-02-29"),
        (pd.Timestamp("2024-02-29"), "2024-02-29T00:00:00"),
        (pd.NaT, "NaT"),
        (BrokenRepr(), "<BrokenRepr object; its repr raised ValueError: no repr>"),
        (ValueError("bad"), "ValueError: bad"),
        (TextBlock("said"), "said"),
    ],
)
def test_a_simple_value_becomes_its_text(value: object, text: str) -> None:
    outcome = to_outcome(value)

    assert outcome == ToolOutcome(content=(TextBlock(text),))
    assert_travels(outcome)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ([], []),
        ({"a": (1, float("nan"))}, {"a": [1, "NaN"]}),
        ({1: "int", "1": "text"}, {"1": "int", "1'": "text"}),
        ({3, 1, 2}, [1, 2, 3]),
        (range(3), [0, 1, 2]),
        (Point(1, Color.RED), {"x": 1, "color": "red"}),
        (Model(at=date(2024, 2, 29)), {"at": "2024-02-29"}),
        (Struct("s\udc00"), {"name": "s\ufffd"}),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (np.array([[1.0, np.nan]]), [[1.0, "NaN"]]),
        ([10**5000], [hex(10**5000)]),
        ([BrokenRepr()], ["<BrokenRepr object; its repr raised ValueError: no repr>"]),
        ([datetime(2024, 2, 29)], ["2024-02-29T00:00:00"]),
        ({"\x1b[1mkey": "\x1b[1mbold"}, {"key": "bold"}),
    ],
)
def test_a_structure_becomes_compact_json_and_a_tree(value: object, plain: object) -> None:
    outcome = to_outcome(value)

    assert text_of(outcome) == json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    assert outcome.display == {"application/json": plain}
    assert_travels(outcome)


def test_a_container_that_contains_itself_is_named() -> None:
    loop: list[object] = [1]
    loop.append(loop)

    assert text_of(to_outcome(loop)) == '[1,"<list that contains itself>"]'


def test_deep_and_endlessly_shared_containers_stay_bounded() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]

    assert_travels(to_outcome(deep))


def test_an_outcome_passes_through() -> None:
    outcome = ToolOutcome(content=(TextBlock("own"),), is_error=True)

    assert to_outcome(outcome) is outcome


def test_a_long_text_keeps_head_and_tail_and_says_how_to_read_on() -> None:
    whole = "head " + "ä" * 100_000 + " tail"
    outcome = to_outcome(whole, limit_bytes=2000, call_id="call_1")
    text = text_of(outcome)
    head, _, rest = text.partition("\n\n[…")
    note, _, tail = rest.partition("…]\n\n")
    left_out = len(whole) - len(head) - len(tail)

    assert (whole.startswith(head), whole.endswith(tail)) == (True, True)
    assert note == (
        f" {left_out} of {len(whole)} characters left out; "
        f"call read_result(call_id='call_1', start={len(head)}) to read on "
    )
    assert outcome.overflow == whole
    assert_travels(outcome, limit_bytes=2000)


def test_the_overflow_is_capped_at_ten_million_characters() -> None:
    outcome = to_outcome("x" * 10_000_001, call_id="c")

    assert outcome.overflow is not None
    assert len(outcome.overflow) == 10_000_000


def test_a_small_frame_is_whole_for_the_model_and_escaped_for_people() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["<script>", "x"]})
    outcome = to_outcome(frame)

    assert "2 rows x 2 columns" in text_of(outcome)
    assert "<script>" in text_of(outcome)
    assert outcome.display is not None
    assert "&lt;script&gt;" in outcome.display["text/html"]
    assert "<script>" not in outcome.display["text/html"]


def test_a_long_frame_shows_its_head_and_tail() -> None:
    outcome = to_outcome(pd.DataFrame({"a": range(100_000)}))

    assert "100000 rows" in text_of(outcome)
    assert "99999" in text_of(outcome)
    assert len(text_of(outcome)) < 2000
    assert outcome.display is not None
    assert len(outcome.display["text/html"]) < 20_000


def test_a_wide_frame_stays_bounded() -> None:
    frame = pd.DataFrame([["y" * 1000] * 2000] * 50)

    assert_travels(to_outcome(frame))


def test_a_series_is_a_table_too() -> None:
    outcome = to_outcome(pd.Series([1, 2], name="s"))

    assert "2 values" in text_of(outcome)
    assert outcome.display is not None
    assert "text/html" in outcome.display


def test_a_large_array_is_told_by_its_shape() -> None:
    text = text_of(to_outcome(np.zeros((200, 300))))

    assert text.startswith("array of shape (200, 300), float64")
    assert len(text) < 2000


@pytest.mark.parametrize(
    ("kind", "mime_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
        ("BMP", "image/png"),
        ("TIFF", "image/png"),
    ],
)
def test_bytes_of_a_picture_get_the_type_that_their_magic_tells(kind: str, mime_type: str) -> None:
    outcome = to_outcome(picture(kind))

    assert mime_types(outcome) == [mime_type]
    assert_travels(outcome)


def test_a_wrong_type_in_a_data_url_is_mended() -> None:
    url = "data:image/jpg;base64," + base64.b64encode(picture("PNG")).decode()

    assert mime_types(to_outcome(url)) == ["image/png"]
    assert mime_types(to_outcome(ImageBlock(url, "image/jpg"))) == ["image/png"]


def test_a_broken_bitmap_becomes_text() -> None:
    assert text_of(to_outcome(b"BM broken")) == "bytes of 9: 42 4d 20 62 72 6f 6b 65 6e"


def test_a_huge_picture_is_made_smaller() -> None:
    noise = Image.effect_noise((3000, 2000), 100)
    outcome = to_outcome(noise)
    (block,) = outcome.content

    assert isinstance(block, ImageBlock)
    assert len(block.url) < 5_000_000
    assert mime_types(outcome) in (["image/png"], ["image/jpeg"])


def test_a_figure_and_its_axes_are_shown_to_both() -> None:
    figure = Figure(figsize=(1, 1))
    axes = figure.subplots()

    for value in (figure, axes, np.array([axes])):
        outcome = to_outcome(value)
        assert mime_types(outcome) == ["image/png"]
        assert outcome.display is not None
        assert base64.b64decode(outcome.display["image/png"]).startswith(b"\x89PNG")


def test_a_pillow_picture_becomes_an_image() -> None:
    assert mime_types(to_outcome(Image.new("CMYK", (2, 2)))) == ["image/png"]


def test_a_list_of_text_and_pictures_becomes_blocks_in_order() -> None:
    outcome = to_outcome(["before", picture("PNG"), {"n": 1}])

    assert [type(block).__name__ for block in outcome.content] == [
        "TextBlock",
        "ImageBlock",
        "TextBlock",
    ]
    assert outcome.content[0] == TextBlock("before")
    assert outcome.content[2] == TextBlock('{"n":1}')


def test_a_picture_in_a_dict_is_numbered_and_follows() -> None:
    outcome = to_outcome({"plot": picture("PNG"), "n": 1})

    assert outcome.content[0] == TextBlock('{"plot":"(image 1)","n":1}')
    assert mime_types(outcome) == ["image/png"]


def test_too_many_pictures_are_left_out_with_a_note() -> None:
    outcome = to_outcome([picture("PNG")] * 25)

    assert len(mime_types(outcome)) == 20
    assert outcome.content[-1] == TextBlock("(5 of 25 images left out)")


def test_an_object_that_shows_itself_is_rich_for_people_and_text_for_the_model() -> None:
    outcome = to_outcome(Html("<b>hi</b>"))

    assert text_of(outcome) == "a table"
    assert outcome.display == {"text/html": "<b>hi</b>"}


def test_a_way_to_show_that_raises_or_is_too_long_is_left_out() -> None:
    class Broken:
        def _repr_html_(self) -> str:
            raise RuntimeError

        def _repr_png_(self) -> bytes:
            return b"png"

    broken = to_outcome(Broken())

    assert broken.display == {"image/png": base64.b64encode(b"png").decode()}
    assert to_outcome(Html("x" * 1_000_001)).display is None


def test_a_mime_bundle_with_metadata_is_taken() -> None:
    class Chart:
        def _repr_mimebundle_(self, include: object, exclude: object) -> Any:
            return {"application/json": {"a": float("nan")}, "text/plain": "c"}, {}

    assert to_outcome(Chart()).display == {"application/json": {"a": "NaN"}, "text/plain": "c"}


def test_heavy_packages_are_not_imported_to_look_at_a_value() -> None:
    code = (
        "import sys; from dsh_nb.tools.results import to_outcome; to_outcome({'a': object()}); "
        "print([name for name in ('pandas', 'matplotlib', 'PIL', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


def raised(error: BaseException) -> BaseException:
    def fail() -> NoReturn:
        raise error

    try:
        fail()
    except BaseException as caught:
        return caught


def test_an_error_names_its_type_its_text_and_its_place() -> None:
    line = raised.__code__.co_firstlineno + 2
    outcome = error_outcome(raised(KeyError("city")), tool="weather")

    assert outcome.is_error
    assert text_of(outcome) == f"KeyError: 'city'\n(test_results.py, line {line}, in fail)"


def test_an_error_without_text_names_its_type_and_the_tool() -> None:
    text = text_of(error_outcome(ValueError(), tool="weather"))

    assert text == "ValueError: the tool 'weather' failed without a text"


def test_an_argument_error_is_its_text_alone() -> None:
    outcome = error_outcome(raised(ToolArgumentError("fix x")), tool="weather")

    assert outcome == ToolOutcome(content=(TextBlock("fix x"),), is_error=True)


def test_an_error_whose_text_raises_or_is_huge_is_bounded() -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert text_of(error_outcome(BadError(), tool="t")).startswith("BadError")
    long = error_outcome(raised(ValueError("ä" * 100_000)), tool="t")
    assert_travels(long, limit_bytes=4000)
    assert "test_results.py" in text_of(long)


def test_the_errors_of_a_group_are_listed() -> None:
    text = text_of(error_outcome(ExceptionGroup("two", [ValueError("a"), KeyError("b")]), tool="t"))

    assert text.endswith("\n- ValueError: a\n- KeyError: 'b'")


def test_a_text_outcome_is_cleaned_and_never_blank() -> None:
    assert text_outcome("a\x1b[0m\ud800", is_error=True) == ToolOutcome(
        content=(TextBlock("a\ufffd"),), is_error=True
    )
    assert text_outcome(" ").content == (TextBlock("(empty text)"),)


ODD = [Color.RED, BrokenRepr(), np.int8(1), pd.NaT, object, 10**5000]
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=20),  # with lone surrogates
    st.binary(max_size=20),
    st.datetimes(),
    st.decimals(),
    st.complex_numbers(),
    st.integers(0, 5).map(lambda n: ODD[n]),  # drawn by number: some have no repr to print
)
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(), st.floats()), inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(_values, st.integers(300, 2000))
def test_any_value_gives_an_outcome_that_travels(value: object, limit_bytes: int) -> None:
    assert_travels(to_outcome(value, limit_bytes=limit_bytes, call_id="c"), limit_bytes)
