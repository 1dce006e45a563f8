"""A real JupyterLab in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Dialog, Locator, Page, sync_playwright

__all__ = ["Lab", "lab", "write_notebook"]

Theme = Literal["light", "dark"]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOME = ".jupyter-home"
SETTINGS = f"{HOME}/settings"
QUIET = [
    "--ServerApp.token=",
    "--ServerApp.password=",
    "--ServerApp.open_browser=False",
    "--ServerApp.port_retries=50",
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]


class Lab:
    """A page with a notebook open.

    Attributes:
        page: The page.
        requests: Addresses of requests that left this machine.
    """

    def __init__(self, page: Page, base_url: str, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.base_url = base_url
        self.requests: list[str] = []
        page.on("request", self._note)
        self.dialogs: list[str] = []
        page.on("dialog", self._dismiss)

    def open(self, notebook: str) -> None:
        """Open a notebook and wait until its kernel is there."""
        self.page.goto(f"{self.base_url}/lab/tree/{notebook}?reset")
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
        deadline = time.monotonic() + 60
        while not self._kernel_is_ready(notebook):
            assert time.monotonic() < deadline, "no kernel started"
            self.page.wait_for_timeout(200)
        self.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").first.wait_for(
            state="attached", timeout=60_000
        )
        self.page.wait_for_timeout(500)

    def add(self, name: str, *cells: str) -> None:
        """Write a notebook of code cells into the folder, and open it."""
        write_notebook(self.folder / name, *cells)
        self.open(name)

    def save(self) -> None:
        """Save the notebook."""
        self.page.keyboard.press("Control+s")
        self.page.locator(".jp-DirtyIndicator, .jp-mod-dirty").wait_for(state="detached")
        self.page.wait_for_timeout(500)

    def run(self, cell: int) -> None:
        """Run one cell, and do not wait for it."""
        before = self._prompts()
        self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Control+Enter")
        deadline = time.monotonic() + 30
        while self._prompts() == before:
            assert time.monotonic() < deadline, "the cell was not started"
            self.page.wait_for_timeout(20)

    def run_all(self, seconds: float = 60) -> None:
        """Run all cells and wait until none runs or waits."""
        self.start_all()
        self.idle(seconds)

    def start_all(self) -> None:
        """Run all cells, and wait only until the page has taken that up."""
        before = self._prompts()
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.locator(".lm-Menu-item", has_text=re.compile("^Run All Cells$")).click()
        deadline = time.monotonic() + 30
        while self._prompts() == before:
            assert time.monotonic() < deadline, "no cell was started"
            self.page.wait_for_timeout(20)

    def top(self, what: Locator) -> None:
        """Scroll `what` to the top of the page."""
        what.evaluate("element => element.scrollIntoView({block: 'start'})")
        self.page.wait_for_timeout(200)

    def idle(self, seconds: float = 60) -> None:
        """Wait until no cell runs or waits."""
        deadline = time.monotonic() + seconds
        quiet = 0
        while quiet < 3:
            assert time.monotonic() < deadline, "a cell still runs"
            quiet = 0 if "[*]:" in self._prompts() else quiet + 1
            self.page.wait_for_timeout(150)

    def output(self, cell: int) -> Locator:
        """The outputs of a cell, by its position among all cells."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output")

    def shot(self, path: Path) -> None:
        """Write what is seen to a PNG file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def _prompts(self) -> list[str]:
        """What stands beside the cells: ``[ ]:``, ``[*]:`` while one runs or waits, ``[3]:``."""
        return self.page.locator(".jp-InputArea-prompt").all_inner_texts()

    def _dismiss(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":  # the notebook before this one was not saved
            dialog.accept()
            return
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _kernel_is_ready(self, notebook: str) -> bool:
        """Whether its kernel is idle: before that, running a cell opens a dialog."""
        sessions = self.page.request.get(f"{self.base_url}/api/sessions").json()
        return any(
            session["path"] == notebook and session["kernel"]["execution_state"] == "idle"
            for session in sessions
        )

    def _note(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        local = url.startswith((self.base_url, self.base_url.replace("http", "ws", 1)))
        if not local and not url.startswith(("data:", "blob:")):
            self.requests.append(url)


@contextmanager
def lab(
    folder: Path,
    *,
    theme: Theme = "light",
    width: int = 1200,
    height: int = 1000,
    python: Path = Path(sys.executable),
) -> Iterator[Lab]:
    """JupyterLab serving `folder` with the packages of `python`, in a browser of its own."""
    _write_settings(folder, theme)
    with _server(folder, python) as base_url, sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        assert chromium is not None, "chromium is not installed; run make test, which installs it"
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": height})
        try:
            yield Lab(page, base_url, folder)
        finally:
            browser.close()


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook of code cells."""
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernelspec},
        "cells": [_code_cell(number, source) for number, source in enumerate(cells)],
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _code_cell(number: int, source: str) -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }


def _write_settings(folder: Path, theme: Theme) -> None:
    """Whole notebooks in the page, the theme, and no question about news."""
    settings = {
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/themes": {"theme": f"JupyterLab {theme.title()}"},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    }
    for name, values in settings.items():
        path = folder / SETTINGS / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


@contextmanager
def _server(folder: Path, python: Path) -> Iterator[str]:
    command = [
        str(python),
        "-m",
        "jupyterlab",
        "--allow-root",
        *QUIET,
        f"--notebook-dir={folder}",
    ]
    home = folder / HOME
    paths = {
        name: str(home / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    environment = {**os.environ, **paths, "JUPYTERLAB_SETTINGS_DIR": str(folder / SETTINGS)}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield _base_url(process)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _base_url(process: subprocess.Popen[str]) -> str:
    """The address that the server prints; the rest of what it prints is read and dropped."""
    assert process.stderr is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/lab", line)
        if found:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return f"http://127.0.0.1:{found[1]}"
    raise RuntimeError("JupyterLab did not start:\n" + "".join(seen[-20:]))
