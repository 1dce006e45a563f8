"""The pytest plugin behind ``pytest --rules``: which tests show which rule of the harness.

A test says what it shows with ``@pytest.mark.rule("L7")``, or several ids in one mark. With
``--rules`` nothing runs: the rules are listed with their tests, and the exit status tells whether
each has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

__all__ = ["RULES", "Coverage", "cover"]

RULES: Mapping[str, str] = {
    "C1": "a plugin mounts at once, and awaiting its fiber waits until it is active",
    "C2": "a fiber waits for its services, unloads without them and loads again with them",
    "C3": "a bad config fails its own fiber and names plugin, field and expectation",
    "C4": "every registration is an effect that unwinds last-in first-out",
    "C5": "a service is the nearest provider's, a missing one names itself, a second is an error",
    "C6": "emit, parallel, serial, bail and waterfall dispatch as they say",
    "C7": "a running dispatch keeps its listeners, and proceed is called once",
    "C8": "a context belongs to one loop; what people call is safe from any thread",
    "C9": "disposing a context leaves no task, file, thread or child process",
    "S1": "append is synchronous, numbers and times the event, and emits it",
    "S2": "the vocabulary of the log, and unknown types survive",
    "S3": "what triggers a turn and what ends it",
    "S4": "the history is derived from the log alone, at the cost of what is new",
    "S5": "any request can be rebuilt from the log byte for byte",
    "S6": "a seeded session replays and forks; a live id is taken",
    "S7": "a history is always one that a provider accepts",
    "M1": "blocks keep what a provider must get back",
    "M2": "chunks come with usage before finish and nothing after it",
    "M3": "the finish reasons",
    "M4": "an adapter's failure never is a completed message",
    "M5": "one assembler for streams with and without block boundaries",
    "M6": "token counts do not overlap",
    "M7": "model calls pass the waterfalls; adapters register all or nothing",
    "T1": "a tool is a name, a description, a schema and a function",
    "T2": "tools run through one waterfall, and their failures are results",
    "T3": "arguments that are not JSON stay text, empty ones are an object",
    "T4": "the prompt is its sections in order, assembled once a step",
    "L1": "what is queued is drained together into the next turn",
    "L2": "steering is drained before the request and after the tools",
    "L3": "a turn goes on after tool calls or steering, and a listener may decide",
    "L4": "steering is never lost and never doubled",
    "L5": "the step result is rewritten before it is logged",
    "L6": "an error ends its turn and never the loop",
    "L7": "abort ends the turn wherever it is, and the log can go on",
    "L8": "disposing an agent ends its turn and leaves nothing",
    "L9": "status goes idle, running, idle, and disposed is final",
    "L10": "a failing flush is reported and stops nothing",
    "L11": "turn numbers go on after a seed",
    "L12": "a missing model fails the step and says how to give one",
    "L13": "calls run in order, parallel ones at once, results in call order",
    "L14": "cancelling whoever awaits a turn aborts it",
    "L15": "the loop's config creates agents that live as long as its fiber",
    "L16": "a stream that did not finish properly runs no tool",
}
"""Each rule of the harness in a few words, by its id."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which tests show which rule.

    Attributes:
        shown: Names of the tests of each rule, in the order they were collected.
        missing: Ids of the rules that no test shows.
        unknown: What stood in a mark and is no rule, with the test that named it.
    """

    shown: Mapping[str, list[str]]
    missing: list[str]
    unknown: list[tuple[str, str]]

    @property
    def complete(self) -> bool:
        """True when each rule has a test and each mark a rule."""
        return not self.missing and not self.unknown

    def lines(self) -> Iterable[str]:
        """The listing, for people."""
        for rule, title in RULES.items():
            yield f"{rule:<4}{title}"
            for test in self.shown[rule]:
                yield f"      {test}"
        for rule in self.missing:
            yield f"rule {rule} has no test; mark one with @pytest.mark.rule({rule!r})"
        for rule, test in self.unknown:
            yield f"{test} names the rule {rule!r}, which does not exist; see tests/rules.py"


def cover(marks: Iterable[tuple[str, str]]) -> Coverage:
    """Sort `marks`, pairs of a rule's id and a test's name; a pair may come more than once."""
    shown: dict[str, list[str]] = {rule: [] for rule in RULES}
    unknown: list[tuple[str, str]] = []
    for rule, test in dict.fromkeys(marks):
        if rule in shown:
            shown[rule].append(test)
        else:
            unknown.append((rule, test))
    return Coverage(shown, [rule for rule, tests in shown.items() if not tests], unknown)


_COVERAGE = pytest.StashKey[Coverage]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rules", action="store_true", help="list the rules with their tests")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rule(*ids): the rules of the harness that the test shows")


@pytest.hookimpl(tryfirst=True)  # before -m and -k deselect any
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_COVERAGE] = cover(
        (str(rule), item.nodeid.partition("[")[0])
        for item in items
        for mark in item.iter_markers("rule")
        for rule in mark.args
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    # Where the collection failed, pytest's own loop says so.
    return True if session.config.option.rules and not session.testsfailed else None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.option.rules and exitstatus == pytest.ExitCode.OK:
        complete = session.config.stash[_COVERAGE].complete
        session.exitstatus = pytest.ExitCode.OK if complete else pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.option.rules and _COVERAGE in config.stash:
        terminalreporter.section("rules")
        for line in config.stash[_COVERAGE].lines():
            terminalreporter.write_line(line)
