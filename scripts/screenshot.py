"""Make the README's picture: turns of the data-analysis notebook, run for real in JupyterLab."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.browser.lab import lab

ROOT = Path(__file__).parents[1]
TURNS = 8


def main() -> None:
    """Run the notebook and write ``docs/turns.png``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "notebooks" / "07_data_analysis.ipynb", folder)
        shutil.copytree(ROOT / "notebooks" / "data", folder / "data")
        with lab(folder, width=1300, height=1600) as one:
            one.open("07_data_analysis.ipynb")
            one.run_all()
            one.page.wait_for_timeout(1000)
            cell = one.page.locator(".jp-Notebook .jp-Cell").nth(TURNS)
            one.top(cell)
            cell.screenshot(path=ROOT / "docs" / "turns.png")


if __name__ == "__main__":
    main()
