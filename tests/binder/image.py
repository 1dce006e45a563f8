"""Binder's environment, made by the steps of repo2docker in a virtual environment."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["REQUIREMENTS", "ROOT", "Plan", "environment", "plan"]

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "binder" / "requirements.txt"
BUILT = ROOT / "build" / "binder"
# What stands above it in a Dockerfile of repo2docker is the same for every repository.
OURS = "# Run pre-assemble scripts!"


class Plan(NamedTuple):
    """What repo2docker does for this repository: the Python it takes, the commands it runs."""

    python: str
    steps: list[str]


def plan() -> Plan:
    """Let repo2docker look at the repository and write its Dockerfile, without an engine."""
    command = [sys.executable, "-m", "repo2docker", "--no-build", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    before, marker, ours = done.stdout.partition(OURS)
    assert marker, before
    [python] = re.findall(r"python=(\S+)", done.stderr)
    return Plan(python, re.findall(r"^RUN (.+)$", ours, re.MULTILINE))


def environment() -> Path:
    """The Python of the environment that the steps make.

    The packages are those of the last run while their pins are the same; the package itself, which
    ``postBuild`` installs, is always new.
    """
    pins = REQUIREMENTS.read_bytes() + sys.version.encode()
    prefix = BUILT / hashlib.sha256(pins).hexdigest()[:16]
    installed = prefix / "installed"
    if not installed.exists():
        shutil.rmtree(BUILT, ignore_errors=True)  # what older pins made
        subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
    for step in plan().steps:
        if "requirements.txt" not in step:
            _run(step, prefix)
        elif not installed.exists():
            _run(step, prefix)
            installed.touch()
    return prefix / "bin" / "python"


def _run(step: str, prefix: Path) -> None:
    """Run a step as the image would, with `prefix` in the place of the image's environment."""
    path = f"{prefix / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", step],
        cwd=ROOT,
        env={**os.environ, "KERNEL_PYTHON_PREFIX": str(prefix), "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{step}\n{done.stdout[-4000:]}"
