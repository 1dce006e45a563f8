"""The system prompt: sections in order, schemas, one assembly a step."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dsh_nb.agent.agent_loop import AgentOptions
from dsh_nb.agent.prompt import (
    SYSTEM_PROMPT,
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_CHANGE,
    Prompt,
    SystemPrompt,
)
from dsh_nb.core import Context, Proceed
from dsh_nb.errors import DisposedError
from dsh_nb.llm.scripted import ScriptedModel, call, say
from dsh_nb.messages import ToolSchema
from dsh_nb.testing import running_agent

SCHEMA = ToolSchema("t", "T.", {"type": "object"})
OTHER = ToolSchema("u", "U.", {"type": "object"})


@pytest.fixture
async def prompt() -> AsyncIterator[SystemPrompt]:
    ctx = Context()
    await ctx.plugin(SystemPrompt)
    yield ctx.get(SYSTEM_PROMPT)
    await ctx.dispose()


async def system(prompt: SystemPrompt) -> str:
    return (await prompt.assemble("main")).system


@pytest.mark.rule("T4")
async def test_sections_stand_by_order_and_then_as_they_were_added(prompt: SystemPrompt) -> None:
    prompt.add("last", order=10)
    prompt.add("one")
    prompt.add("two")
    prompt.add("first", order=-0.5)

    assert await system(prompt) == "first\n\none\n\ntwo\n\nlast"


@pytest.mark.rule("T4")
async def test_sections_are_joined_by_one_blank_line_and_blank_ones_left_out(
    prompt: SystemPrompt,
) -> None:
    for text in ["\n  one\n", "", " \n ", "two\n\n\nthree\n\n"]:
        prompt.add(text)
    prompt.add(lambda agent: None)
    prompt.add(lambda agent: "  ")

    assert await system(prompt) == "one\n\ntwo\n\n\nthree"


async def test_prompt_without_sections_is_empty(prompt: SystemPrompt) -> None:
    assert await prompt.assemble("main") == Prompt("", ())


@pytest.mark.rule("T4")
async def test_function_is_asked_at_each_assembly_for_the_agent(prompt: SystemPrompt) -> None:
    asked: list[str] = []

    def text(agent: str) -> str:
        asked.append(agent)
        return f"{agent} {len(asked)}"

    prompt.add(text)
    said = [(await prompt.assemble(agent)).system for agent in ("a", "b", "a")]

    assert (said, asked) == (["a 1", "b 2", "a 3"], ["a", "b", "a"])


@pytest.mark.rule("T4")
async def test_schemas_are_asked_for_at_each_assembly_in_the_order_of_their_providers(
    prompt: SystemPrompt,
) -> None:
    offered = [SCHEMA]
    prompt.add_schemas(lambda: offered)
    prompt.add_schemas(lambda: (OTHER,))
    before = (await prompt.assemble("main")).tools

    offered.clear()

    assert (before, (await prompt.assemble("main")).tools) == ((SCHEMA, OTHER), (OTHER,))


@pytest.mark.rule("T4")
async def test_listener_may_change_the_prompt(prompt: SystemPrompt) -> None:
    async def plan_mode(agent: str, proceed: Proceed[Prompt]) -> Prompt:
        assembled = await proceed()
        return Prompt(f"{assembled.system}\n\nPlan only, {agent}.", ())

    prompt.add("Be brief.")
    prompt.add_schemas(lambda: [SCHEMA])
    prompt.ctx.on(SYSTEM_PROMPT_ASSEMBLE, plan_mode)

    assert await prompt.assemble("main") == Prompt("Be brief.\n\nPlan only, main.", ())


@pytest.mark.rule("T4")
async def test_prompt_is_assembled_once_a_step_and_sent_as_it_is_then() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    model = ScriptedModel([call("add", a=1), say("a"), say("b")])
    async with running_agent(model, tools=[add]) as test:
        assembled: list[str] = []

        async def count(agent: str, proceed: Proceed[Prompt]) -> Prompt:
            assembled.append(agent)
            return await proceed()

        test.ctx.on(SYSTEM_PROMPT_ASSEMBLE, count)
        test.ctx.get(SYSTEM_PROMPT).add(lambda agent: f"Step {len(assembled)}.")
        await test.say("hi")
        await test.say("again")

        assert assembled == ["main"] * 3
        assert [one.system for one in model.requests] == ["Step 1.", "Step 2.", "Step 3."]


@pytest.mark.rule("T4")
async def test_agents_own_section_stands_first_and_only_in_its_prompt() -> None:
    options = AgentOptions(system_prompt="You are main.")
    async with running_agent(ScriptedModel([say("a")]), options=options) as test:
        prompt = test.ctx.get(SYSTEM_PROMPT)
        prompt.add("For all.")

        assert (await prompt.assemble("main")).system == "You are main.\n\nFor all."
        assert (await prompt.assemble("other")).system == "For all."
        await test.agent.dispose()
        assert (await prompt.assemble("main")).system == "For all."


@pytest.mark.rule("C4")
async def test_disposers_take_back_exactly_their_own_once(prompt: SystemPrompt) -> None:
    told: list[int] = []
    prompt.ctx.on(SYSTEM_PROMPT_CHANGE, lambda: told.append(len(told)))
    undo_first = prompt.add("same")
    prompt.add("same")
    undo_schemas = prompt.add_schemas(lambda: [SCHEMA])

    for undo in (undo_first, undo_first, undo_schemas, undo_schemas):
        undo()

    assert await prompt.assemble("main") == Prompt("same", ())
    assert len(told) == 5


@pytest.mark.rule("C4")
async def test_sections_and_schemas_go_with_the_fiber_that_added_them(
    prompt: SystemPrompt,
) -> None:
    def plugin(ctx: Context) -> None:
        prompt.add("Be brief.", ctx=ctx)
        prompt.add_schemas(lambda: [SCHEMA], ctx=ctx)

    fiber = prompt.ctx.plugin(plugin)
    there = await prompt.assemble("main")
    await fiber.dispose()

    assert there == Prompt("Be brief.", (SCHEMA,))
    assert await prompt.assemble("main") == Prompt("", ())


@pytest.mark.rule("C4")
async def test_adding_for_a_fiber_that_is_gone_adds_nothing(prompt: SystemPrompt) -> None:
    fiber = prompt.ctx.plugin(lambda ctx: None, name="gone")
    await fiber.dispose()

    with pytest.raises(DisposedError, match="plugin 'gone' is disposed"):
        prompt.add("Be brief.", ctx=fiber.ctx)
    with pytest.raises(DisposedError, match="plugin 'gone' is disposed"):
        prompt.add_schemas(lambda: [SCHEMA], ctx=fiber.ctx)
    assert await prompt.assemble("main") == Prompt("", ())
