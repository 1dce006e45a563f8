"""The examples of the README are cells of a notebook, which a test runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_readme_examples_are_the_cells_of_a_notebook() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    notebook = json.loads((ROOT / "notebooks" / "11_readme.ipynb").read_text(encoding="utf-8"))
    examples = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    cells = [
        "".join(cell["source"]) + "\n"
        for cell in notebook["cells"]
        if "readme" in cell["metadata"].get("tags", ())
    ]

    assert len(examples) >= 8
    assert cells == examples


def test_readme_names_each_notebook() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[[^]]*\]\(notebooks/(\w+)\.ipynb\) \|", readme, re.MULTILINE)

    assert named == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
