"""The fields of a prompt: what is filled in, and what stays as it is."""

from __future__ import annotations

import time

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from dsh_nb.errors import AgentError
from dsh_nb.messages import ImageBlock, TextBlock
from dsh_nb.notebook.interpolation import interpolate

NAMES: dict[str, object] = {
    "x": 3.14159,
    "n": 7,
    "name": "Ada {n}",
    "rows": [{"a": 1}, {"a": None}],
    "nothing": None,
    "d": {"}": "brace", "k:v": 2},
    "ä": "umlaut",
    "frame": pd.DataFrame({"city": ["Rome", "Oslo"], "people": [3, 1]}),
    "double": lambda value: value * 2,
}


def fill(text: str) -> object:
    return interpolate(text, lambda expression: eval(expression, dict(NAMES)))


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no fields", "no fields"),
        ("{n} and {n + 1}, {double(n)}", "7 and 8, 14"),
        ("{x:.2f}|{n:>4}|{n:0{n}d}|{n:}", "3.14|   7|0000007|7"),
        ("{name!r}|{name!r:>12}|{n!s}", "'Ada {n}'|   'Ada {n}'|7"),
        ("a string is not filled in twice: {name}", "a string is not filled in twice: Ada {n}"),
        ("{nothing}|{n > 3}|{n != 3}", "None|True|True"),
        ("{d['}']} {d['k:v']} {double({1: 2}[1])}", "brace 2 4"),
        ("{n if n else x} {rows[0:1][0]['a']}", "7 1"),
        ("${n}, {ä}", "$7, umlaut"),
        ("{rows}", '[{"a":1},{"a":null}]'),
    ],
)
def test_field_becomes_what_its_expression_comes_to(text: str, filled: str) -> None:
    assert fill(text) == filled


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": [1, {"c": {}}]}}',
        "{} { } {1} {1, 2} {n, x} {'n'} [{n: 1}] { n }",
        "p {color: red} interface {name: string; n?: int}",
        "if (x) {return n;} for {i++} {x = 5}",
        "import { n } from 'x'; a{3,} style={{color: 'red'}} {{ n }}",
        "{n\n} {n",
        "{don't} {n]",
        "f({x for x in rows})",
        "{n!x} {n!}",
    ],
)
def test_other_braces_stay_as_they_are(text: str) -> None:
    assert fill(text) == text


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{n}}", "{n}"),
        ("{{{n}}}", "{7}"),
        ("{{n}", "{7"),
        ("{n}}}", "7}}"),
        ('{{n}} in {"a": {n}}', '{n} in {"a": 7}'),
    ],
)
def test_doubled_braces_around_a_field_are_braces(text: str, filled: str) -> None:
    assert fill(text) == filled


def test_frame_reads_as_a_tools_result() -> None:
    said = fill("Describe:\n{frame}\nBriefly.")

    assert isinstance(said, str)
    assert said.startswith("Describe:\n")
    assert "Rome" in said
    assert said.endswith("\nBriefly.")


def test_figure_is_an_image_between_the_text() -> None:
    figure, axes = plt.subplots()
    axes.plot([1, 2])

    said = interpolate("See {figure} here", {"figure": figure}.__getitem__)
    plt.close(figure)

    assert isinstance(said, list)
    assert [type(block) for block in said] == [TextBlock, ImageBlock, TextBlock]
    assert (said[0], said[2]) == (TextBlock("See "), TextBlock(" here"))


def test_long_value_is_bounded_and_a_string_is_whole() -> None:
    said = interpolate("{rows}", {"rows": [*range(100_000)]}.__getitem__)
    text = interpolate("{text}", {"text": "x" * 200_000}.__getitem__)

    assert isinstance(said, str)
    assert len(said) <= 50_000
    assert " … " in said
    assert "read_result" not in said
    assert text == "x" * 200_000


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{missing}", r"^\{missing\} in the prompt failed: NameError: name 'missing' is not def"),
        ("{n:.2q}", r"^\{n:.2q\} in the prompt failed: ValueError: "),
        ("{rows[5]}", r"IndexError: list index out of range; nothing was sent, write \{\{rows"),
        ("{await n}", r"SyntaxError: "),
    ],
)
def test_expression_that_fails_is_named(text: str, error: str) -> None:
    with pytest.raises(AgentError, match=error):
        fill(f"Before {{n}} {text}")


def test_code_full_of_braces_costs_little() -> None:
    text = "function f(){g({a" * 5_000

    began = time.perf_counter()
    same = fill(text)

    assert same == text
    assert time.perf_counter() - began < 3
