"""A turn shown without widgets: by display updates, or printed in a terminal."""

from __future__ import annotations

import asyncio

import pytest

from dsh_nb import Agent, ScriptedModel
from dsh_nb.llm.scripted import call, pause, say, think
from dsh_nb.notebook.display import TerminalDisplay
from dsh_nb.notebook.transcript import TurnTranscript
from dsh_nb.session.events import SessionEvent
from dsh_nb.session.session import Session


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_terminal_prints_each_part_once_as_it_is_finished(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = [[think("Two numbers."), say("I add."), call("add", a=1, b=2)], [pause(1), say("3.")]]
    agent = Agent("main", tools=[add], model=ScriptedModel(steps))
    transcript = TurnTranscript()
    display = TerminalDisplay(transcript, asyncio.get_running_loop())

    def hear(session: Session, event: SessionEvent) -> None:
        transcript.feed(event)
        display.changed()

    agent.session.listen(hear)
    turn = agent.send("What is 1 plus 2?")
    await asyncio.sleep(0.7)
    meanwhile = capsys.readouterr().out
    await turn
    display.finish()
    rest = capsys.readouterr().out
    await agent.dispose()

    assert meanwhile.startswith("You: What is 1 plus 2?\n\n")
    assert [meanwhile.count(text) for text in ("Two numbers.", "I add.", "add(a=1, b=2)")] == [
        1
    ] * 3
    assert rest.startswith("3.\n\n✓ 2 steps")
    assert "I add." not in rest
