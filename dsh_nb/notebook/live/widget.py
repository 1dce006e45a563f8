"""The widgets of a view: one that is told what to show, and one that hears what a person wants.

Reads: notebook.live.view.js and notebook.live.view.css. Feeds: notebook.live.view.
"""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets
from ipywidgets import Widget

__all__ = ["Controls", "TurnWidget", "close", "forget"]

_HERE = Path(__file__).parent


class Controls(Widget):  # type: ignore[misc]  # ipywidgets ships no types
    """Carries what people want of the view to the kernel, and nothing else.

    The kernel writes to it only while it answers, so that an ipykernel that knows subshells
    goes on to hear it while the main thread is blocked.
    """


class TurnWidget(anywidget.AnyWidget):
    """Shows what it is told by messages; it decides nothing and holds no state of its own."""

    _esm = (_HERE / "view.js").read_text(encoding="utf-8")
    _css = (_HERE / "view.css").read_text(encoding="utf-8")
    controls = traitlets.Unicode(help="id of the widget that carries wishes back").tag(sync=True)
    panel = traitlets.Bool(False, help="whether it is a panel of its own height").tag(sync=True)


def close(*widgets: Widget) -> None:
    """Close widgets here and in the page, with all that belongs to them."""
    for widget in widgets:
        layout = getattr(widget, "layout", None)
        widget.close()
        if layout is not None:
            layout.close()


def forget(*widgets: Widget) -> None:
    """Let go of widgets here, and leave them in the page as they are."""
    for widget in widgets:
        for one in (widget, getattr(widget, "layout", None)):
            if one is not None and one.comm is not None:
                one.comm.publish_msg = _silent
                one.close()


def _silent(*args: object, **keys: object) -> None:
    """Tells the page nothing."""
