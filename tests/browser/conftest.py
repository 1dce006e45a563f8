"""What a browser test leaves behind when it fails: a picture of the page."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.browser.lab import Lab

FAILED = Path(__file__).parents[2] / "build" / "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    opened = getattr(item, "funcargs", {}).get("one")
    if report.when == "call" and report.failed and isinstance(opened, Lab):
        opened.shot(FAILED / f"{item.name}.png")
    return report
