"""What the Binder badge leads to: the environment it builds, and the quickstart in it."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from playwright.sync_api import expect

from tests.binder.image import REQUIREMENTS, ROOT, Plan, environment, plan
from tests.browser.lab import lab

QUICKSTART = "notebooks/00_quickstart.ipynb"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BINDER = re.compile(r"https://mybinder\.org/v2/[^\s)\"]+")


def pins() -> dict[str, list[str]]:
    """The pinned versions by name; a name has several where the Pythons differ."""
    found: dict[str, list[str]] = {}
    for line in REQUIREMENTS.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            pin = Requirement(line)
            found.setdefault(canonicalize_name(pin.name), []).append(str(pin.specifier))
    return found


def asked_by(extra: str) -> dict[str, Requirement]:
    return named(PROJECT["optional-dependencies"][extra])


def named(lines: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(one.name): one for one in map(Requirement, lines)}


def memory_mib(python: Path) -> float:
    """The memory of all that `python` runs: the server and its kernels."""
    return sum(map(resident_kib, programs(f"{python.parent}/"))) / 1024


def programs(prefix: str) -> Iterator[Path]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if (folder / "cmdline").read_text(errors="replace").startswith(prefix):
                yield folder


def resident_kib(program: Path) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", (program / "status").read_text())
    return int(found[1]) if found else 0


def test_repo2docker_installs_the_pins_and_then_the_package() -> None:
    assert plan() == Plan(
        python="3.11",
        steps=[
            '${KERNEL_PYTHON_PREFIX}/bin/pip install --no-cache-dir -r "binder/requirements.txt"',
            "chmod +x binder/postBuild",
            "./binder/postBuild",
        ],
    )


def test_every_pin_is_one_version_that_the_package_takes() -> None:
    pinned = pins()
    wanted = named(PROJECT["dependencies"]) | asked_by("lab")

    assert {version[:2] for versions in pinned.values() for version in versions} == {"=="}
    unfit = [
        str(one)
        for name, one in wanted.items()
        if name not in pinned or not all(v[2:] in one.specifier for v in pinned[name])
    ]
    assert unfit == [], "write binder/requirements.txt anew: make lock-binder"


def test_image_holds_nothing_that_only_developers_need() -> None:
    only_dev = asked_by("dev").keys() - asked_by("lab").keys()

    assert only_dev & pins().keys() == {
        "nbclient",
        "nbconvert",
        "nbformat",
        "packaging",
    }  # JupyterLab's own


def test_badge_opens_the_quickstart_of_the_repository_in_pyproject() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("notebooks/*.ipynb")]
    in_readme = set(BINDER.findall((ROOT / "README.md").read_text()))
    everywhere = {link for path in documents for link in BINDER.findall(path.read_text())}

    [link] = in_readme
    assert everywhere == in_readme
    parts = urlsplit(link)
    repository = urlsplit(PROJECT["urls"]["Repository"])
    assert (repository.netloc, parts.path) == ("github.com", f"/v2/gh{repository.path}/HEAD")
    assert parse_qs(parts.query) == {"urlpath": [f"lab/tree/{QUICKSTART}"]}


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_quickstart_runs_in_the_environment_that_binder_builds(tmp_path: Path) -> None:
    python = environment()
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / QUICKSTART, tmp_path / QUICKSTART)
    with lab(tmp_path, python=python) as one:
        one.open(QUICKSTART)
        one.run_all()
        turns = one.page.locator("[role=log]")
        expect(turns).to_have_count(3, timeout=20_000)
        one.shot(ROOT / "build" / "screenshots" / "binder.png")
        memory = memory_mib(python)

        assert "960" in turns.first.inner_text()
        assert one.page.locator(".jp-mod-error, [data-mime-type*=stderr]").count() == 0
        assert (one.requests, one.dialogs) == ([], [])
        assert 100 < memory < 1000  # Binder ends a session at 2 GB
