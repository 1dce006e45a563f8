"""The one Markdown renderer."""

from __future__ import annotations

import pytest

from dsh_nb.notebook.markdown import render_markdown
from tests.notebook.markup import Markup

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def text(markdown: str) -> str:
    return Markup(render_markdown(markdown)).text


@pytest.mark.parametrize(
    "prices",
    [
        "from $5 to $10",
        "US$5 and US$10",
        "$5 and 10$ again",
        "it costs $5, or $10.",
        "\\$5 and $6",
        "$1,000-$2,000",
    ],
)
def test_money_stays_text(prices: str) -> None:
    html = render_markdown(prices)

    assert "<math" not in html
    assert Markup(html).text.strip() == prices.replace("\\$", "$")


@pytest.mark.parametrize(
    "maths", ["$x$", "\\(x\\)", "a $x$, b", "$$x$$", "\\[x\\]", "$$\nx\n$$", "\\[\nx\n\\]"]
)
def test_maths_become_mathml(maths: str) -> None:
    html = render_markdown(maths)

    assert "<mi>x</mi>" in html
    assert "$" not in html


def test_fraction_is_a_fraction() -> None:
    html = render_markdown("$\\frac{1}{2}$")

    assert "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>" in html


@pytest.mark.parametrize("maths", ["$\\frac{$", "$\\nosuch{x}$", "$\\def\\a{b}\\a$"])
def test_maths_that_cannot_be_read_show_their_source(maths: str) -> None:
    assert text(maths).strip() == maths


@pytest.mark.parametrize("code", ["`$1 and $2`", "```sh\necho $1 $2\n```", "    echo $1 $2"])
def test_dollars_in_code_are_untouched(code: str) -> None:
    html = render_markdown(code)

    assert "<math" not in html
    assert "$1" in Markup(html).text


def test_each_prefix_of_a_fenced_answer_shows_its_code_as_code() -> None:
    intro, code = "See:\n\n", "```python\nprint('*a* <b>')\n# $5 to $10"
    whole = f"{intro}{code}\n```\n\nDone."
    opened = len(f"{intro}```python\n")

    for end in range(opened + 1, len(intro + code) + 1):
        html = render_markdown(whole[:end])
        body = whole[opened:end].removesuffix("\n")

        assert Markup(html).text.endswith(f"python{body}")
        assert Markup(html).unbalanced == []
        assert "<em>" not in html
        assert "<math" not in html

    assert text(whole).endswith("# $5 to $10Done.\n")


def test_each_prefix_is_balanced_and_safe() -> None:
    answer = (
        "# T\n\n| a | b |\n|---|---|\n| $x$ | <img src=x onerror=y> |\n\n1. [l](javascript:a)\n"
        "   - ![p](http://e/x.png)\n\n```html\n<script>\n```\n\n$$\\frac12$$ \\[ x"
    )

    for end in range(len(answer) + 1):
        markup = Markup(render_markdown(answer[:end]))

        assert (markup.dangers, markup.unbalanced) == ([], [])


def test_inner_fences_are_part_of_a_longer_one() -> None:
    html = render_markdown("````markdown\n```py\nx\n```\n````")

    assert Markup(html).text.startswith("markdown```py\nx\n```")
    assert html.count("<pre") == 1


def test_code_is_exact_to_the_character() -> None:
    code = "\n\tif a <b> & 'c':\n\n        x = \"d\"  \n"

    assert text(f"```python\n{code}\n```").endswith(f"python{code}")


def test_code_is_coloured_inline() -> None:
    html = render_markdown("```python\ndef f(): pass\n```")

    assert '<span style="color:#2a8540">def</span>' in html
    assert "class=" not in html


def test_unknown_language_is_plain_code() -> None:
    assert text("```<b>nosuch\nx\n```").startswith("<b>nosuchx")


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "</div></div><b>out</b>",
        "<a href='javascript:alert(1)'>x</a>",
        "<iframe src=http://evil.example></iframe>",
        "<style>*{display:none}</style>",
    ],
)
def test_raw_html_is_shown_literally(hostile: str) -> None:
    markup = Markup(render_markdown(f"a {hostile}\n\n{hostile}"))

    assert markup.text == f"a {hostile}\n{hostile}\n"
    assert (markup.dangers, markup.unbalanced, set(markup.tags)) == ([], [], {"p"})


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "vbscript:x", "file:///etc", "//evil.example"],
)
def test_link_to_anything_but_the_web_is_none(url: str) -> None:
    assert Markup(render_markdown(f"[x]({url}) <{url}>")).links == []


def test_link_opens_without_its_opener() -> None:
    html = render_markdown("[x](https://example.org) [m](mailto:a@example.org)")

    assert Markup(html).links == ["https://example.org", "mailto:a@example.org"]
    assert html.count('rel="noopener noreferrer"') == 2


def test_remote_image_is_a_link_to_it() -> None:
    markup = Markup(render_markdown("![a plot](https://evil.example/x.png?secret)"))

    assert markup.tags == ["p", "a"]
    assert markup.links == ["https://evil.example/x.png?secret"]
    assert markup.text == "image: a plot (evil.example)\n"


def test_image_in_the_text_is_shown() -> None:
    html = render_markdown(f"![dot]({PIXEL})")

    assert f'src="{PIXEL}"' in html
    assert 'alt="dot"' in html


def test_svg_image_is_words() -> None:
    assert "img" not in Markup(render_markdown("![s](data:image/svg+xml;base64,PHN2Zz4=)")).tags


def test_table_keeps_its_alignment() -> None:
    html = render_markdown("| a | b |\n| --- | ---: |\n| 1 | 2 |")

    assert '<td style="text-align:right">2</td>' in html


def test_lone_surrogates_are_mended() -> None:
    assert text("a\ud800b") == "a\ufffdb\n"
