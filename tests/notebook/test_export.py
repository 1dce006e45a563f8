"""Exports: what each form holds, and that what must not be shared is in none of them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

from dsh_nb import Agent, Log, ScriptedModel, load
from dsh_nb.llm.scripted import call, say
from dsh_nb.messages import (
    BlockStart,
    Finish,
    FinishReason,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from dsh_nb.notebook import export
from dsh_nb.session import check_log
from dsh_nb.session.events import AssistantMessage, ToolResult
from dsh_nb.session.redaction import Redact
from dsh_nb.session.session import Session
from dsh_nb.testing.logs import LogBuilder

FORMS = ("html", "md", "jsonl", "parquet")
KEY = "sk-ant-api03-Aa1_Bb2-Cc3Dd4Ee5Ff6Gg7"
SECRET = "Zelda Quux, 0199"
ATTACK = "<img src=https://evil.example/x onerror=document.title='hit'><script>1</script>"


def whole(text: str = "It is **5**, for $3 to $4.") -> LogBuilder:
    """A turn with thinking, a call and an answer."""
    log = LogBuilder().user("What is 2 + 3?").turn().step()
    log.says(ReasoningBlock("let me add"), ToolCallBlock("c1", "add", '{"a": 2, "b": 3}'))
    log.call("c1", "add", '{"a": 2, "b": 3}').result("c1", "5").end_step().step()
    return log.streams(text).says(f"{text} ").end_step().end_turn()


def log_of(built: LogBuilder, **header: object) -> Log:
    return Log(Session("main", built.events, header=header))


@pytest.mark.parametrize("form", FORMS)
def test_export_gives_the_path_and_leaves_nothing_else(tmp_path: Path, form: str) -> None:
    path = log_of(whole()).export(tmp_path / f"x.{form}")

    assert path == tmp_path / f"x.{form}"
    assert [*tmp_path.iterdir()] == [path]


def test_an_exported_log_loads_again_equal(tmp_path: Path) -> None:
    log = log_of(whole(), title="Sums")

    again = load(log.export(tmp_path / "x.jsonl"))

    assert [*again.session] == [*log.session]
    assert (again.session.id, again.session.header) == ("main", {"title": "Sums"})
    assert again.report.skipped == 0


@st.composite
def logs(draw: st.DrawFn, secret: str = "") -> LogBuilder:
    """A log that says `secret` and other texts, streamed in pieces, in all places of it."""
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(
        lambda text: f"{text}{secret}{text}"
    )
    log = LogBuilder().user(draw(texts)).context(draw(texts)).turn().step()
    said = draw(texts) + "."
    arguments = json.dumps({draw(texts): [draw(texts), 5]}, ensure_ascii=draw(st.booleans()))
    log.chunk(BlockStart(1, "tool-call", "c1", "find"))
    for piece in pieces(said, draw(st.integers(1, 7))):
        log.chunk(TextDelta(0, piece))
    for piece in pieces(arguments, draw(st.integers(1, 7))):
        log.chunk(ToolCallDelta(1, "c1", piece, "find"))
    log.chunk(Finish(FinishReason("tool-calls")))
    content = (ToolCallBlock("c1", "find", arguments), TextBlock(said))
    log.add("assistant/message", AssistantMessage(1, 1, content, stop_reason="tool-calls"))
    log.call("c1", "find", arguments)
    display = {"text/plain": draw(texts), "text/html": f"<b>{draw(texts)}</b>"}
    result = ToolResult(1, 1, "c1", (TextBlock(draw(texts)),), False, display=display)
    log.add("tool/result", result).end_step().step()
    log.says(draw(texts) + ".", ReasoningBlock(draw(texts), "seal"))
    log.add("note/added", {"of": {draw(texts): draw(texts)}})
    return log.end_step().end_turn()


def pieces(text: str, length: int) -> list[str]:
    return [text[begin : begin + length] for begin in range(0, len(text), length)]


@settings(max_examples=40)
@given(logs())
def test_any_log_is_exported_without_redaction_and_loads_equal(built: LogBuilder) -> None:
    with TemporaryDirectory() as folder:
        path = log_of(built).export(Path(folder) / "x.jsonl", redact=None)

        assert [*load(path).session] == built.events


@settings(max_examples=30)
@given(logs(SECRET))
def test_a_redacted_text_is_in_no_byte_of_any_form(built: LogBuilder) -> None:
    log = log_of(built, title=f"of {SECRET}")
    with TemporaryDirectory() as folder:
        paths = [log.export(Path(folder) / f"x.{form}", redact=SECRET) for form in FORMS]

        for path in paths:
            assert SECRET.encode() not in path.read_bytes()
        check_log(load(paths[2]).session, ended=True)
        assert SECRET not in pd.read_parquet(paths[3]).to_csv()


@settings(max_examples=10)
@given(logs(f" {KEY} "), st.sampled_from(FORMS))
def test_keys_are_masked_without_being_asked(built: LogBuilder, form: str) -> None:
    with TemporaryDirectory() as folder:
        path = log_of(built).export(Path(folder) / f"x.{form}")

        assert KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize("off", [None, False])
def test_redaction_is_turned_off_explicitly(tmp_path: Path, off: bool | None) -> None:
    log = log_of(whole(f"use {KEY}"))

    assert KEY in log.export(tmp_path / "x.md", redact=off).read_text()
    assert "Nothing is redacted" in (tmp_path / "x.md").read_text()
    assert KEY not in log.export(tmp_path / "y.md").read_text()


def test_further_texts_patterns_and_functions_are_redacted(tmp_path: Path) -> None:
    log = log_of(whole("Anna lives in Bonn, 53113"))
    rules: list[Redact] = [
        "Anna",
        re.compile(r"\d{5}"),
        lambda text: text.replace("Bonn", "a town"),
    ]

    text = log.export(tmp_path / "x.md", redact=rules).read_text()

    assert "[redacted] lives in a town, [redacted]" in text


def test_a_text_that_only_markdown_puts_together_is_redacted(tmp_path: Path) -> None:
    escaped = KEY.replace("_", r"\_").replace("Cc3", "C&#99;3")
    log = log_of(whole(f"use {escaped} now"))

    page = log.export(tmp_path / "x.html").read_text()

    assert "use [masked key] now" in page


def test_a_text_in_two_blocks_is_redacted_where_they_are_joined(tmp_path: Path) -> None:
    log = LogBuilder().turn().step().says("of Zelda", " Quux").end_step().end_turn()

    path = log_of(log).export(tmp_path / "x.parquet", redact="Zelda Quux")

    said = pd.read_parquet(path).set_index("type")["text"]["assistant/message"]
    assert said == "of [redacted]"


def test_a_page_shows_facts_turns_and_tables_and_no_live_markup(tmp_path: Path) -> None:
    built = whole(ATTACK).user(ATTACK).turn().step().says(ATTACK)
    log = log_of(built, title=f"Title {ATTACK}")

    page = log.export(tmp_path / "x.html").read_text()

    assert "<img" not in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "<h1>Title &lt;img src=https://evil.example" in page
    assert [*re.findall(r"<h2>(.*?)</h2>", page)] == ["Turn 1", "Turn 2", "Turns", "Usage"]
    assert '<a href="#turn-2">2</a>' in page
    assert "2 turns" in page
    assert "scripted" in page


def test_markdown_shows_the_same_without_html(tmp_path: Path) -> None:
    log = log_of(whole(ATTACK), title=f"Title {ATTACK}")

    text = log.export(tmp_path / "x.md").read_text()

    html = MarkdownIt("commonmark").enable("table").render(text)
    assert "<img" not in html
    assert "<script" not in html
    assert [*re.findall(r"<h2>(.*?)</h2>", html)] == ["Turn 1", "Turns", "Usage"]
    assert html.count("<table>") == 2


def test_parquet_holds_the_events_table(tmp_path: Path) -> None:
    log = log_of(whole())

    table = pd.read_parquet(log.export(tmp_path / "x.parquet"))

    events = log.events
    assert [*table] == [*events]
    assert table["seq"].tolist() == events["seq"].tolist()
    assert table["time"].tolist() == events["time"].tolist()
    assert table["text"].dropna().tolist() == events["text"].dropna().tolist()
    assert [json.loads(cell) for cell in table["data"]] == events["data"].tolist()


def test_an_empty_session_is_exported_too(tmp_path: Path) -> None:
    log = Log(Session("main"))

    for form in FORMS:
        log.export(tmp_path / f"x.{form}")

    assert [*load(tmp_path / "x.jsonl").session] == []
    assert pd.read_parquet(tmp_path / "x.parquet").shape == (0, 13)


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None)

    with pytest.raises(ImportError, match=r"pip install dsh-nb\[parquet\]"):
        log_of(whole()).export(tmp_path / "x.parquet")


@pytest.mark.parametrize("name", ["x.txt", "x", "x.html.gz"])
def test_another_suffix_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"name the file \.html, \.md, \.jsonl or \.parquet"):
        log_of(whole()).export(tmp_path / name)


def test_a_file_is_replaced_only_when_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("mine")

    with pytest.raises(FileExistsError, match="is there already; pass overwrite=True"):
        log_of(whole()).export(path)
    assert path.read_text() == "mine"
    log_of(whole()).export(path, overwrite=True)
    assert path.read_text() != "mine"


def test_a_folder_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.md").mkdir()

    with pytest.raises(IsADirectoryError, match="is a folder; name a file"):
        log_of(whole()).export(tmp_path / "x.md", overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*; make it first"):
        log_of(whole()).export(tmp_path / "nowhere" / "x.md")


def test_nothing_is_written_when_redaction_fails(tmp_path: Path) -> None:
    def fail(text: str) -> str:
        raise LookupError("no such name")

    (tmp_path / "x.md").write_text("mine")

    with pytest.raises(LookupError, match="no such name"):
        log_of(whole()).export(tmp_path / "x.md", redact=fail, overwrite=True)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["mine"]


def test_a_header_that_is_no_json_is_left_out(tmp_path: Path) -> None:
    log = log_of(whole(), title="Sums", made_by=object())

    again = load(log.export(tmp_path / "x.jsonl"))

    assert again.session.header == {"title": "Sums"}


async def test_an_agent_exports_while_it_lives(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = ScriptedModel([[call("add", a=2, b=3)], say("It is 5.")])
    agent = Agent("main", model=model, tools=[add])
    await agent("What is 2 + 3?")

    page = agent.export(tmp_path / "x.html").read_text()

    assert "It is 5." in page
    assert [*load(agent.export(tmp_path / "x.jsonl")).session] == [*agent.session]
    await agent.dispose()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_opens_in_a_browser_and_asks_for_nothing(tmp_path: Path, scheme: str) -> None:
    built = whole(f"See ![x](https://evil.example/y.png) and {ATTACK}")
    path = log_of(built, title=ATTACK).export(tmp_path / "x.html")
    chromium = shutil.which("chromium")
    assert chromium is not None, "chromium is not installed; run make test, which installs it"
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]  # one of both
        page.on("request", lambda request: asked.append(request.url))
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text))
        page.goto(path.as_uri())
        page.wait_for_load_state("networkidle")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        title = page.title()
        shown = page.inner_text("body")
        browser.close()

    assert asked == [path.as_uri()]
    assert faults == []
    assert title == ATTACK
    assert ("What is 2 + 3?" in shown, "let me add" in shown) == (True, False)
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 24, 28)")
