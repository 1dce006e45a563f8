from __future__ import annotations

import asyncio
import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
import pytest

from dsh_nb.errors import ToolDefinitionError
from dsh_nb.tools.schema import ToolArgumentError, tool, tool_of
from dsh_nb.tools.tool import Tool, ToolCall, ToolExecution

EXECUTION = ToolExecution(ToolCall(id="call_1", name="t", arguments={}))


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Part:
    unit: Unit
    note: str = "-"


@dataclass
class Whole:
    parts: list[Part]
    more: dict[str, Part] = field(default_factory=dict)


@dataclass
class Tree:
    name: str
    kids: list[Tree] = field(default_factory=list)


class Options(typing.TypedDict, total=False):
    unit: typing.Required[Unit]
    days: int


class Row(pydantic.BaseModel):
    title: str
    part: Part


class Span(NamedTuple):
    start: int
    end: int = 9


def returns(value: object) -> object:
    """Return it."""
    return value


def made(hint: object, default: object = inspect.Parameter.empty) -> Tool:
    """A tool of one parameter, `value`, that returns what it got."""

    def echo(value: Any) -> object:
        """Echo."""
        return value

    echo.__annotations__ = {"value": hint}
    if default is not inspect.Parameter.empty:
        echo.__defaults__ = (default,)
    return tool(echo)


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        (int, 5.0, 5),
        (int, "5", 5),
        (Unit, "c", Unit.CELSIUS),
        (Literal["a", "b"], "b", "b"),
        (int | None, None, None),
        ("typing.Optional[Unit]", "f", Unit.FAHRENHEIT),
        (int | str, "x", "x"),
        (Part, {"unit": "c"}, Part(Unit.CELSIUS)),
        (
            Whole,
            {"parts": [{"unit": "c"}], "more": {"k": {"unit": "f", "note": "n"}}},
            Whole([Part(Unit.CELSIUS)], {"k": Part(Unit.FAHRENHEIT, "n")}),
        ),
        (Tree, {"name": "a", "kids": [{"name": "b"}]}, Tree("a", [Tree("b")])),
        (Options, {"unit": "c"}, {"unit": Unit.CELSIUS}),
        ("list[Options]", [{"unit": "c", "days": 2.0}], [{"unit": Unit.CELSIUS, "days": 2}]),
        (
            Row,
            {"title": "t", "part": {"unit": "c"}},
            Row(title="t", part=Part(Unit.CELSIUS)),
        ),
        (Span, [1, 2], Span(1, 2)),
        (set[int], [1, 1], {1}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, list[Unit]], {"a": ["c"]}, {"a": [Unit.CELSIUS]}),
        (datetime, "2024-02-29T00:00:00", datetime(2024, 2, 29)),
        (Path, "/a/b", Path("/a/b")),
        (Any, {"any": [1]}, {"any": [1]}),
        (str, "cut \ud83d", "cut \ufffd"),
        (inspect.Parameter.empty, [1, "x"], [1, "x"]),
    ],
)
def test_json_becomes_a_value_of_the_hinted_type(
    hint: object, given: object, expected: object
) -> None:
    value = made(hint).run({"value": given}, EXECUTION)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (Unit, {"type": "string", "enum": ["c", "f"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (inspect.Parameter.empty, {}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (
            Annotated[int, pydantic.Field(ge=1, description="at least one")],
            {"type": "integer", "minimum": 1, "description": "at least one"},
        ),
        (
            Row,
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "part": {
                        "type": "object",
                        "properties": {
                            "unit": {"type": "string", "enum": ["c", "f"]},
                            "note": {"type": "string", "default": "-"},
                        },
                        "required": ["unit"],
                        "additionalProperties": False,
                    },
                },
                "required": ["title", "part"],
                "additionalProperties": False,
            },
        ),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    ],
)
def test_a_hint_becomes_a_schema_without_titles_and_references(
    hint: object, schema: object
) -> None:
    assert made(hint).parameters == {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_a_type_that_contains_itself_keeps_its_reference() -> None:
    parameters = made(Tree).parameters

    assert parameters["properties"]["value"] == {"$ref": "#/$defs/Tree"}
    assert parameters["$defs"]["Tree"]["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}


def test_defaults_are_told_and_used_when_an_argument_is_left_out() -> None:
    @tool
    def search(text: str, unit: Unit = Unit.CELSIUS, limit: int | None = None) -> object:
        """Search."""
        return text, unit, limit

    assert search.parameters["required"] == ["text"]
    assert search.parameters["properties"]["unit"]["default"] == "c"
    assert search.parameters["properties"]["limit"]["default"] is None
    assert search.run({"text": "a"}, EXECUTION) == ("a", Unit.CELSIUS, None)
    assert search.run({"text": "a", "limit": None}, EXECUTION) == ("a", Unit.CELSIUS, None)


def test_a_mutable_default_is_fresh_for_each_call() -> None:
    @tool
    def collect(item: int, into: list[int] = []) -> list[int]:  # noqa: B006  # the trap itself
        """Collect."""
        into.append(item)
        return into

    assert collect.run({"item": 1}, EXECUTION) == [1]
    assert collect.run({"item": 2}, EXECUTION) == [2]


def test_a_field_as_default_gives_its_value_and_text() -> None:
    @tool
    def count(n: int = pydantic.Field(3, description="how many")) -> int:
        """Count."""
        return n

    assert count.parameters["properties"]["n"]["description"] == "how many"
    assert count.run({}, EXECUTION) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, r"argument 'unit' is missing; required are \['unit'\]"),
        ({"unit": "c", "x": 1}, r"no argument 'x'; allowed are \['days', 'unit'\]"),
        ({"unit": "kelvin"}, r"argument 'unit': input should be 'c' or 'f'; was given \"kelvin\""),
        ({"unit": "c", "days": [{}]}, r"argument 'days.0.unit': field required"),
        ({"unit": "c", "days": [{"unit": 7}]}, r"'days.0.unit': .*'c' or 'f'; was given 7"),
    ],
)
def test_arguments_that_do_not_fit_are_told_with_what_is_allowed(
    arguments: dict[str, object], says: str
) -> None:
    @tool
    def forecast(unit: Unit, days: list[Part] | None = None) -> object:
        """Forecast."""
        return unit, days

    with pytest.raises(ToolArgumentError, match=says):
        forecast.run(arguments, EXECUTION)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ToolArgumentError) as caught:
        made(Unit).run({"value": "k", "other": 1}, EXECUTION)

    assert str(caught.value).count("\n- ") == 2


