"""The quickstart as a page of Voila, for people who see no code."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.lab import FLAGS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
SHOT = ROOT / "build" / "screenshots" / "voila.png"
VOILAS_OWN = "https://cdn.jsdelivr.net/npm/@fortawesome/"  # icons; without them it works as well


@contextmanager
def voila(notebook: Path) -> Iterator[str]:
    """The address where Voila serves `notebook`."""
    port = free_port()
    command = [sys.executable, "-m", "voila", "--no-browser", f"--port={port}", str(notebook)]
    homes = {
        name: str(notebook.parent / f".{name.lower()}")
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    with subprocess.Popen(
        command,
        cwd=notebook.parent,
        env={**os.environ, **homes},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            wait_for(port, process)
            yield f"http://localhost:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(15)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urlopen(f"http://localhost:{port}/voila/static/", timeout=5).close()
        except URLError as error:
            if hasattr(error, "code"):  # it answers
                return
        assert process.poll() is None, "Voila did not start"
        assert time.monotonic() < deadline, "Voila does not answer"
        time.sleep(0.2)


def test_page_shows_whole_turns_and_no_code(tmp_path: Path) -> None:
    notebook = Path(shutil.copy(ROOT / "notebooks" / "00_quickstart.ipynb", tmp_path))
    with voila(notebook) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address, timeout=60_000)
        turns = page.locator("[role=log]")
        turns.nth(2).wait_for(timeout=60_000)
        page.screenshot(path=SHOT)
        first, second, third = turns.all_inner_texts()
        code = page.locator(".jp-CodeCell .jp-InputArea:visible").count()
        errors = page.locator(".jp-RenderedText[data-mime-type*=stderr]").count()
        browser.close()

    assert 'total(column="revenue") gives 960.0' in first
    assert "43" in second
    assert "no sales in 'Rome'" in third
    assert (code, errors) == (0, 0)
    local = (address, "data:", "blob:", VOILAS_OWN)
    assert [url for url in requests if not url.startswith(local)] == []
