"""Turns in a real kernel: streaming, interrupts, re-runs, the sync facade."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.kernel.driver import Kernel, kernel

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

SETUP = """
import asyncio, json, sys, threading, time
from dsh_nb import Agent, ScriptedModel
from dsh_nb.llm.scripted import call, pause, say, think
from dsh_nb.session.check import check_log
from dsh_nb.session.events import TurnEnd

def endings(agent):
    return [event.data.reason.kind for event in agent.session if isinstance(event.data, TurnEnd)]

def slow():
    return ScriptedModel(lambda request: [say("Let me think about it. "), pause(30), say("Done.")])

def quick(*steps):
    return ScriptedModel(list(steps) if steps else (lambda request: say("An answer.")))
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Kernel]:
    """One kernel for the tests that do not hurt it."""
    with kernel() as one:
        assert one.run(SETUP).status == "ok"
        yield one


@pytest.fixture
def fresh() -> Iterator[Kernel]:
    """A kernel for one test."""
    with kernel() as one:
        assert one.run(SETUP).status == "ok"
        yield one


def stop_soon(one: Kernel, code: str, after: float = 1.0) -> tuple[float, object]:
    """Run `code`, interrupt it, and tell how long it went on."""
    message_id = one.start(code)
    time.sleep(after)
    began = time.monotonic()
    one.interrupt()
    cell = one.finish(message_id)
    return time.monotonic() - began, cell


def test_awaited_turn_streams_in_its_cell_and_ends_as_a_static_transcript(shared: Kernel) -> None:
    cell = shared.run(
        "script = [[think('hm'), say('Some **words** here. ' * 20)]]\n"
        "agent = Agent('main', model=ScriptedModel(script, pace=1.0))\n"
        "reply = await agent('Hello?')"
    )

    assert cell.status == "ok", cell
    assert len(cell.displays) == 1
    assert cell.updates >= 3
    assert "Some <strong>words</strong>" in cell.html[0]
    assert "widget-view" not in str(cell.displays)
    assert shared.value("reply.text[:14], reply.ok, reply.turn") == "('Some **words**', True, 1)"


def test_figure_of_pyplot_that_a_tool_returns_is_shown_by_its_call_alone(shared: Kernel) -> None:
    cell = shared.run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\n"
        "def draw():\n"
        "    figure, axes = plt.subplots(figsize=(2, 1))\n"
        "    axes.plot([1, 2, 4])\n"
        "    return figure\n"
        "def keep():\n"
        "    plt.subplots(figsize=(1, 1))\n"
        "    return 'kept'\n"
        "agent = Agent('main', tools=[draw], model=quick([call('draw')], 'Drawn.'))\n"
        "await agent('Draw!')"
    )
    other = shared.run("keep()")

    assert cell.status == "ok", cell
    assert (len(cell.displays), cell.html[0].count("data:image/png")) == (1, 1)
    assert len(other.displays) == 2  # its word, and what no call has shown


def test_turn_as_the_last_line_of_a_cell_is_shown_once(shared: Kernel) -> None:
    cell = shared.run("agent = Agent('main', model=quick())\nawait agent('Hello?')")
    again = shared.run("await agent('More?')\nNone")
    later = shared.run("reply = await agent('Third?')")
    value = shared.run("reply")

    assert [len(one.displays) for one in (cell, again, later, value)] == [1, 1, 1, 1]
    assert "An answer." in value.shown[0]


def test_cell_that_starts_a_turn_returns_at_once_and_others_go_on(shared: Kernel) -> None:
    model = "ScriptedModel([[say('one '), pause(0.6), say('two')]])"
    started = shared.run(f"agent = Agent('main', model={model})\nturn = agent('Go')")
    between = shared.value("turn.done, agent.status")
    ended = shared.run("reply = await turn")

    assert started.seconds < 0.5
    assert between == "(False, 'running')"
    assert (ended.status, shared.value("reply.text")) == ("ok", "'one two'")


@pytest.mark.rule("L14")
def test_interrupt_stops_an_awaited_turn_at_once_and_queued_cells_still_run(shared: Kernel) -> None:
    shared.run("agent = Agent('main', model=slow())")
    message_id = shared.start("reply = await agent('Hello?')")
    queued = shared.start("print('still here')")
    time.sleep(1.0)
    began = time.monotonic()
    shared.interrupt()
    cell = shared.finish(message_id)
    took = time.monotonic() - began
    after = shared.finish(queued)

    assert took < 0.5
    assert (cell.status, after.status, after.stdout) == ("ok", "ok", "still here\n")
    assert "stopped" in cell.shown[0]
    assert "Let me think about it." in cell.shown[0]
    assert shared.value("reply.stopped, endings(agent), check_log(agent.session, ended=True)") == (
        "(True, ['aborted'], None)"
    )