def test_each_kind_of_parameter_is_called_its_own_way() -> None:
    @tool
    def mixed(
        a: int, b: int = 2, /, c: int = 3, *rest: int, d: int, kwargs: int = 5, **more: int
    ) -> object:
        """Mix."""
        return a, b, c, rest, d, kwargs, more

    assert list(mixed.parameters["properties"]) == ["a", "b", "c", "d", "kwargs"]
    assert mixed.run({"a": 1, "c": 4, "d": 6}, EXECUTION) == (1, 2, 4, (), 6, 5, {})
    with pytest.raises(ToolArgumentError, match="no argument 'zz'"):
        mixed.run({"a": 1, "d": 6, "zz": 1}, EXECUTION)


def test_a_parameter_may_have_the_name_of_a_model_method() -> None:
    @tool
    def odd(json: int, schema: str, model_config: int, _x: int = 1) -> object:
        """Be odd."""
        return json, schema, model_config, _x

    assert odd.run({"json": 1, "schema": "s", "model_config": 2}, EXECUTION) == (1, "s", 2, 1)


def test_an_explicit_schema_wins_and_arguments_pass_through() -> None:
    schema = {"properties": {"a": {"title": "A"}}, "required": ["a"]}

    @tool(name="raw", parameters=schema)
    def body(**kw: object) -> object:
        """Take all."""
        return kw

    assert body.parameters == {"type": "object", **schema}
    assert body.run({"a": 5.0, "b": [1]}, EXECUTION) == {"a": 5.0, "b": [1]}
    with pytest.raises(ToolArgumentError, match="'a' is missing"):
        body.run({}, EXECUTION)


