"""What the notebooks on other tools' data say, against counts of their own."""

from __future__ import annotations

import json
import lzma
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
DIALOGUES = NOTEBOOKS / "data" / "tau-bench-airline-gpt-4o.json.xz"

FIGURES = """
print(json.dumps({
    "dialogues": len(sessions),
    "success by task": results.groupby("task_id")["reward"].mean().tolist(),
    "calls by tool": by_tool["calls"].to_dict(),
    "errors by tool": by_tool["errors"].to_dict(),
    "success with an error": results[results["tool_error"]]["reward"].tolist(),
}))
"""


def test_tau_bench_figures_are_those_of_the_raw_dialogues(tmp_path: Path) -> None:
    read: Any = nbformat.read  # Any: nbformat is not typed
    new_code_cell: Any = nbformat.v4.new_code_cell
    notebook = read(NOTEBOOKS / "10_tau_bench.ipynb", as_version=4)
    notebook.cells.append(new_code_cell(FIGURES))
    shutil.copytree(NOTEBOOKS / "data", tmp_path / "data")

    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    shown = json.loads(notebook.cells[-1].outputs[0].text)
    assert shown == figures_of(json.loads(lzma.decompress(DIALOGUES.read_bytes())))


def figures_of(dialogues: list[dict[str, Any]]) -> dict[str, object]:
    """The same figures from the messages alone; every call has one result, which names its tool."""
    rewards: dict[int, list[float]] = {}
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    with_an_error = []
    for dialogue in dialogues:
        rewards.setdefault(dialogue["task_id"], []).append(dialogue["reward"])
        results = [said for said in dialogue["traj"] if said["role"] == "tool"]
        failed = [said["name"] for said in results if said["content"].startswith("Error")]
        calls.update(said["name"] for said in results)
        errors.update(failed)
        if failed:
            with_an_error.append(dialogue["reward"])
    return {
        "dialogues": len(dialogues),
        "success by task": [sum(won) / len(won) for _, won in sorted(rewards.items())],
        "calls by tool": dict(calls),
        "errors by tool": {name: errors[name] for name in calls},
        "success with an error": with_an_error,
    }