@pytest.mark.rule("L14")
def test_cancelling_an_awaiting_task_aborts_the_turn_and_is_not_swallowed(shared: Kernel) -> None:
    cell = shared.run(
        "agent = Agent('main', model=slow(), save=False)\n"
        "try:\n"
        "    async with asyncio.timeout(0.5):\n"
        "        await agent('Hello?')\n"
        "except TimeoutError:\n"
        "    print('timed out', endings(agent), agent.status)"
    )

    assert cell.stdout == "timed out ['aborted'] idle\n"


def test_interrupt_ends_a_loop_over_prompts_and_leaves_background_turns_alone(
    shared: Kernel,
) -> None:
    shared.run("other = Agent('other', model=ScriptedModel([[say('a '), pause(3), say('b')]]))")
    shared.run("background = other('Go')")
    shared.run("agent = Agent('main', model=slow())")
    took, cell = stop_soon(shared, "for n in range(3):\n    await agent(f'prompt {n}')")

    assert took < 0.5
    assert (
        getattr(cell, "error", "") == "AgentError: this cell was interrupted; run it again to go on"
    )
    assert shared.value("endings(agent), endings(other)") == "(['aborted'], [])"
    assert shared.value("(await background).text") == "'a b'"


def test_stop_works_from_another_thread_and_says_why(shared: Kernel) -> None:
    shared.run("agent = Agent('main', model=slow())\nturn = agent('Go')\nawait asyncio.sleep(0.2)")
    shared.run("threading.Thread(target=agent.stop, args=('enough',)).start()")
    cell = shared.run("reply = await turn")

    assert shared.value("reply.reason.kind, reply.reason.reason") == "('aborted', 'enough')"
    assert cell.status == "ok"


@pytest.mark.rule("C8")
def test_turn_can_be_started_and_awaited_from_another_thread(shared: Kernel) -> None:
    shared.run("agent = Agent('main', model=quick()); replies = []")
    shared.run(
        "def elsewhere():\n"
        "    async def main():\n"
        "        replies.append(await agent.send('from afar'))\n"
        "    asyncio.run(main())\n"
        "thread = threading.Thread(target=elsewhere); thread.start()\n"
        "while not replies:\n"
        "    await asyncio.sleep(0.02)"
    )

    assert shared.value("replies[0].text, agent.session.turn") == "('An answer.', 1)"


@pytest.mark.rule("M7")
def test_turn_with_two_tools_runs_through_the_real_client(shared: Kernel) -> None:
    cell = shared.run(
        "from dsh_nb.testing import MessagesServer, reply\n"
        "def add(a: int, b: int) -> int:\n    '''Add.'''\n    return a + b\n"
        "def upper(text: str) -> str:\n    '''Shout.'''\n    return text.upper()\n"
        "script = [reply.calls(('add', {'a': 2, 'b': 3}), ('upper', {'text': 'hi'})),"
        " reply.thinking('so', text='**5** and HI')]\n"
        "with MessagesServer(script) as server:\n"
        "    here = dict(model='claude-x', base_url=server.base_url)\n"
        "    agent = Agent('main', tools=[add, upper], **here)\n"
        "    said = await agent('Do both')\n"
        "    await agent.dispose()\n"
        "print(server.problems, said.ok, said.text)"
    )

    assert cell.stdout == "[] True **5** and HI\n", cell
    assert "HI" in cell.shown[0]


def test_rerun_of_the_cell_replaces_the_agent_and_its_tool(shared: Kernel) -> None:
    code = (
        "agent = Agent('main', model=slow())\n"
        "@agent.tool\n"
        "def look(x: int) -> int:\n"
        "    '''Look.'''\n"
        "    return x\n"
        "agents = globals().setdefault('agents', []); agents.append(agent)\n"
        "turn = agent('Go'); await asyncio.sleep(0.2)"
    )
    shared.run(code)
    shared.run(code)
    twice = shared.run("agent.tool(look)\nprint(agent.tools)")

    assert shared.value("[one.status for one in agents]") == "['disposed', 'running']"
    assert shared.value("endings(agents[0])") == "['disposed']"
    assert twice.stdout == "['look']\n"


@pytest.mark.rule("C8")
def test_blocking_tool_lets_the_loop_live_and_a_main_thread_one_is_interrupted(
    shared: Kernel,
) -> None:
    cell = shared.run(
        "from dsh_nb import tool\n"
        "def block() -> str:\n"
        "    '''Block.'''\n"
        "    time.sleep(0.6)\n"
        "    return 'slept'\n"
        "agent = Agent('main', tools=[block], model=quick([call('block')], [say('ok')]))\n"
        "gaps, last = [], time.monotonic()\n"
        "turn = agent('Go')\n"
        "while not turn.done:\n"
        "    await asyncio.sleep(0.02)\n"
        "    gaps.append(time.monotonic() - last); last = time.monotonic()\n"
        "print(max(gaps) < 0.2, turn.reply.text)"
    )
    shared.run(
        "block_main = tool(block, main_thread=True, name='block_main', description='Block.')\n"
        "long = tool(lambda: time.sleep(20), name='long', description='Long.', main_thread=True)\n"
        "agent = Agent('main', tools=[long], model=quick([call('long')], [say('ok')]))"
    )
    took, stopped = stop_soon(shared, "reply = await agent('Go')")

    assert cell.stdout == "True ok\n", cell
    assert took < 0.5, stopped
    assert shared.value("reply.stopped, endings(agent)") == "(True, ['aborted'])"


