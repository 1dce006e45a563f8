"""The notebook surface without a kernel: in coroutines, and in scripts."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dsh_nb import Agent, RecordedModel, ScriptedModel, tool
from dsh_nb.core import Context
from dsh_nb.errors import (
    AgentError,
    ConfigError,
    DisposedError,
    LlmError,
    MissingKeyError,
    NoAdapterError,
    ToolDefinitionError,
)
from dsh_nb.llm.scripted import call, fail, pause, say
from dsh_nb.notebook.turn import TurnHandle
from dsh_nb.plugins.permission import Ask
from dsh_nb.plugins.retry import retry
from dsh_nb.session.check import check_log
from dsh_nb.testing import MessagesServer, reply


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def unfit(process: subprocess.Popen[str]) -> str:
    """Take what no model can give."""
    return str(process)


def quick(*steps: Any) -> ScriptedModel:
    return ScriptedModel([*steps]) if steps else ScriptedModel(lambda request: say("An answer."))


async def test_awaited_call_gives_text_usage_and_reason() -> None:
    agent = Agent("main", model=quick([call("add", a=2, b=3)], say("5")), tools=[add])

    answer = await agent("What is 2 plus 3?")

    assert (answer.text, str(answer), answer.turn, answer.ok) == ("5", "5", 1, True)
    assert (answer.stopped, answer.error, answer.cost) == (False, None, None)
    assert answer.usage.output_tokens > 0
    assert answer.raise_for_error() is answer
    await agent.dispose()


async def test_prompts_queued_while_a_turn_runs_share_the_next_one() -> None:
    agent = Agent("main", model=quick([say("one"), pause(0.05)], say("both")))
    first = agent("a")
    await asyncio.sleep(0.01)
    second, third = agent("b"), agent("c")

    answers = [await handle for handle in (first, second, third)]

    assert [(one.text, one.turn) for one in answers] == [("one", 1), ("both", 2), ("both", 2)]
    await agent.dispose()


async def test_prompt_taken_back_before_its_turn_is_never_said() -> None:
    agent = Agent("main", model=quick([say("one"), pause(0.05)], say("two")))
    first = agent("a")
    await asyncio.sleep(0.01)
    second = agent("b")
    second.stop("not needed")
    answer = await second

    assert (answer.stopped, answer.turn, (await first).text) == (True, 0, "one")
    assert [event.type for event in agent.session].count("user/message") == 1
    await agent.dispose()


async def test_failed_turn_is_a_reply_with_its_error_and_the_session_goes_on() -> None:
    agent = Agent("main", model=quick(fail("no such day", code="invalid_request_error"), say("ok")))

    failed = await agent("a")
    after = await agent("b")

    assert (failed.ok, failed.error, failed.text) == (False, "no such day", "")
    with pytest.raises(AgentError, match="turn 1 was not completed: no such day"):
        failed.raise_for_error()
    assert after.text == "ok"
    await agent.dispose()


async def test_cancelling_an_awaiting_task_aborts_its_turn_and_is_raised() -> None:
    agent = Agent("main", model=quick([say("half"), pause(60)], say("next")))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await agent("a")

    assert (agent.status, (await agent("b")).text) == ("idle", "next")
    check_log(agent.session, ended=True)
    await agent.dispose()


async def test_making_an_agent_of_a_taken_id_disposes_the_former_one() -> None:
    former = Agent("main", model=quick([say("half"), pause(60)]))
    waiting = former("a")
    await asyncio.sleep(0.01)
    latter = Agent("main", model=quick())

    answer = await waiting

    assert (answer.reason.kind, former.status, latter.status) == ("disposed", "disposed", "idle")
    with pytest.raises(DisposedError, match="agent 'main' is disposed"):
        former("b")
    assert len(former.session) > 0
    await latter.dispose()


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({"model": "gpt-7"}, NoAdapterError, "no adapter serves model 'gpt-7'; .*base_url="),
        ({"model": "claude-x"}, MissingKeyError, "set it, pass api_key="),
        ({"tools": [unfit]}, ToolDefinitionError, "'process'"),
        ({"base_url": "http://localhost:1"}, LlmError, "no model was named for the server"),
        ({"model": quick(), "plugins": [lambda ctx: 1 / 0]}, ZeroDivisionError, "division"),
    ],
)
async def test_agent_that_cannot_be_made_leaves_the_former_one_alone(
    how: dict[str, Any], error: type[Exception], text: str
) -> None:
    former = Agent("main", model=quick())

    with pytest.raises(error, match=text):
        Agent("main", **how)

    assert (await former("still there?")).text == "An answer."
    await former.dispose()


async def test_plugin_is_mounted_and_a_bad_config_refused() -> None:
    heard: list[str] = []

    def logger(ctx: Context) -> None:
        ctx.on("agent/status", lambda agent, status: heard.append(status))

    agent = Agent("main", model=quick(), plugins=[logger])
    await agent("a")

    assert heard == ["running", "idle"]
    with pytest.raises(ConfigError, match=r"attempts is 'many'"):
        await agent.ctx.plugin(retry, {"attempts": "many"}, name="second retry")
    await agent.dispose()


async def test_recording_answers_again_and_is_said_to_be_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = Agent("main", model=quick())
    said = await first("a")

    again = Agent("again", model=RecordedModel(first.session))
    same = await again("a")

    assert (same.text, again.model) == (said.text, first.model)
    assert f"A recording: {first.model} gave these answers" in capsys.readouterr().err
    await first.dispose()
    await again.dispose()


async def test_cell_decides_what_waits_where_no_page_is_open() -> None:
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        return f"wiped {disk}"

    steps = [call("wipe", disk="a")], [call("wipe", disk="b")], "Done."
    gated = tool(wipe, approve=True)
    agent = Agent("main", tools=[gated], model=ScriptedModel(list(steps)), attended=True)
    turn = agent("Go")

    (first,) = await turn.asked()
    agent.approve(arguments={"disk": "c"})
    (second,) = await turn.asked()
    agent.deny("not that one")
    late = await turn.asked()

    assert isinstance(first, Ask)
    assert isinstance(second, Ask)
    assert (first.arguments, second.arguments, late) == ({"disk": "a"}, {"disk": "b"}, ())
    assert turn.done
    assert agent.tool_calls["outcome"].tolist() == ["ok", "denied"]
    await agent.dispose()


@pytest.mark.parametrize("attended", [None, False])
async def test_nobody_is_asked_where_nobody_is(attended: bool | None) -> None:
    gated = tool(lambda: "ran", name="wipe", description="Wipe.", approve=True)
    model = ScriptedModel([[call("wipe")], "Done."])
    agent = Agent("main", tools=[gated], model=model, attended=attended)

    turn = agent("Go")

    assert await turn.asked() == ()
    assert agent.tool_calls["outcome"].tolist() == ["denied"]
    await agent.dispose()


async def test_plugin_is_given_with_its_config() -> None:
    given: list[object] = []

    def logger(ctx: Context, config: object) -> None:
        given.append(config)

    agent = Agent("main", model=quick(), plugins=[(logger, {"to": "x"}), logger])

    assert given == [{"to": "x"}, None]
    with pytest.raises(ConfigError, match=r"attempts is 'many'"):
        Agent("other", model=quick(), plugins=[(retry, {"attempts": "many"})])
    await agent.dispose()


async def test_tool_decorator_takes_options_and_gives_the_function_back() -> None:
    agent = Agent("main", model=quick())

    @agent.tool(parallel=True, name="plus")
    def add_one(a: int) -> int:
        """Add one."""
        return a + 1

    given: object = add_one
    assert callable(given)
    assert (given(1), agent.tools) == (2, ["plus"])
    await agent.dispose()


async def test_tables_of_an_agent_join_by_their_keys() -> None:
    agent = Agent("main", model=quick([call("add", a=2, b=3)], say("5")), tools=[add])
    empty = agent.tool_calls
    await agent("a")

    joined = agent.tool_calls.merge(agent.steps, on=["session", "turn", "step"])
    joined = joined.merge(agent.turns, on=["session", "turn"], suffixes=("", "_turn"))
    assert list(joined["tool"]) == ["add"]
    assert list(agent.turns["steps"]) == [2]
    assert list(agent.messages["kind"]) == ["text", "tool_call", "tool_result", "text"]
    assert (len(agent.usage), len(agent.chunks) > 5) == (2, True)
    assert list(empty.dtypes) == list(agent.tool_calls.dtypes)
    await agent.dispose()


async def test_agent_shows_itself_briefly() -> None:
    agent = Agent("main", model=quick(), tools=[add])

    assert repr(agent) == "<Agent 'main' scripted idle, 0 turns>"
    assert agent._repr_markdown_() == (
        "**Agent** `main` · idle · model `scripted` · 0 turns · tools: `add`"
    )
    handle = agent("a")
    assert repr(handle) == "<TurnHandle turn ? waiting>"
    with pytest.raises(AgentError, match="the turn has not ended; await the handle"):
        _ = handle.reply
    await handle
    assert repr(handle) == "<TurnHandle turn 1 completed>"
    await agent.dispose()


async def test_run_sync_inside_another_loop_names_the_await_form() -> None:
    agent = Agent("main", model=quick())
    problems: list[str] = []

    def elsewhere() -> None:
        async def main() -> None:
            try:
                agent.run_sync("a")
            except Exception as error:
                problems.append(str(error))

        asyncio.run(main())

    await asyncio.to_thread(elsewhere)

    assert problems == ["run_sync was called inside another event loop; await the agent there"]
    await agent.dispose()


@pytest.mark.rule("C9")
async def test_disposed_agent_leaves_no_task_thread_or_connection() -> None:
    def count() -> tuple[int, int, int]:
        gc.collect()
        return len(asyncio.all_tasks()), threading.active_count(), len(os.listdir("/proc/self/fd"))

    script = [reply.calls(("add", {"a": 1, "b": 2})), reply.text("3")]
    with MessagesServer([*script, *script]) as server:
        for _ in range(2):  # the first round loads what stays loaded
            before = count()
            agent = Agent("main", model="claude-x", base_url=server.base_url, tools=[add])
            answer = await agent("a")
            await agent.dispose()
            for _ in range(50):  # the server notices a closed connection a moment later
                await asyncio.sleep(0.01)

    assert answer.text == "3"
    assert count()[:2] <= before[:2]
    assert count()[2] <= before[2]


def script_of(body: str) -> list[str]:
    """A command that runs `body` as a script."""
    head = (
        "import asyncio, sys\n"
        "from dsh_nb import Agent, ScriptedModel\n"
        "from dsh_nb.llm.scripted import pause, say\n"
    )
    return [sys.executable, "-W", "error", "-c", head + body]


def test_script_can_run_turns_without_a_loop_of_its_own() -> None:
    body = (
        "agent = Agent('main')\n"
        "print(agent.run_sync('hello').ok, agent.run_sync('again').turn)\n"
        "other = Agent('other', model=ScriptedModel([[say('x'), pause(60)]]))\n"
        "other('left running')\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(script_of(body), capture_output=True, text=True, cwd=root, timeout=60)

    assert (done.returncode, done.stdout) == (0, "True 2\n"), done.stderr
    assert done.stderr.startswith("Offline demo: no key was found")
    assert "destroyed" not in done.stderr


def test_interrupt_of_a_script_stops_the_turn_and_is_raised() -> None:
    body = (
        "agent = Agent('main', model=ScriptedModel([[say('x'), pause(60)], [say('after')]]))\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    agent.run_sync('a')\n"
        "except KeyboardInterrupt:\n"
        "    print(agent.session[-1].data.reason.kind, agent.run_sync('b').text)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        script_of(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    assert (out, err) == ("aborted after\n", "")


def test_two_runs_of_asyncio_can_use_one_agent() -> None:
    async def ask(agent: Agent) -> str:
        return (await agent("a")).text

    agent = Agent("main", model=quick())

    assert [asyncio.run(ask(agent)) for _ in range(2)] == ["An answer.", "An answer."]
    agent.dispose()


def test_agent_moves_between_run_sync_and_loops_of_the_programs_own() -> None:
    """A turn once waited for ever on a loop that did not run any more."""

    async def ask(agent: Agent) -> str:
        return (await agent("a")).text

    agent = Agent("main", model=quick())
    said = [agent.run_sync("a").text, asyncio.run(ask(agent)), agent.run_sync("b").text]

    assert said == ["An answer."] * 3
    agent.dispose()


def test_turn_that_was_left_on_another_loop_is_told_of() -> None:
    agent = Agent("main", model=quick([say("x"), pause(60)]))
    agent("left running, on a loop that runs only in run_sync")

    async def ask() -> None:
        with pytest.raises(AgentError, match="runs on another event loop; await it there first"):
            agent("b")

    asyncio.run(ask())
    agent.dispose()


def test_handle_is_what_a_call_gives() -> None:
    agent = Agent("main", model=quick())

    async def main() -> None:
        handle = agent("a")
        assert isinstance(handle, TurnHandle)
        assert (await handle).text == (await handle).text

    asyncio.run(main())
    agent.dispose()
