"""The saved sessions: their table, one by its id, and the places where a text is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import dsh_nb
from dsh_nb import Agent, ScriptedModel
from dsh_nb.errors import SessionError
from dsh_nb.llm.scripted import say
from dsh_nb.messages import ImageBlock, Retry, TextDelta, Usage
from dsh_nb.notebook.saved import SavedSessions
from dsh_nb.plugins.persistence.lock import is_locked
from dsh_nb.session.files import dumps, write_session
from dsh_nb.session.session import Session
from dsh_nb.tables.frame import column_of
from dsh_nb.testing.logs import LogBuilder

START = 1_700_000_000_000


def log(text: str = "hi", said: str = "well hello", time: int = START) -> LogBuilder:
    return LogBuilder(lambda: time).user(text).turn().step().says(said).end_step().end_turn()


def save(folder: Path, id: str, built: LogBuilder | None = None, **header: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{id}.jsonl"
    write_session(path, Session(id, (built or log()).events, header=header))
    return path


@pytest.fixture
def saved(tmp_path: Path) -> SavedSessions:
    return SavedSessions(tmp_path / "sessions")


def test_the_table_has_a_row_per_session_the_newest_first(saved: SavedSessions) -> None:
    save(saved.folder, "old", log("first words"))
    save(saved.folder, "new", log(time=START + 1000), title="A title")

    frame = saved.frame

    assert frame.drop(columns="started").to_dict("list") == {
        "id": ["new", "old"],
        "title": ["A title", "first words"],
        "turns": [1, 1],
        "tokens": [15, 15],
        "cost": [None, None],
        "model": ["scripted", "scripted"],
        "status": ["completed", "completed"],
    }
    assert frame["started"].tolist() == column_of([START + 1000, START], "time").tolist()


def test_an_empty_folder_gives_the_same_columns(saved: SavedSessions) -> None:
    empty = saved.frame
    save(saved.folder, "one")

    assert saved.frame.dtypes.to_dict() == empty.dtypes.to_dict()
    assert [*saved.frame] == [*empty]
    assert (len(empty), repr(empty["started"].dtype)) == (0, "datetime64[us, UTC]")


def test_tokens_and_cost_are_those_of_the_usage_table(saved: SavedSessions) -> None:
    built = LogBuilder().user("hi").turn().step()
    usage = {"inputTokens": 1000, "outputTokens": 10, "reasoningTokens": 7, "cacheReadTokens": 3}
    for model in ("claude-sonnet-4-5", "claude-haiku-4-5"):
        report = {"turn": 1, "step": 1, "model": model, "usage": usage}
        built.add("usage", report)
    save(saved.folder, "one", built)

    row, billed = saved.frame.iloc[0], saved["one"].usage

    assert row["tokens"] == 2 * (1000 + 10 + 7 + 3)
    assert row["cost"] == pytest.approx(billed["cost"].sum())
    assert row["cost"] > 0


def test_a_price_that_is_unknown_makes_the_cost_missing_and_no_bill_the_tokens(
    saved: SavedSessions,
) -> None:
    built = log().turn().step().says("more", usage=Usage(1, 1))
    report = {"turn": 1, "step": 1, "model": "claude-sonnet-4-5", "usage": {"inputTokens": 5}}
    built.add("usage", report)
    save(saved.folder, "mixed", built)
    save(saved.folder, "nothing", LogBuilder().user("hi"))

    frame = saved.frame.set_index("id")

    assert frame["cost"].isna().all()
    assert frame["tokens"].isna().to_dict() == {"mixed": False, "nothing": True}


def test_files_at_fault_are_rows_with_their_status(saved: SavedSessions) -> None:
    content = dumps(Session("main", log().events))
    saved.folder.mkdir()
    (saved.folder / "torn.jsonl").write_bytes(content[:-40])
    (saved.folder / "foreign.jsonl").write_text("nonsense\n")
    (saved.folder / "later.jsonl").write_bytes(content.replace(b'"version":1', b'"version":9'))
    (saved.folder / "empty.jsonl").write_bytes(b"")
    (saved.folder / "folder.jsonl").mkdir()
    (saved.folder / "notes.txt").write_text("not one of them")

    frame = saved.frame.set_index("id")

    assert frame["status"].to_dict() == {
        "torn": "interrupted",
        "foreign": "unreadable",
        "later": "unreadable",
        "empty": "new",
        "folder": "unreadable",
    }
    assert "version 9" in frame["title"]["later"]
    assert frame["turns"].isna().to_dict()["foreign"]
    assert set(saved) == {*frame.index}
    for form in saved._repr_mimebundle_().values():
        assert "5 saved sessions" in form
    with pytest.raises(SessionError, match="no session log"):
        saved["foreign"]


def test_a_session_is_found_by_its_id_and_by_its_beginning(saved: SavedSessions) -> None:
    save(saved.folder, "main-1")
    save(saved.folder, "main-1b")
    save(saved.folder, "other-1")

    assert saved["main-1"].session.id == "main-1"
    assert saved["oth"].session.id == "other-1"
    assert [*saved["main-1b"].session] == log().events
    assert ("main-1" in saved, "oth" in saved, 5 in saved, len(saved)) == (True, False, False, 3)
    assert sorted(saved) == sorted(saved._ipython_key_completions_())


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("main-", r"'main-' begins the ids of 2 sessions; pass more of 'main-\d', 'main-\d'"),
        ("mian-1", "no session 'mian-1' is saved in .*; did you mean 'main-1'"),
        ("her", "no session 'her' is saved in .*; did you mean 'other'"),
        ("zzz", r"no session 'zzz' is saved in .*; dsh_nb\.sessions lists them"),
        ("", r"no session '' is saved in .*; dsh_nb\.sessions lists them"),
    ],
)
def test_an_id_that_is_not_one_is_refused(saved: SavedSessions, id: str, text: str) -> None:
    for name in ("main-1", "main-2", "other"):
        save(saved.folder, name)

    with pytest.raises(SessionError, match=text):
        saved[id]


def test_an_id_is_text(saved: SavedSessions) -> None:
    with pytest.raises(TypeError, match="the session's id is 0"):
        saved[0]  # type: ignore[index]  # as somebody would


def test_a_file_that_was_renamed_has_the_id_of_its_name(saved: SavedSessions) -> None:
    save(saved.folder, "main").rename(saved.folder / "best.jsonl")

    assert [*saved] == ["best"]
    assert saved["best"].session.id == "best"


def test_a_file_is_read_again_only_when_it_has_changed(saved: SavedSessions) -> None:
    path = save(saved.folder, "one")
    first = saved["one"]

    assert saved["one"].session is first.session
    save(saved.folder, "one", log().turn())
    os.utime(path, ns=(1, 1))
    assert saved["one"].session.turn == 2
    assert saved.frame["turns"].tolist() == [2]


def test_a_session_that_was_deleted_is_gone(saved: SavedSessions) -> None:
    save(saved.folder, "one").unlink()

    assert ([*saved], len(saved.frame)) == ([], 0)


async def test_a_live_session_is_the_one_of_this_kernel(saved: SavedSessions) -> None:
    agent = Agent("main", model=ScriptedModel([say("one"), say("two")]), save=str(saved.folder))
    id = agent.session.id
    assert [*saved] == []

    await agent("hi")

    assert saved["main"].session is agent.session
    assert [*saved] == [id]
    row = saved.frame.iloc[0]
    assert (row["title"], row["turns"], row["status"]) == ("hi", 1, "completed")
    assert row["tokens"] == agent.usage.filter(like="_tokens").sum().sum()
    assert saved.search("two").empty
    assert saved.search("ONE")["session"].tolist() == [id]
    await agent.dispose()
    assert saved[id].session is not agent.session
    assert [*saved[id].session] == [*agent.session]
    assert SavedSessions(saved.folder / "elsewhere")._ipython_key_completions_() == []


async def test_a_session_runs_only_as_long_as_somebody_writes_it(saved: SavedSessions) -> None:
    path = save(saved.folder, "one", log().turn())

    assert not is_locked(path)
    assert saved.frame["status"].tolist() == ["interrupted"]


def test_the_default_is_below_the_working_directory_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / ".dsh" / "sessions", "one")
    monkeypatch.chdir(tmp_path)

    assert [*dsh_nb.sessions] == ["one"]
    assert dsh_nb.sessions.at("elsewhere").folder == tmp_path / "elsewhere"
    monkeypatch.chdir("/")
    assert [*dsh_nb.sessions] == []


def test_the_table_shows_itself_without_markup_of_its_texts(saved: SavedSessions) -> None:
    save(saved.folder, "one", log("<img src=x onerror=alert(1)> | **$5** `x`"))

    shown = saved._repr_mimebundle_()

    assert "<img" not in shown["text/html"]
    assert shown["text/html"].startswith('<div class="mathjax_ignore tex2jax_ignore">')
    assert "&lt;img src=x onerror=alert(1)&gt; | **$5** `x`" in shown["text/html"]
    html = MarkdownIt("commonmark").enable("table").render(shown["text/markdown"])
    assert "<td>&lt;img src=x onerror=alert(1)&gt; | **$5** `x`</td>" in html
    assert shown["text/plain"].splitlines()[0] == f"1 saved session in {saved.folder}"
    assert repr(saved) == f"<SavedSessions 1 in {str(saved.folder)!r}>"


def test_an_empty_table_says_so(saved: SavedSessions) -> None:
    shown = saved._repr_mimebundle_()

    assert shown["text/plain"] == f"No saved session in {saved.folder}"
    assert "<table" not in shown["text/html"]


def test_a_long_table_shows_its_beginning(saved: SavedSessions) -> None:
    for number in range(27):
        save(saved.folder, f"s{number}")

    shown = saved._repr_mimebundle_()

    assert shown["text/html"].count("<tr>") == 26
    assert all("2 more sessions in sessions.frame" in form for form in shown.values())
    assert len(saved.frame) == 27


def test_search_finds_what_was_said_wherever_it_stands(saved: SavedSessions) -> None:
    built = log("Über Berlin", "Ja, Berlin!").turn().step()
    built.chunk(TextDelta(0, "not berlin")).chunk(Retry(1, "lost", "network"))
    built.chunk(TextDelta(0, "in Ber")).chunk(TextDelta(0, "lin it"))
    built.add("note/added", {"deep": [{"x": "to BERLIN"}]})
    save(saved.folder, "one", built)
    save(saved.folder, "two", log("Rome", time=START - 1))

    found = saved.search("berlin")

    assert found[["session", "turn", "type"]].values.tolist() == [
        ["one", 1, "user/message"],
        ["one", 1, "assistant/message"],
        ["one", 2, "note/added"],
        ["one", 2, "assistant/chunk"],
    ]
    assert found["text"].tolist() == ["Über Berlin", "Ja, Berlin!", "to BERLIN", "in Berlin it"]
    event = saved["one"].session[int(found["seq"].iloc[-1])]
    assert event.data.chunk == TextDelta(0, "in Ber")


def test_search_without_a_find_has_the_same_columns(saved: SavedSessions) -> None:
    save(saved.folder, "one", log("a word"))

    none, one = saved.search("nowhere"), saved.search("word")

    assert none.dtypes.to_dict() == one.dtypes.to_dict()
    assert (len(none), len(one)) == (0, 1)


def test_search_finds_quotes_and_letters_of_all_kinds(saved: SavedSessions) -> None:
    save(saved.folder, "one", log('she said "größer"\nthan'))

    assert len(saved.search('"GRÖSSER'.replace("SS", "ß"))) == 1
    assert len(saved.search('größer"\nthan')) == 1
    assert saved.search("größer")["text"].tolist() == ['she said "größer" than']


def test_search_leaves_pictures_ids_and_words_of_the_log_alone(saved: SavedSessions) -> None:
    picture = ImageBlock("data:image/png;base64,iVBORw0KGgoBerlin")
    built = LogBuilder().add(
        "user/message", {"content": [{"type": "image", "url": picture.url}], "source": {}}
    )
    save(saved.folder, "one", built.turn())

    assert saved.search("berlin").empty
    assert saved.search("message").empty


def test_search_cuts_what_is_around_a_find(saved: SavedSessions) -> None:
    save(saved.folder, "one", log(f"{'a' * 100} here {'b' * 100}"))

    text = f"…{'a' * 59} here {'b' * 59}…"
    assert saved.search("here")["text"].tolist() == [text]


def test_search_leaves_out_what_cannot_be_read(saved: SavedSessions) -> None:
    save(saved.folder, "one", log("a word"))
    (saved.folder / "bad.jsonl").write_text("a word\n")

    assert saved.search("word")["session"].tolist() == ["one"]


def test_search_wants_words(saved: SavedSessions) -> None:
    with pytest.raises(ValueError, match="the text to search for is ' '; pass words"):
        saved.search(" ")
