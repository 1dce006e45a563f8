"""The quickstart as a newcomer sees it, in a real JupyterLab."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Theme, lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_quickstart_runs_and_shows_whole_turns(tmp_path: Path, theme: Theme) -> None:
    shutil.copy(ROOT / "notebooks" / "00_quickstart.ipynb", tmp_path)
    with lab(tmp_path, theme=theme) as one:
        one.open("00_quickstart.ipynb")
        one.run_all()
        turns = one.page.locator("[role=log]")
        expect(turns).to_have_count(3, timeout=20_000)
        first = turns.first
        one.top(first)
        one.shot(SHOTS / f"quickstart-{theme}.png")
        one.top(turns.last)
        one.shot(SHOTS / f"quickstart-{theme}-end.png")

        assert first.locator("table").count() >= 1
        assert first.locator("details").count() >= 3
        assert "960" in first.inner_text()
        assert (
            one.page.locator(".jp-mod-error, .jp-RenderedText[data-mime-type*=stderr]").count() == 0
        )
        assert "running" not in first.inner_text()
        assert (one.requests, one.dialogs) == ([], [])


def test_answer_streams_in_its_cell_while_the_turn_runs(tmp_path: Path) -> None:
    shutil.copy(ROOT / "notebooks" / "00_quickstart.ipynb", tmp_path)
    with lab(tmp_path) as one:
        one.open("00_quickstart.ipynb")
        one.start_all()
        first = one.page.locator("[role=log]").first
        first.wait_for(timeout=60_000)
        one.top(one.page.locator(".jp-Notebook .jp-Cell").nth(4))
        stop = one.page.locator(".dsh-view").first.get_by_role("button", name="Stop")
        stop.wait_for(timeout=30_000)
        lengths = []
        for _ in range(12):
            lengths.append(len(first.inner_text()))
            one.page.wait_for_timeout(150)
        one.shot(SHOTS / "quickstart-running.png")
        one.idle()

        assert len(set(lengths)) >= 4
        assert lengths[-1] > lengths[0]
