"""What is still coming: the blocks of a step that streams, and calls that wait for a result.

Reads: messages, session.events, notebook.parts, notebook.arguments. Feeds: notebook.transcript.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsh_nb.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ImageBlock,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.notebook.arguments import as_json, pretty_json
from dsh_nb.notebook.parts import ImagePart, Part, TextPart, ThinkingPart, ToolPart, ToolState
from dsh_nb.session.events import ToolResult

__all__ = ["CallEntry", "StreamedBlock", "StreamedStep"]

_STATES: dict[str, ToolState] = {
    "ok": "done",
    "error": "failed",
    "denied": "denied",
    "interrupted": "interrupted",
    "not started": "not started",
}
_GOES_ON = ("running", "waiting for approval")


class StreamedBlock:
    """A block as far as it has been streamed; text is collected in pieces and joined when read."""

    __slots__ = ("began", "call_id", "ended", "kind", "name", "open", "pieces", "url")

    def __init__(self, kind: str, time: int, call_id: str = "", name: str = "") -> None:
        self.kind = kind
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.url = ""
        self.open = True
        self.began = self.ended = time

    @property
    def text(self) -> str:
        """What was streamed of it."""
        return "".join(self.pieces)

    @property
    def seconds(self) -> float:
        """From its beginning to its newest piece."""
        return (self.ended - self.began) / 1000

    def add(self, piece: str, time: int) -> None:
        """Take another piece."""
        self.pieces.append(piece)
        self.ended = time

    def close(self, block: object, time: int) -> None:
        """Take the whole block, which is what counts."""
        self.open = False
        self.ended = time
        if isinstance(block, (TextBlock, ReasoningBlock)):
            self.pieces = [block.text]
        elif isinstance(block, ToolCallBlock):
            self.call_id, self.name, self.pieces = block.id, block.name, [block.arguments]
        elif isinstance(block, ImageBlock):
            self.url = block.url

    def part(self) -> Part | None:
        """What there is to see of it."""
        if self.kind == "reasoning":
            return ThinkingPart(self.text, self.open, self.seconds)
        if self.kind == "tool-call":
            arguments = self.text if self.open else pretty_json(self.text)
            return ToolPart(call_id=self.call_id, name=self.name, arguments=arguments)
        if self.url:
            return ImagePart(self.url, "image from the model")
        return TextPart(self.text, self.open) if self.text else None


class StreamedStep:
    """The blocks of one attempt at a step, by index.

    Attributes:
        first: Position in the transcript where they belong.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self._blocks: dict[int, StreamedBlock] = {}
        self._newest: StreamedBlock | None = None

    def feed(self, chunk: Chunk, time: int) -> StreamedBlock | None:
        """Take a chunk; gives the block when it begins one."""
        if isinstance(chunk, TextDelta):
            return self._add(chunk.index, "text", chunk.text, time)
        if isinstance(chunk, ReasoningDelta):
            return self._add(chunk.index, "reasoning", chunk.text, time)
        if isinstance(chunk, ToolCallDelta):
            return self._add_arguments(chunk, time)
        if isinstance(chunk, BlockStart):
            return self._open(chunk.index, chunk.block_type, time, chunk.id or "", chunk.name or "")
        if isinstance(chunk, BlockEnd):
            return self._close(chunk, time)
        if isinstance(chunk, Finish) and self._newest is not None:
            self._newest.open = False
        return None

    def thinking_seconds(self) -> Iterator[float | None]:
        """How long each block of thinking was streamed, in order."""
        return iter([block.seconds for block in self._blocks.values() if block.kind == "reasoning"])

    def leftovers(self) -> Iterator[Part]:
        """What stays of blocks that no message confirmed: what was read, no half calls."""
        for block in self._blocks.values():
            block.open = False
            part = block.part()
            if isinstance(part, TextPart):
                yield TextPart(part.text, interrupted=True)
            elif part is not None and not isinstance(part, ToolPart):
                yield part

    def _add(self, index: int, kind: str, piece: str, time: int) -> StreamedBlock | None:
        block = self._blocks.get(index)
        begun = self._open(index, kind, time) if block is None else None
        self._blocks[index].add(piece, time)
        return begun

    def _add_arguments(self, chunk: ToolCallDelta, time: int) -> StreamedBlock | None:
        begun = self._add(chunk.index, "tool-call", chunk.arguments_delta, time)
        block = self._blocks[chunk.index]
        block.call_id = block.call_id or chunk.id
        block.name = block.name or chunk.name or ""
        return begun

    def _open(
        self, index: int, kind: str, time: int, call_id: str = "", name: str = ""
    ) -> StreamedBlock | None:
        if index in self._blocks:
            return None
        if self._newest is not None:
            self._newest.open = False
        block = self._newest = self._blocks[index] = StreamedBlock(kind, time, call_id, name)
        return block

    def _close(self, chunk: BlockEnd, time: int) -> StreamedBlock | None:
        kind = str(chunk.block.__struct_config__.tag)
        begun = self._open(chunk.index, kind, time)
        self._blocks[chunk.index].close(chunk.block, time)
        return begun


