"""The notebooks that people see first, in a real JupyterLab, light and dark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.lab import Theme, lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tables_and_forks_read_well(tmp_path: Path, theme: Theme) -> None:
    for name in ("03_tables_timeline", "04_replay_fork_rerun_diff"):
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", tmp_path)
    with lab(tmp_path, theme=theme, height=1400) as one:
        one.open("03_tables_timeline.ipynb")
        one.run_all(120)
        timeline = one.page.locator(".dsh-timeline").first
        one.top(timeline)
        one.shot(SHOTS / f"timeline-{theme}.png")
        drawn = timeline.locator("rect").count()
        one.open("04_replay_fork_rerun_diff.ipynb")
        one.run_all(120)
        replay = one.page.locator(".dsh-view[data-replay]").first
        one.top(replay)
        one.shot(SHOTS / f"replay-and-fork-{theme}.png")
        one.top(one.page.locator(".jp-Notebook .jp-Cell").last)
        one.shot(SHOTS / f"diff-{theme}.png")

        assert drawn > 5
        assert replay.get_by_role("button", name="Play").count() == 1
        assert one.page.locator(".jp-mod-error").count() == 0
        assert (one.requests, one.dialogs) == ([], [])


def test_recorded_turn_is_seen_as_it_comes_and_its_figure_once(tmp_path: Path) -> None:
    shutil.copy(ROOT / "notebooks" / "07_data_analysis.ipynb", tmp_path)
    shutil.copytree(ROOT / "notebooks" / "data" / "recorded", tmp_path / "data" / "recorded")
    with lab(tmp_path, theme="dark", height=1500) as one:
        one.open("07_data_analysis.ipynb")
        one.start_all()
        one.page.get_by_role("button", name="Stop").wait_for(timeout=60_000)
        one.shot(SHOTS / "recorded-live.png")
        one.idle(120)
        turns = one.page.locator(".jp-Notebook .jp-Cell", has_text="Draw the three of them.")
        one.top(turns)
        one.shot(SHOTS / "recorded.png")
        figures = turns.locator("img[src^='data:image/png']").count()

        assert one.page.get_by_text("A recording: qwen2.5-coder-1.5b gave these").count() == 1
        assert figures == 1
        assert one.page.locator(".jp-mod-error").count() == 0
        assert (one.requests, one.dialogs) == ([], [])
