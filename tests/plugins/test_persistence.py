"""Persistence: what reaches the file and when, what cannot, and how a saved session goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_nb.agent.agent_loop import AGENT_LOOP, AgentOptions
from dsh_nb.core import Context
from dsh_nb.errors import SessionError, SessionTakenError
from dsh_nb.llm.anthropic.wire import encode_request
from dsh_nb.llm.scripted import Script, ScriptedModel, Step, call, cut, fail, pause, say, think
from dsh_nb.messages import TextDelta, ToolCallBlock
from dsh_nb.plugins.persistence import (
    PERSISTENCE,
    Persistence,
    PersistenceConfig,
    SavedSession,
    persistence,
)
from dsh_nb.plugins.persistence.names import file_name
from dsh_nb.session.check import check_log
from dsh_nb.session.events import AssistantChunk, SessionEvent, ToolResult
from dsh_nb.session.files import read_session, write_session
from dsh_nb.session.history import INTERRUPTED
from dsh_nb.session.session import Session
from dsh_nb.session.store import SESSIONS, SessionStore
from dsh_nb.testing import LogBuilder, TestAgent, running_agent, validate_request
from tests.plugins.disks import Saving

CALLS = [ToolCallBlock(id, "add", "{}") for id in ("a", "b")]
KEY = "sk-ant-api03-Aa1_Bb2-Cc3Dd4Ee5Ff6Gg7"


@asynccontextmanager
async def saved_agent(
    folder: Path,
    script: Script = ("Hello.", "And again."),
    tools: Iterable[Callable[..., object]] = (),
    every_seconds: float = 60.0,
) -> AsyncIterator[TestAgent]:
    config = PersistenceConfig(folder=folder, every_seconds=every_seconds)

    def plugin(ctx: Context) -> None:
        ctx.plugin(persistence, config)

    async with running_agent(ScriptedModel(script), tools=tools, plugins=[plugin]) as test:
        yield test


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[Persistence]:
    """The service alone, on a context with a store."""
    ctx = Context()
    ctx.plugin(SessionStore, {"check": True})
    ctx.plugin(persistence, {"folder": folder})
    yield ctx.get(PERSISTENCE)
    await ctx.dispose()


def child(name: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.plugins.disks", name, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told_by(name: str, folder: Path) -> dict[str, object]:
    with child(name, folder) as process:
        told: dict[str, object] = json.loads(process.communicate(timeout=30)[0])
        return told


def saved_events(folder: Path, name: str = "main.jsonl") -> list[SessionEvent]:
    return read_session(folder / name).events


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # a file tells nobody that it grew
            await asyncio.sleep(0.005)


# -- what reaches the file ----------------------------------------------------------------------


async def test_a_turn_is_in_the_file_when_it_has_ended(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")

        assert saved_events(tmp_path) == test.log


async def test_a_running_step_reaches_the_file_in_time(tmp_path: Path) -> None:
    script = [["Hello, hello, hello!", pause(30)]]
    async with saved_agent(tmp_path, script, every_seconds=0.02) as test:
        test.agent.send("hi")
        await test.until("assistant/chunk", 4)
        path = tmp_path / "main.jsonl"
        await until(lambda: path.exists() and saved_events(tmp_path) == test.log)

        assert saved_events(tmp_path)[-1].type == "assistant/chunk"


async def test_a_blocked_loop_does_not_keep_a_turn_from_the_file(tmp_path: Path) -> None:
    saving = Saving(tmp_path, every_seconds=60)

    saving.turn()
    deadline = time.monotonic() + 5
    while not (tmp_path / "main.jsonl").exists() or len(saved_events(tmp_path)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.005)  # noqa: ASYNC251  # nothing else runs on this loop meanwhile

    assert saved_events(tmp_path) == [*saving.session]
    await saving.ctx.dispose()


def test_what_was_appended_reaches_the_file_when_python_ends(tmp_path: Path) -> None:
    assert told_by("leave", tmp_path) == {"events": 1}

    assert len(saved_events(tmp_path)) == 1


@pytest.mark.rule("C9")
async def test_disposing_writes_all_and_leaves_nothing_open(tmp_path: Path) -> None:
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    saving = Saving(tmp_path, every_seconds=60)
    saving.session.append("user/message", {"content": [], "source": {}})
    await saving.flush()
    saving.session.append("context/message", {"content": [], "source": {}})

    await saving.ctx.dispose()

    assert saved_events(tmp_path) == [*saving.session]
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, files)
    assert os.listdir(tmp_path) == ["main.jsonl"]


async def test_an_agent_that_is_disposed_gives_its_file_back(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")
        await test.agent.dispose()
        await until(lambda: os.listdir(tmp_path) == ["main.jsonl"])
        async with service(tmp_path) as other:
            saved = other.resume("main")

        assert saved.events == test.log


async def test_a_session_without_an_event_has_no_file(tmp_path: Path) -> None:
    async with saved_agent(tmp_path / "sessions"):
        pass

    assert not (tmp_path / "sessions").exists()


async def test_sessions_from_before_the_plugin_are_saved(tmp_path: Path) -> None:
    ctx = Context()
    ctx.plugin(SessionStore)
    ctx.get(SESSIONS).create("old", LogBuilder().user("hi").events)

    ctx.plugin(persistence, {"folder": tmp_path})
    await ctx.dispose()

    assert len(saved_events(tmp_path, "old.jsonl")) == 1


async def test_the_folder_is_that_of_the_mounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ctx = Context()
    ctx.plugin(persistence)
    monkeypatch.chdir("/")

    assert ctx.get(PERSISTENCE).folder == tmp_path / ".dsh" / "sessions"
    await ctx.dispose()


async def test_a_title_that_comes_late_is_saved(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")
        test.agent.session.header["title"] = "Greetings"
        await test.say("again")

    log = read_session(tmp_path / "main.jsonl")
    assert (log.header.title, log.header.header) == ("Greetings", {"title": "Greetings"})
    assert log.events[: len(test.log)] == test.log


STEPS = st.one_of(
    st.text(min_size=1, max_size=30),
    st.lists(
        st.builds(say, st.text(max_size=30))
        | st.builds(think, st.text(max_size=30))
        | st.builds(lambda text: call("echo", text=text), st.text(max_size=10)),
        min_size=1,
        max_size=4,
    ),
    st.builds(fail, st.text(max_size=10)),
    st.builds(lambda text: [text, cut(mid_block=True)], st.text(min_size=1, max_size=10)),
)


@settings(max_examples=25)
@given(st.lists(STEPS, min_size=1, max_size=4), st.sampled_from([0.0, 60.0]))
def test_any_turns_that_are_saved_are_loaded_as_they_were(
    script: list[Step], every_seconds: float
) -> None:
    async def echo(text: str) -> str:
        """Give back `text`."""
        await asyncio.sleep(0)
        return text

    async def turns(folder: Path) -> list[SessionEvent]:
        async with saved_agent(folder, script, [echo], every_seconds) as test:
            await test.say("first")
            await test.say("second")
            return test.log

    with tempfile.TemporaryDirectory() as name:
        log = asyncio.run(turns(Path(name)))

        assert saved_events(Path(name)) == log


# -- secrets --------------------------------------------------------------------------------------


async def test_secrets_never_reach_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", 'pa"ss\\word-0123')

    def peek(key: str) -> str:
        """Look."""
        return f"got {key} and {os.environ['MY_TOKEN']}"

    script = [[f"I use {KEY} now.", call("peek", key=KEY + os.environ["MY_TOKEN"])], "Done."]
    async with saved_agent(tmp_path, script, [peek], every_seconds=0) as test:
        test.agent.session.header["title"] = f"on {KEY}"
        await test.say(f"my key is {KEY}")
        log = test.log

    text = (tmp_path / "main.jsonl").read_text()
    events = saved_events(tmp_path)
    assert "Aa1_Bb2" not in text
    assert "word-0123" not in text
    assert "got [masked key][masked MY_TOKEN] and [masked MY_TOKEN]" in text
    assert [(one.seq, one.time, one.type) for one in events[: len(log)]] == [
        (one.seq, one.time, one.type) for one in log
    ]
    check_log(events)


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id",
    ["", "..", "../../etc/passwd", "CON", "nul.x", "a/b\\c", "x" * 500, "ä 中 \0", "Main", "a."],
)
async def test_any_id_is_saved_inside_the_folder_and_found_again(tmp_path: Path, id: str) -> None:
    async with service(tmp_path) as first:
        ctx = first._ctx
        ctx.get(SESSIONS).create(id, LogBuilder().user("hi").events)
    async with service(tmp_path) as second:
        loaded = second.load(id)

    (name,) = os.listdir(tmp_path)
    assert (loaded.id, len(loaded)) == (id, 1)
    assert len(name) < 100
    assert name.split(".")[0] not in ("con", "nul")
    assert [one.id for one in second.saved()] == [id]


def test_ids_that_differ_have_names_that_differ_on_every_file_system() -> None:
    ids = ["main", "Main", "MAIN", "ma/in", "ma\\in", "main~2", "main~3", "main.", "main "]

    assert len({file_name(id).lower() for id in ids}) == len(ids)


async def test_an_id_that_was_used_before_is_saved_under_a_number(tmp_path: Path) -> None:
    for _ in range(2):
        async with saved_agent(tmp_path) as test:
            await test.say("hi")

    async with service(tmp_path) as both:
        assert sorted(one.id for one in both.saved()) == ["main", "main~2"]
        assert both.load("main~2")[0] == test.log[0]


def test_processes_that_use_one_id_write_a_file_each(tmp_path: Path) -> None:
    children = [child("append", tmp_path) for _ in range(4)]
    for one in children:
        with one:
            one.communicate(timeout=30)

    logs = [read_session(path) for path in tmp_path.glob("*.jsonl")]
    assert [[event.data["n"] for event in log.events] for log in logs] == [[*range(20)]] * 4
    assert not any(log.report for log in logs)


# -- resume ---------------------------------------------------------------------------------------


async def gone_on(folder: Path, id: str = "main") -> TestAgent:
    """The saved session, one turn later; its request was one that the API accepts."""
    model = ScriptedModel(["Done."])
    ctx = Context()

    def plugin(own: Context) -> None:
        own.plugin(persistence, {"folder": folder})

    async with running_agent(model, plugins=[plugin]) as test:
        ctx = test.ctx
        await test.agent.dispose()
        saved = ctx.get(PERSISTENCE).resume(id)
        options = AgentOptions(model=model.name)
        agent = ctx.get(AGENT_LOOP).create(
            "again", options, session_id=saved.header.id, seed=saved.events
        )
        resumed = TestAgent(ctx, agent)
        await resumed.say("go on")
    assert validate_request(json.loads(encode_request(model.requests[0]))) == []
    check_log(resumed.log, ended=True)
    return resumed


async def test_a_resumed_session_goes_on_in_its_file(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")

    resumed = await gone_on(tmp_path)

    log = read_session(tmp_path / "main.jsonl")
    assert resumed.log[: len(test.log)] == test.log
    assert (log.events, str(log.report)) == (resumed.log, "nothing amiss")
    assert os.listdir(tmp_path) == ["main.jsonl"]


async def test_a_resumed_session_keeps_its_title(tmp_path: Path) -> None:
    session = Session("main", LogBuilder().user("hi").events, header={"title": "Greetings"})
    write_session(tmp_path / "main.jsonl", session)

    resumed = await gone_on(tmp_path)

    assert resumed.agent.session.header == {"title": "Greetings"}
    assert read_session(tmp_path / "main.jsonl").header.title == "Greetings"


@pytest.mark.rule("S7")
async def test_a_call_that_ran_as_the_process_died_is_of_unknown_outcome(tmp_path: Path) -> None:
    log = LogBuilder().user("hi").turn().step().says(*CALLS).call("a")
    write_session(tmp_path / "main.jsonl", Session("main", log.events))

    resumed = await gone_on(tmp_path)

    results = [event.data for event in resumed.log if isinstance(event.data, ToolResult)]
    assert [(one.call_id, one.outcome) for one in results] == [
        ("a", "interrupted"),
        ("b", "not started"),
    ]
    assert results[0].content[0].text == INTERRUPTED  # type: ignore[union-attr]  # it is text
    assert saved_events(tmp_path) == resumed.log


async def test_a_torn_tail_is_mended_before_the_first_append(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")
    path = tmp_path / "main.jsonl"
    path.write_bytes(path.read_bytes()[:-30])

    resumed = await gone_on(tmp_path)

    log = read_session(path)
    assert (log.events, str(log.report)) == (resumed.log, "nothing amiss")
    assert log.events[: len(test.log) - 1] == test.log[:-1]


async def test_a_tail_that_lacks_only_its_end_loses_nothing(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")
    path = tmp_path / "main.jsonl"
    path.write_bytes(path.read_bytes()[:-1])

    resumed = await gone_on(tmp_path)

    log = read_session(path)
    assert (log.events, str(log.report)) == (resumed.log, "nothing amiss")
    assert log.events[: len(test.log)] == test.log


async def test_a_file_with_a_gap_is_written_anew_and_the_damaged_one_kept(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")
        await test.say("hi again")
    path = tmp_path / "main.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"?\n"
    path.write_bytes(b"".join(lines))

    async with service(tmp_path) as one:
        saved = one.resume("main")

    kept = [each for each in os.listdir(tmp_path) if "damaged" in each]
    assert (tmp_path / kept[0]).read_bytes() == b"".join(lines)
    assert [event.data for event in saved.events] == [event.data for event in test.log[1:]]
    assert "line 2 is not of a session" in str(saved.report)
    assert read_session(path).events == saved.events


async def test_a_live_session_cannot_be_resumed(tmp_path: Path) -> None:
    async with saved_agent(tmp_path) as test:
        await test.say("hi")

        with pytest.raises(SessionTakenError, match="'main' is live in this kernel; use it"):
            test.ctx.get(PERSISTENCE).resume("main")


async def test_a_session_that_was_closed_can_be_resumed_at_once(tmp_path: Path) -> None:
    saving = Saving(tmp_path)
    saving.turn()
    await saving.flush()
    saving.ctx.get(SESSIONS).close("main")

    saved = saving.ctx.get(PERSISTENCE).resume("main")

    assert saved.events == [*saving.session]
    await saving.ctx.dispose()


async def test_a_session_that_is_let_go_can_be_resumed_elsewhere_at_once(tmp_path: Path) -> None:
    saving = Saving(tmp_path, every_seconds=60)
    saving.turn()
    async with service(tmp_path) as other:
        saving.ctx.get(PERSISTENCE).let_go(saving.session)
        saved = other.resume("main")
        saving.turn()
        await saving.ctx.dispose()

        assert saved.events == saving.session[:3]
    assert saved_events(tmp_path) == saving.session[:3]
    assert saving.told == []


async def test_a_session_of_another_kernel_is_free_when_that_kernel_is_dead(
    tmp_path: Path,
) -> None:
    with child("hold", tmp_path) as other:
        assert other.stdout is not None
        other.stdout.readline()
        async with service(tmp_path) as ours:
            with pytest.raises(SessionTakenError, match=f"written by process {other.pid} on"):
                ours.resume("main")
            other.send_signal(signal.SIGKILL)
            other.wait()

            assert len(ours.resume("main").events) == 3


async def test_a_released_session_is_free(tmp_path: Path) -> None:
    write_session(tmp_path / "main.jsonl", Session("main", LogBuilder().user("hi").events))
    async with service(tmp_path) as one, service(tmp_path) as other:
        one.resume("main")
        with pytest.raises(SessionTakenError, match="by this kernel, in another context"):
            other.resume("main")
        one.release("main")

        assert len(other.resume("main").events) == 1


async def test_a_seed_that_is_not_the_file_begins_a_file_of_its_own(tmp_path: Path) -> None:
    write_session(tmp_path / "main.jsonl", Session("main", LogBuilder().user("hi").events))
    async with service(tmp_path) as one:
        one.resume("main")
        one._ctx.get(SESSIONS).create("main", LogBuilder().user("something else").events)

    assert sorted(os.listdir(tmp_path)) == ["main.jsonl", "main~2.jsonl"]


async def test_what_is_not_there_cannot_be_resumed(tmp_path: Path) -> None:
    async with service(tmp_path) as one:
        with pytest.raises(SessionError, match=r"no session '\.\./main' in"):
            one.resume("../main")


# -- what is saved --------------------------------------------------------------------------------


async def test_saved_sessions_are_told_from_the_ends_of_their_files(tmp_path: Path) -> None:
    log = LogBuilder().user("plot\n the revenue").turn().step()
    log.says("x" * 200_000).end_step().end_turn()
    cut = LogBuilder(lambda: 1_800_000_000_000).user("hi").turn().step().streams("so it")
    write_session(tmp_path / "long.jsonl", Session("long", log.events))
    write_session(tmp_path / "cut.jsonl", Session("cut", cut.events, header={"title": "T"}))
    (tmp_path / "odd.jsonl").write_text("nothing of ours\n")

    async with service(tmp_path) as one:
        rows = one.saved()

    assert rows == [
        SavedSession(
            "cut",
            tmp_path / "cut.jsonl",
            "T",
            1_800_000_000_000,
            1_800_000_000_000,
            "scripted",
            len(cut.events),
            1,
            "interrupted",
            (tmp_path / "cut.jsonl").stat().st_size,
        ),
        SavedSession(
            "long",
            tmp_path / "long.jsonl",
            "plot the revenue",
            1_700_000_000_000,
            1_700_000_000_000,
            "scripted",
            len(log.events),
            1,
            "completed",
            (tmp_path / "long.jsonl").stat().st_size,
        ),
        SavedSession(
            "odd",
            tmp_path / "odd.jsonl",
            status="unreadable",
            size_bytes=16,
            problem="no line of it is of a session",
        ),
    ]


async def test_a_session_that_another_context_writes_is_running(tmp_path: Path) -> None:
    script = [["Hello.", pause(30)]]
    async with saved_agent(tmp_path, script, every_seconds=0) as test:
        test.agent.send("hi")
        await test.until("assistant/chunk")
        async with service(tmp_path) as other:
            await until(lambda: bool(other.saved()))

            assert [one.status for one in other.saved()] == ["running"]


async def test_a_file_that_a_person_copied_has_the_id_of_its_name(tmp_path: Path) -> None:
    session = Session("main", LogBuilder().user("hi").events)
    write_session(tmp_path / "My copy.jsonl", session)

    async with service(tmp_path) as one:
        assert [row.id for row in one.saved()] == ["My copy"]
        assert one.load("My copy").id == "My copy"


# -- what cannot be written -----------------------------------------------------------------------


def test_a_full_disk_is_told_once_and_all_is_written_when_it_is_not(tmp_path: Path) -> None:
    told = told_by("full", tmp_path)

    log = read_session(tmp_path / "main.jsonl")
    assert told["bytes"] < 1_000  # type: ignore[operator]  # half a line would be 5,000
    assert told["told"] == [
        "session 'main' is not saved: [Errno 27] File too large; what is missing is written when "
        "it can be"
    ]
    assert (told["states"][0], told["states"][-1]) == ("[Errno 27] File too large", None)  # type: ignore[index]  # a list
    assert (len(log.events), str(log.report)) == (told["events"], "nothing amiss")


def test_a_folder_that_may_not_be_written_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    os.chmod(tmp_path, 0o755)

    told = told_by("readonly", folder)

    assert len(told["told"]) == 1  # type: ignore[arg-type]  # a list
    assert "Permission denied" in told["told"][0]  # type: ignore[index]  # a list
    assert len(saved_events(folder)) == told["events"]


async def test_a_folder_that_is_a_file_is_told_once_and_the_agent_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.touch()
    saving = Saving(folder)
    saving.turn()
    await saving.flush()
    saving.turn()
    await saving.flush()
    service = saving.ctx.get(PERSISTENCE)
    problem = service.problem_of(saving.session)
    folder.unlink()
    await until(folder.exists)
    await saving.flush()

    assert len(saving.told) == 1
    assert problem is not None
    assert "File exists" in problem
    assert service.problem_of(saving.session) is None
    assert saving.states[-1] is None
    assert saved_events(folder) == [*saving.session]
    await saving.ctx.dispose()


@pytest.mark.parametrize("lost", ["file", "folder"])
async def test_what_was_deleted_meanwhile_is_written_anew(tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "sessions"
    saving = Saving(folder)
    saving.turn()
    await saving.flush()
    for path in folder.iterdir() if lost == "folder" else [folder / "main.jsonl"]:
        path.unlink()
    if lost == "folder":
        folder.rmdir()
    saving.turn()
    await saving.flush()
    await saving.ctx.dispose()

    assert saved_events(folder) == [*saving.session]
    assert len(saving.told) == 1
    assert "was deleted while its session ran; all of it is written anew" in saving.told[0]


async def test_a_file_that_something_else_wrote_to_is_left_to_it(tmp_path: Path) -> None:
    saving = Saving(tmp_path)
    saving.turn()
    await saving.flush()
    with (tmp_path / "main.jsonl").open("a") as file:
        file.write("mine\n")
    saving.turn()
    await saving.flush()
    await saving.ctx.dispose()

    assert saved_events(tmp_path, "main~2.jsonl") == [*saving.session]
    assert (tmp_path / "main.jsonl").read_text().endswith("mine\n")
    assert "main.jsonl' was changed by something else" in saving.told[0]


async def test_a_withheld_beginning_of_a_secret_is_written_at_the_end(tmp_path: Path) -> None:
    saving = Saving(tmp_path, every_seconds=0)
    for text in ("my key is ", "sk-"):
        saving.session.append_chunk(AssistantChunk(1, 1, TextDelta(0, text)))
    await saving.flush()
    before = len(saved_events(tmp_path))

    await saving.ctx.dispose()

    assert (before, len(saved_events(tmp_path))) == (1, 2)
