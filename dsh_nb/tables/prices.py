"""What a message cost, from a maintained price table.

Reads: messages. Feeds: notebook.
"""

from __future__ import annotations

from dsh_nb.messages import Usage

__all__ = ["cost_of"]


def cost_of(usage: Usage, model: str | None) -> float | None:
    """The price of one message in US dollars; None, not zero, when the model's price is unknown.

    Args:
        usage: What that message was billed. Price each message: prices may depend on its size, so
            a sum of messages has no price of its own.
        model: Name of the model that answered.
    """
    if not model:
        return None
    from genai_prices import Usage as Billed
    from genai_prices import calc_price

    cached = usage.cache_read_tokens + usage.cache_write_tokens
    billed = Billed(
        input_tokens=usage.input_tokens + cached,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens + usage.reasoning_tokens,
    )
    try:
        return float(calc_price(billed, model).total_price)
    except LookupError:
        return None
