"""Going on from a session elsewhere: forks, reruns and resumed sessions, as a notebook has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dsh_nb import diff
from dsh_nb.errors import DriftError, SessionError
from dsh_nb.llm.scripted import ScriptedModel, call, say
from dsh_nb.notebook.agent import Agent, live_agents
from dsh_nb.session.check import check_log
from dsh_nb.tables import many, usage

runs: list[str] = []


def price(item: str) -> str:
    """The price of an item."""
    runs.append(item)
    return f"{item}: {len(item)} euros"


def saved_files() -> list[str]:
    return [path.name for path in Path(".dsh").rglob("*.jsonl")]


def asking() -> ScriptedModel:
    return ScriptedModel(
        [
            [say("I look."), call("price", item="tea")],
            "Tea is 3 euros.",
            "You are welcome.",
            "Something else.",
        ]
    )


@pytest.fixture(autouse=True)
async def in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    monkeypatch.chdir(tmp_path)
    runs.clear()
    yield
    for agent in live_agents().values():
        await agent.dispose()


async def test_fork_goes_on_from_before_a_turn_and_leaves_its_parent_alone() -> None:
    agent = Agent("main", tools=[price], model=asking())
    await agent("What is tea?")
    await agent("Thank you")
    before = [*agent.session]

    other = agent.fork(turn=2)
    reply = await other("And coffee?")

    assert [*agent.session] == before
    assert reply.turn == 2
    assert reply.text == "Something else."
    assert other.id == "main-fork"
    assert other.tools == ["price"]
    assert other.session.header["parent"] == agent.session.id
    assert other.session[: len(other.session) - 1][0] == agent.session[0]
    check_log(other.session)
    assert len(many(usage, [agent.session, other.session])) == len(agent.usage) + 1


async def test_fork_before_a_call_asks_the_model_again() -> None:
    agent = Agent("main", tools=[price], model=asking())
    await agent("What is tea?")
    other = agent.fork(before=agent.tool_calls.index[0], id="other")
    ended = len(other.session)

    other.continue_turn()
    await other._agent.finished()

    assert len(other.session) > ended
    assert "You are welcome." in str(other.messages["text"].tolist())


async def test_rerun_costs_nothing_and_fails_where_a_tool_answers_otherwise() -> None:
    agent = Agent("main", tools=[price], model=asking())
    await agent("What is tea?")
    again = await agent.rerun()

    assert runs == ["tea", "tea"]
    assert diff(agent, again).same
    assert [*live_agents()] == ["main"]

    @agent.tool(name="price")
    def dearer(item: str) -> str:
        """The price of an item."""
        return f"{item}: 100 euros"

    with pytest.raises(DriftError, match=r"turn 1, step 1: .* differs from the recording"):
        await agent.rerun()
    recorded = await agent.rerun(tools="recorded")
    assert diff(agent, recorded).same


async def test_rerun_with_another_model_is_an_experiment() -> None:
    agent = Agent("main", tools=[price], model=asking())
    await agent("What is tea?")

    other = await agent.rerun(model=ScriptedModel(["I do not know."], name="terse"))
    rows = diff(agent, other).rows

    assert "I do not know." in str(rows["b"].tolist())
    assert not diff(agent, other).same


async def test_session_is_resumed_by_an_agent_of_the_same_kernel() -> None:
    agent = Agent("main", tools=[price], model=asking(), save=True)
    await agent("What is tea?")
    name = agent.session.id

    resumed = Agent.resume(name, tools=[price], model=ScriptedModel(["Still here."]))
    reply = await resumed("And now?")

    assert agent.status == "disposed"
    assert (resumed.id, resumed.session.id, reply.turn) == ("main", name, 2)
    assert runs == ["tea"]
    check_log(resumed.session)
    await resumed.dispose()
    assert saved_files() == [f"{name}.jsonl"]


async def test_resuming_what_was_never_saved_is_a_clear_error() -> None:
    with pytest.raises(SessionError, match="main-1"):
        Agent.resume("main-1", model=asking())

    assert live_agents() == {}


async def test_agent_outside_a_notebook_saves_nothing_by_itself() -> None:
    agent = Agent("main", model=asking())
    await agent("Go")

    assert saved_files() == []
