"""Running a session of the notebook again."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_nb.errors import AgentError
from dsh_nb.llm.scripted import ScriptedModel, call, say
from dsh_nb.messages import text_of
from dsh_nb.notebook.agent import Agent
from dsh_nb.notebook.diff import diff
from dsh_nb.notebook.record import Log
from dsh_nb.notebook.rerun import Made, rerun_session
from dsh_nb.plugins.rerun import DriftError
from dsh_nb.session.session import Session

ran: list[int] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def double(n: int) -> int:
    """Double a number."""
    ran.append(n)
    return 2 * n


def triple(n: int) -> int:
    """Triple a number."""
    return 3 * n


class Unused(ScriptedModel):
    """A model that is never asked."""

    def __init__(self) -> None:
        super().__init__([])


made: list[Agent] = []


def make(**other: Any) -> Made:
    """An agent like the one that was recorded."""
    like: dict[str, Any] = {
        "tools": [double],
        "system_prompt": "Be brief.",
        "model": Unused(),
        "save": False,
    }
    made.append(Agent("again", **({"model": Unused()} | like | other)))
    return made[-1]


async def recorded() -> Session:
    model = ScriptedModel([call("double", n=2), say("four"), say("bye")])
    agent = Agent("first", tools=[double], system_prompt="Be brief.", model=model, save=False)
    await agent.send("twice two?")
    await agent.send("thanks")
    await agent.dispose()
    return agent.session


async def test_rerun_comes_to_the_same_and_its_agent_is_gone() -> None:
    log = await recorded()

    again = await rerun_session(log, make)

    assert isinstance(again, Log)
    assert diff(log, again).same
    assert ran == [2, 2]
    assert made[-1].status == "disposed"


async def test_rerun_with_recorded_tools_runs_none() -> None:
    log = await recorded()

    again = await rerun_session(log, make, tools="recorded")

    assert diff(log, again).same
    assert ran == [2]


async def test_tool_that_changed_is_drift_and_the_agent_is_gone_all_the_same() -> None:
    log = await recorded()

    def changed(**other: Any) -> Made:
        def wrong(n: int) -> int:
            """Double a number."""
            return n

        wrong.__name__ = "double"
        return make(tools=[wrong])

    with pytest.raises(DriftError, match=r"^turn 1, step 1: the result of a tool call differs"):
        await rerun_session(log, changed)
    assert made[-1].status == "disposed"


async def test_another_model_is_an_experiment() -> None:
    log = await recorded()

    again = await rerun_session(log, make, model=ScriptedModel([say("4"), say("bye")]))

    assert [text_of(message.content) for message in again.session.messages][1] == "4"
    assert again.session.header["kind"] == "experiment"
    assert diff(log, again).turns["steps_change"].tolist() == [-1, 0]


async def test_other_tools_and_prompt_are_an_experiment() -> None:
    log = await recorded()
    model = ScriptedModel([call("triple", n=2), say("six"), say("bye")])

    again = await rerun_session(log, make, tools=[triple], system_prompt="Three!", model=model)

    [first, *_] = model.requests
    assert (first.system, [tool.name for tool in first.tools]) == ("Three!", ["triple"])
    assert again.tool_calls["result"].tolist() == ["6"]


async def test_experiment_may_use_recorded_results() -> None:
    log = await recorded()
    model = ScriptedModel([call("double", n=2), say("4"), say("bye")])

    again = await rerun_session(log, make, tools="recorded", model=model)

    assert again.tool_calls["result"].tolist() == ["4"]
    assert ran == [2]


async def test_word_that_says_nothing_is_refused_before_anything_is_made() -> None:
    log, before = await recorded(), len(made)

    with pytest.raises(ValueError, match="tools is 'dead'; pass 'live', 'recorded' or a list"):
        await rerun_session(log, make, tools="dead")  # type: ignore[arg-type]  # what is tested
    assert len(made) == before


async def test_agent_that_cannot_be_driven_is_refused() -> None:
    log = await recorded()

    class Other:
        def __init__(self) -> None:
            self.id = "nobody"
            self._agent = make()
            self.ctx = self._agent.ctx
            self.dispose = self._agent.dispose

    with pytest.raises(AgentError, match="agent 'nobody' cannot be driven"):
        await rerun_session(log, Other)
