"""The view's own code, as far as it touches no document: in Node, and against the kernel's ops."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random

from dsh_nb.notebook.cards import finished_blocks
from dsh_nb.notebook.live.text import MarkdownStream
from tests.notebook.live.screen import Screen

HERE = Path(__file__).parent
PIECES = [
    *["word ", "\n", "\n\n", "**", "- item\n", "1. one\n", "> said\n", "```py\n", "# Title\n"],
    *["🙂", "é", "漢", "<b>", "&amp;", "\"'", "[a](https://b.c)", "$x$", "| a | b |\n|--|--|\n"],
]


def node(*arguments: str, given: str = "") -> str:
    run = subprocess.run(
        ["node", *arguments], input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_pure_part_of_the_view_passes_its_tests() -> None:
    tests = HERE / "view.test.mjs"
    said = node("--test", "--test-reporter=tap", str(tests))

    written = tests.read_text(encoding="utf-8").count("\ntest(")
    assert f"\n# pass {written}\n# fail 0\n" in said


def test_browser_comes_to_the_same_blocks_as_the_kernel() -> None:
    random = Random(3)
    messages: list[dict[str, object]] = [{"n": 0, "ops": [["part", 0, ""]], "to": "v"}]
    screen, expected = Screen([("", [])]), [[["", []]]]

    def tell(ops: list[list[object]]) -> None:
        screen.apply(ops)
        messages.append({"n": len(messages), "ops": ops})
        expected.append([["", [*screen.blocks()]]])

    for _ in range(60):
        stream = MarkdownStream(lambda: random.random() * 100)  # renders now, or in a while
        text = ""
        for piece in random.choices(PIECES, k=20):
            text += piece
            tell(stream.feed(0, piece))
        tell(stream.finish(0, finished_blocks(text)))
        tell([["trim", 0, 0]])

    assert (
        json.loads(node(str(HERE / "view.mjs"), "replay", given=json.dumps(messages))) == expected
    )
    kinds = {op[0] for message in messages for op in message["ops"]}  # type: ignore[attr-defined]
    assert kinds == {"part", "block", "edit", "add", "trim"}
