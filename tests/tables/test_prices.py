"""What a message cost."""

from __future__ import annotations

import pytest

from dsh_nb.messages import Usage
from dsh_nb.tables import cost_of

MODEL = "claude-sonnet-4-5"


def test_known_model_has_a_price_for_each_kind_of_token() -> None:
    fresh = cost_of(Usage(input_tokens=1_000), MODEL)
    said = cost_of(Usage(output_tokens=1_000), MODEL)
    thought = cost_of(Usage(reasoning_tokens=1_000), MODEL)

    assert [fresh, said] == pytest.approx([0.003, 0.015])
    assert thought == said


def test_cached_tokens_are_counted_once_at_their_own_price() -> None:
    read = cost_of(Usage(cache_read_tokens=1_000), MODEL)
    written = cost_of(Usage(cache_write_tokens=1_000), MODEL)
    together = cost_of(Usage(1_000, 1_000, 1_000, 1_000, 1_000), MODEL)

    assert [read, written] == pytest.approx([0.0003, 0.00375])
    assert together == pytest.approx(0.003 + 0.015 + 0.0003 + 0.00375 + 0.015)


def test_no_tokens_cost_nothing() -> None:
    assert cost_of(Usage(), MODEL) == 0.0


@pytest.mark.parametrize("model", [None, "", "scripted", "no-such-model"])
def test_unknown_price_is_none_and_not_zero(model: str | None) -> None:
    assert cost_of(Usage(1_000, 1_000), model) is None
