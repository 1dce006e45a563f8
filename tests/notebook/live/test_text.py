"""A text that streams into a view: what the view has, what it is told, and what that costs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_nb.notebook.cards import finished_blocks
from dsh_nb.notebook.live import text as module
from dsh_nb.notebook.live.text import LiteralStream, MarkdownStream
from dsh_nb.notebook.markdown import OpenMarkdown, render_open
from tests.notebook.live.screen import Screen, seen

PIECES = [
    *"a * ** _ ` ``` ~~~ # ## - + 1. 2) > | --- === [ ] ( ) ! < > & ' \" \\".split(),
    *r"$ $$ \( \) \[ \]".split(),
    *[" ", "  ", "    ", "\n", "\n\n", "\n\n\n", "\t", "\r", "\r\n"],
    *["word", "two words", "🙂", "é", "漢字", "𝒳²", "\x1b[31m", "\x07", "\u2028", "\u00a0"],
    *["```python\n", "~~~\n", "- item\n", "1. one\n", "> said\n", "| a | b |\n|---|---|\n"],
    *["| 1 | 2 |\n", "# Title\n", "[ref]", "[ref]: https://a.b/c\n", "https://a.b", "![x](y.png)"],
    *["<b>raw</b>", "<script>", "</p>", "</code></pre>", "&lt;", "$x^2$", "$$\ny\n$$\n", "==\n"],
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=40)
"""Texts, cut into pieces where Markdown likes it least."""

LOOKS = st.lists(st.floats(0, 10), max_size=120)
"""What a clock says: by how much it has gone on at each look."""


class Steps:
    """A clock that goes on by the given steps, one at each look, and then by the last."""

    def __init__(self, steps: Iterable[float]) -> None:
        self._steps = iter(steps)
        self._now = 0.0

    def __call__(self) -> float:
        self._now += next(self._steps, 0.5)
        return self._now


def stopped() -> float:
    """A clock by which rendering takes no time: every piece is rendered."""
    return 0.0


def streamed(pieces: Iterable[str], clock: Callable[[], float]) -> tuple[MarkdownStream, Screen]:
    stream, screen = MarkdownStream(clock), Screen([("", [])])
    for piece in pieces:
        screen.apply(stream.feed(0, piece))
        assert screen.blocks() == stream.blocks
    return stream, screen


@given(TEXTS, LOOKS)
@example(["🙂🙂*a", "*b", "🙂"], [0.0])
@example(["a ", "<b>"], [0.0, 0.0, 5.0])
def test_view_has_what_the_kernel_thinks_and_ends_as_the_finished_text(
    pieces: list[str], looks: list[float]
) -> None:
    stream, screen = streamed(pieces, Steps(looks))

    screen.apply(stream.finish(0, finished_blocks("".join(pieces))))

    assert tuple(screen.blocks()) == tuple(stream.blocks) == finished_blocks("".join(pieces))


@given(st.lists(st.text(max_size=8) | st.sampled_from(PIECES), min_size=1, max_size=20))
def test_view_has_literal_text_as_the_kernel_thinks(pieces: list[str]) -> None:
    stream, screen = LiteralStream("<pre><code>", "</code></pre>"), Screen([("", [])])
    for piece in pieces:
        screen.apply(stream.feed(0, piece))

        assert screen.blocks() == stream.blocks
    assert stream.blocks[0].count("<") == 4


@given(TEXTS)
def test_finished_block_is_not_told_again(pieces: list[str]) -> None:
    text = "".join(pieces)
    stream, open_block = MarkdownStream(stopped), 0
    for piece in pieces:
        told = [op[2] for op in stream.feed(0, piece)]
        assert all(isinstance(index, int) and index >= open_block for index in told)
        open_block = max(0, len(stream.blocks) - 1)

    changed = [op[2] for op in stream.finish(0, finished_blocks(text))]

    # A link may be defined after its use, and what steers a terminal counts for whole lines.
    if "]:" not in text and not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text):
        assert all(isinstance(index, int) and index >= open_block for index in changed)


@given(st.text("ab `#*_->|\n\\$", max_size=60), st.sampled_from(["```", "~~~~", "```python"]))
def test_fence_is_code_at_every_prefix(code: str, fence: str) -> None:
    stream = MarkdownStream(stopped)
    opening = f"Before it.\n\n{fence}\n"
    stream.feed(0, opening)
    for end, char in enumerate(code, 1):
        stream.feed(0, char)
        if re.search(r"^ {0,3}(```|~~~)", code[:end], re.MULTILINE):
            break  # the fence may be closed here

        shown = seen(stream.blocks[1:]).removeprefix("python").strip()
        rest = " ".join(code[:end].split()).removeprefix(shown)

        assert len(stream.blocks) == 2
        assert shown + rest == " ".join(code[:end].split())
        assert re.fullmatch(" ?([-*_#>`|]{1,8} ?)?", rest)  # what is undecided waits
        assert re.sub("<span[^>]*>|</span>", "", stream.blocks[1]).count("<code") == 1
        assert stream.blocks[1].endswith("</code></pre></div>")


@pytest.mark.parametrize(
    "mark", ["#", "##", "-", "- ", "*", "1.", "12)", "```", "`", ">", "|", "="]
)
def test_mark_that_is_not_decided_yet_is_not_shown(mark: str) -> None:
    stream, _ = streamed(["Some words.\n", mark], stopped)

    assert seen(stream.blocks) == "Some words."


WORDS = st.lists(st.sampled_from(["word", "x", " ", "\n", "\n\n", ". ", "é🙂", "<b>", "&"]))


@given(WORDS, LOOKS)
@example(["is ", "it"], [0.0, 0.0, 1.0, 0.0])
def test_words_stand_apart_between_two_renderings_as_well(
    pieces: list[str], looks: list[float]
) -> None:
    """Words that came after a rendering once stood right behind the last one, without a blank."""
    stream = MarkdownStream(Steps(looks))
    text = "First"
    stream.feed(0, text)
    for piece in pieces:
        stream.feed(0, piece)
        text += piece

        assert " ".join(text.split()).startswith(seen(stream.blocks))


def test_mark_that_was_not_decided_is_shown_before_what_comes_after_it() -> None:
    """It was once left out until the block was rendered again."""
    stream, _ = streamed(["Some words\n2", "0 more"], Steps([0.0, 0.0, 1.0, 0.0]))

    assert seen(stream.blocks) == "Some words 20 more"


def test_code_between_two_renderings_keeps_its_lines() -> None:
    """The line break that a block of code ends in was once left out of what was added to it."""
    stream = MarkdownStream(Steps([0.0, 0.0, 1.0, 0.0]))
    stream.feed(0, "```\none\n")
    stream.feed(0, "two\n")

    assert ">one\ntwo\n</code>" in stream.blocks[0]


class Rendering:
    """A clock by which rendering takes 5 µs a character, and a flush comes each 80 ms."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rendered = 0

    def __call__(self) -> float:
        return self.now

    def render(self, text: str) -> OpenMarkdown:
        self.now += 5e-6 * len(text)
        self.rendered += len(text)
        return render_open(text)


