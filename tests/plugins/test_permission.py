"""Permission: what the rules cover, how a person's answer binds, and what the log says of it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentLoop, AgentOptions
from dsh_nb.agent.prompt import SystemPrompt
from dsh_nb.core import CORE_ERROR, Context, Fiber, Proceed
from dsh_nb.errors import ConfigError
from dsh_nb.llm.scripted import ScriptedModel, Step, call, say
from dsh_nb.messages import JsonObject, text_of
from dsh_nb.plugins.permission import (
    PERMISSION,
    PERMISSION_ASKED,
    PERMISSION_DECIDED,
    Ask,
    Decision,
    Permission,
    Remember,
    Rule,
    Rules,
    digest_of,
    permission,
)
from dsh_nb.session.check import check_log
from dsh_nb.session.events import ToolResult, TurnEnd, TurnReason
from dsh_nb.session.session import Session
from dsh_nb.tables.tool_calls import tool_calls
from dsh_nb.testing import TestAgent, running_agent
from dsh_nb.testing.logs import LogBuilder
from dsh_nb.tools.events import TOOLS_EXECUTE
from dsh_nb.tools.registry import TOOLS, ToolRegistry
from dsh_nb.tools.schema import tool
from dsh_nb.tools.tool import Approve, Tool, ToolCall, ToolOutcome

ASK = {"rules": [{"tool": "shell", "decision": "ask"}]}
STATUS = "git status"


@dataclass
class Gated:
    """An agent whose calls of ``shell`` pass the gate, and what came of them."""

    test: TestAgent
    gate: Permission
    fiber: Fiber
    ran: list[str] = field(default_factory=list)
    live: list[tuple[str, str]] = field(default_factory=list)

    async def asked(self, count: int = 1) -> tuple[Ask, ...]:
        """What waits, once as many calls wait."""
        async with asyncio.timeout(5):
            while True:
                asks = self.gate.pending()
                if len(asks) >= count:
                    return asks
                await asyncio.sleep(0)

    @property
    def decided(self) -> list[JsonObject]:
        """The decisions in the log, without what binds them to their calls."""
        place = {"turn", "step", "callId", "id"}
        events = [one.data for one in self.test.log if one.type == "approval/decided"]
        return [{key: data[key] for key in data if key not in place} for data in events]

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """What the agent's session remembers."""
        return self.gate.remembered(self.test.agent.session)

    @property
    def results(self) -> list[tuple[str, str]]:
        """Outcome and text of each result, in log order."""
        found = [one.data for one in self.test.log if isinstance(one.data, ToolResult)]
        return [(one.outcome, text_of(one.content)) for one in found]

    def check(self) -> None:
        """The log holds, and each question has its one answer."""
        check_log(self.test.log, ended=True)
        asked = [one.data["id"] for one in self.test.log if one.type == "approval/asked"]
        decided = [one.data["id"] for one in self.test.log if one.type == "approval/decided"]
        assert sorted(asked) == sorted(decided)
        assert self.gate.pending() == ()


def shell_of(ran: list[str], approve: Approve = False) -> Tool:
    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return f"ran {command}"

    return tool(shell, parallel=True, approve=approve)


@asynccontextmanager
async def gated(
    *steps: Step, config: JsonObject | None = None, approve: Approve = False
) -> AsyncIterator[Gated]:
    ran: list[str] = []
    model = ScriptedModel([*steps, say("done")])
    async with running_agent(model, tools=[shell_of(ran, approve)]) as test:
        fiber = await test.ctx.plugin(permission, ASK if config is None else config)
        case = Gated(test, test.ctx.get(PERMISSION), fiber, ran)
        test.ctx.on(PERMISSION_ASKED, lambda ask: case.live.append(("asked", ask.id)))
        test.ctx.on(PERMISSION_DECIDED, lambda ask, outcome: case.live.append((outcome, ask.id)))
        yield case


def sh(command: str) -> Any:
    return call("shell", command=command)


# What rules cover.


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        (Rule.exact("shell", {"command": STATUS}), STATUS, True),
        (Rule.exact("shell", {"command": STATUS}), f"{STATUS} && rm x", False),
        (Rule.exact("shell", {"command": STATUS}), f"{STATUS}x", False),
        (Rule.exact("shell", {"command": STATUS}), f"{STATUS} $(rm x)", False),
        (Rule.exact("shell", {"command": STATUS}), f"{STATUS}\nrm x", False),
        (Rule.exact("shell", {"command": STATUS}), f"{STATUS}\n", False),
        (Rule.exact("shell", {"command": "python"}), "python -c 'rm()'", False),
        (Rule.exact("shell", {"command": "ls *"}), "ls /etc", False),
        (Rule(arguments={"command": STATUS}, decision="allow"), STATUS, True),
        (Rule(arguments={"command": STATUS}, decision="allow"), f"{STATUS}\n", False),
        (Rule(arguments={"command": STATUS}, decision="allow"), f"{STATUS}\nrm x", False),
        (Rule(arguments={"command": STATUS}, decision="allow"), f"rm x\n{STATUS}", False),
        (Rule(arguments={"command": STATUS}, decision="allow"), "GIT STATUS", False),
        # a glob is what it says: people who mean one command write it in full
        (Rule(arguments={"command": f"{STATUS}*"}, decision="allow"), f"{STATUS} && rm x", True),
        (Rule(arguments={"command": f"{STATUS}*"}, decision="allow"), f"{STATUS}\nrm x", True),
    ],
)
def test_rule_covers_whole_values(rule: Rule, command: str, matches: bool) -> None:
    found = rule.matches("shell", {"command": command})

    assert found is matches


