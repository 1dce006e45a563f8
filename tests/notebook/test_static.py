"""A turn as a cell's output: HTML, Markdown and plain text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from dsh_nb.messages import Source, Usage
from dsh_nb.notebook.parts import (
    EndPart,
    ErrorPart,
    ImagePart,
    Part,
    RetryPart,
    TextPart,
    ThinkingPart,
    ToolPart,
    UserPart,
)
from dsh_nb.notebook.static import mimebundle, to_html, to_markdown, to_plain
from tests.notebook.markup import Markup

PNG = "iVBORw0KGgo="
HOSTILE = [
    "<img src=http://evil.example/x.png onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<a href='javascript:alert(1)'>x</a>",
    "</div></details></div>",
    "</code></pre><svg onload=alert(1)>",
    "\"' onmouseover=alert(1) x='",
    "![x](http://evil.example/x.png)",
    "```\n</pre><script>alert(1)</script>",
    "<style>@import 'http://evil.example'</style>",
    "<b style='background:url(http://evil.example)'>x</b>",
]

DONE = ToolPart(
    call_id="c1",
    name="head",
    arguments='{\n  "n": 2\n}',
    state="done",
    seconds=0.12,
    content="a\n1",
    settled=True,
)
FAILED = replace(
    DONE,
    call_id="c2",
    name="read",
    arguments="{}",
    state="failed",
    content="OSError: no ```",
    seconds=2,
)
TURN: tuple[Part, ...] = (
    UserPart("What is in it?\nfrom $5 to $10"),
    ThinkingPart("I look\nat *it*.", seconds=1.5),
    DONE,
    UserPart("use euros", "steering"),
    FAILED,
    TextPart("There is **one** row, $x$ and <b>."),
    EndPart("completed", "", 3.25, Usage(1_000, 20, 3_000, reasoning_tokens=5), 2),
)

MARKDOWN = r"""> **You:**
>
> What is in it?
> from \$5 to \$10

*Thinking:* I look at \*it\*.

✓ **tool** `head(n=2)` → done, 0.1 s

```text
a
1
```

> **You, while it ran:**
>
> use euros

✗ **tool** `read()` → failed, 2.0 s

````text
OSError: no ```
````

There is **one** row, $x$ and &lt;b>.

*✓ 2 steps · 3.2 s · 4,000 tokens in (75% from cache) · 25 out*"""

PLAIN = """You: What is in it?
from $5 to $10

Thinking: I look at *it*.

✓ head(n=2) → done, 0.1 s
    a
    1

You, while it ran: use euros

✗ read() → failed, 2.0 s
    OSError: no ```

There is **one** row, $x$ and <b>.