PARAGRAPH = "Some **bold** words and `code` that go on and on, with é and 🙂 among them. "
CODE = "for number in range(10):  # counts\n    print(f'{number} is a number', 'and more')\n"
ITEM = "- An item with a [link](https://a.b) and *emphasis*\n"


@pytest.mark.parametrize(
    ("opening", "more"), [("", PARAGRAPH), ("```python\n", CODE), ("```\n", CODE), ("", ITEM)]
)
def test_long_block_costs_no_more_at_its_end_than_at_its_beginning(
    monkeypatch: pytest.MonkeyPatch, opening: str, more: str
) -> None:
    clock = Rendering()
    monkeypatch.setattr(module, "render_open", clock.render)  # counts, and renders
    text = (opening + more * (80_000 // len(more) + 1))[:80_000]
    stream = MarkdownStream(clock)
    sent, rendered, longest = [0] * 10, [0] * 10, 0
    for start in range(0, len(text), 80):
        clock.now += 0.08
        before = clock.rendered
        ops = stream.feed(0, text[start : start + 80])
        tenth = start * 10 // len(text)
        sent[tenth] += len(json.dumps(ops, ensure_ascii=False))
        rendered[tenth] += clock.rendered - before
        longest = max(longest, len(ops))

    assert sent[9] <= 1.5 * sent[0] + 20_000, sent
    assert sum(rendered) * 5e-6 <= clock.now / module.SHARE + 80_000 * 5e-6, rendered
    assert longest <= 3


def test_finishing_tells_only_what_differs() -> None:
    text = "One.\n\n" * 50 + "The **last** one"
    stream, _ = streamed([text], stopped)

    ops = stream.finish(0, finished_blocks(f"{text}."))

    assert [op[:3] for op in ops] == [["edit", 0, 49], ["block", 0, 50]]
    assert len(str(ops)) < 200


def test_finishing_drops_the_blocks_that_are_too_many() -> None:
    stream, screen = streamed(["One.\n\nTwo.\n\nThree."], stopped)

    screen.apply(stream.finish(0, finished_blocks("One.")))

    assert tuple(screen.blocks()) == finished_blocks("One.")


@pytest.mark.parametrize("before", ["", "a", "🙂", "a🙂b"])
@pytest.mark.parametrize("after", ["", "x", "🙂🙂", "🙃"])
def test_edit_counts_as_a_browser_does(before: str, after: str) -> None:
    stream, screen = MarkdownStream(stopped), Screen([("", [])])
    screen.apply(stream.put(0, 0, f"{before}old"))

    ops: Sequence[Sequence[object]] = stream.put(0, 0, f"{before}{after}")

    assert screen.apply(ops).blocks() == [f"{before}{after}"]
