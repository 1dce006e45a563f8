"""Tools answered from a log: which call gets which result, and that nothing runs."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from dsh_nb.core import Context
from dsh_nb.llm.scripted import ScriptedModel, Step, call, say
from dsh_nb.messages import TextBlock, ToolCallBlock, text_of
from dsh_nb.plugins.permission import permission
from dsh_nb.plugins.rerun.recorded_tools import RecordedTools, recorded_tools
from dsh_nb.session.events import SessionEvent, ToolResult
from dsh_nb.testing import LogBuilder, running_agent
from dsh_nb.tools.tool import ToolCall, ToolOutcome


def recorded(*calls: tuple[str, str, str]) -> LogBuilder:
    """A step with calls: id, arguments and result of each."""
    log = LogBuilder().user("go").turn().step()
    log.says(*(ToolCallBlock(id, "add", arguments) for id, arguments, _ in calls))
    for id, arguments, result in calls:
        log.call(id, "add", arguments).result(id, result)
    return log


def asked(id: str, arguments: object = None, name: str = "add") -> ToolCall:
    return ToolCall(id=id, name=name, arguments={} if arguments is None else arguments)


def taken(tools: RecordedTools, *calls: ToolCall) -> list[str | None]:
    outcomes = [tools.take(one) for one in calls]
    return [None if one is None else text_of(one.content) for one in outcomes]


def test_call_is_known_again_by_its_id() -> None:
    tools = RecordedTools(recorded(("c1", "{}", "first"), ("c2", "{}", "second")).events)

    assert taken(tools, asked("c2"), asked("c1"), asked("c1")) == ["second", "first", None]


def test_call_with_another_id_is_known_by_its_arguments_in_order() -> None:
    calls = [("c1", '{"a":1,"b":2}', "first"), ("c2", ' {"b": 2, "a": 1}', "second")]
    tools = RecordedTools(recorded(*calls).events)
    again = asked("x", {"b": 2, "a": 1})

    assert taken(tools, again, again, again) == ["first", "second", None]


def test_result_is_given_once() -> None:
    tools = RecordedTools(recorded(("c1", "{}", "first"), ("c2", "{}", "second")).events)

    assert taken(tools, asked("c1"), asked("x"), asked("y")) == ["first", "second", None]


@pytest.mark.parametrize("other", [asked("c1", {"a": 2}), asked("c1", name="sub"), asked("c9", 1)])
def test_call_that_says_something_else_is_not_known(other: ToolCall) -> None:
    tools = RecordedTools(recorded(("c1", "{}", "first")).events)

    assert taken(tools, other) == [None]


def test_arguments_that_are_no_json_are_compared_as_they_are() -> None:
    tools = RecordedTools(recorded(("c1", '{"a": ', "bad")).events)

    assert taken(tools, asked("x", '{"a": ')) == ["bad"]


@pytest.mark.parametrize("outcome", ["ok", "error", "denied", "interrupted"])
def test_outcome_comes_again_with_all_that_was_shown(outcome: str) -> None:
    log = LogBuilder().user("go").turn().step().says(ToolCallBlock("c1", "add", "{}"))
    content, display = (TextBlock("told"),), {"text/html": "<b>shown</b>"}
    wrong = outcome != "ok"
    log.add("tool/result", ToolResult(1, 1, "c1", content, wrong, outcome, display, "whole"))

    assert RecordedTools(log.events).take(asked("c1")) == ToolOutcome(
        content=content,
        is_error=wrong,
        display=display,
        overflow="whole",
        interrupted=outcome == "interrupted",
        denied=outcome == "denied",
    )


STEPS: list[Step] = [[call("add", a=1, b=2), call("add", a=2, b=2)], say("ok")]


async def results(
    log: list[SessionEvent],
    *,
    agent: str | None = None,
    otherwise: Literal["fail", "run"] = "fail",
) -> tuple[list[str], list[int]]:
    """What the model was told, and which tools ran; nobody is there to approve any."""
    ran: list[int] = []

    def add(a: int, b: int) -> int:
        """Add."""
        ran.append(a)
        return a + b

    def answer(ctx: Context) -> None:
        recorded_tools(ctx, log, agent=agent, otherwise=otherwise)

    def gate(ctx: Context) -> None:
        rule: dict[str, Any] = {"tool": "add", "decision": "ask"}
        ctx.plugin(permission, {"rules": [rule] if otherwise == "fail" and agent is None else []})

    async with running_agent(ScriptedModel(STEPS), tools=[add], plugins=[gate, answer]) as test:
        await test.say("go")
        data = [event.data for event in test.agent.session]
    return [text_of(one.content) for one in data if isinstance(one, ToolResult)], ran


async def test_recorded_call_runs_nothing_and_asks_nobody() -> None:
    calls = [("call_1", '{"a": 1, "b": 2}', "three"), ("call_2", '{"a": 2, "b": 2}', "four")]

    assert await results(recorded(*calls).events) == (["three", "four"], [])


async def test_call_that_was_not_recorded_fails_and_the_model_is_told() -> None:
    told, ran = await results(recorded(("call_1", '{"a": 1, "b": 2}', "three")).events)

    text = "no result of 'add' with these arguments was recorded; the tool was not run"
    assert (told, ran) == (["three", text], [])


async def test_call_that_was_not_recorded_runs_where_that_is_wanted() -> None:
    log = recorded(("call_1", '{"a": 1, "b": 2}', "three")).events

    assert await results(log, otherwise="run") == (["three", "4"], [2])


async def test_calls_of_other_agents_are_left_alone() -> None:
    log = recorded(("call_1", '{"a": 1, "b": 2}', "three")).events

    assert await results(log, agent="other") == (["3", "4"], [1, 2])
    assert await results(log, agent="main", otherwise="run") == (["three", "4"], [2])
