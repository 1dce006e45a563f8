"""What reports of usage add up to: tokens, and the cost if all of it is known.

Reads: messages, session.events, tables.prices. Feeds: tables.steps, tables.turns, tables.usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dsh_nb.messages import Usage
from dsh_nb.session.events import UsageReport
from dsh_nb.tables.prices import cost_of

__all__ = ["BILL_COLUMNS", "Bill", "bill_columns", "price_of"]

BILL_COLUMNS: Mapping[str, str] = {
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cache_read_tokens": "Int64",
    "cache_write_tokens": "Int64",
    "cost": "Float64",
}
"""The columns that `bill_columns` fills."""


class Bill:
    """A sum of reports. Each is priced alone: a price may depend on a request's size.

    Attributes:
        reports: How many there were; with none, all tokens are unknown, not zero.
    """

    __slots__ = ("_cost", "_tokens", "reports")

    def __init__(self) -> None:
        self.reports = 0
        self._tokens = [0, 0, 0, 0]
        self._cost: float | None = 0.0

    def add(self, usage: Usage, cost: float | None) -> None:
        """Count one more report in; an unknown cost makes the sum unknown."""
        self.reports += 1
        for n, count in enumerate(_counts(usage)):
            self._tokens[n] += count
        self._cost = None if cost is None or self._cost is None else self._cost + cost

    @property
    def tokens(self) -> list[int] | list[None]:
        """Input, output, cache read and cache write; None where nothing was reported."""
        return list(self._tokens) if self.reports else [None] * 4

    @property
    def cost(self) -> float | None:
        """US dollars; None where nothing was reported or a price is unknown."""
        return self._cost if self.reports else None


def _counts(usage: Usage) -> tuple[int, int, int, int]:
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )


def bill_columns(bills: Iterable[Bill]) -> dict[str, list[Any]]:
    """The columns of `BILL_COLUMNS`, a row per bill."""
    columns: dict[str, list[Any]] = {name: [] for name in BILL_COLUMNS}
    for bill in bills:
        for column, value in zip(columns.values(), (*bill.tokens, bill.cost), strict=True):
            column.append(value)
    return columns


def price_of(report: UsageReport, requested: str | None) -> float | None:
    """What one report cost; by the model that answered, else by the one that was asked."""
    return cost_of(report.usage, report.model or requested)