class CallEntry:
    """A tool call from the message that asked for it to its result."""

    __slots__ = (
        "_arguments",
        "_call_id",
        "_name",
        "_note",
        "_part",
        "_progress",
        "_result",
        "_seconds",
        "_started",
        "_state",
    )

    def __init__(self, call_id: str, name: str, arguments: str) -> None:
        self._call_id = call_id
        self._name = name
        self._arguments = arguments
        self._state: ToolState = "not started"
        self._started: int | None = None
        self._seconds: float | None = None
        self._result: ToolResult | None = None
        self._progress: float | str = ""
        self._note = ""
        self._part: ToolPart | None = None

    def start(self, name: str, arguments: str, time: int) -> None:
        """It runs, with these arguments."""
        self._name, self._arguments = name, arguments
        self._state, self._started, self._part = "running", time, None

    def ask(self, time: int) -> None:
        """It waits for a person."""
        self._state, self._started, self._part = "waiting for approval", time, None

    def decide(self, approved: bool, note: str, arguments: object, time: int) -> None:
        """A person has decided; `arguments` are those that the person changed, if any."""
        self._note, self._started, self._part = note, time, None
        if approved:
            self._state = "running"
        if arguments is not None:
            self._arguments = as_json(arguments)

    def report(self, progress: float | str) -> None:
        """It goes on, and says so."""
        self._progress, self._part = progress, None

    def settle(self, result: ToolResult, time: int) -> None:
        """It has its result."""
        self._state = _STATES.get(result.outcome, "failed" if result.is_error else "done")
        self._result, self._part = result, None
        if self._started is not None:
            self._seconds = (time - self._started) / 1000

    def give_up(self) -> None:
        """The turn is over: without a result there will be none."""
        if self._state in ("running", "waiting for approval"):
            self._state, self._part = "interrupted", None

    def part(self) -> ToolPart:
        """What there is to see of it."""
        if self._part is None:
            self._part = self._read()
        return self._part

    def _read(self) -> ToolPart:
        result = self._result
        content = () if result is None else result.content
        return ToolPart(
            call_id=self._call_id,
            name=self._name,
            arguments=pretty_json(self._arguments),
            state=self._state,
            seconds=self._seconds,
            since=self._started if result is None and self._state in _GOES_ON else None,
            progress=self._progress if self._state == "running" else "",
            note=self._note,
            content="\n".join(block.text for block in content if isinstance(block, TextBlock)),
            images=tuple(
                ImagePart(block.url, f"image from {self._name}")
                for block in content
                if isinstance(block, ImageBlock)
            ),
            display=None if result is None else result.display,
            overflow_chars=len(result.overflow or "") if result else 0,
            settled=result is not None,
        )
