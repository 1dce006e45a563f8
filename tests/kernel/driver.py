"""A real kernel, driven over its own protocol."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

__all__ = ["Cell", "Kernel", "kernel"]

SECONDS = 30.0


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


class Kernel:
    """A running kernel."""

    def __init__(self, process: KernelManager, client: BlockingKernelClient) -> None:
        self.process, self.client = process, client

    def start(self, code: str) -> str:
        """Send a cell and return its message id at once."""
        return str(self.client.execute(code, allow_stdin=False, stop_on_error=True))

    def finish(self, message_id: str, seconds: float = SECONDS) -> Cell:
        """Wait for a cell that was sent."""
        cell, began = Cell(), time.monotonic()
        deadline = began + seconds
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
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

    def run(self, code: str, seconds: float = SECONDS) -> Cell:
        """Run a cell to its end."""
        return self.finish(self.start(code), seconds)

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


@contextmanager
def kernel() -> Iterator[Kernel]:
    """A fresh kernel of this environment."""
    process = KernelManager(kernel_name="python3")
    process.start_kernel()
    client = process.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(process, client)
    finally:
        client.stop_channels()
        process.shutdown_kernel(now=True)
        process.cleanup_resources()
