"""A session that was saved and loaded has the same tables as the live one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb import Agent
from dsh_nb.llm.scripted import ScriptedModel, call, cut, fail, say, think
from dsh_nb.session.files import read_session, write_session
from dsh_nb.session.session import Session
from dsh_nb.tables.record import Recorded

TABLES = ("events", "chunks", "messages", "turns", "steps", "tool_calls", "usage")
PARTS: st.SearchStrategy[Any] = st.sampled_from(
    [say("One **two**."), think("Hm, héllo 😀."), call("add", a=1, b=2), call("none", x="y")]
)
STEPS: st.SearchStrategy[Any] = st.lists(PARTS, min_size=1, max_size=3)
ENDS: st.SearchStrategy[Any] = st.sampled_from([[], [cut()], [fail("no", code="bad")]])
SCRIPTS: st.SearchStrategy[Any] = st.lists(
    st.builds(lambda step, end: [*step, *end], STEPS, ENDS), min_size=1, max_size=4
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def played(steps: Any) -> Session:
    """The session of an agent that is asked until its script is at its end."""

    async def play() -> Session:
        model = ScriptedModel(steps)
        agent = Agent("main", model=model, tools=[add])
        while len(model.requests) < len(steps):
            await agent("Go on")
        await agent.dispose()
        return agent.session

    return asyncio.run(play())


@settings(deadline=None, max_examples=15)
@given(SCRIPTS)
def test_saved_session_has_the_tables_of_the_live_one(steps: Any) -> None:
    session = played(steps)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "one.jsonl"
        write_session(path, session)
        loaded = read_session(path).session()

    live, saved = Recorded(session), Recorded(loaded)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(live, name), getattr(saved, name))
