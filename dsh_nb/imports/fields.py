"""Fields of other tools' lines, read without trust: a wrong type gives an empty value.

Reads: messages. Feeds: imports.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from dsh_nb.messages import JsonObject

__all__ = ["LAST_TIME", "as_count", "as_list", "as_object", "as_text", "as_time", "json_text"]

LAST_TIME = 253_402_300_799_999
"""The end of the year 9999 in Unix milliseconds: what is later is no time."""

_SECONDS_BELOW = 100_000_000_000  # as milliseconds, that is March 1973


def as_text(value: object) -> str:
    """`value` if it is text, nothing for None, else its JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)


def json_text(value: object) -> str:
    """`value` as compact JSON."""
    return msgspec.json.encode(value).decode()


def as_object(value: object) -> JsonObject:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[Any]:  # Any: JSON values
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def as_count(value: object) -> int:
    """`value` if it is a whole number from 0, else 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if value >= 0 and value == int(value) else 0


def as_time(value: object) -> int | None:
    """Unix milliseconds of ISO 8601 text, or of a number; None when it says no time.

    Text without a zone is in UTC; a number too small for milliseconds is in seconds.
    """
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    stamp = value * 1000 if abs(value) < _SECONDS_BELOW else value
    return int(stamp) if 0 < stamp <= LAST_TIME else None


def _of_text(value: str) -> int | None:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        stamp = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return stamp if 0 < stamp <= LAST_TIME else None
