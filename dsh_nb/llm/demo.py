"""The default without a key: an offline stand-in that reads prompts by rules and uses tools.

Reads: messages, llm.protocol, llm.voice, llm.demo_turn, llm.demo_parameters, llm.demo_plan.
Feeds: notebook.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence

from dsh_nb.llm.demo_parameters import Parameter, parameters_of
from dsh_nb.llm.demo_plan import Lack, Plan, Planned, is_named, plan_calls
from dsh_nb.llm.demo_turn import Called, Note, Turn, read_turn
from dsh_nb.llm.protocol import ModelRequest
from dsh_nb.llm.voice import Call, Part, Say, Think, Voice
from dsh_nb.messages import Chunk, ToolSchema

__all__ = ["DemoModel"]

_STEPS_AT_MOST = 4
_INLINE_CHARS = 200
_FENCED_CHARS = 1_500
_FENCED_LINES = 30
_TOOLS_LISTED = 20
_REPLY_WORDS = 12
_NOTICE = (
    "I am the **offline demo model**: a few rules, no language model. For a real one, set "
    '`ANTHROPIC_API_KEY` and pass `model="claude-…"`, or pass `base_url=…` for a server of '
    "your own."
)
_SHORT_NOTICE = "*(offline demo model)*"
_ASKS = re.compile(r"To call \*\*[^*]+\*\* I still need")
_ABILITIES = re.compile(
    r"(?i)\bwhat (?:else )?(?:can|could|do) (?:you|i|we) do\b|\b(?:what|which) tools?\b"
    r"|\bwho are you\b|\bwhat are you\b|\b(?:list|show)\b.{0,12}\btools\b|\byour tools\b"
    r"|\bhow (?:do|does|can) (?:you|this|it|i use (?:you|this)) ?(?:work)?\W*$"
    r"|^\W*help\W*(?:me\W*)?$"
)
_SYSTEM = re.compile(r"(?i)\bsystem[ -](?:prompt|text|message)\b|\byour instructions\b")
_GREETING = re.compile(r"(?i)^\W*(?:hello|hi|hey|good (?:morning|day|evening))\b")
_ABOUT = re.compile(
    r"(?i)^\W*(?:what does (?:the )?[`\"]?(?P<does>[\w-]+)[`\"]?(?: tool| function)? do"
    r"|how (?:do|can) (?:i|you) use (?:the )?[`\"]?(?P<use>[\w-]+)[`\"]?(?: tool| function)?"
    r"|(?:what is|explain|describe|tell me about) (?:the )?[`\"]?(?P<what>[\w-]+)[`\"]?"
    r" (?:tool|function))\W*$"
)


class DemoModel:
    """An offline stand-in for a language model, so that a newcomer sees whole turns.

    It says what it is, reads prompts by rules and not by understanding, calls the tools that
    they name or describe, and passes the results on. The same history gives the same answer. Of
    a turn it makes at most four steps of calls, and no call twice.

    Attributes:
        name: ``"demo"``.
    """

    name = "demo"

    def __init__(self, *, pace: float = 1.0, seed: int = 0) -> None:
        """Prepare to speak.

        Args:
            pace: How slow to speak: 1.0 is about 40 pieces a second, 0.0 without any wait.
            seed: Seed of the pieces and of the jitter.
        """
        self._voice = Voice(pace=pace, seed=seed, call_id=_call_id)

    def __repr__(self) -> str:
        return "DemoModel()"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer the newest messages: thinking, then calls or an answer."""
        for move in self._voice.moves(_answer(request), request):
            if isinstance(move, float):
                await asyncio.sleep(move)
            else:
                yield move


def _call_id(number: int, request: ModelRequest) -> str:
    """Unique also in a session that is resumed with another instance."""
    return f"call_{len(request.messages)}_{number}"


def _answer(request: ModelRequest) -> list[Part]:
    turn = read_turn(request.messages)
    told = _told(turn.prompt, request)
    plan = _plan(turn, "" if told else turn.prompt, request.tools)
    step = _next_step(turn, plan)
    if step and len(turn.steps) < _STEPS_AT_MOST:
        return _calling(turn, step)
    return _closing(turn, plan, step, request.tools, "" if turn.answered else told)