@pytest.mark.parametrize("tool", ["sys.exit(3)", "exit()", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_tool_that_exits_or_interrupts_does_not_hurt_the_kernel(
    shared: Kernel, tool: str, kind: str
) -> None:
    cell = shared.run(
        f"{kind} leave() -> str:\n    '''Leave.'''\n    {tool}\n"
        "agent = Agent('main', tools=[leave], model=quick([call('leave')], [say('I stay')]))\n"
        "turn = agent('Go'); marker = 42"
    )
    shared.run("reply = await turn")

    assert cell.status == "ok", cell
    assert shared.value("marker") == "42"
    expected = "'aborted'" if "Keyboard" in tool else "'completed'"
    assert shared.value("reply.reason.kind") == expected


def test_log_is_a_dataframe_with_the_same_columns_when_empty(shared: Kernel) -> None:
    shared.run("agent = Agent('main', model=quick())\nempty = agent.events\nawait agent('Hi')")

    assert shared.value("list(empty.columns) == list(agent.events.columns)") == "True"
    assert shared.value("(empty.dtypes == agent.events.dtypes).all(), len(empty)") in (
        "(np.True_, 0)",
        "(True, 0)",
    )
    assert shared.value("agent.events['type'].iloc[-1]") == "'turn/end'"


def test_run_sync_works_in_a_cell_and_cells_queued_meanwhile_run_afterwards(fresh: Kernel) -> None:
    fresh.run("agent = Agent('main', model=ScriptedModel([[say('a '), pause(1), say('b')]]))")
    message_id = fresh.start("reply = agent.run_sync('Go'); print(reply.text)")
    queued = [fresh.start(f"print('queued {n}')") for n in range(3)]
    cell = fresh.finish(message_id)
    after = [fresh.finish(one) for one in queued]

    assert (cell.status, cell.stdout) == ("ok", "a b\n"), cell
    assert [one.stdout for one in after] == ["queued 0\n", "queued 1\n", "queued 2\n"]
    assert (cell.stderr, fresh.value("'nest_asyncio2' in sys.modules")) == ("", "True")


def test_run_sync_that_is_interrupted_cleans_up_and_queued_cells_run(fresh: Kernel) -> None:
    fresh.run("agent = Agent('main', model=slow())")
    message_id = fresh.start("reply = agent.run_sync('Go')")
    queued = fresh.start("print('queued')")
    time.sleep(1)
    began = time.monotonic()
    fresh.interrupt()
    cell = fresh.finish(message_id)
    took = time.monotonic() - began
    after = fresh.finish(queued)

    assert took < 0.5
    assert (cell.status, after.stdout) == ("ok", "queued\n"), cell
    assert fresh.value("reply.stopped, endings(agent), agent.status") == (
        "(True, ['aborted'], 'idle')"
    )
    assert fresh.value("len([t for t in asyncio.all_tasks() if 'dsh' in t.get_name()])") == "0"


def test_run_sync_works_and_warns_where_nest_asyncio_1_was_applied(fresh: Kernel) -> None:
    fresh.run("import nest_asyncio; nest_asyncio.apply()")
    fresh.run("agent = Agent('main', model=quick())")
    cell = fresh.run("reply = agent.run_sync('Go')")

    assert cell.status == "ok", cell
    assert "nest_asyncio 1.x was applied" in cell.stderr
    assert fresh.value("reply.text") == "'An answer.'"


def test_kernel_ends_without_complaint_while_a_turn_runs(fresh: Kernel) -> None:
    cell = fresh.run("agent = Agent('main', model=slow())\nturn = agent('Go')")

    fresh.process.shutdown_kernel(now=False)

    assert "destroyed" not in cell.stderr


def test_bad_input_is_told_at_once(shared: Kernel) -> None:
    shared.run("agent = Agent('main', model=quick())")
    errors = [
        shared.run(code).error
        for code in (
            "Agent('main', model='gpt-7')",
            "Agent('main', model='claude-sonnet-5-5')",
            "Agent('main', tools=[5])",
            "agent(5)",
            "agent('  ')",
            "Agent('main', base_url='http://localhost:1')",
        )
    ]

    starts = [
        "NoAdapterError: no adapter serves model 'gpt-7'; ",
        "MissingKeyError: no key for the Messages API was given or found in ANTHROPIC_API_KEY; ",
        "ToolDefinitionError: ",
        "TypeError: the prompt is 5, a int; ",
        "ValueError: the prompt '  ' is blank; ",
        "LlmError: no model was named for the server 'http://localhost:1'; ",
    ]
    for error, start in zip(errors, starts, strict=True):
        assert error.startswith(start), error
    assert shared.value("agent.status") == "'idle'"
