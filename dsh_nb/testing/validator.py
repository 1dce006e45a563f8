"""The rules of the Messages API for a request, as strict as the API itself.

Reads: messages, testing.block_rules, testing.echo_rules, testing.message_rules.
Feeds: testing.server, tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from dsh_nb.messages import JsonObject
from dsh_nb.testing.block_rules import THINKING_TYPES, block_findings, is_blocks, objects
from dsh_nb.testing.echo_rules import echo_findings
from dsh_nb.testing.message_rules import message_findings, message_shape

__all__ = ["validate_request"]

_TOP_KEYS = frozenset(
    "cache_control container context_management diagnostics inference_geo max_tokens mcp_servers "
    "messages metadata model output_config service_tier speed stop_sequences stream system "
    "temperature thinking tool_choice tools top_k top_p user_profile_id workspace_id".split()
)
_COUNT_KEYS = frozenset(
    "cache_control context_management mcp_servers messages model output_config speed system "
    "thinking tool_choice tools user_profile_id workspace_id".split()
)
_CHOICE_KEYS = {
    "auto": frozenset({"type", "disable_parallel_tool_use"}),
    "any": frozenset({"type", "disable_parallel_tool_use"}),
    "tool": frozenset({"type", "disable_parallel_tool_use", "name"}),
    "none": frozenset({"type"}),
}
_TOOL_KEYS = frozenset(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples "
    "input_schema name strict type".split()
)
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_MARKS = 4
_LEAST_BUDGET_TOKENS = 1024


def validate_request(
    body: object,
    *,
    raw: bytes | None = None,
    sent_messages: Sequence[Sequence[JsonObject]] = (),
    counting: bool = False,
) -> list[str]:
    """What the Messages API would refuse in a request, the gravest finding first.

    Args:
        body: The parsed request; anything may be in it.
        raw: Its bytes as they travelled; checked for strict JSON in UTF-8 where given.
        sent_messages: The blocks of every message that the server has sent so far, in order.
            Messages with thinking or blocks of unknown type must be among these; texts and calls
            found here may be sent back with the keys that they have here.
        counting: Whether it asks for a count of its tokens, not for an answer.

    Returns:
        One line for each broken rule, opened by the path of what breaks it. Empty: the request
        is valid. Messages are looked at when all have the right shape, and compared with what
        was sent when nothing else is wrong with them.
    """
    if problem := _encoding_problem(body, raw):
        return [problem]
    if not isinstance(body, dict):
        return ["body: must be an object"]
    shape = list(message_shape(body.get("messages")))
    inside = [] if shape else list(message_findings(body["messages"]))
    echo = [] if shape or inside else echo_findings(body["messages"], sent_messages)
    return [
        *shape,
        *_keys(body, _COUNT_KEYS if counting else _TOP_KEYS),
        *([] if counting else _numbers(body)),
        *_thinking(body.get("thinking", {"type": "disabled"}), body.get("max_tokens")),
        *_system(body.get("system")),
        *_tools(body.get("tools", [])),
        *(_tool_choice(body) if "tool_choice" in body else ()),
        *inside,
        *echo,
        *_marks(body),
    ]


def _encoding_problem(body: object, raw: bytes | None) -> str | None:
    try:
        parsed = body if raw is None else json.loads(raw.decode("utf-8"), parse_constant=_refuse)
        json.dumps(parsed, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        return f"body: not strict JSON in UTF-8: {error}"
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _keys(body: JsonObject, known: frozenset[str]) -> Iterator[str]:
    for key in sorted(body.keys() - known):
        yield f"{key}: extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: must be a non-empty string"


def _numbers(body: JsonObject) -> Iterator[str]:
    """How the answer is to be made."""
    if not _is_int(body.get("max_tokens")) or body["max_tokens"] < 1:
        yield "max_tokens: must be a positive integer"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: must be a boolean"
    temperature = body.get("temperature", 1)
    if not _is_number(temperature) or not 0 <= temperature <= 1:
        yield "temperature: must be a number from 0 to 1"


def _thinking(thinking: object, max_tokens: object) -> Iterator[str]:
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in ("enabled", "disabled", "adaptive"):
        yield "thinking.type: must be enabled, disabled or adaptive"
    elif kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not _is_int(budget) or budget < _LEAST_BUDGET_TOKENS:
            yield f"thinking.budget_tokens: must be at least {_LEAST_BUDGET_TOKENS}"
        elif _is_int(max_tokens) and budget >= max_tokens:
            yield "thinking.budget_tokens: must be less than max_tokens"


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _system(system: object) -> Iterator[str]:
    if system is None or isinstance(system, str):
        if system is not None and not system.strip():
            yield "system: text must not be blank"
    elif not is_blocks(system, frozenset({"text"})):
        yield "system: must be a string or a list of text blocks"
    else:
        yield from block_findings(system, "system")


def _tools(tools: object) -> Iterator[str]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield "tools: must be a list of objects"
        return
    seen: set[object] = set()
    for at, tool in enumerate(tools):
        yield from _tool(tool, f"tools.{at}")
        name = str(tool.get("name"))
        if name in seen:
            yield f"tools.{at}.name: tool names must be unique, {name!r} is there twice"
        seen.add(name)


def _tool(tool: JsonObject, path: str) -> Iterator[str]:
    name = tool.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        yield f"{path}.name: must match ^{_TOOL_NAME.pattern}$"
    if tool.get("type", "custom") != "custom":
        return  # a tool that the provider runs: its own keys, and no schema
    for key in sorted(tool.keys() - _TOOL_KEYS):
        yield f"{path}.{key}: extra inputs are not permitted"
    if not isinstance(tool.get("description", ""), str):
        yield f"{path}.description: must be a string"
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{path}.input_schema.type: must be 'object'"
    elif schema.keys() & {"anyOf", "oneOf", "allOf"}:
        yield f"{path}.input_schema: does not support oneOf, allOf or anyOf at the top level"


def _tool_choice(body: JsonObject) -> Iterator[str]:
    choice = body["tool_choice"]
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(kind, str) or kind not in _CHOICE_KEYS:
        yield "tool_choice.type: must be auto, any, tool or none"
        return
    for key in sorted(choice.keys() - _CHOICE_KEYS[kind]):
        yield f"tool_choice.{kind}.{key}: extra inputs are not permitted"
    if not isinstance(choice.get("disable_parallel_tool_use", False), bool):
        yield "tool_choice.disable_parallel_tool_use: must be a boolean"
    tools = objects(body.get("tools"))
    if not tools:
        yield "tool_choice: may only be specified while providing tools"
    elif kind == "tool" and choice.get("name") not in [tool.get("name") for tool in tools]:
        yield f"tool_choice.name: must be one of the tools, not {choice.get('name')!r}"
    thinking = body.get("thinking")
    thinks = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if thinks and kind in ("any", "tool"):
        yield "thinking: may not be enabled when tool_choice forces tool use"


def _marks(body: JsonObject) -> Iterator[str]:
    places = [body, *objects(body.get("tools")), *objects(body.get("system"))]
    for message in objects(body.get("messages")):
        for block in objects(message.get("content")):
            places += [block, *objects(block.get("content"))]
    marked = [place for place in places if place.get("cache_control") is not None]
    if len(marked) > _MOST_MARKS:
        yield f"cache_control: at most {_MOST_MARKS} blocks may be marked, found {len(marked)}"
    for place in marked:
        mark = place["cache_control"]
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            yield "cache_control.type: must be 'ephemeral'"
        if place.get("type") in THINKING_TYPES:
            yield "cache_control: thinking blocks cannot be marked"