def test_an_explicit_schema_that_the_function_cannot_take_is_an_argument_error() -> None:
    fixed = tool(returns, parameters={"properties": {"other": {}}})

    with pytest.raises(ToolArgumentError, match="missing a required argument: 'value'"):
        fixed.run({}, EXECUTION)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array"}, "root type 'array'"),
        ({"anyOf": [{"type": "object"}]}, r"\['anyOf'\] at its root"),
        ({"properties": {"a": {"enum": {1}}}}, "not JSON"),
    ],
)
def test_an_explicit_schema_with_a_bad_root_is_refused(
    schema: dict[str, object], says: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        tool(returns, parameters=schema)


def test_a_class_local_to_a_function_is_found() -> None:
    @dataclass
    class Local:
        n: int
        next: Local | None = None

    @tool
    def use(rows: list[Local], other: "Local | None" = None) -> object:  # noqa: UP037  # quoted twice
        """Use."""
        return rows, other

    got = use.run({"rows": [{"n": 1, "next": {"n": 2}}]}, EXECUTION)

    assert got == ([Local(1, Local(2))], None)


def test_a_class_of_a_closure_is_found_after_its_function_returned() -> None:
    def factory() -> Callable[..., object]:
        @dataclass
        class Inner:
            n: int

        def use(row: Inner) -> object:
            """Use."""
            return isinstance(row, Inner)

        return use

    assert tool(factory()).run({"row": {"n": 1}}, EXECUTION) is True


def run_cell(source: str, names: dict[str, Any]) -> None:
    exec(compile(source, "<cell>", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("future", ["from __future__ import annotations\n", ""])
def test_the_newest_class_of_a_name_is_used(future: str) -> None:
    names: dict[str, Any] = {"__name__": "cells", "tool": tool}
    row = "from dataclasses import dataclass\n@dataclass\nclass Row:\n    n: int\n"
    run_cell(row, names)
    run_cell(f"{future}def use(rows: list[Row]):\n    'Use.'\n    return rows\n", names)
    run_cell(row + "    m: int = 7\n", names)
    run_cell("made = tool(use)", names)
    before = names["made"].run({"rows": [{"n": 1}]}, EXECUTION)
    run_cell(row + "    m: int = 8\n", names)
    after = names["made"].run({"rows": [{"n": 1}]}, EXECUTION)

    assert "m" in names["made"].parameters["properties"]["rows"]["items"]["properties"]
    assert (before[0].m, after[0].m) == (7, 8)
    assert type(after[0]) is names["Row"]


def test_a_hint_that_names_nothing_is_refused_with_its_parameter() -> None:
    with pytest.raises(ToolDefinitionError, match=r"'list\[Nowhere\]' of the parameter 'value'"):
        made("list[Nowhere]")


@pytest.mark.parametrize("hint", [Callable[[], int], asyncio.Event, list[asyncio.Event]])
def test_a_hint_without_a_json_schema_is_refused_with_its_parameter(hint: object) -> None:
    with pytest.raises(ToolDefinitionError, match=r"parameter 'value' has the hint .*no JSON"):
        made(hint)


class Counter:
    def add(self, n: int, by: int = 1) -> int:
        """Add."""
        return n + by

    def __call__(self, n: int) -> int:
        """Call."""
        return n


def test_methods_partials_and_callable_objects_become_tools() -> None:
    method = tool(Counter().add)
    bound = tool(functools.partial(Counter().add, 5))
    keyword = tool(functools.partial(Counter().add, by=10))
    instance = tool(Counter())

    assert [made.name for made in (method, bound, keyword, instance)] == [
        "add",
        "add",
        "add",
        "Counter",
    ]
    assert list(bound.parameters["properties"]) == ["by"]
    assert list(keyword.parameters["properties"]) == ["n"]
    assert method.run({"n": 1}, EXECUTION) == 2
    assert bound.run({"by": 2}, EXECUTION) == 7
    assert keyword.run({"n": 1}, EXECUTION) == 11
    assert instance.run({"n": 4}, EXECUTION) == 4


async def test_async_functions_and_generators_are_returned_as_they_are() -> None:
    async def later(n: int) -> int:
        """Later."""
        return n

    def count(n: int) -> Any:
        """Count."""
        yield from range(n)

    coroutine = tool(later)

    assert coroutine.function is later
    assert await coroutine.run({"n": 3}, EXECUTION) == 3
    assert list(tool(count).run({"n": 2}, EXECUTION)) == [0, 1]


def test_a_parameter_for_the_execution_is_filled_and_not_asked_for() -> None:
    @tool
    def who(n: int, execution: ToolExecution, other: ToolExecution | None = None) -> object:
        """Tell."""
        return n, execution, other

    assert list(who.parameters["properties"]) == ["n"]
    assert who.run({"n": 1}, EXECUTION) == (1, EXECUTION, EXECUTION)
    with pytest.raises(ToolArgumentError, match="no argument 'execution'"):
        who.run({"n": 1, "execution": {}}, EXECUTION)


DOCSTRINGS = {
    "google": "Find a\nplace.\n\nArgs:\n    n: How many:\n\n        - one\n        - two\n",
    "google with a type": (
        "Find a place.\n\nArgs:\n    n (int): How many:\n\n        - one\n        - two"
    ),
    "google without a blank line": (
        "Find a place.\nArgs:\n    n: How many:\n\n        - one\n        - two"
    ),
    "google after a note": (
        "Find a place.\n\nMore of it.\n\nNote:\n    Slow.\n\n"
        "Args:\n    n: How many:\n\n        - one\n        - two\n\nReturns:\n    It."
    ),
    "numpy": (
        "Find a place.\n\nParameters\n----------\nn : int\n    How many:\n\n"
        "    - one\n    - two\n\nReturns\n-------\nint\n    It."
    ),
    "rest": "Find a place.\n\n:param n: How many:\n\n    - one\n    - two\n:returns: it",
}


@pytest.mark.parametrize("text", DOCSTRINGS.values(), ids=DOCSTRINGS.keys())
def test_each_docstring_style_gives_the_same_schema(text: str) -> None:
    def find(n: int) -> int:
        return n

    find.__doc__ = text
    found = tool(find)

    assert found.description == "Find a place."
    assert found.parameters["properties"]["n"] == {
        "type": "integer",
        "description": "How many:\n- one\n- two",
    }


def test_a_docstring_without_a_summary_still_describes_parameters() -> None:
    def find(n: int) -> int:
        return n

    find.__doc__ = "Args:\n    n: How many."
    with pytest.warns(UserWarning, match="'find' has no description"):
        found = tool(find)

    assert found.description == ""
    assert found.parameters["properties"]["n"]["description"] == "How many."


def test_a_missing_docstring_warns_and_a_given_description_does_not() -> None:
    def bare(n: int) -> int:
        return n

    with pytest.warns(UserWarning, match="'bare' has no description"):
        tool(bare)
    assert tool(bare, description="Given.").description == "Given."


def test_the_decorator_takes_arguments() -> None:
    @tool(name="other-name", parallel=True, main_thread=True, timeout_seconds=2.5)
    def function(n: int) -> int:
        """Do."""
        return n

    assert (function.name, function.parallel, function.main_thread) == ("other-name", True, True)
    assert function.timeout_seconds == 2.5


@pytest.mark.parametrize("approve", [True, False, "ask", lambda arguments: True, bool.__call__])
def test_a_tool_keeps_what_it_says_about_approval(approve: Any) -> None:
    assert tool(returns, approve=approve).approve is approve


class AsyncCondition:
    async def __call__(self, arguments: object) -> bool:
        return True


async def async_condition(arguments: object) -> bool:
    return True


@pytest.mark.parametrize(
    "approve",
    [
        None,
        1,
        "always",
        ["ask"],
        bool,
        async_condition,
        functools.partial(async_condition),
        AsyncCondition(),
    ],
)
def test_what_cannot_say_what_needs_approval_is_refused(approve: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"approve of the tool 'returns' is .*; pass"):
        tool(returns, approve=approve)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "café", "ok\n"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="1 to 64 characters"):
        tool(returns, name=name)


@pytest.mark.parametrize("value", [3, int, Part])
def test_only_functions_become_tools(value: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="no function"):
        tool_of(value)


def test_tool_of_gives_a_tool_as_it_is() -> None:
    made_once = tool(returns)

    assert tool_of(made_once) is made_once
    assert tool_of(returns).name == "returns"
