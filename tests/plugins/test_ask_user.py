"""Asking the user: what the model may ask, how an answer reaches it, and what the log says."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from dsh_nb.core import CORE_ERROR, Fiber
from dsh_nb.errors import ConfigError
from dsh_nb.llm.scripted import ScriptedModel, Step, call, say
from dsh_nb.messages import JsonObject, text_of
from dsh_nb.plugins.ask_user import (
    QUESTION_ANSWERED,
    QUESTION_ASKED,
    QUESTIONS,
    Question,
    Questions,
    ask_user,
)
from dsh_nb.session.check import check_log
from dsh_nb.session.events import ToolResult
from dsh_nb.tables.tool_calls import tool_calls
from dsh_nb.testing import TestAgent, running_agent
from dsh_nb.tools.registry import TOOLS
from dsh_nb.tools.tool import ToolCall

GO_ON = "go on with your best assumption, and say what you assumed"
COLOURS = ["red", "blue"]


@dataclass
class Asked:
    """An agent that asks, and what came of its questions."""

    test: TestAgent
    questions: Questions
    fiber: Fiber
    live: list[tuple[str, str]] = field(default_factory=list)

    async def waiting(self, count: int = 1) -> tuple[Question, ...]:
        """What waits, once as many questions wait."""
        async with asyncio.timeout(5):
            while True:
                questions = self.questions.pending()
                if len(questions) >= count:
                    return questions
                await asyncio.sleep(0)

    @property
    def answered(self) -> list[JsonObject]:
        """The answers in the log, without what binds them to their calls."""
        place = {"turn", "step", "callId", "id"}
        events = [one.data for one in self.test.log if one.type == "question/answered"]
        return [{key: data[key] for key in data if key not in place} for data in events]

    @property
    def results(self) -> list[tuple[str, str]]:
        """Outcome and text of each result, in log order."""
        found = [one.data for one in self.test.log if isinstance(one.data, ToolResult)]
        return [(one.outcome, text_of(one.content)) for one in found]

    def check(self) -> None:
        """The log holds, and each question was resolved once."""
        check_log(self.test.log, ended=True)
        asked = [one.data["id"] for one in self.test.log if one.type == "question/asked"]
        answered = [one.data["id"] for one in self.test.log if one.type == "question/answered"]
        assert sorted(asked) == sorted(answered)
        assert self.questions.pending() == ()


@asynccontextmanager
async def asking(*steps: Step, config: JsonObject | None = None) -> AsyncIterator[Asked]:
    async with running_agent(ScriptedModel([*steps, say("done")])) as test:
        fiber = await test.ctx.plugin(ask_user, config or {})
        case = Asked(test, test.ctx.get(QUESTIONS), fiber)
        test.ctx.on(QUESTION_ASKED, lambda one: case.live.append(("asked", one.text)))
        test.ctx.on(QUESTION_ANSWERED, lambda one, outcome: case.live.append((outcome, one.text)))
        yield case


def ask(question: str, **arguments: Any) -> Any:
    return call("ask_user", question=question, **arguments)


# Questions and answers.


async def test_model_is_told_what_it_may_ask() -> None:
    async with asking() as case:
        tool = case.test.ctx.get(TOOLS).get("ask_user")
        assert tool is not None
        properties = tool.parameters["properties"]

        assert tool.description.startswith("Ask the user a question, and wait for the answer.")
        assert tool.parameters["required"] == ["question"]
        assert {name: one.get("default") for name, one in properties.items()} == {
            "question": None,
            "options": [],
            "free_text": True,
        }
        assert all(one["description"] for one in properties.values())


async def test_question_waits_until_it_is_answered() -> None:
    async with asking(ask(" Which? ", options=["red", " blue ", "", "red"])) as case:
        case.test.agent.send("go")
        (question,) = await case.waiting()

        started, logged = (event.data for event in case.test.log[-2:])
        assert question == Question(
            id=question.id,
            call_id=started.call_id,
            agent="main",
            turn=1,
            step=1,
            text="Which?",
            options=("red", "blue"),
            free_text=True,
            asked_at=question.asked_at,
        )
        assert logged == {
            "turn": 1,
            "step": 1,
            "callId": started.call_id,
            "id": question.id,
            "question": "Which?",
            "options": ["red", "blue"],
            "freeText": True,
        }
        assert case.questions.answer("blue") is True
        await case.test.idle()
        assert case.results == [("ok", "blue")]
        assert case.answered == [{"outcome": "answered", "answer": "blue"}]
        assert case.live == [("asked", "Which?"), ("answered", "Which?")]
        case.check()


@pytest.mark.parametrize(
    ("options", "free_text", "answer", "told"),
    [
        ([], True, "  whatever\nI like ", "whatever\nI like"),
        (COLOURS, True, "green", "green"),
        (COLOURS, True, "red", "red"),
        (COLOURS, False, " red ", "red"),
        ([], True, "\ud83d", "�"),
    ],
)
async def test_answer_is_told_to_the_model(
    options: list[str], free_text: bool, answer: str, told: str
) -> None:
    async with asking(ask("Which?", options=options, free_text=free_text)) as case:
        case.test.agent.send("go")
        await case.waiting()
        case.questions.answer(answer)
        await case.test.idle()

        assert case.results == [("ok", told)]
        case.check()


@pytest.mark.parametrize(
    ("free_text", "answer", "error", "match"),
    [
        (True, "", ValueError, "the answer '' is blank"),
        (True, " \n ", ValueError, "is blank; write something, or decline"),
        (
            False,
            "green",
            ValueError,
            r"'green' is none of the options; pass one of \['red', 'blue'",
        ),
        (False, "Red", ValueError, "'Red' is none of the options"),
        (True, 3, TypeError, "the answer is 3; pass a str"),
    ],
)
async def test_answer_that_is_none_leaves_the_question_open(
    free_text: bool, answer: Any, error: type[Exception], match: str
) -> None:
    async with asking(ask("Which?", options=COLOURS, free_text=free_text)) as case:
        case.test.agent.send("go")
        (question,) = await case.waiting()

        with pytest.raises(error, match=match):
            case.questions.answer(answer)
        assert case.questions.pending() == (question,)
        case.questions.answer("red")
        await case.test.idle()
        assert case.results == [("ok", "red")]


@pytest.mark.parametrize(
    ("reason", "logged", "text"),
    [
        ("", {}, f"the user does not want to answer this question; {GO_ON}"),
        (
            "ask Ann",
            {"reason": "ask Ann"},
            f"the user does not want to answer this question: ask Ann; {GO_ON}",
        ),
    ],
)
async def test_declined_question_lets_the_model_go_on(
    reason: str, logged: JsonObject, text: str
) -> None:
    async with asking(ask("Which?")) as case:
        case.test.agent.send("go")
        (question,) = await case.waiting()
        declined = [case.questions.decline(reason=reason), case.questions.decline(question.id)]
        await case.test.idle()

        assert (declined, case.results) == ([True, False], [("ok", text)])
        assert case.answered == [{"outcome": "declined", **logged}]
        case.check()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"question": " "}, "the question is blank; ask something"),
        (
            {"question": "Which?", "free_text": False},
            "free_text is false and there are no options to choose from; pass some",
        ),
        (
            {"question": "Which?", "options": [" "], "free_text": False},
            "free_text is false and there are no options to choose from; pass some",
        ),
    ],
)
async def test_question_that_cannot_be_answered_is_not_asked(
    arguments: JsonObject, problem: str
) -> None:
    async with asking(call("ask_user", **arguments)) as case:
        await case.test.say("go")

        assert case.results == [("error", f"{problem}; nobody was asked")]
        assert (case.answered, case.live) == ([], [])


async def test_long_answer_can_be_read_on() -> None:
    async with asking(ask("Paste it")) as case:
        case.test.agent.send("go")
        await case.waiting()
        case.questions.answer("word " * 20_000)
        await case.test.idle()

        (result,) = (one.data for one in case.test.log if isinstance(one.data, ToolResult))
        assert result.overflow == ("word " * 20_000).strip()


# Several at once, and from any thread.


@pytest.mark.parametrize("order", [*itertools.permutations([0, 1, 2])])
async def test_parallel_questions_are_answered_in_any_order(order: Sequence[int]) -> None:
    async with asking([ask(f"q{n}") for n in range(3)]) as case:
        case.test.agent.send("go")
        questions = await case.waiting(3)
        for n in order:
            case.questions.answer(f"a{n}", questions[n].id)
        await case.test.idle()

        assert case.results == [("ok", f"a{n}") for n in range(3)]
        case.check()


async def test_answer_without_an_id_needs_one_question() -> None:
    async with asking([ask("a"), ask("b")]) as case:
        assert (case.questions.answer("early"), case.questions.decline()) == (False, False)
        case.test.agent.send("go")
        first, second = await case.waiting(2)

        with pytest.raises(ValueError, match="several questions wait; name one of"):
            case.questions.answer("yes")
        with pytest.raises(ValueError, match="several questions wait; name one of"):
            case.questions.decline()
        case.questions.answer("yes", second.id)
        case.questions.answer("no")
        await case.test.idle()
        assert case.results == [("ok", "no"), ("ok", "yes")]
        assert case.questions.answer("late", first.id) is False


async def test_answers_come_from_any_thread_and_count_once() -> None:
    async with asking(ask("Which?")) as case:
        heard_on: set[int] = set()
        case.test.ctx.on(QUESTION_ANSWERED, lambda *args: heard_on.add(threading.get_ident()))
        case.test.agent.send("go")
        (question,) = await case.waiting()
        said = [f"a{n}" for n in range(8)]
        threads = [
            threading.Thread(target=case.questions.answer, args=(one, question.id)) for one in said
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await case.test.idle()

        ((outcome, told),) = case.results
        assert (outcome, told in said, heard_on) == ("ok", True, {threading.get_ident()})
        case.check()


async def test_waiting_does_not_block_the_loop() -> None:
    async with asking(ask("Which?")) as case:
        case.test.agent.send("go")
        await case.waiting()
        case.test.agent.inject("meanwhile")
        await case.test.until("context/message")

        assert len(case.questions.pending()) == 1
        case.questions.answer("red")
        await case.test.idle()
        case.check()


async def test_listener_may_answer_while_it_is_told() -> None:
    async with asking(ask("Which?")) as case:
        case.test.ctx.on(QUESTION_ASKED, lambda one: case.questions.answer("red", one.id))
        await case.test.say("go")

        assert case.results == [("ok", "red")]
        case.check()


# No answer.


async def test_stop_ends_the_waiting_and_says_so() -> None:
    async with asking([ask("a"), ask("b")]) as case:
        before = asyncio.all_tasks()
        case.test.agent.send("go")
        first, second = await case.waiting(2)
        case.questions.answer("yes", second.id)
        case.test.agent.abort("enough")
        late = case.questions.answer("no", first.id)
        await case.test.idle()

        text = "the turn was stopped before anybody answered this question (enough)"
        assert case.results == [("interrupted", text), ("ok", "yes")]
        assert case.answered == [
            {"outcome": "answered", "answer": "yes"},
            {"outcome": "stopped", "reason": "enough"},
        ]
        assert (late, asyncio.all_tasks()) == (False, before)
        case.check()
        await case.test.say("again")
        assert case.test.log[-1].data.reason.kind == "completed"


async def test_disposed_agent_waits_no_longer() -> None:
    async with asking(ask("a")) as case:
        case.test.agent.send("go")
        await case.waiting()
        await case.test.agent.dispose()

        why = "the agent was disposed"
        text = f"asking this question ended before anybody answered it ({why})"
        assert case.results == [("interrupted", text)]
        assert case.answered == [{"outcome": "disposed", "reason": why}]
        case.check()


async def test_disposed_plugin_asks_no_longer() -> None:
    async with asking([ask("a"), ask("b")]) as case:
        case.test.agent.send("go")
        await case.waiting(2)
        await case.fiber.dispose()
        await case.test.idle()

        text = "asking this question ended before anybody answered it"
        assert case.results == [("error", text)] * 2
        assert case.answered == [{"outcome": "disposed"}] * 2
        assert case.test.ctx.provides("questions") is False
        assert case.test.ctx.get(TOOLS).get("ask_user") is None
        case.check()


async def test_question_to_a_disposed_plugin_is_not_asked() -> None:
    async with asking() as case:
        await case.fiber.dispose()
        outcome = await case.questions.ask(ToolCall(id="c1", name="ask_user", arguments={}), "Hm?")

        text = "asking this question ended before anybody answered it"
        assert (outcome.is_error, text_of(outcome.content)) == (True, text)


async def test_question_that_nobody_answers_times_out() -> None:
    async with asking(ask("a"), config={"timeout_seconds": 0.01}) as case:
        await case.test.say("go")

        text = f"nobody answered this question in time (0.01 s); {GO_ON}"
        assert case.results == [("error", text)]
        assert case.answered == [{"outcome": "timeout", "reason": "0.01 s"}]
        assert case.live == [("asked", "a"), ("timeout", "a")]
        case.check()


@pytest.mark.parametrize("fails", [False, True])
async def test_model_is_told_at_once_that_nobody_is_there(fails: bool) -> None:
    async with asking(ask("a")) as case:
        errors: list[str] = []
        case.test.ctx.on(CORE_ERROR, lambda error, doing: errors.append(doing))
        case.questions.can_ask = [].pop if fails else lambda: False
        await case.test.say("go")

        assert case.results == [("error", f"nobody is there to answer questions; {GO_ON}")]
        assert case.answered == [{"outcome": "nobody"}]
        assert errors == (["asking whether somebody is there"] if fails else [])
        assert case.live == []
        case.check()


async def test_failing_listeners_change_no_answer() -> None:
    def fails(*args: object) -> None:
        raise SystemExit("away")

    async with asking(ask("a")) as case:
        errors: list[str] = []
        case.test.ctx.on(CORE_ERROR, lambda error, doing: errors.append(doing))
        case.test.ctx.on(QUESTION_ASKED, fails)
        case.test.ctx.on(QUESTION_ANSWERED, fails)
        case.test.agent.send("go")
        await case.waiting()
        case.questions.answer("yes")
        await case.test.idle()

        assert case.results == [("ok", "yes")]
        assert errors == [f"a listener of 'question/{one}'" for one in ("asked", "answered")]


# The log, the table, the config.


async def test_question_of_a_killed_kernel_is_asked_again_only_by_the_model() -> None:
    async with asking(ask("a")) as case:
        case.test.agent.send("go")
        await case.waiting()
        seed = case.test.log
        case.questions.decline()
        await case.test.idle()

    async with running_agent(ScriptedModel([say("done")]), seed=seed) as test:
        fiber = await test.ctx.plugin(ask_user, {})
        resumed = Asked(test, test.ctx.get(QUESTIONS), fiber)

        assert resumed.results == [("interrupted", "nobody has answered this question")]
        assert resumed.questions.pending() == ()


async def test_table_tells_how_long_a_question_waited() -> None:
    async with asking(ask("a"), config={"timeout_seconds": 0.02}) as case:
        await case.test.say("go")
        row = tool_calls(case.test.agent.session).iloc[0]

        assert (row["tool"], row["outcome"]) == ("ask_user", "error")
        assert 0.01 <= row["waiting_seconds"] <= row["seconds"]


async def test_question_of_no_agent_is_asked_and_logged_nowhere() -> None:
    async with asking() as case:
        given = ToolCall(id="c1", name="ask_user", arguments={"question": "a"})
        running = asyncio.create_task(case.test.ctx.get(TOOLS).execute(given))
        (question,) = await case.waiting()
        case.questions.answer("yes")
        outcome = await running

        assert (question.agent, question.turn, text_of(outcome.content)) == ("", 0, "yes")
        assert case.test.types == []


async def test_bad_config_is_refused_with_plugin_and_field() -> None:
    async with asking() as case:
        bad = case.test.ctx.plugin(ask_user, {"timeout_seconds": 0})

        with pytest.raises(ConfigError, match=r"ask_user.*timeout_seconds"):
            await bad
