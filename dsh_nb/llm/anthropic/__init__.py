"""The adapter for the Messages API: Anthropic, and every server that speaks as it does.

Reads: llm.protocol. Feeds: notebook.
"""

from __future__ import annotations

from dsh_nb.llm.anthropic.adapter import AnthropicModel, has_key
from dsh_nb.llm.anthropic.wire import encode_request

__all__ = ["AnthropicModel", "encode_request", "has_key"]
