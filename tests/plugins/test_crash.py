"""Processes killed in the midst of turns; see ``tests/plugins/crash.py``."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.rule("S7")
def test_nothing_flushed_is_lost_to_a_kill_and_every_session_goes_on() -> None:
    command = [sys.executable, "-m", "tests.plugins.crash", "--kills", "20", "--seed", "1"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("20 kills, 0 findings")
