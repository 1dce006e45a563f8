"""The API reference: it builds without a warning, and has every public name and no broken link."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"from (dsh_nb[\w.]*) import ")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-m", "scripts.api_reference", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def page_of(reference: Path, module: str) -> Path:
    return (reference / module.replace(".", "/")).with_suffix(".html")


def anchors(page: Path) -> set[str]:
    return set(re.findall(r'id="([^"]+)"', page.read_text()))


def links(page: Path) -> list[str]:
    text = re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL)
    return [html.unescape(link) for link in re.findall(r'href="([^"]+)"', text)]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_every_public_name_has_its_place(reference: Path) -> None:
    public = (ROOT / "tests" / "public_api.txt").read_text().split()

    missing = [
        name
        for module, _, name in (line.rpartition(".") for line in public)
        if name not in anchors(page_of(reference, module))
    ]
    assert missing == []


def test_what_an_agent_inherits_stands_on_its_page(reference: Path) -> None:
    found = anchors(page_of(reference, "dsh_nb"))

    assert {"Agent.steer", "Agent.events", "Agent.tool_calls", "Agent.approve"} <= found


def test_modules_that_the_documents_import_have_a_page(reference: Path) -> None:
    documents = [*ROOT.glob("*.md"), ROOT / "dsh_nb" / "README.md", *ROOT.glob("notebooks/*.ipynb")]
    imported = {name for path in documents for name in IMPORT.findall(path.read_text())}

    assert "dsh_nb" in imported
    assert [name for name in sorted(imported) if not page_of(reference, name).exists()] == []


def test_links_of_the_reference_lead_somewhere(reference: Path) -> None:
    found = {
        (page, link)
        for page in reference.rglob("*.html")
        for link in links(page)
        if not link.startswith(("https:", "data:"))
    }

    broken = [(page.name, link) for page, link in sorted(found) if not leads_somewhere(page, link)]
    assert len(found) > 1000
    assert broken == []


def test_docstrings_are_read_as_they_were_meant(reference: Path) -> None:
    text = "".join(page.read_text() for page in reference.rglob("*.html"))

    assert re.findall(r"<p>::</p>|<(?:p|li)>[^<]*`[^<]*", text) == []


def test_pages_do_not_say_where_they_were_made(reference: Path) -> None:
    text = "".join(page.read_text() for page in reference.rglob("*.html"))

    assert str(ROOT) not in text
