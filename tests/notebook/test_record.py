"""A notebook that plays a recording: how the recording is made, and that it is what is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import dsh_nb
from dsh_nb.llm.recorded import RecordedModel
from dsh_nb.testing import MessagesServer, reply
from scripts.record import record

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

PLAYER = """
import dsh_nb
from dsh_nb import Agent, RecordedModel

def twice(n: int) -> int:
    "Double a number."
    return 2 * n

recording = dsh_nb.load("recorded/doubled.jsonl")
model = RecordedModel(recording.session)  # or a live one
agent = Agent("main", tools=[twice], model=model)
reply = await agent("Double 4")
reply.text
"""


def notebook_of(source: str, path: Path) -> Path:
    form: Any = nbformat  # Any: nbformat is not typed
    form.write(form.v4.new_notebook(cells=[form.v4.new_code_cell(source)]), path)
    return path


async def test_recording_is_made_of_the_notebook_and_the_notebook_plays_it(tmp_path: Path) -> None:
    path = notebook_of(PLAYER, tmp_path / "doubling.ipynb")
    target = tmp_path / "recorded" / "doubled.jsonl"
    with MessagesServer([reply.calls(("twice", {"n": 4})), reply.text("It is 8.")]) as server:
        record(path, target, model="tiny", base_url=server.base_url)
        asked = len(server.requests)

    form: Any = nbformat
    played = form.read(path, as_version=4)
    NotebookClient(played, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = str(played.cells[0].outputs)

    assert asked == 2
    assert dsh_nb.load(target).tool_calls["arguments"].tolist() == ['{"n": 4}']
    assert "It is 8." in outputs
    assert "A recording: `tiny` gave these answers on " in outputs


def test_notebook_without_a_recording_is_not_run(tmp_path: Path) -> None:
    path = notebook_of("1 / 0", tmp_path / "plain.ipynb")

    with pytest.raises(ValueError, match=r"plain.ipynb has no line 'model = RecordedModel\(…'"):
        record(path, tmp_path / "x.jsonl", model="tiny", base_url=None)


def test_recording_of_the_data_analysis_names_its_model() -> None:
    log = dsh_nb.load(Path(__file__).parents[2] / "notebooks/data/recorded/shares.jsonl")

    assert RecordedModel(log.session).models == ["qwen2.5-coder-1.5b"]
    assert (log.session.turn, log.tool_calls["tool"].tolist()) == (3, ["growth", "falls", "draw"])
    assert len(log.chunks) > 100
