"""A text that streams, as blocks of HTML: finished ones stay, the open one grows.

Reads: notebook.markdown, notebook.sanitise, notebook.wording. Feeds: notebook.live.page.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from dsh_nb.notebook.markdown import OpenMarkdown, render_open
from dsh_nb.notebook.sanitise import escape
from dsh_nb.notebook.wording import strip_controls

__all__ = ["LiteralStream", "MarkdownStream", "Stream"]

SHARE = 40
"""Rendering the open block again may take a fortieth of the time; what comes between is shown
literally, so that a long block costs no more a chunk than a short one."""

LONGEST_END = 200
"""Characters at the end of a block in which its closing tags are looked for."""

# A last line of which only this much is there may become anything: a list, a heading, a fence.
_UNDECIDED = re.compile(r"(?:^|\n)[ ]{0,3}(?:[-=*_+#>`~|:]{1,8}|\d{1,9}[.)]?)[ ]?\Z")
# Where literal text can be added at the end of a block: inside its last paragraph or code.
_ENDS = re.compile(r"(?:</code></pre>|</p>|</h[1-6]>)(?:\s*</(?:li|ul|ol|div|blockquote)>)*\s*\Z")
_TAG = re.compile(r"</")


class Stream:
    """Blocks of HTML that a view has, and what must be told to make it have others.

    An op is what the view is told: ``["block", part, index, html]`` sets one,
    ``["edit", part, index, keep, html]`` keeps the first `keep` UTF-16 units of one,
    ``["add", part, index, text, depth]`` adds text in its last element `depth` levels down, and
    ``["trim", part, count]`` drops what comes after the first `count`.

    Attributes:
        blocks: The blocks as the view has them.
    """

    def __init__(self) -> None:
        self.blocks: list[str] = []

    def put(self, part: int, index: int, html: str) -> list[list[object]]:
        """Ops that make block `index` be `html`."""
        if index == len(self.blocks):
            self.blocks.append(html)
            return [["block", part, index, html]]
        before = self.blocks[index]
        if before == html:
            return []
        self.blocks[index] = html
        kept = _common(before, html)
        return [["edit", part, index, _utf16(html[:kept]), html[kept:]]]

    def finish(self, part: int, blocks: Sequence[str]) -> list[list[object]]:
        """Ops that leave exactly `blocks`."""
        ops = [op for index, html in enumerate(blocks) for op in self.put(part, index, html)]
        if len(self.blocks) > len(blocks):
            del self.blocks[len(blocks) :]
            ops.append(["trim", part, len(blocks)])
        return ops


class MarkdownStream(Stream):
    """Markdown as it arrives.

    Args:
        clock: Seconds, for the share of the time that rendering takes.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self._clock = clock
        self._tail = ""  # the source of the open block
        self._left_out = ""  # the end of it that its rendering does not show
        self._unseen: list[str] = []  # what came after it was rendered last
        self._closed = 0
        self._again_at = float("-inf")

    def feed(self, part: int, text: str) -> list[list[object]]:
        """Ops that show `text` after what came before."""
        self._unseen.append(text)
        if self._clock() >= self._again_at:
            return self._render(part)
        return self._add(part)

    def _render(self, part: int) -> list[list[object]]:
        began = self._clock()
        self._tail += "".join(self._unseen)
        self._unseen = []
        decided = _decided(self._tail)
        parted = render_open(strip_controls(decided))
        ops: list[list[object]] = []
        for html in parted.closed:
            ops += self.put(part, self._closed, html)
            self._closed += 1
        undecided = self._tail[len(decided) :]
        self._left_out = _left_out(parted) + undecided
        if parted.closed:
            self._tail = parted.source + undecided
        if parted.html or len(self.blocks) > self._closed:
            ops += self.put(part, self._closed, parted.html)
        now = self._clock()
        self._again_at = now + SHARE * (now - began)
        return ops

    def _add(self, part: int) -> list[list[object]]:
        """Show what is new literally, where the open block ends in text."""
        if len(self.blocks) <= self._closed:
            return []
        html = self.blocks[-1]
        end = _ENDS.search(html[-LONGEST_END:])
        text = strip_controls(self._left_out + "".join(self._unseen))
        if end is None or not text:
            return []
        self._tail += "".join(self._unseen)
        self._unseen, self._left_out = [], ""
        self.blocks[-1] = html[: len(html) - len(end[0])] + escape(text) + end[0]
        return [["add", part, self._closed, text, len(_TAG.findall(end[0]))]]


class LiteralStream(Stream):
    """Text as it arrives that is no Markdown: the arguments of a call."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__()
        self._before = before
        self._after = after

    def feed(self, part: int, text: str) -> list[list[object]]:
        """Ops that show `text` after what came before."""
        text = strip_controls(text)
        if not self.blocks:
            return self.put(part, 0, self._before + escape(text) + self._after)
        html = self.blocks[0].removesuffix(self._after)
        self.blocks[0] = html + escape(text) + self._after
        return [["add", part, 0, text, len(_TAG.findall(self._after))]]


def _decided(text: str) -> str:
    """`text` without a last line of which too little is there to tell what it will be."""
    found = _UNDECIDED.search(text[-16:])
    return text if found is None else text[: len(text) - (len(found[0].lstrip("\n")))]


def _left_out(parted: OpenMarkdown) -> str:
    """White space at the end of the open block that its HTML does not have."""
    end = _ENDS.search(parted.html[-LONGEST_END:])
    if end is None or not end[0].startswith("</code>"):
        return parted.source[len(parted.source.rstrip()) :]
    code = parted.html.rpartition("<code")[2].partition(">")[2]
    return "\n" if parted.source.endswith("\n") and not code.startswith("</code>") else ""


def _common(one: str, other: str) -> int:
    """Length of the beginning that both share; compared in halves, which runs at memory speed."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _utf16(text: str) -> int:
    """Length of `text` as a browser counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