@pytest.mark.parametrize(
    ("rule", "name", "arguments", "matches"),
    [
        (Rule(tool="read_*", decision="allow"), "read_file", {}, True),
        (Rule(tool="read_*", decision="allow"), "reader", {}, False),
        (Rule(tool="read", decision="allow"), "read_file", {}, False),
        (Rule(arguments={"path": "*"}, decision="deny"), "read", {}, False),
        (Rule(arguments={"path": "*"}, decision="deny"), "read", {"path": ""}, True),
        (Rule(arguments={"path": "*"}, decision="deny"), "read", '{"path": "x"}', False),
        (Rule(arguments={"path": "/tmp/*"}, decision="allow"), "read", {"path": "/etc"}, False),
        (Rule(arguments={"force": "true"}, decision="deny"), "rm", {"force": True}, True),
        (Rule(arguments={"n": "1"}, decision="deny"), "rm", {"n": 1, "other": 2}, True),
        (Rule(arguments={"files": '*"a"*'}, decision="deny"), "rm", {"files": ["a", "b"]}, True),
        (Rule(arguments={"a": "*", "b": "1"}, decision="deny"), "rm", {"a": 1, "b": 2}, False),
        (Rule.exact("rm", {"a": 1, "b": 2}), "rm", {"b": 2, "a": 1}, True),
        (Rule.exact("rm", {"a": 1}), "rm", {"a": True}, False),
        (Rule.exact("rm", {"a": 1}), "rm", {"a": 1.0}, False),
        (Rule.exact("rm", {"a": 1}), "rm", {"a": "1"}, False),
        (Rule.exact("rm", {"a": 1}), "rm", {"a": 1, "b": None}, False),
        (Rule.exact("rm", {"a": 1}), "read", {"a": 1}, False),
        (Rule.whole("*"), "rm", {}, False),
        (Rule.whole("r[m]"), "rm", {}, False),
        (Rule.whole("r[m]"), "r[m]", {"a": 1}, True),
    ],
)
def test_rule_matches_names_and_arguments(
    rule: Rule, name: str, arguments: object, matches: bool
) -> None:
    found = rule.matches(name, arguments)

    assert found is matches


@pytest.mark.parametrize(
    ("configured", "added", "default", "decision"),
    [
        ([], [], "allow", "allow"),
        ([], [], "deny", "deny"),
        (["allow", "deny"], [], "ask", "allow"),
        (["ask", "deny"], [], "allow", "ask"),
        (["ask", "deny"], ["allow"], "deny", "allow"),
        (["deny"], ["allow"], "allow", "deny"),
        (["allow"], ["ask"], "allow", "ask"),
        (["allow"], ["allow", "deny", "ask"], "allow", "deny"),
        ([], ["allow", "ask"], "allow", "ask"),
        ([], ["allow"], "deny", "allow"),
    ],
)
def test_first_configured_match_wins_and_strictest_added_one(
    configured: list[Decision], added: list[Decision], default: Decision, decision: Decision
) -> None:
    other = Rule(tool="other", decision="deny")
    rules = Rules([other, *(Rule(decision=one) for one in configured)], default)
    for one in added:
        rules.add(Rule(decision=one))

    verdict = rules.verdict("shell", {})

    assert verdict.decision == decision
    assert (verdict.rule is None) == (not configured and not added)


def test_rule_is_added_once() -> None:
    rules = Rules([], "ask")

    rules.add(Rule.whole("rm"))
    rules.add(Rule.whole("rm"))

    assert rules.added == (Rule.whole("rm"),)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule.whole("rm"), "allow rm with any arguments"),
        (
            Rule(tool="r*", arguments={"a": "x*"}, decision="deny"),
            "deny r* where a='x*'",
        ),
        (
            Rule.exact("rm", {"a": 1}),
            f"allow rm with exactly the arguments of digest {digest_of('rm', {'a': 1})[:12]}",
        ),
    ],
)
def test_rule_says_what_it_covers(rule: Rule, text: str) -> None:
    assert str(rule) == text


async def test_bad_config_is_refused_with_plugin_and_field() -> None:
    ctx = Context()

    bad = ctx.plugin(permission, {"rules": [{"tool": "x", "decision": "maybe"}]})

    with pytest.raises(ConfigError, match=r"permission.*rules\[0\]\.decision"):
        await bad
    await ctx.dispose()


# What a person decides.


async def test_allowed_call_runs_and_leaves_no_question() -> None:
    async with gated(sh("ls"), config={}) as case:
        await case.test.say("go")

        assert (case.ran, case.decided, case.live) == (["ls"], [], [])
        case.check()


