"""The examples of AGENTS.md run as they stand, in their order."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from dsh_nb.notebook.agent import live_agents

AGENTS = Path(__file__).parents[2] / "AGENTS.md"


async def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = AGENTS.read_text(encoding="utf-8")  # nothing else runs
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}

    for example in examples:
        code = compile(example, AGENTS.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, names)
        if inspect.isawaitable(running):
            await running
    for agent in live_agents().values():
        await agent.dispose()

    assert len(examples) == 6
