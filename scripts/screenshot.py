"""Make the README's picture: the quickstart's first turn, run for real in JupyterLab."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.browser.lab import lab

ROOT = Path(__file__).parents[1]
FIRST_TURN = 4


def main() -> None:
    """Run the quickstart and write ``docs/quickstart.png``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "notebooks" / "00_quickstart.ipynb", folder)
        with lab(folder, width=1300, height=1400) as one:
            one.open("00_quickstart.ipynb")
            one.run_all()
            cell = one.page.locator(".jp-Notebook .jp-Cell").nth(FIRST_TURN)
            one.top(cell)
            cell.screenshot(path=ROOT / "docs" / "quickstart.png")


if __name__ == "__main__":
    main()
