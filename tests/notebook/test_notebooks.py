"""Each notebook, executed on a real kernel without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter, MarkdownExporter

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_reads_well_without_a_kernel(path: Path, tmp_path: Path) -> None:
    read: Any = nbformat.read  # Any: nbformat and nbconvert are not typed
    html_exporter, markdown_exporter = _exporters()
    notebook = read(path, as_version=4)
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
    assert "widget-view" not in str(notebook)
    assert html.count('role="log"') == len(turns)
    assert "960" in markdown


def _exporters() -> tuple[Any, Any]:
    made: Any = (HTMLExporter, MarkdownExporter)
    return made[0](), made[1]()
