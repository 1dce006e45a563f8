"""A real kernel, driven over its own protocol."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

__all__ = ["OLD_IPYKERNEL", "Cell", "Comm", "Kernel", "Page", "kernel"]

SECONDS = 30.0

OLD_IPYKERNEL = "7.3.0"
"""Hears the messages of widgets on subshells only, and on another thread."""

_BUILD = Path(__file__).parents[2] / "build"


@dataclass
class Cell:
    """What a cell came to.

    Attributes:
        status: ``ok``, ``error`` or ``aborted``.
        error: Name and text of its exception; ``""`` for none.
        stdout: What it printed.
        stderr: What it wrote to standard error.
        shown: The plain text of each display, in its newest form.
        html: The HTML of each display, in its newest form.
        updates: How many times a display was updated.
        seconds: From its start to its end.
    """

    status: str = ""
    error: str = ""
    stdout: str = ""
    stderr: str = ""
    displays: dict[str, dict[str, Any]] = field(default_factory=dict)
    updates: int = 0
    seconds: float = 0.0

    @property
    def shown(self) -> list[str]:
        return [str(data.get("text/plain", "")) for data in self.displays.values()]

    @property
    def html(self) -> list[str]:
        return [str(data.get("text/html", "")) for data in self.displays.values()]


@dataclass
class Comm:
    """A comm that the kernel opened.

    Attributes:
        id: Its id, which is the id of the widget's model.
        state: What the widget began with.
        heard: The content of each custom message, in order.
        closed: Whether the kernel has closed it.
    """

    id: str
    state: dict[str, Any]
    heard: list[dict[str, Any]] = field(default_factory=list)
    closed: bool = False


class Kernel:
    """A running kernel.

    Attributes:
        comms: The comms that it opened, by id.
    """

    def __init__(self, process: KernelManager, client: BlockingKernelClient) -> None:
        self.process, self.client = process, client
        self.comms: dict[str, Comm] = {}
        self._shown: set[str] = set()
        self._unread: list[dict[str, Any]] = []  # heard while no cell was waited for

    def start(self, code: str, *, person: bool = False) -> str:
        """Send a cell and return its message id at once.

        Args:
            code: The cell.
            person: True to send it as a page does that has a person before it.
        """
        return str(self.client.execute(code, allow_stdin=person, stop_on_error=True))

    def finish(self, message_id: str, seconds: float = SECONDS) -> Cell:
        """Wait for a cell that was sent."""
        cell, began = Cell(), time.monotonic()
        deadline = began + seconds
        while True:
            unread = self._unread
            message = unread.pop(0) if unread else self._heard(deadline - time.monotonic())
            self._note(message, cell)
            if message["parent_header"].get("msg_id") != message_id:
                continue
            idle = (
                message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            )
            if idle:
                break
        while True:
            reply = self.client.get_shell_msg(timeout=max(0.1, deadline - time.monotonic()))
            if reply["parent_header"].get("msg_id") == message_id:
                break
        content = reply["content"]
        cell.status, cell.seconds = content["status"], time.monotonic() - began
        if content["status"] == "error":
            cell.error = f"{content['ename']}: {content['evalue']}"
        return cell

    def run(self, code: str, seconds: float = SECONDS, *, person: bool = False) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.start(code, person=person), seconds)

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> float:
        """Hear what the kernel says until `condition` holds, and tell how long that took."""
        began = time.monotonic()
        while not condition():
            self._unread.append(self._heard(began + seconds - time.monotonic()))
        return time.monotonic() - began

    def hear(self, seconds: float) -> None:
        """Hear what the kernel says for so long."""
        try:
            self.until(lambda: False, seconds)
        except queue.Empty:
            return

    def page(self) -> Page:
        """A page that shows the next view which none shows yet, as soon as there is one."""
        self.until(lambda: bool(self._views()))
        view = self._views()[0]
        self._shown.add(view.id)
        return Page(self, view)

    def subshell(self) -> str:
        """The id of a new subshell."""
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        reply = self.client.get_control_msg(timeout=SECONDS)
        return str(reply["content"]["subshell_id"])

    def value(self, expression: str) -> str:
        """The repr of an expression in the kernel."""
        cell = self.run(f"print(repr(({expression})))")
        assert cell.status == "ok", cell
        return cell.stdout.strip()

    def interrupt(self) -> None:
        """Press the stop button."""
        self.process.interrupt_kernel()

    def signal(self) -> None:
        """Send SIGINT, as a terminal would."""
        os.kill(self.process.provisioner.pid, signal.SIGINT)  # type: ignore[union-attr]

    def _views(self) -> list[Comm]:
        hidden = [
            one for one in self.comms.values() if not one.closed and one.id not in self._shown
        ]
        return [one for one in hidden if "controls" in one.state]

    def _heard(self, seconds: float) -> dict[str, Any]:
        message: dict[str, Any] = self.client.get_iopub_msg(timeout=max(0.01, seconds))
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_open":
            state = content["data"].get("state", {})
            self.comms[content["comm_id"]] = Comm(content["comm_id"], state)
        elif kind == "comm_msg" and content["data"].get("method") == "custom":
            self.comms[content["comm_id"]].heard.append(content["data"]["content"])
        elif kind == "comm_close" and content["comm_id"] in self.comms:
            self.comms[content["comm_id"]].closed = True
        return message

    @staticmethod
    def _note(message: dict[str, Any], cell: Cell) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            text = content["text"]
            cell.stdout += text if content["name"] == "stdout" else ""
            cell.stderr += text if content["name"] == "stderr" else ""
        elif kind in ("display_data", "update_display_data", "execute_result"):
            known = content.get("transient", {}).get("display_id")
            cell.displays[known or f"anonymous-{len(cell.displays)}"] = content["data"]
            cell.updates += kind == "update_display_data"


class Page:
    """A page of a front end that shows the view of a turn, and sends what a person wants.

    Attributes:
        view: Is told what to show.
        controls: Carries wishes back, on a subshell as JupyterLab has it.
    """

    _numbers = count()

    def __init__(self, kernel: Kernel, view: Comm) -> None:
        self.view = view
        self.controls = kernel.comms[view.state["controls"]]
        self._kernel = kernel
        self._subshell = kernel.subshell()
        self._name = f"view-{next(self._numbers)}"

    def send(self, do: str, *, intent: str = "", main: bool = False, **fields: object) -> str:
        """Send a wish; returns its id.

        Args:
            do: The wish.
            intent: Its id; by default a new one.
            main: True to send it to the kernel's main shell.
            fields: The rest of it.
        """
        intent = intent or f"{self._name}-{next(self._numbers)}"
        content = {"intent": intent, "do": do, "view": self._name, "page": "page", **fields}
        data = {"method": "custom", "content": content}
        session = self._kernel.client.session
        message = session.msg("comm_msg", {"comm_id": self.controls.id, "data": data})
        if not main:
            message["header"]["subshell_id"] = self._subshell
        self._kernel.client.shell_channel.send(message)
        return intent

    def answers(self, intent: str) -> list[dict[str, Any]]:
        """What the kernel has answered so far."""
        return [one for one in self.controls.heard if one.get("ack") == intent]

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a wish and wait for its answer."""
        intent = self.send(do, **fields)
        self._kernel.until(lambda: bool(self.answers(intent)))
        return self.answers(intent)[0]

    def mount(self) -> None:
        """Show the view, and have the kernel hear the next wish off its main thread."""
        self.ask("hello")
        self._kernel.until(lambda: any("to" in one for one in self.view.heard))
        assert any(self.ask("pin")["subshell"] for _ in range(20)), "it is not heard on a subshell"

    @property
    def status(self) -> dict[str, Any]:
        """What stands beside the blocks."""
        told = [one["status"] for one in self.view.heard if "status" in one]
        return told[-1] if told else {}


@contextmanager
def kernel(ipykernel: str | None = None, folder: Path | None = None) -> Iterator[Kernel]:
    """A fresh kernel.

    Args:
        ipykernel: Another version of ipykernel than that of this environment.
        folder: Where it works; a folder of its own by default.
    """
    with TemporaryDirectory() as own:
        yield from _kernel(ipykernel, folder or Path(own))


def _kernel(ipykernel: str | None, folder: Path) -> Iterator[Kernel]:
    process = KernelManager(kernel_name="python3")
    path = [] if ipykernel is None else [str(_overlay(ipykernel))]
    known = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    process.start_kernel(
        cwd=str(folder), env={**os.environ, "PYTHONPATH": os.pathsep.join([*path, *known])}
    )
    client = process.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(process, client)
    finally:
        client.stop_channels()
        process.shutdown_kernel(now=True)
        process.cleanup_resources()


def _overlay(version: str) -> Path:
    """A folder with that ipykernel and nothing else, to be found before the one installed."""
    folder = _BUILD / f"ipykernel-{version}"
    if not folder.exists():
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "--target", str(fresh), f"ipykernel=={version}"], check=True)
        fresh.rename(folder)  # at once: what is half there would be taken for whole
    return folder