def _plan(turn: Turn, prompt: str, tools: Sequence[ToolSchema]) -> Plan:
    replies = _ASKS.search(turn.said_before) and len(prompt.split()) <= _REPLY_WORDS
    if replies and not is_named(prompt, tools):
        prompt = f"{turn.prompt_before}\n{prompt}"
    backs = [_number_of(step) for step in turn.steps]
    return plan_calls([prompt, *(note.text for note in turn.notes)], tools, backs)


def _number_of(step: Sequence[Called]) -> float | None:
    """The last number among the results of a step, if a result is one and nothing else."""
    for called in reversed(step):
        said = re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", called.text.strip())
        if said and not called.is_error:
            return float(said[0]) if said[1] or said[2] else int(said[0])
    return None


def _next_step(turn: Turn, plan: Plan) -> list[Planned]:
    """The calls that are due: steps already taken are counted, and no call is made again."""
    made = {(called.tool, called.arguments) for step in turn.steps for called in step}
    for step in plan.steps[len(turn.steps) :]:
        due = [call for call in step if (call.tool, call.text) not in made]
        if due:
            return due
    return []


def _calling(turn: Turn, step: Sequence[Planned]) -> list[Part]:
    thoughts = [_why(call) for call in step]
    if turn.news:
        thoughts.insert(0, "The result is here.")
    if turn.fresh:
        thoughts.insert(0, "Something was added to the prompt.")
    parts: list[Part] = [Think(" ".join(thoughts))]
    names = " and ".join(dict.fromkeys(f"**{call.tool}**" for call in step))
    lines = [_heard(note, followed=True) for note in turn.fresh]
    if not turn.steps or lines:
        parts.append(Say("\n\n".join([*lines, f"Let me call {names}."])))
    return parts + [Call(call.tool, call.text) for call in step]


def _why(call: Planned) -> str:
    how = "names" if call.named else "seems to describe"
    given = ", ".join(f"{name} = {_shown(value)}" for name, value in call.arguments.items())
    return f"The text {how} the tool {call.tool}{': ' if given else ', without arguments'}{given}."


def _heard(note: Note, *, followed: bool) -> str:
    who = "You added" if note.source == "user" else f"{note.source} added"
    more = "" if followed else " A real model would now take that into account."
    return f"{who}: “{_cut(note.text, _INLINE_CHARS)}”.{more}"


def _closing(
    turn: Turn, plan: Plan, left: Sequence[Planned], tools: Sequence[ToolSchema], told: str
) -> list[Part]:
    """The answer of a turn whose calls are done."""
    lines = [_heard(note, followed=is_named(note.text, tools)) for note in turn.fresh]
    lines += _results(turn.news)
    lines += [_asked(lack) for lack in plan.lacks]
    if left:
        names = ", ".join(f"`{call.tool}`" for call in left)
        lines.append(f"I stop after {_STEPS_AT_MOST} steps of calls; still open: {names}.")
    if told:
        return [Think("A question about this session itself."), Say("\n\n".join([*lines, told]))]
    if not lines:
        lines.append(_free(turn, tools))
    full = (turn.is_first and not turn.answered) or not (turn.news or turn.fresh or plan.lacks)
    thought = "Nothing to call."
    if turn.news:
        thought = "The results are here; I pass them on."
    elif plan.lacks:
        thought = "The text names a tool but not all that it needs."
    return [Think(thought), Say("\n\n".join([*lines, _NOTICE if full else _SHORT_NOTICE]))]


def _results(news: Sequence[Called]) -> list[str]:
    lines = [_result(called) for called in news]
    if len(lines) > 1 and not any("\n" in line for line in lines):
        return ["\n".join(f"- {line}" for line in lines)]
    return lines


def _result(called: Called) -> str:
    text = called.text.strip()
    verb = "**failed**" if called.is_error else "gives"
    head = f"`{_cut(called.signature.replace('`', chr(39)), 100)}` {verb}"
    pictures = f"{called.images} picture{'s' if called.images > 1 else ''}"
    if not text:
        return f"{head} {pictures}." if called.images else f"{head} no text."
    also = f" (and {pictures})" if called.images else ""
    if "\n" not in text and len(text) <= _INLINE_CHARS:
        return f"{head}: {text}{also}" if called.is_error else f"{head} {_inline(text)}{also}"
    return f"{head}{also}:\n\n{_fenced(text)}"


