"""Links in the documents: what they point to exists, and addresses are well formed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "AGENTS.md", "CHANGELOG.md", "dsh_nb/README.md", "binder/README.md"]
MARKDOWN = MarkdownIt("commonmark").enable("table")


def links_in(markdown: str) -> Iterator[str]:
    """Where the links and pictures of `markdown` point to."""
    for token in inline(markdown):
        target = token.attrGet("href") or token.attrGet("src")
        if target is not None:
            yield str(target)


def inline(markdown: str) -> Iterator[Token]:
    for token in MARKDOWN.parse(markdown):
        yield from token.children or ()


def anchors_of(markdown: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    tokens = MARKDOWN.parse(markdown)
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def fault_of(link: str, document: Path) -> str | None:
    """What is wrong with a link that stands in `document`; ``None`` when nothing is."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        formed = parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc)
        return None if formed and not re.search(r"\s", link) else "is no https address"
    target = document.parent / unquote(parts.path) if parts.path else document
    if not target.resolve().is_relative_to(ROOT) or not target.exists():
        return "leads to no file"
    if parts.fragment and parts.fragment not in anchors_of(target.read_text()):
        return "leads to no heading"
    return None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_of_a_document_lead_somewhere(name: str) -> None:
    document = ROOT / name

    faults = {
        link: fault
        for link in links_in(document.read_text())
        if (fault := fault_of(link, document)) is not None
    }

    assert faults == {}


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("README.md", None),
        ("README.md#use-a-real-model", None),
        ("docs/", None),
        ("https://docs.python.org/3/", None),
        ("README.md#no-such-heading", "leads to no heading"),
        ("#no-such-heading", "leads to no heading"),
        ("NO_SUCH_FILE.md", "leads to no file"),
        ("../../etc/passwd", "leads to no file"),
        ("http://docs.python.org/", "is no https address"),
        ("https://docs", "is no https address"),
        ("https://", "is no https address"),
    ],
)
def test_link_check_finds_the_fault(link: str, fault: str | None) -> None:
    assert fault_of(link, ROOT / "AGENTS.md") == fault


def test_links_are_found_in_paragraphs_tables_and_pictures_but_not_in_code() -> None:
    markdown = (
        "[a](one) ![b](two) `[c](no)` <https://three.org>\n\n| x |\n| - |\n| [d](four) |\n\n"
        "[![e](five)](six)\n\n```text\n[f](no)\n```\n"
    )

    found = list(links_in(markdown))

    assert found == ["one", "two", "https://three.org", "four", "six", "five"]