async def test_question_shows_the_whole_call() -> None:
    async with gated(sh("x" * 100_000)) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()

        block = case.test.log[-2].data
        digest = digest_of("shell", {"command": "x" * 100_000})
        assert ask == Ask(
            id=ask.id,
            call_id=block.call_id,
            agent="main",
            turn=1,
            step=1,
            tool="shell",
            arguments={"command": "x" * 100_000},
            digest=digest,
            asked_at=ask.asked_at,
        )
        assert abs(ask.asked_at - case.test.log[-1].time) < 1000
        assert case.test.log[-1].data == {
            "turn": 1,
            "step": 1,
            "callId": ask.call_id,
            "id": ask.id,
            "tool": "shell",
            "arguments": {"command": "x" * 100_000},
            "digest": digest,
        }
        case.gate.deny()
        await case.test.idle()


async def test_approved_call_runs_once() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()
        assert case.ran == []
        answers = [case.gate.approve(ask.id), case.gate.approve(ask.id), case.gate.deny(ask.id)]
        await case.test.idle()

        assert answers == [True, False, False]
        assert (case.ran, case.results) == (["ls"], [("ok", "ran ls")])
        assert case.decided == [{"outcome": "approved", "by": "user"}]
        assert case.live == [("asked", ask.id), ("approved", ask.id)]
        case.check()


async def test_approval_counts_for_one_call_alone() -> None:
    async with gated(sh("ls"), sh("ls")) as case:
        case.test.agent.send("go")
        (first,) = await case.asked()
        case.gate.approve()
        await case.test.until("approval/asked", 2)
        (second,) = case.gate.pending()

        assert (case.ran, first.digest) == (["ls"], second.digest)
        assert case.gate.approve(first.id) is False
        assert case.gate.pending() == (second,)
        case.gate.deny()
        await case.test.idle()
        assert case.ran == ["ls"]
        case.check()


@pytest.mark.parametrize(
    ("reason", "by", "text"),
    [
        ("", "user", "the user denied this call of 'shell'; the tool was not run"),
        (
            "read-only please",
            "user",
            "the user denied this call of 'shell': read-only please; the tool was not run",
        ),
        ("", "hook", "'hook' denied this call of 'shell'; the tool was not run"),
    ],
)
async def test_denied_call_tells_the_model_who_and_why(reason: str, by: str, text: str) -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.deny(reason=reason, by=by)
        await case.test.idle()

        assert (case.ran, case.results) == ([], [("denied", text)])
        said = {"reason": reason} if reason else {}
        assert case.decided == [{"outcome": "denied", "by": by, **said}]
        case.check()


async def test_denied_result_is_an_error_for_the_model() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.deny()
        await case.test.idle()

        assert [one.data.is_error for one in case.test.log if one.type == "tool/result"] == [True]


@pytest.mark.parametrize(
    ("config", "by", "why"),
    [
        (
            {"rules": [{"tool": "sh*", "decision": "deny"}]},
            "rule",
            "deny sh* with any arguments",
        ),
        ({"default": "deny"}, "default", "no rule allows it"),
    ],
)
async def test_call_that_a_rule_denies_is_not_asked_about(
    config: JsonObject, by: str, why: str
) -> None:
    async with gated(sh("ls"), config=config) as case:
        await case.test.say("go")

        text = f"this call of 'shell' is denied by a rule: {why}; the tool was not run"
        assert (case.ran, case.results, case.live) == ([], [("denied", text)], [])
        assert case.decided == [{"outcome": "rule", "by": by, "reason": why}]
        case.check()


async def test_call_nobody_decides_about_times_out() -> None:
    async with gated(sh("ls"), config={**ASK, "timeout_seconds": 0.01}) as case:
        await case.test.say("go")

        text = "nobody decided about this call of 'shell' in time (0.01 s); the tool was not run"
        assert (case.ran, case.results) == ([], [("denied", text)])
        assert case.decided == [{"outcome": "timeout", "by": "timeout", "reason": "0.01 s"}]
        case.check()


async def test_call_is_denied_when_nobody_is_there() -> None:
    async with gated(sh("ls")) as case:
        case.gate.can_ask = lambda: False
        await case.test.say("go")

        text = "calls of 'shell' need approval, and nobody is there to be asked"
        assert case.results == [("denied", f"{text}; the tool was not run")]
        assert case.decided == [
            {"outcome": "nobody", "by": "policy", "reason": "the policy is deny"}
        ]
        assert (case.ran, case.live) == ([], [])
        case.check()


async def test_policy_may_allow_what_nobody_is_there_to_decide() -> None:
    async with gated(sh("ls"), config={**ASK, "nobody": "allow"}) as case:
        case.gate.can_ask = lambda: False
        await case.test.say("go")

        assert case.results == [("ok", "ran ls")]
        assert case.decided == [
            {"outcome": "approved", "by": "policy", "reason": "nobody is there to be asked"}
        ]
        case.check()


async def test_failing_can_ask_means_that_nobody_is_there() -> None:
    async with gated(sh("ls")) as case:
        errors: list[str] = []
        case.test.ctx.on(CORE_ERROR, lambda error, doing: errors.append(repr(error)))
        case.gate.can_ask = lambda: [].pop()
        await case.test.say("go")

        assert (case.ran, case.decided[0]["outcome"]) == ([], "nobody")
        assert errors == ["IndexError('pop from empty list')"]


