"""A record: whatever has a session has its tables."""

from __future__ import annotations

import pandas as pd

from dsh_nb import tables
from dsh_nb.messages import Usage
from dsh_nb.session import Session
from dsh_nb.session.events import UsageReport
from dsh_nb.tables import Recorded
from dsh_nb.testing import FakeClock, LogBuilder

NAMES = ["events", "chunks", "messages", "turns", "steps", "tool_calls", "usage"]


def session(id: str = "s1") -> Session:
    log = LogBuilder(FakeClock()).user("hi").turn().step().says("a", usage=Usage(1200, 34))
    return Session(id, log.call("c1").result("c1").end_step().end_turn().events)


def test_record_has_the_tables_of_its_session() -> None:
    record = Recorded(session())

    for name in NAMES:
        expected = getattr(tables, name)(session())
        pd.testing.assert_frame_equal(getattr(record, name), expected)


def test_record_says_what_it_is_in_a_line() -> None:
    log = session()
    log.append("usage", UsageReport(1, 1, Usage(1, 0), model="claude-sonnet-4-5"))

    assert repr(Recorded(Session("empty"))) == "<Recorded 'empty' 0 turns, 0 events>"
    assert repr(Recorded(log)) == (
        f"<Recorded 's1' 1 turn, {len(log):,} events, 1,235 tokens, 2023-11-14 22:13 UTC>"
    )


def test_record_tells_the_cost_where_all_of_it_is_known() -> None:
    log = Session("s1")
    log.append("usage", UsageReport(1, 1, Usage(1000), model="claude-sonnet-4-5"))

    assert "1,000 tokens, 0.0030 US dollars, " in repr(Recorded(log))


def test_record_of_a_log_without_times_names_no_date() -> None:
    timeless = Session("s1", LogBuilder(FakeClock(start_ms=0, step_ms=0)).user("hi").events)

    assert repr(Recorded(timeless)) == "<Recorded 's1' 0 turns, 1 event>"


def test_names_of_sessions_are_shown_as_text() -> None:
    record = Recorded(Session("<b>`x`\n# y"))

    assert record._repr_html_().startswith("<b>Session</b> <code>&lt;b&gt;`x`\n# y</code> · 0 ")
    assert record._repr_markdown_().startswith("**Session** `<b>'x' # y` · 0 turns")
