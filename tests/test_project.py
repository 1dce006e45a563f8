"""The house style, as far as a program can check it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "dsh_nb").rglob("*.py"))
SOURCES = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROSE = ["README.md", "AGENTS.md", "CHANGELOG.md", "binder/README.md", "dsh_nb/README.md"]
LINES_AT_MOST = 400
HEAVY = {"IPython", "anthropic", "ipywidgets", "matplotlib", "mcp", "pandas"}
BANNED = {"chat", "conversation", "handler", "helper", "manager", "util"}
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# What a module looks like.


def header_fault(path: Path) -> str | None:
    """What is wrong with the header of the module at `path`; ``None`` when nothing is."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if docstring is None:
        return "has no docstring"
    sentence, *rest = docstring.split("\n\n")
    if not sentence.endswith(".") or "\n" in sentence:
        return "does not open with one sentence that ends in a period"
    if path.name in {"__init__.py", "errors.py"}:
        return None
    if not any(text.startswith(("Reads: ", "Feeds: ")) and text.endswith(".") for text in rest):
        return "does not say `Reads: a, b. Feeds: c.` below its first sentence"
    return None


def test_modules_open_with_their_header() -> None:
    faults = {name_of(path): fault for path in MODULES if (fault := header_fault(path))}

    assert faults == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""The inbox.\n\nReads: messages. Feeds: agent.\n"""', None),
        ('"""The inbox.\n\nFeeds: agent, tables.\n\nMore.\n"""', None),
        ("x = 1", "has no docstring"),
        ('"""The inbox\n\nReads: a. Feeds: b.\n"""', "does not open with one sentence"),
        ('"""The\ninbox.\n\nReads: a. Feeds: b.\n"""', "does not open with one sentence"),
        ('"""The inbox."""', "does not say `Reads:"),
        ('"""The inbox.\n\nIt holds.\n"""', "does not say `Reads:"),
    ],
)
def test_header_check_finds_the_fault(tmp_path: Path, text: str, fault: str | None) -> None:
    path = tmp_path / "inbox.py"
    path.write_text(text)

    found = header_fault(path)

    assert found is None if fault is None else str(found).startswith(fault)


def test_no_module_is_longer_than_a_sitting() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}

    assert {name: lines for name, lines in lengths.items() if lines > LINES_AT_MOST} == {}


# What things are called.


def names_defined(tree: ast.Module) -> Iterator[str]:
    """Every name that the module makes up itself."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def banned_in(names: Iterable[str]) -> list[str]:
    """Those of `names` that hold a banned word, alone or in the plural."""
    return sorted(name for name in set(names) if BANNED & set(words_of(name)))


def words_of(name: str) -> Iterator[str]:
    for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name):
        yield word.lower().removesuffix("s")


def test_no_name_holds_a_banned_word() -> None:
    banned = {
        name_of(path): names
        for path in SOURCES
        if (names := banned_in([path.stem, *names_defined(ast.parse(path.read_text()))]))
    }

    assert banned == {}


def test_banned_words_are_found_inside_names() -> None:
    tree = ast.parse(
        "import x as str_utils\n"
        "class ToolManager:\n"
        "    async def chat(self, key_handler): self.helpers = 1\n"
        "conversation, chatter, handled = handler()\n"
    )

    found = banned_in(names_defined(tree))

    assert found == [
        "ToolManager", "chat", "conversation", "helpers", "key_handler", "str_utils",
    ]  # fmt: skip


# What the prose looks like.


def wrapped_lines(markdown: str) -> list[str]:
    """The first line of each paragraph and list item of `markdown` that goes on after it."""
    return [
        token.content.partition("\n")[0]
        for token in MARKDOWN.parse(markdown)
        if any(child.type == "softbreak" for child in token.children or [])
    ]


def markdown_cells(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])


@pytest.mark.parametrize("name", PROSE)
def test_prose_has_one_line_a_paragraph(name: str) -> None:
    assert wrapped_lines((ROOT / name).read_text()) == []


def test_notebook_prose_has_one_line_a_paragraph() -> None:
    wrapped = {
        name_of(path): lines
        for path in NOTEBOOKS
        if (lines := [line for cell in markdown_cells(path) for line in wrapped_lines(cell)])
    }

    assert wrapped == {}


def test_wrapped_lines_are_found_in_paragraphs_and_lists_alone() -> None:
    markdown = (
        "One line.\n\nTwo\nlines.\n\n- item\n  goes on\n- item\n\n"
        "| a | b |\n| - | - |\n| c | d |\n\n```text\nx\ny\n```\n\n$$\nx\n$$\n"
    )

    assert wrapped_lines(markdown) == ["Two", "item"]


def test_notebooks_are_committed_without_outputs() -> None:
    with_outputs = [
        name_of(path)
        for path in NOTEBOOKS
        for cell in json.loads(path.read_text())["cells"]
        if cell.get("outputs") or cell.get("execution_count") is not None
    ]

    assert with_outputs == []


# What the package is from outside.


def test_import_leaves_the_heavy_packages_alone() -> None:
    result = run(sys.executable, "-c", "import dsh_nb, sys; print(*sys.modules, sep='\\n')")

    assert result.returncode == 0, result.stderr
    assert HEAVY & set(result.stdout.split()) == set()


def test_public_surface_is_the_one_written_down() -> None:
    result = run(sys.executable, "-m", "scripts.public_api")

    assert result.returncode == 0, result.stderr
    written = (ROOT / "tests" / "public_api.txt").read_text()
    assert result.stdout.split() == written.split(), "write tests/public_api.txt anew: make api"


def test_rooms_import_only_what_the_contracts_allow() -> None:
    result = run(str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache")

    assert result.returncode == 0, result.stdout + result.stderr