# Edited arguments.


async def test_edited_call_runs_with_the_edited_arguments_and_says_so() -> None:
    async with gated(sh("rm x")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(arguments={"command": "ls"})
        await case.test.idle()

        note = '(the user changed the arguments to {"command": "ls"})'
        (result,) = [one.data for one in case.test.log if isinstance(one.data, ToolResult)]
        assert case.ran == ["ls"]
        assert [text_of((block,)) for block in result.content] == [note, "ran ls"]
        assert case.decided == [
            {"outcome": "approved", "by": "user", "edited": True, "arguments": {"command": "ls"}}
        ]
        case.check()


async def test_same_arguments_are_no_edit() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(arguments={"command": "ls"})
        await case.test.idle()

        assert case.results == [("ok", "ran ls")]
        assert case.decided == [{"outcome": "approved", "by": "user"}]


async def test_edit_cannot_make_a_call_that_a_rule_denies() -> None:
    deny = {"arguments": {"command": "rm*"}, "decision": "deny"}
    async with gated(sh("ls"), config={"rules": [deny, *ASK["rules"]]}) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(arguments={"command": "rm x"}, remember=True)
        await case.test.idle()

        assert (case.ran, case.remembered) == ([], ())
        assert case.decided == [
            {
                "outcome": "rule",
                "by": "rule",
                "reason": "deny * where command='rm*'",
                "edited": True,
                "arguments": {"command": "rm x"},
            }
        ]
        case.check()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("ls", TypeError),
        (["ls"], TypeError),
        ({"command": object()}, TypeError),
        ({1: "x"}, TypeError),
        ({"command": float("nan")}, ValueError),
    ],
)
async def test_edit_that_is_no_json_object_decides_nothing(
    arguments: Any, error: type[Exception]
) -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()

        with pytest.raises(error, match="arguments"):
            case.gate.approve(arguments=arguments)
        assert case.gate.pending() == (ask,)
        case.gate.deny()
        await case.test.idle()


async def test_what_shows_a_question_cannot_change_what_runs() -> None:
    async with gated(sh("ls"), sh("rm x")) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()
        ask.arguments["command"] = "rm x"
        case.gate.approve(remember=True)
        await case.test.until("approval/asked", 2)

        assert case.ran == ["ls"]
        case.gate.deny()
        await case.test.idle()


# Remembered approvals.


async def test_remembered_approval_covers_exactly_what_was_seen() -> None:
    async with gated(sh(STATUS), sh(STATUS), sh(f"{STATUS} && rm x")) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()
        case.gate.approve(remember=True)
        await case.test.until("approval/asked", 2)

        assert case.remembered == (ask.rule(),) == (Rule.exact("shell", ask.arguments),)
        assert case.ran == [STATUS, STATUS]
        assert case.decided == [{"outcome": "approved", "by": "user", "remembered": True}]
        case.gate.deny()
        await case.test.idle()
        case.check()


