"""What a live view costs: bytes and messages on the wire, CPU in the kernel, tasks in the page."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.browser.lab import Lab, lab

__all__ = ["CASES", "scroll_cost", "view_cost", "view_table"]

CASES = ("prose", "code", "paragraph")
END = "THE-END"

# 20,000 chunks of 4 characters, about a thousand a second.
SETUP = """
import asyncio, time
from dsh_nb import Agent
from dsh_nb.messages import BlockEnd, BlockStart, Finish, FinishReason, TextBlock, TextDelta

CHUNKS, SECONDS, CASE = {chunks}, {seconds}, {case!r}
SENTENCE = (
    "The revenue of the second quarter grew by 4.2 percent, which is **less than expected**: "
    "the stores in the north lost customers, and the column `returns` counts some of them twice. "
    "Without those rows the growth is about 6 percent, as in the year before. "
)
ITEMS = "- the north lost 312 customers\\n- the south won 120\\n- the rest is as it was\\n\\n"
LINE = "    total = sum(value * 2 for value in numbers if value > 0)  # a comment\\n"
if CASE == "prose":
    text = ("## The second quarter\\n\\n" + (SENTENCE * 2 + "\\n\\n") * 3 + ITEMS) * 1000
elif CASE == "code":
    text = "```python\\n" + LINE * 5000
else:
    text = SENTENCE * 5000
text = text[: 4 * CHUNKS - 8] + " " + "{end}"

class Steady:
    name = "steady"
    last = 0.0
    marks = []

    async def stream(self, request):
        yield BlockStart(0, "text")
        began, sent = time.monotonic(), 0
        while sent < CHUNKS:
            due = min(CHUNKS, int((time.monotonic() - began) / SECONDS * CHUNKS) + 1)
            for index in range(sent, due):
                yield TextDelta(0, text[4 * index : 4 * index + 4])
            if due * 10 // CHUNKS > sent * 10 // CHUNKS:
                self.marks.append(time.process_time())
            sent = due
            await asyncio.sleep(0.005)
        Steady.last = time.time()
        yield BlockEnd(0, TextBlock(text))
        await asyncio.sleep(1.5)
        yield Finish(FinishReason("stop"))

agent = Agent("a", model=Steady(), save=False)
"""
RUN = {
    "hidden": "cpu = time.process_time(); turn = agent.send('Go'); reply = await turn",
    "bare": """
import anywidget
class Bare(anywidget.AnyWidget):
    _esm = "export default { render({ model, el }) { const p = document.createElement('pre'); "\\
        "el.append(p); model.on('msg:custom', (m) => p.append(m.t)); } }"
bare, pieces, timer = Bare(), [], None
def hear(session, event):
    global timer
    text = getattr(getattr(event.data, "chunk", None), "text", None)
    if text:
        pieces.append(text)
        if timer is None:
            timer = asyncio.get_running_loop().call_later(0.05, flush)
def flush():
    global timer
    timer = None
    bare.send({"t": "".join(pieces)})
    pieces.clear()
agent.session.listen(hear)
display(bare)
await asyncio.sleep(1)
cpu = time.process_time(); turn = agent.send('Go'); reply = await turn
""",
    "shown": "cpu = time.process_time(); turn = agent('Go'); reply = await turn",
}
AFTER = (
    "import json; marks = Steady.marks; print(json.dumps({'cpu': time.process_time() - cpu, "
    "'last': Steady.last, 'marks': [b - a for a, b in zip(marks, marks[1:])]}))"
)
WATCH = """
window.tasks = [];
new PerformanceObserver((list) => list.getEntries().forEach((e) => window.tasks.push(e.duration)))
  .observe({ entryTypes: ['longtask'] });
window.shown = null;
window.watching = setInterval(() => {
  if (!window.shown && document.querySelector('.jp-Notebook')?.textContent.split('%s').length > %d)
    window.shown = Date.now();
}, 20);
"""


@dataclass(frozen=True)
class Cost:
    """What one run cost; the kernel's CPU without the turn is that of the hidden run."""

    megabytes: float
    messages: int
    cpu_seconds: float
    lag_seconds: float
    saved_bytes: int
    longest_task_ms: float
    growth: float


