"""The tool registry: names, the waterfall, arguments, and what the prompt is told."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest

from dsh_nb.agent.prompt import SYSTEM_PROMPT, SystemPrompt
from dsh_nb.core import CORE_ERROR, Context, Proceed
from dsh_nb.errors import DisposedError, ToolDefinitionError, ToolTakenError, WrongThreadError
from dsh_nb.llm.scripted import ScriptedModel, call, say
from dsh_nb.messages import JsonObject, TextBlock, ToolSchema, text_of
from dsh_nb.session.events import ToolResult, ToolStart
from dsh_nb.testing import running_agent
from dsh_nb.tools.events import TOOLS_CHANGE, TOOLS_EXECUTE
from dsh_nb.tools.registry import TOOLS, ToolRegistry, parse_arguments
from dsh_nb.tools.schema import tool
from dsh_nb.tools.tool import Tool, ToolCall, ToolExecution, ToolOutcome


@pytest.fixture
async def tools() -> AsyncIterator[ToolRegistry]:
    ctx = Context()
    await ctx.plugin(ToolRegistry)
    yield ctx.get(TOOLS)
    await ctx.dispose()


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def sub(a: int, b: int) -> int:
    """Subtract."""
    return a - b


ADD = tool(add).schema
SUB = tool(sub).schema


async def run(tools: ToolRegistry, name: str, arguments: object) -> tuple[bool, str]:
    """Whether a call failed, and its text."""
    outcome = await tools.execute(ToolCall(id="c1", name=name, arguments=arguments))
    return outcome.is_error, text_of(outcome.content)


@pytest.mark.rule("T1")
async def test_tool_is_called_with_arguments_and_execution(tools: ToolRegistry) -> None:
    seen: list[object] = []

    def plain(arguments: JsonObject, execution: ToolExecution) -> str:
        seen.append((arguments, execution.call))
        return "done"

    tools.register(Tool(name="t", description="T.", parameters={"type": "object"}, run=plain))
    made = ToolCall(id="c1", name="t", arguments={"x": 1}, agent="main", turn=2, step=3)
    outcome = await tools.execute(made)

    assert outcome == ToolOutcome(content=(TextBlock("done"),))
    assert seen == [({"x": 1}, made)]


@pytest.mark.rule("T1")
async def test_prompt_is_told_the_schemas_by_name_without_being_asked(tools: ToolRegistry) -> None:
    ctx = tools.ctx
    tools.register(sub)
    await ctx.plugin(SystemPrompt)
    tools.register(add)
    prompt = ctx.get(SYSTEM_PROMPT)

    both = (await prompt.assemble("main")).tools
    undo = tools.register(add, replace=True)
    undo()

    assert both == tools_of(ADD, SUB)
    assert (await prompt.assemble("main")).tools == tools_of(SUB)


def tools_of(*schemas: ToolSchema) -> tuple[ToolSchema, ...]:
    return schemas


@pytest.mark.rule("T1", "C2")
async def test_new_prompt_service_is_told_the_schemas_once() -> None:
    ctx = Context()
    first = await ctx.plugin(SystemPrompt)
    await ctx.plugin(ToolRegistry)
    ctx.get(TOOLS).register(add)

    await first.dispose()
    await ctx.plugin(SystemPrompt)

    assert (await ctx.get(SYSTEM_PROMPT).assemble("main")).tools == tools_of(ADD)
    await ctx.dispose()


@pytest.mark.rule("T1")
def test_taken_name_is_refused_and_the_first_tool_stays(tools: ToolRegistry) -> None:
    first = tool(add)
    tools.register(first)

    with pytest.raises(ToolTakenError, match="a tool 'add' is registered already; pass replace"):
        tools.register(add)
    assert tools.list() == [first]


def test_function_that_cannot_become_a_tool_registers_nothing(tools: ToolRegistry) -> None:
    with pytest.raises(ToolDefinitionError, match="is no function"):
        tools.register(3)  # type: ignore[arg-type]  # what is tested
    assert tools.list() == []


@pytest.mark.rule("C4")
def test_replaced_tool_does_not_take_its_successor_away(tools: ToolRegistry) -> None:
    first, second = tool(add), tool(add)
    undo_first = tools.register(first)
    undo_second = tools.register(second, replace=True)

    undo_first()
    kept = tools.get("add")
    undo_second()

    assert (kept is second, tools.get("add")) == (True, None)


@pytest.mark.rule("C4")
def test_tool_registered_again_outlives_its_first_registration(tools: ToolRegistry) -> None:
    made = tool(add)
    undo_first = tools.register(made)
    tools.register(made, replace=True)

    undo_first()

    assert tools.list() == [made]


@pytest.mark.rule("C4")
async def test_tool_goes_with_the_fiber_that_registered_it(tools: ToolRegistry) -> None:
    def plugin(ctx: Context) -> None:
        tools.register(add, ctx=ctx)

    fiber = tools.ctx.plugin(plugin)
    there = tools.schemas()
    await fiber.dispose()

    assert (there, tools.schemas()) == ((ADD,), ())


@pytest.mark.rule("C4")
async def test_registering_for_a_fiber_that_is_gone_registers_nothing(tools: ToolRegistry) -> None:
    fiber = tools.ctx.plugin(lambda ctx: None, name="gone")
    await fiber.dispose()

    with pytest.raises(DisposedError, match="plugin 'gone' is disposed"):
        tools.register(add, ctx=fiber.ctx)
    assert tools.list() == []


@pytest.mark.rule("C4")
def test_each_coming_and_going_is_told_once(tools: ToolRegistry) -> None:
    told: list[list[str]] = []
    tools.ctx.on(TOOLS_CHANGE, lambda: told.append([one.name for one in tools.list()]))

    undo = tools.register(sub)
    tools.register(add)
    undo()
    undo()

    assert told == [["sub"], ["add", "sub"], ["add"]]


@pytest.mark.rule("C8")
async def test_registering_from_another_thread_is_refused(tools: ToolRegistry) -> None:
    refused: list[str] = []

    def elsewhere() -> None:
        try:
            tools.register(add)
        except WrongThreadError as error:
            refused.append(str(error))

    thread = threading.Thread(target=elsewhere, name="elsewhere")
    thread.start()
    thread.join()

    assert refused[0].startswith("tools.register was called from thread 'elsewhere'")
    assert tools.list() == []


def test_only_tools_that_say_so_may_run_at_once(tools: ToolRegistry) -> None:
    tools.register(tool(add, parallel=True))
    tools.register(sub)
    tools.register(tool(add, name="main", parallel=True, main_thread=True))

    assert [tools.parallel(name) for name in ("add", "sub", "main", "none")] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.rule("T2")
async def test_unknown_tool_is_told_with_near_names_or_all(tools: ToolRegistry) -> None:
    tools.register(tool(add, name="get_weather"))
    tools.register(sub)

    near = await run(tools, "get_wether", {})
    far = await run(tools, "xyzzy", {})

    assert near == (True, "there is no tool 'get_wether'; did you mean ['get_weather']")
    assert far == (True, "there is no tool 'xyzzy'; the tools are ['get_weather', 'sub']")


@pytest.mark.rule("T2")
async def test_bad_arguments_are_told_and_the_tool_does_not_run(tools: ToolRegistry) -> None:
    ran: list[int] = []

    def once(a: int) -> None:
        """Run."""
        ran.append(a)

    tools.register(once)
    failed, text = await run(tools, "once", {"a": "many", "c": 1})

    assert (failed, ran) == (True, [])
    assert "'a'" in text
    assert "'c'" in text


@pytest.mark.rule("T2", "T3")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"a": 1', "'{\"a\": 1'"),
        ([1, 2], "'[1, 2]'"),
        (None, "'null'"),
        ("x" * 1_000, f"'{'x' * 150} … {'x' * 50}'"),
    ],
)
async def test_arguments_that_are_no_object_are_quoted(
    tools: ToolRegistry, arguments: object, shown: str
) -> None:
    tools.register(add)

    failed, text = await run(tools, "add", arguments)

    assert failed
    assert text == (
        f"the arguments of 'add' are not one JSON object: {shown}; "
        "the tool was not run, send the call again with a JSON object"
    )


@pytest.mark.rule("T3")
@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ('{"a": [1, "ü"]}', {"a": [1, "ü"]}),
        ("[1]", [1]),
        ("null", None),
        ('{"a": 1', '{"a": 1'),
        ("{'a': 1}", "{'a': 1}"),
        ('{"a": 1} {"a": 2}', '{"a": 1} {"a": 2}'),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": -Infinity}', '{"a": -Infinity}'),
        pytest.param("9" * 5_000, "9" * 5_000, id="too many digits"),
        pytest.param("[" * 100_000, "[" * 100_000, id="too deep"),
    ],
)
def test_arguments_are_decoded_or_left_as_text(text: str, parsed: object) -> None:
    assert parse_arguments(text) == parsed


@pytest.mark.rule("T3", "T2")
async def test_raw_text_reaches_the_waterfall_where_it_may_be_mended() -> None:
    seen: list[object] = []

    async def mend(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        seen.append(call.arguments)
        return await proceed(
            ToolCall(id=call.id, name=call.name, arguments={"a": 2}, agent=call.agent)
        )

    model = ScriptedModel(
        [[call("add", arguments_text='{"a": '), call("add", arguments_text="")], say("ok")]
    )
    async with running_agent(model, tools=[add]) as test:
        test.ctx.on(TOOLS_EXECUTE, mend)
        await test.say("hi")

        data = [one.data for one in test.log]
        assert seen == ['{"a": ', {}]
        assert [one.arguments for one in data if isinstance(one, ToolStart)] == ['{"a": ', ""]
        assert [text_of(one.content) for one in data if isinstance(one, ToolResult)] == ["3", "3"]


@pytest.mark.rule("T3", "L6")
async def test_absurdly_nested_arguments_are_a_result_and_the_turn_goes_on() -> None:
    model = ScriptedModel([call("add", arguments_text="[" * 100_000), say("ok")])
    async with running_agent(model, tools=[add]) as test:
        await test.say("hi")

        [result] = [one.data for one in test.log if isinstance(one.data, ToolResult)]
        assert (result.outcome, len(model.requests)) == ("error", 2)


@pytest.mark.rule("T2")
async def test_listener_may_veto_a_call(tools: ToolRegistry) -> None:
    ran: list[int] = []

    def once() -> None:
        """Run."""
        ran.append(1)

    async def veto(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        return ToolOutcome(content=(TextBlock(f"{call.name} is forbidden"),), is_error=True)

    tools.register(once)
    tools.ctx.on(TOOLS_EXECUTE, veto)

    assert await run(tools, "once", {}) == (True, "once is forbidden")
    assert ran == []


@pytest.mark.rule("T2")
async def test_listener_may_change_the_call_and_its_outcome(tools: ToolRegistry) -> None:
    async def change(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        outcome = await proceed(ToolCall(id=call.id, name="sub", arguments={"a": 9, "b": 2}))
        return ToolOutcome(content=(*outcome.content, TextBlock("!")))

    tools.register(add)
    tools.register(sub)
    tools.ctx.on(TOOLS_EXECUTE, change)

    assert await run(tools, "add", {"a": 1}) == (False, "7!")


@pytest.mark.rule("T2")
async def test_listener_sees_calls_of_unknown_tools_too(tools: ToolRegistry) -> None:
    seen: list[str] = []

    async def watch(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        outcome = await proceed()
        seen.append(f"{call.name} {outcome.is_error}")
        return outcome

    tools.ctx.on(TOOLS_EXECUTE, watch)
    await run(tools, "nothing", "raw")

    assert seen == ["nothing True"]


@pytest.mark.rule("T2")
async def test_failing_listener_is_a_result_and_is_reported(tools: ToolRegistry) -> None:
    reported: list[str] = []
    tools.ctx.on(CORE_ERROR, lambda error, doing: reported.append(f"{doing}: {error}"))

    async def broken(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
        raise RuntimeError("no policy")

    tools.register(add)
    tools.ctx.on(TOOLS_EXECUTE, broken)
    failed, text = await run(tools, "add", {"a": 1})

    assert (failed, text.splitlines()[0]) == (True, "RuntimeError: no policy")
    assert reported == ["a listener of 'tools/execute': no policy"]


@pytest.mark.rule("T2")
async def test_listener_that_returns_no_outcome_does_not_end_the_turn() -> None:
    model = ScriptedModel([call("add", a=1), say("ok")])
    async with running_agent(model, tools=[add]) as test:

        async def forgetful(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
            await proceed()
            return None  # type: ignore[return-value]  # what people do

        test.ctx.on(TOOLS_EXECUTE, forgetful)
        await test.say("hi")

        [result] = [one.data for one in test.log if isinstance(one.data, ToolResult)]
        assert (result.is_error, len(model.requests)) == (True, 2)
