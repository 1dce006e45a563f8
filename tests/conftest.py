"""What every test shares: the rules plugin, quiet settings, and an environment without keys."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.rules"]

# Kernels that tests start inherit both: figures need no screen, and Jupyter keeps its paths quiet.
os.environ["MPLBACKEND"] = "agg"
os.environ["JUPYTER_PLATFORM_DIRS"] = "1"

# Examples are the same in every run, and a slow machine is no failure.
settings.register_profile("dsh_nb", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("dsh_nb")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches a provider by the keys of the person who runs it."""
    for name in os.environ:
        if name.startswith("ANTHROPIC_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