def view_cost(chunks: int = 20_000, seconds: float = 20.0) -> list[dict[str, Any]]:
    """A row for each kind of text: what the view costs, against a bare widget."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder)) as one:
        for case in CASES:
            costs = {
                how: _run(one, case, how, chunks, seconds) for how in ("hidden", "bare", "shown")
            }
            base = costs["hidden"].cpu_seconds
            shown, bare = costs["shown"], costs["bare"]
            rows.append(
                {
                    "text": case,
                    "MB": round(shown.megabytes, 2),
                    "MB bare": round(bare.megabytes, 2),
                    "messages a second": round(shown.messages / seconds, 1),
                    "view CPU s": round(shown.cpu_seconds - base, 2),
                    "bare CPU s": round(bare.cpu_seconds - base, 2),
                    "turn CPU s": round(base, 2),
                    "CPU ratio": round(shown.cpu_seconds / bare.cpu_seconds, 2),
                    "lag s": round(shown.lag_seconds, 2),
                    "saved over text": round(shown.saved_bytes / (4 * chunks), 2),
                    "longest task ms": round(shown.longest_task_ms),
                    "last over first tenth": round(shown.growth, 2),
                }
            )
    return rows


def scroll_cost(turns: int = 100, chars: int = 10_000) -> dict[str, Any]:
    """What scrolling through a long session costs the page, in a panel and in a cell's output."""
    setup = f"""
from dsh_nb import Agent, ScriptedModel
sentence = "The revenue of the second quarter grew by 4.2 percent, **less than expected**. "
answer = "\\n\\n".join([sentence * 5] * {chars // 400})
agent = Agent("a", model=ScriptedModel(lambda request: answer), save=False)
for number in range({turns}):
    reply = await agent.send("Go on")
"""
    scroll = """async (place) => {
      const box = document.querySelector(place);
      window.tasks = [];
      for (let part = 0; part <= 200; part++) {
        box.scrollTop = box.scrollHeight * part / 200;
        await new Promise(requestAnimationFrame);
      }
      return [box.scrollHeight, Math.max(0, ...window.tasks)];
    }"""
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder)) as one:
        one.add("scroll.ipynb", setup, "agent.view()", "agent.transcript()")
        one.run(0)
        one.idle(120)
        one.page.evaluate(WATCH % (END, 10**6))
        one.run(1)
        one.page.locator(".dsh-view .dsh-part").nth(3 * turns - 1).wait_for(state="attached")
        one.page.wait_for_timeout(2000)
        opened = max(one.page.evaluate("window.tasks"), default=0.0)
        height, panel = one.page.evaluate(scroll, ".dsh-log")
        one.run(2)
        one.idle()
        one.page.wait_for_timeout(2000)
        _, page = one.page.evaluate(scroll, ".jp-WindowedPanel-outer")
    return {
        "panel px": height,
        "longest task ms, opening the panel": round(opened),
        "scrolling the panel": round(panel),
        "scrolling the page": round(page),
    }


def _run(one: Lab, case: str, how: str, chunks: int, seconds: float) -> Cost:
    setup = SETUP.format(chunks=chunks, seconds=seconds, case=case, end=END)
    sizes: list[int] = []
    one.page.on(
        "websocket",
        lambda socket: socket.on(
            "framereceived",
            lambda data: sizes.append(len(data)),
        ),
    )
    one.add(f"{case}-{how}.ipynb", setup, RUN[how], AFTER)
    one.run(0)
    one.idle()
    one.page.evaluate(WATCH % (END, setup.count(END) + 1))
    sizes.clear()
    one.run(1)
    one.idle(seconds + 60)
    received, messages = sum(sizes), len(sizes)
    tasks = one.page.evaluate("window.tasks")
    shown = one.page.evaluate("window.shown")
    one.run(2)
    one.idle()
    said = one.output(2).first.inner_text()
    assert said.startswith("{"), said
    told = json.loads(said)
    marks = told["marks"]
    one.save()
    notebook = one.folder / f"{case}-{how}.ipynb"
    outputs = json.loads(notebook.read_text(encoding="utf-8"))["cells"][1]["outputs"]
    return Cost(
        megabytes=received / 1e6,
        messages=messages,
        cpu_seconds=told["cpu"],
        lag_seconds=(shown or time.time() * 1000) / 1000 - told["last"],
        saved_bytes=len(json.dumps(outputs, ensure_ascii=False).encode()),
        longest_task_ms=max(tasks, default=0.0),
        growth=statistics.mean(marks[-2:]) / max(statistics.mean(marks[:2]), 1e-9),
    )


def view_table() -> None:
    """Print what a view costs, a line for each kind of text, and what scrolling costs."""
    for row in (*view_cost(), scroll_cost()):
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    view_table()
