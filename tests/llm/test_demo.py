"""The demo model: whole turns as a newcomer sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dsh_nb.llm.demo import DemoModel
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.messages import (
    Block,
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    ImageBlock,
    JsonObject,
    Message,
    ReasoningBlock,
    ResultContent,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    text_of,
)

WHOLE: JsonObject = {"type": "integer"}
NOTICE = "offline demo model"
Run = Callable[[str], str | tuple[ResultContent, ...]]


def tool(
    name: str, description: str, required: str = "", /, **properties: JsonObject
) -> ToolSchema:
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return ToolSchema(name, description, schema)


TOOLS = (
    tool("add", "Add two numbers.", "a b", a=WHOLE, b=WHOLE),
    tool("multiply", "Multiply two numbers.", "a b", a=WHOLE, b=WHOLE),
    tool("head", "Show the first rows of the table.", n={**WHOLE, "default": 5}),
    tool(
        "weather", "Get the weather for a city.", "city",
        city={"type": "string", "description": "Name of the city."},
    ),
    tool("plot", "Draw a column.", "column kind", column={"type": "string"},
         kind={"type": "string", "enum": ["line", "bar"]}),
)  # fmt: skip


class Session:
    """A history that grows as the loop would make it grow."""

    def __init__(self, *, tools: Sequence[ToolSchema] = TOOLS, system: str | None = None) -> None:
        self.model = DemoModel(pace=0.0)
        self.messages: list[Message] = []
        self.tools = tuple(tools)
        self.system = system

    async def stream(self) -> list[Chunk]:
        request = ModelRequest("demo", tuple(self.messages), self.system, self.tools)
        return [chunk async for chunk in self.model.stream(request)]

    async def step(self) -> tuple[Block, ...]:
        chunks = await self.stream()
        content = tuple(chunk.block for chunk in chunks if isinstance(chunk, BlockEnd))
        self.messages.append(Message("assistant", content))
        return content

    def say(self, text: str) -> None:
        self.messages.append(Message("user", (TextBlock(text),)))

    def steer(self, text: str, source: str = "user") -> None:
        self.say(f'<steering source="{source}">{text}</steering>')

    def answer(self, content: tuple[Block, ...], run: Run, *, is_error: bool = False) -> None:
        for block in content:
            if isinstance(block, ToolCallBlock):
                given = run(f"{block.name} {block.arguments}")
                result = (TextBlock(given),) if isinstance(given, str) else given
                message = Message("user", (ToolResultBlock(block.id, result, is_error),))
                self.messages.append(message)

    async def turn(self, text: str, run: Run = str, *, is_error: bool = False) -> list[str]:
        """Say `text` and run the turn to its end; what it called, and last its answer."""
        self.say(text)
        said: list[str] = []
        for _ in range(9):
            content = await self.step()
            if not (made := calls(content)):
                return [*said, text_of(content)]
            said += made
            self.answer(content, run, is_error=is_error)
        raise AssertionError(f"the turn does not end: {said}")


def calls(content: tuple[Block, ...]) -> list[str]:
    return [f"{b.name} {b.arguments}" for b in content if isinstance(b, ToolCallBlock)]


async def test_free_text_is_answered_honestly() -> None:
    (answer,) = await Session().turn("Hello, write me a poem")

    assert answer == (
        "Hello! None of my tools fits that, and free text is beyond me. Try for example "
        "`add(a=2, b=3)` or `multiply(a=2, b=3)`, or ask *what can you do?*\n\n"
        "I am the **offline demo model**: a few rules, no language model. For a real one, set "
        '`ANTHROPIC_API_KEY` and pass `model="claude-…"`, or pass `base_url=…` for a server of '
        "your own."
    )


async def test_without_tools_it_says_so() -> None:
    (answer,) = await Session(tools=()).turn("add 2 and 3")

    assert answer.startswith("I have no tools here, and free text is beyond me.")
    assert NOTICE in answer


async def test_first_step_thinks_speaks_and_calls() -> None:
    session = Session()
    session.say("Add 2 and 3")

    chunks = await session.stream()

    assert [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)] == [
        ReasoningBlock("The text names the tool add: a = 2, b = 3."),
        TextBlock("Let me call **add**."),
        ToolCallBlock("call_1_1", "add", '{"a": 2, "b": 3}'),
    ]
    assert chunks[-1] == Finish(FinishReason("tool-calls"))


async def test_short_result_stands_inline() -> None:
    *made, answer = await Session().turn("Add 2 and 3", lambda call: "5")

    assert made == ['add {"a": 2, "b": 3}']
    assert answer.startswith("`add(a=2, b=3)` gives **5**\n\n")
    assert NOTICE in answer


async def test_table_stands_in_a_fence() -> None:
    *_, answer = await Session().turn("head", lambda call: "a  b\n1  ```")

    assert answer.startswith("`head()` gives:\n\n````text\na  b\n1  ```\n````\n\n")


async def test_long_result_is_cut() -> None:
    *_, answer = await Session().turn("head", lambda call: "\n".join(map(str, range(100))))

    assert "29\n```\n\n… and 70 more lines." in answer


async def test_markdown_in_a_short_result_is_shown_and_not_rendered() -> None:
    *_, answer = await Session().turn("head", lambda call: "*a* `b` <i>")

    assert answer.startswith("`head()` gives `` *a* `b` <i> ``\n\n")


async def test_failed_call_is_called_a_failure() -> None:
    *_, answer = await Session().turn(
        "Weather in Atlantis", lambda call: "no such city", is_error=True
    )

    assert answer.startswith('`weather(city="Atlantis")` **failed**: no such city\n\n')


async def test_picture_in_a_result_is_mentioned() -> None:
    picture = (ImageBlock("data:image/png;base64,"),)

    *_, answer = await Session().turn("plot revenue as bars", lambda call: picture)

    assert answer.startswith('`plot(column="revenue", kind="bar")` gives 1 picture.')


async def test_later_answers_carry_a_short_notice() -> None:
    session = Session()
    await session.turn("Add 2 and 3", lambda call: "5")

    *_, answer = await session.turn("Add 4 and 5", lambda call: "9")

    assert answer == "`add(a=4, b=5)` gives **9**\n\n*(offline demo model)*"


async def test_tools_in_order_take_a_step_each_and_pass_numbers_on() -> None:
    def run(call: str) -> str:
        return "5" if call.startswith("add") else "20"

    *made, answer = await Session().turn("Add 2 and 3, then multiply the result by 4", run)

    assert made == ['add {"a": 2, "b": 3}', 'multiply {"a": 5, "b": 4}']
    assert "- `add(a=2, b=3)` gives **5**\n- `multiply(a=5, b=4)` gives **20**" in answer


async def test_failed_step_leaves_what_needed_its_number_open() -> None:
    *made, answer = await Session().turn(
        "Add 2 and 3, then multiply it by 4", lambda call: "broken", is_error=True
    )

    assert made == ['add {"a": 2, "b": 3}']
    assert "To call **multiply** I still need `b` (integer)." in answer


async def test_turn_takes_at_most_four_steps_of_calls() -> None:
    prompt = ", then ".join(f"add {n} and {n}" for n in range(1, 7))

    *made, answer = await Session().turn(prompt, lambda call: "2")

    assert made == [f'add {{"a": {n}, "b": {n}}}' for n in (1, 2, 3, 4)]
    assert "I stop after 4 steps of calls; still open: `add`." in answer


async def test_no_call_is_made_twice_for_one_prompt() -> None:
    *made, _ = await Session().turn("head, then head, then add 1 and 2 and the head")

    assert made == ["head {}", 'add {"a": 1, "b": 2}']


async def test_missing_argument_is_asked_for_and_taken_from_the_reply() -> None:
    session = Session()

    (question,) = await session.turn("What's the weather?")
    *made, _ = await session.turn("Oslo")

    assert question.startswith(
        "To call **weather** I still need `city` (Name of the city). "
        'Tell me, for example: `weather(city="…")`.'
    )
    assert made == ['weather {"city": "Oslo"}']


async def test_reply_that_names_another_tool_starts_anew() -> None:
    session = Session()
    await session.turn("plot revenue")

    *made, _ = await session.turn("Never mind, add 1 and 2")

    assert made == ['add {"a": 1, "b": 2}']


async def test_steering_is_acknowledged_once() -> None:
    session = Session()
    session.say("Add 2 and 3")
    session.answer(await session.step(), lambda call: "5")
    session.steer("use euros &amp; <b>")

    first = text_of(await session.step())
    session.steer("hurry", source="budget")
    second = text_of(await session.step())

    assert first.startswith(
        "You added: “use euros &amp; <b>”. A real model would now take that into account.\n\n"
        "`add(a=2, b=3)` gives **5**"
    )
    assert second == (
        "budget added: “hurry”. A real model would now take that into account.\n\n"
        "*(offline demo model)*"
    )


async def test_steering_that_names_a_tool_is_followed() -> None:
    session = Session()
    session.say("Add 2 and 3")
    session.answer(await session.step(), lambda call: "5")
    session.steer("and the weather in Rome")

    content = await session.step()
    session.answer(content, lambda call: "sunny")
    answer = text_of(await session.step())

    assert text_of(content) == "You added: “and the weather in Rome”.\n\nLet me call **weather**."
    assert calls(content) == ['weather {"city": "Rome"}']
    assert '- `add(a=2, b=3)` gives **5**\n- `weather(city="Rome")` gives **sunny**' in answer


async def test_steering_after_the_answer_does_not_repeat_the_results() -> None:
    session = Session()
    await session.turn("Add 2 and 3", lambda call: "5")
    session.steer("head too")

    content = await session.step()
    session.answer(content, lambda call: "rows")

    assert calls(content) == ["head {}"]
    assert text_of(await session.step()) == "`head()` gives **rows**\n\n*(offline demo model)*"


async def test_context_starts_nothing() -> None:
    session = Session()
    session.say('<context source="plugin">add 7 and 8</context>')

    *made, _ = await session.turn("head")

    assert made == ["head {}"]


async def test_continued_turn_with_nothing_to_do_says_so() -> None:
    session = Session()
    await session.turn("head")

    assert text_of(await session.step()).startswith("There is nothing left to do.")


@pytest.mark.parametrize(
    "question", ["What can you do?", "which tools do you have", "help", "Who are you?"]
)
async def test_question_for_abilities_lists_the_tools(question: str) -> None:
    (answer,) = await Session().turn(question)

    assert "- **add**: Add two numbers. (`a`, `b`)\n- **multiply**: " in answer
    assert NOTICE in answer


@pytest.mark.parametrize(
    "question", ["What does plot do?", "how do I use `plot`", "explain the plot tool"]
)
async def test_question_about_a_tool_describes_it(question: str) -> None:
    (answer,) = await Session().turn(question)

    assert answer.startswith(
        "- **plot**: Draw a column. (`column`, `kind`)\n\n"
        'For example: `plot(column="…", kind="line")`.'
    )


async def test_steering_does_not_turn_a_question_into_a_call() -> None:
    session = Session()
    await session.turn("What does head do?")
    session.steer("thanks")

    content = await session.step()

    assert calls(content) == []
    assert text_of(content).startswith("You added: “thanks”.")


async def test_question_for_the_system_prompt_quotes_it() -> None:
    (answer,) = await Session(system="Be brief.").turn("What is your system prompt?")
    (without,) = await Session().turn("What is your system prompt?")

    assert answer.startswith("My system prompt:\n\n```text\nBe brief.\n```")
    assert without.startswith("There is no system prompt.")


async def test_picture_alone_is_declined() -> None:
    session = Session()
    session.messages.append(Message("user", (ImageBlock("data:image/png;base64,"),)))

    assert text_of(await session.step()).startswith("I cannot look at pictures. ")


async def test_empty_history_is_answered() -> None:
    assert NOTICE in text_of(await Session().step())


async def test_same_history_gives_the_same_stream() -> None:
    first, second = Session(), Session()
    for session in (first, second):
        session.say("Weather in Rome and Oslo, then add 1 and 2")

    assert await first.stream() == await second.stream()


async def test_call_ids_differ_from_those_of_an_earlier_instance() -> None:
    session = Session()
    await session.turn("Add 2 and 3")
    session.model = DemoModel(pace=0.0)
    await session.turn("Add 4 and 5")

    blocks = [block for message in session.messages for block in message.content]
    ids = [block.id for block in blocks if isinstance(block, ToolCallBlock)]
    assert ids == ["call_1_1", "call_5_1"]


async def test_long_history_is_read_from_its_end() -> None:
    class Tail(tuple[Message, ...]):
        def __getitem__(self, place: object) -> Message:  # type: ignore[override]
            assert isinstance(place, int)
            assert place > len(self) - 300 or place < 0, f"message {place} was read"
            return super().__getitem__(place)

        def __reversed__(self):  # type: ignore[no-untyped-def]
            return (self[place] for place in range(len(self) - 1, -1, -1))

    past = [Message("user", (TextBlock("head"),)), Message("assistant", (TextBlock("Done."),))]
    messages = Tail([*past * 500, Message("user", (TextBlock("Add 2 and 3"),))])

    stream = DemoModel(pace=0.0).stream(ModelRequest("demo", messages, None, TOOLS))
    content = [chunk.block async for chunk in stream if isinstance(chunk, BlockEnd)]

    assert calls(tuple(content)) == ['add {"a": 2, "b": 3}']


def test_demo_is_named_and_paced_naturally() -> None:
    assert DemoModel.name == "demo"
    assert repr(DemoModel()) == "DemoModel()"