async def test_remembered_edit_covers_what_ran() -> None:
    async with gated(sh("rm x"), sh("ls"), sh("rm x")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(arguments={"command": "ls"}, remember=True)
        await case.test.until("approval/asked", 2)

        assert (case.ran, case.gate.pending()[0].arguments) == (["ls", "ls"], {"command": "rm x"})
        case.gate.deny()
        await case.test.idle()


async def test_remembered_tool_covers_any_arguments() -> None:
    async with gated(sh("a"), sh("b")) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()
        case.gate.approve(remember="tool")
        await case.test.idle()

        assert case.remembered == (ask.rule("tool"),) == (Rule.whole("shell"),)
        assert case.ran == ["a", "b"]
        assert case.decided == [{"outcome": "approved", "by": "user", "remembered": "tool"}]


async def test_remembering_answers_no_other_question() -> None:
    async with gated([sh("ls"), sh("ls")]) as case:
        case.test.agent.send("go")
        first, second = await case.asked(2)
        case.gate.approve(first.id, remember=True)

        assert case.gate.pending() == (second,)
        case.gate.deny(second.id)
        await case.test.idle()
        assert case.ran == ["ls"]
        case.check()


async def test_unknown_way_to_remember_is_refused() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        await case.asked()

        with pytest.raises(ValueError, match="remember is 'all'; pass True, False or 'tool'"):
            case.gate.approve(remember="all")  # type: ignore[arg-type]  # what is tested
        case.gate.deny()
        await case.test.idle()


async def test_added_rule_decides_the_next_call() -> None:
    async with gated(sh("ls"), config={}) as case:
        case.gate.add_rule(Rule(tool="shell", decision="deny"))
        await case.test.say("go")

        assert (case.ran, case.decided[0]["outcome"]) == ([], "rule")


# The shorthand on a tool.


@pytest.mark.parametrize(
    ("approve", "asks"),
    [
        (True, True),
        ("ask", True),
        (False, False),
        (lambda arguments: arguments["command"] == "ls", True),
        (lambda arguments: arguments["command"] == "rm", False),
    ],
)
async def test_tool_may_ask_by_itself(approve: Approve, asks: bool) -> None:
    async with gated(sh("ls"), config={"timeout_seconds": 0.01}, approve=approve) as case:
        await case.test.say("go")

        outcomes = [data["outcome"] for data in case.decided]
        assert (outcomes, case.ran) == ((["timeout"], []) if asks else ([], ["ls"]))


async def test_tool_of_an_agent_with_a_registry_of_its_own_may_ask() -> None:
    ran: list[str] = []
    async with gated(sh("ls"), config={"timeout_seconds": 0.01}) as case:
        inner = case.test.ctx.scope()
        await inner.plugin(SystemPrompt)
        await inner.plugin(ToolRegistry)
        await inner.plugin(AgentLoop, name="inner")
        inner.get(TOOLS).register(shell_of(ran, approve=True))
        agent = inner.get(AGENT_LOOP).create("sub", AgentOptions(model="scripted"))
        agent.send("go")
        await agent.finished()

        outcomes = [one.data["outcome"] for one in agent.session if one.type == "approval/decided"]
        assert (outcomes, ran, case.ran, case.test.types) == (["timeout"], [], [], [])


async def test_failing_condition_of_a_tool_asks() -> None:
    def fails(arguments: JsonObject) -> bool:
        raise LookupError("no idea")

    async with gated(sh("ls"), config={"timeout_seconds": 0.01}, approve=fails) as case:
        errors: list[tuple[str, str]] = []
        case.test.ctx.on(CORE_ERROR, lambda error, doing: errors.append((repr(error), doing)))
        await case.test.say("go")

        assert (case.ran, case.decided[0]["outcome"]) == ([], "timeout")
        assert errors == [("LookupError('no idea')", "the approve of tool 'shell'")]


async def test_rule_goes_before_the_shorthand() -> None:
    config = {"rules": [{"tool": "shell", "decision": "allow"}]}
    async with gated(sh("ls"), config=config, approve=True) as case:
        await case.test.say("go")

        assert (case.ran, case.decided) == (["ls"], [])


async def test_condition_cannot_change_what_runs() -> None:
    def meddles(arguments: JsonObject) -> bool:
        arguments["command"] = "rm x"
        return False

    async with gated(sh("ls"), config={}, approve=meddles) as case:
        await case.test.say("go")

        assert case.ran == ["ls"]


@pytest.mark.parametrize(
    ("approve", "runs"),
    [(True, False), (lambda arguments: True, False), (lambda arguments: False, True)],
)
async def test_tool_that_asks_does_not_run_where_nothing_decides(
    approve: Approve, runs: bool
) -> None:
    ran: list[str] = []
    model = ScriptedModel([sh("ls"), say("done")])
    async with running_agent(model, tools=[shell_of(ran, approve)]) as test:
        await test.say("go")

        (result,) = (one.data for one in test.log if isinstance(one.data, ToolResult))
        text = (
            "calls of 'shell' need approval, and nothing here decides about them; the tool was "
            "not run, the user has to mount the plugin dsh_nb.plugins.permission"
        )
        expected = ("ok", "ran ls", ["ls"]) if runs else ("denied", text, [])
        assert (result.outcome, text_of(result.content), ran) == expected


async def test_tool_that_asks_does_not_run_after_the_plugin_is_gone() -> None:
    async with gated(sh("ls"), config={}, approve=True) as case:
        await case.fiber.dispose()
        await case.test.say("go")

        assert (case.ran, case.results[0][0]) == ([], "denied")


async def test_another_listener_may_decide_in_its_place() -> None:
    ran: list[str] = []
    model = ScriptedModel([sh("ls"), say("done")])
    async with running_agent(model, tools=[shell_of(ran, True)]) as test:

        async def decides(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
            return await proceed(replace(call, approved=True))

        test.ctx.on(TOOLS_EXECUTE, decides)
        await test.say("go")

        assert ran == ["ls"]


# What a session remembers.


async def test_remembered_approval_holds_for_its_session_alone() -> None:
    async with gated(sh("a"), say("done"), sh("b")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(remember="tool")
        await case.test.idle()
        other = case.test.ctx.get(AGENT_LOOP).create("other", AgentOptions(model="scripted"))
        other.send("go")
        (ask,) = await case.asked()

        assert (ask.agent, ask.arguments, case.ran) == ("other", {"command": "b"}, ["a"])
        assert case.gate.remembered(other.session) == ()
        case.gate.deny()
        await other.finished()


@pytest.mark.parametrize(
    ("remember", "edited", "rule"),
    [
        (True, None, Rule.exact("shell", {"command": "a"})),
        (True, {"command": "b"}, Rule.exact("shell", {"command": "b"})),
        ("tool", None, Rule.whole("shell")),
        ("tool", {"command": "b"}, Rule.whole("shell")),
    ],
)
async def test_resumed_session_remembers_what_was_approved(
    remember: Remember, edited: JsonObject | None, rule: Rule
) -> None:
    async with gated(sh("a")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(arguments=edited, remember=remember)
        await case.test.idle()
        seed = case.test.log
        command = (edited or {"command": "a"})["command"]

    ran: list[str] = []
    model = ScriptedModel([sh(command), say("done")])
    async with running_agent(model, tools=[shell_of(ran)], seed=seed) as test:
        await test.ctx.plugin(permission, ASK)
        await test.say("again")

        assert test.ctx.get(PERMISSION).remembered(test.agent.session) == (rule,)
        assert ran == [command]


async def test_remounted_plugin_remembers_what_was_approved() -> None:
    async with gated(sh("a"), say("done"), sh("b")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(remember="tool")
        await case.test.idle()
        await case.fiber.dispose()
        await case.test.ctx.plugin(permission, ASK)
        await case.test.say("more")

        assert case.ran == ["a", "b"]


async def test_remembered_approval_does_not_beat_a_rule_that_denies() -> None:
    async with gated(sh("a")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve(remember="tool")
        await case.test.idle()
        seed = case.test.log

    ran: list[str] = []
    model = ScriptedModel([sh("a"), say("done")])
    async with running_agent(model, tools=[shell_of(ran)], seed=seed) as test:
        await test.ctx.plugin(permission, {"rules": [{"tool": "shell", "decision": "deny"}]})
        await test.say("again")

        assert ran == []


@pytest.mark.parametrize(
    ("asked", "decided"),
    [
        ({}, {"outcome": "approved", "remembered": True}),
        ({"tool": 3}, {"outcome": "approved", "remembered": "tool"}),
        ({"tool": "shell", "arguments": "a"}, {"outcome": "approved", "remembered": True}),
        ({"tool": "shell", "arguments": {}}, {"outcome": "approved", "remembered": "all"}),
        ({"tool": "shell", "arguments": {}}, {"outcome": "denied", "remembered": "tool"}),
        ({"tool": "shell", "arguments": {}}, {"outcome": "approved"}),
    ],
)
async def test_log_that_says_something_else_makes_no_rule(
    asked: JsonObject, decided: JsonObject
) -> None:
    log = LogBuilder().add("approval/asked", {"id": "a1", **asked})
    log.add("approval/decided", {"id": "a1", **decided})
    async with gated() as case:
        session = Session("s", log.events)

        assert case.gate.remembered(session) == ()


@pytest.mark.parametrize("approved", [False, True])
async def test_resumed_call_is_never_run_with_an_approval_from_before(approved: bool) -> None:
    async with gated(sh("a")) as case:
        case.test.agent.send("go")
        await case.asked()
        if approved:
            case.gate.approve()
        seed = case.test.log  # as it was when the kernel died
        case.gate.deny()
        await case.test.idle()

    ran: list[str] = []
    model = ScriptedModel([sh("a"), say("done")])
    async with running_agent(model, tools=[shell_of(ran)], seed=seed) as test:
        await test.ctx.plugin(permission, ASK)
        gate = test.ctx.get(PERMISSION)
        closed = [one.data for one in test.log if isinstance(one.data, ToolResult)]
        assert [one.outcome for one in closed] == ["interrupted" if approved else "denied"]
        test.agent.send("again")
        asked = await test.until("approval/asked", 2)

        assert [ask.id for ask in gate.pending()] == [asked.data["id"]]
        assert ran == []
        gate.deny()
        await test.idle()
        check_log(test.log, ended=True)


# Several at once.


@pytest.mark.parametrize("order", [*itertools.permutations([0, 1, 2])])
async def test_parallel_questions_are_answered_in_any_order(order: Sequence[int]) -> None:
    async with gated([sh("a"), sh("b"), sh("c")]) as case:
        case.test.agent.send("go")
        asks = await case.asked(3)
        answers: list[Callable[[], bool]] = [
            lambda: case.gate.deny(asks[0].id, "no"),
            lambda: case.gate.approve(asks[1].id),
            lambda: case.gate.approve(asks[2].id, arguments={"command": "C"}),
        ]
        for index in order:
            assert answers[index]() is True
            await asyncio.sleep(0)
        await case.test.idle()

        assert sorted(case.ran) == ["C", "b"]
        assert [outcome for outcome, _ in case.results] == ["denied", "ok", "ok"]
        assert [answer() for answer in answers] == [False] * 3
        case.check()


async def test_second_is_approved_first_denied_and_third_gets_no_answer() -> None:
    config = {**ASK, "timeout_seconds": 0.1}
    async with gated([sh("a"), sh("b"), sh("c")], sh("d"), config=config) as case:
        case.test.agent.send("go")
        first, second, third = await case.asked(3)
        case.gate.approve(second.id)
        case.gate.deny(first.id)
        await case.test.until("approval/asked", 4)
        stale = case.gate.approve(third.id)
        await case.test.idle()

        assert (stale, case.ran) == (False, ["b"])
        assert [data["outcome"] for data in case.decided] == [
            "approved", "denied", "timeout", "timeout",
        ]  # fmt: skip
        case.check()


async def test_answer_without_an_id_needs_one_question() -> None:
    async with gated([sh("a"), sh("b")]) as case:
        assert case.gate.approve() is False
        case.test.agent.send("go")
        first, second = await case.asked(2)

        with pytest.raises(ValueError, match=f"name one of .*{first.id}.*{second.id}"):
            case.gate.approve()
        assert case.gate.approve("unknown") is False
        assert case.gate.pending() == (first, second)
        case.gate.deny(second.id)
        assert case.gate.deny() is True
        await case.test.idle()
        case.check()


async def test_answers_come_from_any_thread() -> None:
    async with gated([sh("a"), sh("b")]) as case:
        case.test.agent.send("go")
        first, second = await case.asked(2)
        told: list[bool] = []
        heard_on: set[int] = set()
        case.test.ctx.on(
            PERMISSION_DECIDED, lambda ask, outcome: heard_on.add(threading.get_ident())
        )

        def answer() -> None:
            told.append(case.gate.approve(first.id))
            told.append(case.gate.deny(second.id))
            told.append(case.gate.deny("unknown"))
            case.gate.add_rule(Rule.whole("later"))

        await asyncio.to_thread(answer)
        await case.test.idle()

        assert (told, case.ran) == ([True, True, False], ["a"])
        assert heard_on == {threading.get_ident()}
        assert case.gate.rules.added == (Rule.whole("later"),)
        case.check()


# Stop, dispose.


@pytest.mark.parametrize("calls", [1, 3])
async def test_stop_ends_the_waiting_as_stopped(calls: int) -> None:
    async with gated([sh(f"c{n}") for n in range(calls)]) as case:
        before = asyncio.all_tasks()
        case.test.agent.send("go")
        asks = await case.asked(calls)
        case.test.agent.abort("enough")
        await case.test.idle()

        assert case.decided == [{"outcome": "stopped", "by": "stop", "reason": "enough"}] * calls
        text = "this call of 'shell' was stopped before anybody decided (enough)"
        assert case.results == [("denied", f"{text}; the tool was not run")] * calls
        ending = next(one.data for one in reversed(case.test.log) if isinstance(one.data, TurnEnd))
        assert ending.reason == TurnReason("aborted", "enough")
        assert [case.gate.approve(ask.id) for ask in asks] == [False] * calls
        assert (case.ran, asyncio.all_tasks()) == ([], before)
        case.check()

        await case.test.say("again")
        assert case.test.log[-1].data.reason == TurnReason("completed")


@pytest.mark.parametrize("calls", [1, 3])
async def test_approval_right_after_the_stop_comes_too_late(calls: int) -> None:
    async with gated([sh(f"c{n}") for n in range(calls)]) as case:
        case.test.agent.send("go")
        asks = await case.asked(calls)
        case.test.agent.abort()
        late = [case.gate.approve(ask.id, remember=True) for ask in asks]
        await case.test.idle()

        assert (late, case.ran, case.remembered) == ([False] * calls, [], ())
        assert case.decided == [{"outcome": "stopped", "by": "stop"}] * calls
        case.check()


async def test_approval_from_a_thread_that_the_stop_overtakes_comes_too_late() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        (ask,) = await case.asked()
        thread = threading.Thread(target=lambda: case.gate.approve(ask.id, remember=True))
        thread.start()
        thread.join()  # the approval is posted, and this loop has not run it yet
        case.test.agent.abort()
        await case.test.idle()

        assert (case.ran, case.remembered) == ([], ())
        assert case.decided == [{"outcome": "stopped", "by": "stop"}]
        case.check()


async def test_stop_right_after_the_approval_keeps_the_call_from_running() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve()
        case.test.agent.abort()
        await case.test.idle()

        assert (case.ran, case.results[0][0]) == ([], "interrupted")
        assert case.decided == [{"outcome": "approved", "by": "user"}]
        case.check()


async def test_stop_from_a_listener_of_the_question_ends_it() -> None:
    async with gated(sh("ls")) as case:
        case.test.ctx.on(PERMISSION_ASKED, lambda ask: case.test.agent.abort())
        await case.test.say("go")

        assert (case.ran, case.decided) == ([], [{"outcome": "stopped", "by": "stop"}])
        case.check()


async def test_disposed_agent_waits_no_longer() -> None:
    async with gated(sh("ls")) as case:
        case.test.agent.send("go")
        await case.asked()
        await case.test.agent.dispose()

        why = "the agent was disposed"
        assert case.decided == [{"outcome": "disposed", "by": "dispose", "reason": why}]
        text = f"asking about this call of 'shell' ended before anybody decided ({why})"
        assert case.results == [("denied", f"{text}; the tool was not run")]
        assert (case.ran, case.test.log[-1].data.reason) == ([], TurnReason("disposed"))
        case.check()


async def test_disposed_plugin_denies_what_waits() -> None:
    async with gated([sh("a"), sh("b")]) as case:
        case.test.agent.send("go")
        await case.asked(2)
        await case.fiber.dispose()
        await case.test.idle()

        text = "asking about this call of 'shell' ended before anybody decided"
        assert case.results == [("denied", f"{text}; the tool was not run")] * 2
        assert case.decided == [{"outcome": "disposed", "by": "dispose"}] * 2
        assert (case.ran, case.test.ctx.provides("permission")) == ([], False)
        case.check()


async def test_call_that_reaches_a_disposed_plugin_is_denied() -> None:
    model = ScriptedModel([sh("ls"), say("done")])
    ran: list[str] = []
    async with running_agent(model, tools=[shell_of(ran)]) as test:
        fibers: list[Fiber] = []

        async def slow(call: ToolCall, proceed: Proceed[ToolOutcome]) -> ToolOutcome:
            await fibers[0].dispose()
            return await proceed()

        test.ctx.on(TOOLS_EXECUTE, slow)
        fibers.append(await test.ctx.plugin(permission, {}))
        await test.say("go")

        assert ran == []
        decided = [one.data["outcome"] for one in test.log if one.type == "approval/decided"]
        assert decided == ["disposed"]


async def test_disposing_the_context_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    async with gated([sh("a"), sh("b")]) as case:
        case.test.agent.send("go")
        await case.asked(2)

    assert asyncio.all_tasks() == before
    assert (case.ran, case.decided) == ([], [{"outcome": "disposed", "by": "dispose"}] * 2)
    case.check()


async def test_interrupt_of_a_tool_ends_what_waits_beside_it() -> None:
    def interrupted() -> None:
        """Interrupt."""
        raise KeyboardInterrupt

    async with gated([sh("a"), call("interrupted")]) as case:
        case.test.ctx.get(TOOLS).register(tool(interrupted, parallel=True))
        await case.test.say("go")

        why = "the tool 'interrupted' was interrupted"
        assert case.decided == [{"outcome": "stopped", "by": "stop", "reason": why}]
        assert [outcome for outcome, _ in case.results] == ["interrupted", "denied"]
        case.check()


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        ("stop", "stopped before anybody decided (enough)"),
        ("dispose", "ended before anybody decided (the agent was disposed)"),
        ("timeout", "nobody decided about this call of 'shell' in time (0.02 s)"),
        ("deny", "the user denied this call of 'shell': no"),
    ],
)
async def test_table_tells_how_the_waiting_ended(ends: str, result: str) -> None:
    config = {**ASK, "timeout_seconds": 0.02} if ends == "timeout" else ASK
    async with gated(sh("a"), config=config) as case:
        case.test.agent.send("go")
        await case.asked()
        if ends == "stop":
            case.test.agent.abort("enough")
        elif ends == "dispose":
            await case.test.agent.dispose()
        elif ends == "deny":
            case.gate.deny(reason="no")
        await case.test.idle()
        row = tool_calls(case.test.agent.session).iloc[0]

        assert row["outcome"] == "denied"
        assert row["result"].removesuffix("; the tool was not run").endswith(result)
        assert 0 <= row["waiting_seconds"] <= row["seconds"]


# Listeners, other callers, odd calls.


async def test_listener_may_answer_while_it_is_told() -> None:
    async with gated(sh("ls")) as case:
        case.test.ctx.on(PERMISSION_ASKED, lambda ask: case.gate.approve(ask.id, by="hook"))
        await case.test.say("go")

        assert (case.ran, case.decided) == (["ls"], [{"outcome": "approved", "by": "hook"}])
        case.check()


async def test_failing_listeners_decide_nothing() -> None:
    def fails(*args: object) -> None:
        raise SystemExit("away")

    async with gated(sh("ls")) as case:
        errors: list[str] = []
        case.test.ctx.on(CORE_ERROR, lambda error, doing: errors.append(doing))
        case.test.ctx.on(PERMISSION_ASKED, fails)
        case.test.ctx.on(PERMISSION_DECIDED, fails)
        case.test.agent.send("go")
        await case.asked()
        case.gate.approve()
        await case.test.idle()

        assert case.results == [("ok", "ran ls")]
        assert errors == [f"a listener of 'permission/{one}'" for one in ("asked", "decided")]
        case.check()


async def test_call_of_no_agent_is_asked_about_and_logged_nowhere() -> None:
    async with gated() as case:
        given = ToolCall(id="c1", name="shell", arguments={"command": "ls"})
        running = asyncio.create_task(case.test.ctx.get(TOOLS).execute(given))
        (ask,) = await case.asked()
        case.gate.approve()
        outcome = await running

        assert (ask.agent, ask.turn, text_of(outcome.content)) == ("", 0, "ran ls")
        assert case.test.types == []


async def test_call_without_a_json_object_is_not_asked_about() -> None:
    async with gated(call("shell", arguments_text='{"command": ')) as case:
        await case.test.say("go")

        text = "the arguments of 'shell' are not one JSON object; nobody was asked"
        ((outcome, told),) = case.results
        assert (outcome, told.startswith(text), case.decided) == ("error", True, [])


async def test_denied_call_without_a_json_object_is_denied() -> None:
    deny = {"rules": [{"tool": "shell", "decision": "deny"}]}
    async with gated(call("shell", arguments_text='{"command": '), config=deny) as case:
        await case.test.say("go")

        asked = [one.data["arguments"] for one in case.test.log if one.type == "approval/asked"]
        assert (case.results[0][0], asked) == ("denied", ['{"command": '])
        case.check()


async def test_call_changed_while_it_waits_runs_as_it_was_seen() -> None:
    async with gated() as case:
        given = ToolCall(id="c1", name="shell", arguments={"command": "ls"})
        running = asyncio.create_task(case.test.ctx.get(TOOLS).execute(given))
        await case.asked()
        assert isinstance(given.arguments, dict)
        given.arguments["command"] = "rm x"
        case.gate.approve()
        await running

        assert case.ran == ["ls"]
