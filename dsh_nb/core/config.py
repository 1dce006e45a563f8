"""Config validation: what a person typed against the plugin's schema, with errors for people.

Feeds: core.context.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dsh_nb.errors import ConfigError

__all__ = ["validate_config"]


def validate_config(
    plugin: str, schema: type | None, config: object
) -> Any:  # Any: the schema's own type
    """`config` as the plugin's ``Config``; as it is when the plugin declares none.

    Args:
        plugin: Name of the plugin, for the error.
        schema: A pydantic model, dataclass or TypedDict; ``None`` for no schema.
        config: What was given; ``None`` counts as ``{}``.

    Raises:
        ConfigError: It does not fit. The text names plugin, path, value and what was expected.
    """
    if schema is None:
        return config
    try:
        return _adapter(schema).validate_python({} if config is None else config)
    except ValidationError as error:
        raise _config_error(plugin, error) from error


@cache
def _adapter(schema: type) -> TypeAdapter[Any]:  # Any: the schema's own type
    return TypeAdapter(schema)


def _config_error(plugin: str, error: ValidationError) -> ConfigError:
    problems = error.errors(include_url=False)
    lines = [_line(dict(problem)) for problem in problems]
    text = f"config of plugin {plugin!r} does not fit: " + "; ".join(lines)
    return ConfigError(text, plugin=plugin, path=_path(dict(problems[0])))


def _line(problem: dict[str, Any]) -> str:  # Any: pydantic's error entries
    expected = str(problem["msg"])
    if problem["type"] == "extra_forbidden":
        expected = "no such field, remove it"
    elif problem["type"] == "missing":
        return f"{_path(problem) or 'config'} is missing, {expected.lower()}"
    return f"{_path(problem) or 'config'} is {problem['input']!r}, expected: {expected}"


def _path(problem: dict[str, Any]) -> str:  # Any: pydantic's error entries
    text = ""
    for part in problem["loc"]:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