def _inline(text: str) -> str:
    """A short text as Markdown that shows it as it is."""
    if re.fullmatch(r"[\w .,:;°%€$£+/()'’!?-]+", text) and "__" not in text:
        return f"**{text}**" if len(text) <= 40 else text
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def _fenced(text: str) -> str:
    lines = text.splitlines()
    shown = _cut("\n".join(lines[:_FENCED_LINES]), _FENCED_CHARS)
    ticks = "`" * max(3, max(map(len, re.findall("`+", shown)), default=0) + 1)
    more = len(lines) - _FENCED_LINES
    left = f"\n\n… and {more} more lines." if more > 0 else ""
    return f"{ticks}text\n{shown}\n{ticks}{left}"


def _asked(lack: Lack) -> str:
    needs = ", ".join(_need(parameter) for parameter in lack.missing)
    return (
        f"To call **{lack.tool.name}** I still need {needs}. "
        f"Tell me, for example: `{_example(lack.tool)}`."
    )


def _need(parameter: Parameter) -> str:
    choices = " or ".join(str(choice) for choice in parameter.choices)
    about = parameter.description.strip().rstrip(".").partition("\n")[0]
    return f"`{parameter.name}` ({choices or about or parameter.kind})"


def _example(tool: ToolSchema) -> str:
    wanted = [parameter for parameter in parameters_of(tool.parameters) if parameter.required]
    given = [f"{p.name}={_sample(p, place)}" for place, p in enumerate(wanted)]
    return f"{tool.name}({', '.join(given)})"


def _sample(parameter: Parameter, place: int) -> str:
    if parameter.choices:
        return _shown(parameter.choices[0])
    samples = {"boolean": "true", "array": "[1, 2]", "date": '"2025-01-31"', "object": "{…}"}
    return str(place + 2) if parameter.is_number else samples.get(parameter.kind, '"…"')


def _free(turn: Turn, tools: Sequence[ToolSchema]) -> str:
    """The answer to a text that no tool fits."""
    if turn.answered:
        return "There is nothing left to do."
    hello = "Hello! " if _GREETING.search(turn.prompt) else ""
    picture = "I cannot look at pictures. " if turn.images else ""
    if not tools:
        return f"{hello}{picture}I have no tools here, and free text is beyond me."
    examples = " or ".join(f"`{_example(tool)}`" for tool in tools[:2])
    return (
        f"{hello}{picture}None of my tools fits that, and free text is beyond me. "
        f"Try for example {examples}, or ask *what can you do?*"
    )


def _told(prompt: str, request: ModelRequest) -> str:
    """The answer to a question about the session itself; ``""`` when the prompt is none."""
    if _SYSTEM.search(prompt):
        said = (
            f"My system prompt:\n\n{_fenced(request.system)}"
            if request.system
            else ("There is no system prompt.")
        )
        return f"{said}\n\n{_NOTICE}"
    about = _ABOUT.match(prompt)
    name = next(filter(None, about.groups()), "").lower() if about else ""
    asked = [tool for tool in request.tools if tool.name.lower() == name]
    if asked:
        return f"{_listed(asked)}\n\nFor example: `{_example(asked[0])}`.\n\n{_NOTICE}"
    if not _ABILITIES.search(prompt):
        return ""
    if not request.tools:
        return f"{_NOTICE}\n\nI have no tools here; give some with `tools=[…]`."
    return f"{_NOTICE}\n\nI call these tools when a prompt names or describes one:\n\n" + _listed(
        request.tools
    )


def _listed(tools: Sequence[ToolSchema]) -> str:
    lines = [f"- **{tool.name}**{_described(tool)}" for tool in tools[:_TOOLS_LISTED]]
    if len(tools) > _TOOLS_LISTED:
        lines.append(f"- … and {len(tools) - _TOOLS_LISTED} more")
    return "\n".join(lines)


def _described(tool: ToolSchema) -> str:
    about = " ".join(tool.description.strip().partition("\n\n")[0].split())
    names = ", ".join(f"`{parameter.name}`" for parameter in parameters_of(tool.parameters))
    return f"{': ' if about else ''}{_cut(about, _INLINE_CHARS)}{f' ({names})' if names else ''}"


def _shown(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), 80)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"
