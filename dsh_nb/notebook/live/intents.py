"""What a person wants of a view: stop, steer, decide, answer; each taken once, on any thread.

Reads: core, notebook.kernel. Feeds: notebook.live.view.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from dsh_nb.messages import JsonObject
from dsh_nb.notebook.kernel import interrupt_main_thread, on_subshell

__all__ = ["Intents", "Scrubbed", "Steered", "SteeredAgent"]

BLOCKED_SECONDS = 0.2
"""A loop that has not taken a stop by then is blocked by code that does not await."""

REMEMBERED = 1_000
"""So many of the newest intents are known by their ids."""

log = logging.getLogger("dsh_nb")


class SteeredAgent(Protocol):
    """What a view of turns steers; each method is safe from any thread."""

    def steer(self, said: str) -> object:
        """Say something to the running turn."""

    def send(self, said: str) -> object:
        """Start a turn."""

    def approve(
        self, id: str, *, arguments: JsonObject | None = None, remember: Any = False
    ) -> bool:  # Any: as `Permission.approve` checks it
        """Let a call run."""

    def deny(self, reason: str = "", *, id: str | None = None) -> bool:
        """Keep a call from running."""

    def answer(self, said: str, *, id: str | None = None) -> bool:
        """Answer a question."""

    def decline(self, *, id: str | None = None) -> bool:
        """Leave a question without an answer."""


@runtime_checkable
class Scrubbed(Protocol):
    """What a view of a replay steers; safe from any thread."""

    def scrub(self, wish: Mapping[str, Any]) -> None:  # Any: JSON of a page
        """Do what a control of the replay stands for."""


Steered = SteeredAgent | Scrubbed


class Intents:
    """Hears the messages of a page and does what they say, once each.

    Args:
        steered: What is steered.
        stop: What a stop does.
        loop: Where its turns run.
        mounted: Called on the loop with the ids of a view and its page when a view wants to be
            told everything.
        gone: Called on the loop with the id of a view that is no longer in its page.
    """

    def __init__(
        self,
        steered: Steered,
        stop: Callable[[], object],
        loop: Callable[[], asyncio.AbstractEventLoop],
        mounted: Callable[[str, str], None],
        gone: Callable[[str], None],
    ) -> None:
        self._steered = steered
        self._halt = stop
        self._loop = loop
        self._mounted = mounted
        self._gone = gone
        self._lock = threading.Lock()
        self._answers: dict[str, JsonObject | None] = {}  # None while an intent is being done

    def hear(self, widget: Any, content: object, buffers: object) -> None:  # Any: ipywidgets
        """Take a message of a page, and answer it at once on the same comm; never raises."""
        if not isinstance(content, dict) or not isinstance(content.get("intent"), str):
            return
        # Answered here and nowhere else: that keeps the next message off a blocked thread.
        answer = self._answer(content["intent"], content)
        if answer is not None:
            widget.send({**answer, "subshell": on_subshell()})

    def _answer(self, intent: str, content: Mapping[str, Any]) -> JsonObject | None:
        """The answer; None when another thread, which will give it, is at this very intent."""
        with self._lock:
            if intent in self._answers:
                return self._answers[intent]
            self._answers[intent] = None
            if len(self._answers) > REMEMBERED:
                del self._answers[next(iter(self._answers))]
        # Not under the lock: the loop's thread must be free to take what is done here.
        answer: JsonObject = {"ack": intent, **self._tried(content)}
        with self._lock:
            self._answers[intent] = answer
        return answer

    def _tried(self, content: Mapping[str, Any]) -> JsonObject:
        try:
            return self._do(content)
        except Exception as error:  # whatever a page sends, it gets an answer
            log.debug("a view's intent failed", exc_info=True)
            return {"error": str(error) or type(error).__name__}

    def _do(self, content: Mapping[str, Any]) -> JsonObject:
        match content:
            case {"do": "hello", "view": str(view), "page": str(page)}:
                self._loop().call_soon_threadsafe(self._mounted, view, page)
                return {}
            case {"do": "gone", "view": str(view)}:
                self._loop().call_soon_threadsafe(self._gone, view)
                return {}
            case {"do": "pin"}:
                return {}
        if isinstance(self._steered, Scrubbed):
            self._steered.scrub(content)
            return {}
        return self._wish(self._steered, content)

    def _wish(self, steered: SteeredAgent, content: Mapping[str, Any]) -> JsonObject:
        match content:
            case {"do": "stop"}:
                return self._stop()
            case {"do": "steer", "text": str(text)}:
                return {"id": steered.steer(text)}
            case {"do": "send", "text": str(text)}:
                steered.send(text)
                return {}
            case {"do": "approve", "ask": str(ask)}:
                remember, changed = content.get("remember", False), content.get("arguments")
                return {"done": steered.approve(ask, arguments=changed, remember=remember)}
            case {"do": "deny", "ask": str(ask)}:
                return {"done": steered.deny(str(content.get("reason") or ""), id=ask)}
            case {"do": "answer", "question": str(question), "text": str(text)}:
                return {"done": steered.answer(text, id=question)}
            case {"do": "decline", "question": str(question)}:
                return {"done": steered.decline(id=question)}
        return {"error": f"the view sent {content.get('do')!r}, which this kernel does not know"}

    def _stop(self) -> JsonObject:
        """Stop; where the loop's thread is blocked, interrupt what blocks it as well."""
        if threading.current_thread() is threading.main_thread():
            self._halt()
            return {}
        heard = threading.Event()

        def stop() -> None:
            self._halt()
            heard.set()

        self._loop().call_soon_threadsafe(stop)
        if heard.wait(BLOCKED_SECONDS):
            return {}
        return {"blocked": not interrupt_main_thread()}
