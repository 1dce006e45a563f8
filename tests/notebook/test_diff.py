"""The view of two sessions side by side: what it shows, and that it is safe and small."""

from __future__ import annotations

import re

from dsh_nb.messages import ToolCallBlock
from dsh_nb.notebook.diff import Diff, diff
from dsh_nb.notebook.sanitise import clean_html
from dsh_nb.session import Session
from dsh_nb.tables import Recorded
from dsh_nb.tables.diff import diff_rows, diff_turns
from dsh_nb.testing import LogBuilder

LONG = " ".join(f"word{n}" for n in range(400))


def session(id: str, *answers: str, prompt: str = "question") -> Session:
    """A turn for each answer."""
    log = LogBuilder()
    for number, answer in enumerate(answers):
        log.user(f"{prompt} {number}").turn().step().says(answer).end_step().end_turn()
    return Session(id, log.events)


def words(html: str) -> str:
    """What is to be read."""
    text = re.sub(r"<[^>]+>", " ", html).replace("&nbsp;", " ").replace("\xa0", " ")
    return " ".join(text.split())


def test_diff_has_the_tables() -> None:
    a, b = session("main", "red"), session("other", "blue")

    made = diff(Recorded(a), b)

    assert made.names == ("main", "other")
    assert made.rows.equals(diff_rows(a, b))
    assert made.turns.equals(diff_turns(a, b))
    assert (made.same, diff(a, a).same) == (False, True)


def test_diff_is_of_the_moment_it_was_made() -> None:
    a, b = session("main", "red"), session("other", "red")
    made = diff(a, b)

    b.append("user/message", {"content": [{"type": "text", "text": "more"}], "source": {}})

    assert (made.same, len(made.rows)) == (True, 4)


def test_text_shows_both_sides_of_what_differs() -> None:
    made = diff(session("main", "same", "it is red"), session("other", "same", "it is blue", "x"))

    assert str(made).splitlines() == [
        "--- main",
        "+++ other",
        "  1 turn the same · 1 turn changed · 1 turn only in other",
        "",
        "@@ Turn 2",
        "  1 step · 10 in · 5 out",
        "  prompt: question 1",
        "- text: it is red",
        "+ text: it is blue",
        "",
        "@@ Turn 3, only in other",
        "  1 step · 10 in · 5 out",
        "+ prompt: question 2",
        "+ text: x",
        "+ end: completed",
    ]


def test_three_forms_say_the_same() -> None:
    made = diff(session("main", "it is red"), session("other", "it is blue"))

    bundle = made._repr_mimebundle_()

    assert list(bundle) == ["text/html", "text/markdown", "text/plain"]
    assert bundle["text/markdown"] == f"```diff\n{made}\n```"
    for said in ("Turn 1", "question 0", "it is red", "it is blue", "1 turn changed"):
        assert said in words(bundle["text/html"])
        assert said in bundle["text/plain"]
    assert repr(made) == "<Diff 'main' 'other': 1 turn changed>"


def test_fence_of_the_markdown_is_longer_than_those_in_it() -> None:
    made = diff(session("main", "a"), session("other", "````b"))

    assert made._repr_mimebundle_()["text/markdown"].startswith("`````diff\n")


def test_words_that_differ_are_marked_by_more_than_colour() -> None:
    html = diff(session("a1", "the cat sat here"), session("b1", "the dog sat here")).to_html()

    [gone] = re.findall(r'<del style="([^"]*)">cat</del>', html)
    [new] = re.findall(r'<u style="([^"]*)">dog</u>', html)
    assert "line-through" in gone
    assert "underline" in new
    assert words(html).count("−") == 2
    assert "+ b1" in words(html)


def test_texts_that_share_little_are_not_marked() -> None:
    html = diff(session("a", "Thank you."), session("b", "And who is the dearest?")).to_html()

    assert "<del" not in html
    assert "Thank you." in html


def test_turns_that_are_the_same_are_folded() -> None:
    a, b = session("a", *"xyz", "red", "z"), session("b", *"xyz", "blue", "z")

    html = diff(a, b).to_html()

    summaries = re.findall(r"<summary>(.*?)</summary>", html)
    assert summaries == ["Turns 1 to 3 are the same", "Turn 5 is the same"]
    assert "<details open" not in html
    two = diff(session("a", *"xy", "red"), session("b", *"xy", "blue")).to_html()
    assert "Turns 1 and 2 are the same" in two


def test_what_a_turn_took_stands_beside_its_number() -> None:
    log = LogBuilder().user("question 0").turn()
    log.step().says(ToolCallBlock("c", "add", "{}")).call("c").result("c").end_step()
    longer = Session("other", log.step().says("red").end_step().end_turn().events)

    text = str(diff(session("main", "red"), longer))

    assert "  1 step → 2 steps · 0 calls → 1 call · 10 in → 20 in · 5 out → 10 out" in text


def test_view_passes_the_allow_list_unchanged() -> None:
    a, b = session("a", "the red one", LONG), session("b", "the blue one", f"{LONG} more", "x")

    html = diff(a, b).to_html()

    assert clean_html(html) == html


def test_markup_in_texts_and_names_stays_text() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    made = diff(session(evil, f"{evil} a", prompt=evil), session("b", f"{evil} b", prompt=evil))

    html = made.to_html()

    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script" in html


def test_controls_of_terminals_are_left_out() -> None:
    made = diff(session("a", "\x1b[31mred\x1b[0m"), session("b", "\x1b[31mblue\x1b[0m"))

    assert "\x1b" not in str(made) + made.to_html()


def test_long_text_is_shown_around_its_differences() -> None:
    a, b = (
        session("a", f"start {LONG} red {LONG} end"),
        session("b", f"start {LONG} blue {LONG} end"),
    )

    html = diff(a, b).to_html()

    assert len(html) < 12_000
    assert re.search(r"… [\d,]+ characters the same …", words(html))
    assert words(html).count("end") >= 2


def test_large_comparison_is_bounded_and_says_so() -> None:
    a = session("a", *(f"{LONG * 3} {n}" for n in range(300)))
    b = session("b", *(f"{n} {LONG * 3} x{n}" for n in range(300)))

    made = diff(a, b)

    assert len(made.to_html()) < 2_000_000
    assert re.search(r"… from turn \d+ on in .rows", words(made.to_html()))
    assert re.search(r"… \d+ more lines in .rows$", str(made))


def test_long_turn_is_bounded_too() -> None:
    def one(word: str) -> Session:
        log = LogBuilder().user("go").turn().step().says(*(f"{word} {n}" for n in range(600)))
        return Session(word, log.end_step().end_turn().events)

    html = diff(one("red"), one("blue")).to_html()

    assert "more rows of this turn in .rows" in html


def test_names_that_are_the_same_or_missing_are_told_apart() -> None:
    one = session("main", "a")

    assert diff(one, session("main", "b")).names == ("main (a)", "main (b)")
    assert diff([*one], []).names == ("a", "b")
    assert diff(one, [*one]).names == ("main (a)", "b (b)")


def test_empty_sessions_have_a_view_too() -> None:
    made = diff([], [])

    assert str(made) == "--- a\n+++ b\n  no turns"
    assert "no turns" in made.to_html()
    assert isinstance(made, Diff)
