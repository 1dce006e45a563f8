"""Each notebook, executed on a real kernel without a key, with nobody there to click."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter, MarkdownExporter

pytestmark = pytest.mark.timeout(180)

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

SAID: Mapping[str, str] = {
    "00_quickstart": "<strong>960",
    "01_tools": "input should be 'temperature' or 'rain'; was given \"wind\"",
    "02_steer_stop_approve": "the user denied this call of 'send_mail': once is enough",
    "03_tables_timeline": 'class="dsh-timeline"',
    "04_replay_fork_rerun_diff": "turn 1, step 1: the result of a tool call differs",
    "05_save_resume": 'Note the text "Ask [redacted] about the tea"',
    "06_plugins": "only files in /tmp may be deleted",
    "07_data_analysis": "Apple fell the deepest",
    "08_other_logs": "that only its tool knows",
    "09_models": "The sum is <strong>5</strong>",
    "10_tau_bench": "pass^k",
    "11_readme": "What is 2 plus 3?",
}
"""What makes the point of each notebook, as its Markdown export has it."""


def test_each_notebook_has_its_point() -> None:
    names = [path.stem for path in NOTEBOOKS]

    assert names == [*SAID]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_as_written(path: Path) -> None:
    notebook: Any = json.loads(path.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]

    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)
    assert code


@pytest.mark.kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_reads_well_without_a_kernel(path: Path, tmp_path: Path) -> None:
    read: Any = nbformat.read  # Any: nbformat and nbconvert are not typed
    html_exporter, markdown_exporter = _exporters()
    notebook = read(path, as_version=4)
    shutil.copytree(path.parent / "data", tmp_path / "data")
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    turns = [str(one.get("data", {}).get("text/html", "")) for one in outputs]
    turns = [html for html in turns if 'role="log"' in html]
    html, _ = html_exporter.from_notebook_node(notebook)
    markdown, _ = markdown_exporter.from_notebook_node(notebook)

    nbformat.validate(notebook)
    assert not [one for one in outputs if one.output_type == "error"]
    assert not [one for one in outputs if one.get("name") == "stderr"]
    assert turns
    assert not [html for html in turns if "agent.stop()" in html]
    assert not [html for html in turns if 'src="http' in html]
    assert "widget-view" not in str(notebook)
    assert html.count('role="log"') == len(turns)
    assert SAID[path.stem] in markdown


def _exporters() -> tuple[Any, Any]:
    made: Any = (HTMLExporter, MarkdownExporter)
    return made[0](), made[1]()
