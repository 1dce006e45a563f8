"""A clock that tests move by hand.

Feeds: tests.
"""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """Unix milliseconds that go on by `step_ms` with each reading, so that no two are equal.

    Args:
        start_ms: What the first reading gives.
        step_ms: What each reading adds for the next one; 0 stands still.

    Example:
        >>> clock = FakeClock(step_ms=5)
        >>> clock(), clock()
        (1700000000000, 1700000000005)
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, step_ms: int = 1) -> None:
        self._now_ms = start_ms
        self._step_ms = step_ms

    def __call__(self) -> int:
        """The time now, in Unix milliseconds."""
        now = self._now_ms
        self._now_ms += self._step_ms
        return now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, rounded to whole milliseconds."""
        self._now_ms += round(seconds * 1000)