✓ 2 steps · 3.2 s · 4,000 tokens in (75% from cache) · 25 out"""


def html_of(part: Part) -> Markup:
    return Markup(to_html((part, EndPart("completed"))))


def hostile_turn(text: str) -> tuple[Part, ...]:
    """A turn with `text` in every field that people, models, tools and plugins can fill."""
    display = {"text/html": f"<p>{text}</p>", "text/plain": text}
    call = ToolPart(
        call_id=text, name=text, arguments=text, state="failed", content=text, settled=True
    )
    return (
        UserPart(text),
        UserPart(text, "steering", Source(text, text)),
        UserPart(text, "context", Source("plugin", text)),
        ThinkingPart(text),
        ThinkingPart(text, open=True),
        TextPart(text, interrupted=True),
        call,
        replace(call, state="done", display=display, content=""),
        replace(call, state="done", display={"text/markdown": text}),
        replace(call, state="done", display={"text/plain": text}),
        replace(call, state="done", display={"application/json": {text: text}}),
        replace(call, state="done", display={"image/png": text}),
        replace(call, images=(ImagePart(text, text),)),
        ImagePart(text, text),
        RetryPart(text, 1),
        ErrorPart(text, text),
        TextPart(text),
        EndPart(text, text),
    )


def test_bundle_has_three_forms_and_no_widget() -> None:
    bundle = mimebundle(TURN)

    assert bundle == {
        "text/html": to_html(TURN),
        "text/markdown": MARKDOWN,
        "text/plain": PLAIN,
    }


def test_html_is_one_element_that_needs_nothing_else() -> None:
    markup = Markup(to_html(TURN))

    assert (markup.roots, markup.dangers, markup.unbalanced) == (1, [], [])
    assert to_html(TURN).startswith('<div role="log" class="mathjax_ignore tex2jax_ignore" style=')


def test_html_tells_the_turn() -> None:
    text = Markup(to_html(TURN)).text

    told = [
        "You",
        "from $5 to $10",
        "Thinking · 1.5 s",
        "✓ done",
        "head",
        "n=2",
        "0.1 s",
        "You, while it ran",
        "use euros",
        "✗ failed",
        "OSError: no ```",
        "There is one row",
        "✓ 2 steps · 3.2 s · 4,000 tokens in (75% from cache) · 25 out",
    ]
    places = [text.find(words) for words in told]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("running", [True, False])
def test_hostile_text_is_data_in_the_html(hostile: str, running: bool) -> None:
    markup = Markup(to_html(hostile_turn(hostile), running=running, note=hostile))

    assert (markup.roots, markup.dangers, markup.unbalanced) == (1, [], [])


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_data_in_the_markdown(hostile: str) -> None:
    markdown = to_markdown(hostile_turn(hostile), note=hostile)

    markup = Markup(MarkdownIt("commonmark").render(markdown))
    assert (markup.dangers, markup.unbalanced, "img" in markup.tags) == ([], [], False)


@pytest.mark.parametrize("hostile", HOSTILE[:2])
def test_hostile_text_is_shown_literally(hostile: str) -> None:
    fields: tuple[Part, ...] = (
        UserPart(hostile),
        ThinkingPart(hostile),
        TextPart(hostile),
        replace(DONE, name=hostile),
        replace(DONE, arguments=hostile),
        replace(DONE, content=hostile),
        replace(DONE, display={"text/plain": hostile}),
        RetryPart(hostile, 1),
        ErrorPart(hostile),
    )

    for part in fields:
        assert hostile in html_of(part).text


def test_table_of_a_tool_is_shown_open_without_its_styles() -> None:
    html = (
        '<style scoped>td {color: red}</style><table border="1" class="dataframe" onclick="x()">'
        "<tr><td>&lt;b&gt;</td></tr></table>"
    )
    part = replace(DONE, display={"text/html": html, "text/plain": "b"})

    markup = html_of(part)

    assert "<details open" in to_html((part,))
    assert ("table" in markup.tags, markup.dangers) == (True, [])
    assert "<b>" in markup.text
    assert "color: red" not in markup.text


def test_html_of_a_tool_stays_in_its_place() -> None:
    html = (
        '<p style="position:fixed;top:0;z-index:9;color:red;background:url(http://e/x)">over</p>'
        '<form action="http://e"><input name="key"><button>ok</button></form>'
    )

    shown = to_html((replace(DONE, display={"text/html": html}),))

    assert '<p style="color:red">over</p>' in shown
    assert {"form", "input", "button"}.isdisjoint(Markup(shown).tags)


def test_html_of_a_tool_that_nests_too_deeply_gives_way_to_its_text() -> None:
    part = replace(DONE, display={"text/html": "<b>" * 101 + "deep", "text/plain": "flat"})

    assert "flat" in html_of(part).text
    assert "deep" not in html_of(part).text


def test_picture_of_a_tool_is_shown_open() -> None:
    html = to_html((replace(DONE, display={"image/png": f"{PNG}\n", "text/plain": "<Figure>"}),))

    assert f'<img src="data:image/png;base64,{PNG}" alt="image from head"' in html
    assert "<details open" in html
    assert "Figure" not in html


def test_text_of_a_tool_is_folded() -> None:
    assert "<details open" not in to_html((DONE, FAILED))


def test_json_of_a_tool_is_indented() -> None:
    part = replace(DONE, display={"application/json": {"a": [1]}})

    assert '{\n  "a": [\n    1\n  ]\n}' in html_of(part).text


def test_failed_call_shows_its_error_before_its_display() -> None:
    text = html_of(replace(FAILED, display={"text/plain": "so far"})).text

    assert -1 < text.find("OSError") < text.find("so far")


def test_long_result_is_bounded_in_each_form() -> None:
    part = replace(DONE, content="x" * 60_000, overflow_chars=90_000)

    markup = html_of(part)

    assert markup.text.count("x") == 50_000
    assert "46,000 more characters" in markup.text
    assert "10,000 more characters in the log" in markup.text
    assert "the beginning and the end of 90,000 characters" in markup.text
    assert to_plain((part,)).count("x") == 4_000
    assert "… 56,000 more characters" in to_markdown((part,))


def test_long_result_loses_no_character_at_its_fold() -> None:
    content = "a" * 4_000 + "\nb" + "c" * 100

    assert (
        f"{'a' * 4_000}102 more characters\nb{'c' * 100}"
        in html_of(replace(DONE, content=content)).text
    )


def test_table_that_is_too_long_gives_way_to_its_text() -> None:
    part = replace(DONE, display={"text/html": "<p>x</p>" * 30_000, "text/plain": "many"})

    assert "many" in html_of(part).text


def test_running_turn_says_how_to_stop_it() -> None:
    bundle = mimebundle(
        (UserPart("hi"), replace(DONE, state="not started", settled=False)), running=True
    )

    assert "agent.stop() stops it." in Markup(bundle["text/html"]).text
    assert "○ waiting" in Markup(bundle["text/html"]).text
    assert "*running…* `agent.stop()` stops it." in bundle["text/markdown"]
    assert "running… agent.stop() stops it." in bundle["text/plain"]


def test_note_stands_last_in_each_form() -> None:
    bundle = mimebundle(TURN, note="from *a* log")

    assert Markup(bundle["text/html"]).text.endswith("from *a* log")
    assert bundle["text/markdown"] == MARKDOWN + "\n\n*from \\*a\\* log*"
    assert bundle["text/plain"] == PLAIN + "\n\nfrom *a* log"


def test_turn_without_an_end_says_so() -> None:
    assert to_plain((UserPart("hi"),)).endswith("The log ends here: the turn has no end.")


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (EndPart("aborted", "enough", 1, steps=1), "■ stopped: enough · 1 step · 1.0 s"),
        (EndPart("error", "overloaded"), "■ failed: overloaded"),
        (EndPart("disposed"), "■ ended with its agent"),
        (EndPart("completed", "", 0.03), "✓ 30 ms"),
        (EndPart("completed", "", 125, steps=3), "✓ 3 steps · 2 min 05 s"),
    ],
)
def test_end_is_told_in_words(end: EndPart, line: str) -> None:
    assert to_plain((end,)) == line
    assert Markup(to_html((end,))).text == line


def test_context_names_who_gave_it() -> None:
    part = UserPart("noon", "context", Source("plugin", "clock"))

    assert to_plain((part, EndPart("completed"))) == "Context from plugin clock: noon\n\n✓"


def test_fence_of_an_answer_that_was_never_closed_ends_with_it() -> None:
    parts = (TextPart("```py\nx = 1", interrupted=True), UserPart("go *on*", "steering"))

    assert to_markdown(parts).startswith("```py\nx = 1\n```\n\n*(interrupted)*\n\n> **You, ")
    assert "<em>" not in to_html(parts)
    assert "go *on*" in Markup(to_html(parts)).text


def test_colours_and_overwritten_lines_of_a_terminal_are_left_out() -> None:
    part = replace(DONE, content="\x1b[31mred\x1b[0m\n10%\r100%")

    assert to_plain((part,)).split("\n")[1:3] == ["    red", "    100%"]
    assert "red\n100%" in html_of(part).text


def test_prices_stay_text_and_maths_stay_maths_in_markdown() -> None:
    said = "US$5 or `$6`, $x$ and $$y$$"

    assert to_markdown((TextPart(said),)).startswith("US\\$5 or `$6`, $x$ and $$y$$")
