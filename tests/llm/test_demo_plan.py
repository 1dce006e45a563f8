"""What texts ask the demo model to call: phrasings of people, and the calls they come to."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_nb.llm.demo_plan import CHARS_READ, plan_calls
from dsh_nb.messages import JsonObject, ToolSchema

WHOLE: JsonObject = {"type": "integer"}
NUMBER: JsonObject = {"type": "number"}
TEXT: JsonObject = {"type": "string"}


def tool(
    name: str, description: str, required: str = "", /, **properties: JsonObject
) -> ToolSchema:
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return ToolSchema(name, description, schema)


def one_of(*values: object, **rest: object) -> JsonObject:
    return {"enum": list(values), "type": "string", **rest}


TABLE = [
    tool("add", "Add two numbers.", "a b", a=WHOLE, b=WHOLE),
    tool("multiply", "Multiply two numbers.", "a b", a=WHOLE, b=WHOLE),
    tool("head", "Show the first rows of the table.", n={**WHOLE, "default": 5}),
    tool(
        "weather", "Get the current weather for a city.", "city",
        city=TEXT, unit=one_of("c", "f", default="c"),
    ),
    tool("search", "Search the web.", "query", query=TEXT),
    tool(
        "plot", "Draw a chart of a column.", "column kind",
        column=TEXT, kind=one_of("line", "bar", "hist"),
    ),
]  # fmt: skip
OFFICE = [
    tool("translate", "Translate a text.", "text target_language", text=TEXT, target_language=TEXT),
    tool(
        "convert_currency", "Convert an amount between currencies.",
        "amount from_currency to_currency", amount=NUMBER, from_currency=TEXT, to_currency=TEXT,
    ),
    tool("mean", "The average.", "numbers", numbers={"type": "array", "items": NUMBER}),
    tool("send_email", "Send a mail.", "to subject body", to=TEXT, subject=TEXT, body=TEXT),
    tool("read_file", "Read a text file.", "path", path=TEXT, max_lines=WHOLE),
    tool(
        "create_event", "Put an event into the calendar.", "title date",
        title=TEXT, date={**TEXT, "format": "date"}, all_day={"type": "boolean"},
    ),
    tool("list_files", "List the files of the folder."),
    tool("describe", "Statistics of a table.", "df_name", df_name=TEXT, full={"type": "boolean"}),
    tool("get_stock_price", "Latest price of a share.", "ticker", ticker=TEXT),
    tool("tag", "Tag items.", "items", items={"type": "array", "items": TEXT}),
    tool("filter_rows", "Keep some rows.", "column min_value", column=TEXT, min_value=NUMBER),
    tool("calculate", "Evaluate an expression.", "expression", expression=TEXT),
    tool("subtract", "Subtract b from a.", "a b", a=NUMBER, b=NUMBER),
    tool(
        "book_train", "Book a train.", "origin destination", origin=TEXT, destination=TEXT,
        seats=WHOLE, travel_class={"anyOf": [{"$ref": "#/$defs/Class"}, {"type": "null"}]},
    ),
    tool("order_status", "Status of an order.", "order_id", order_id=TEXT),
    tool("run_sql", "Run a query.", "sql", sql=TEXT, limit=WHOLE),
]  # fmt: skip
OFFICE[13].parameters["$defs"] = {"Class": one_of("first", "second")}


def steps(text: str, tools: list[ToolSchema], *backs: float | None) -> list[list[str]]:
    plan = plan_calls([text], tools, backs)
    return [[f"{call.tool} {call.text}" for call in step] for step in plan.steps]


def lacks(text: str, tools: list[ToolSchema]) -> list[tuple[str, list[str]]]:
    found = plan_calls([text], tools).lacks
    return [(lack.tool.name, [parameter.name for parameter in lack.missing]) for lack in found]


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "How are you today?",
        "thanks!",
        "I have 3 numbers and two cats",
        "Tell me about numbers in Python",
        "Who won the cup in 1998?",
        "I read a book in May",
        "don't use the search tool for cats",
        "",
    ],
)
def test_free_text_calls_nothing(text: str) -> None:
    assert steps(text, TABLE + OFFICE) == []
    assert lacks(text, TABLE + OFFICE) == []


@pytest.mark.parametrize(
    "text",
    [
        "add 2 and 3",
        "What is 2 + 3?",
        "what's 2 plus 3",
        "please add two and three",
        "add(2, 3)",
        "add(a=2, b=3)",
        "call `add` with b=3 and a=2",
        "use the add tool to add 2 and 3",
        "Adding 2,3?",
        'add {"a": 2, "b": 3}',
    ],
)
def test_add_takes_its_numbers(text: str) -> None:
    assert steps(text, TABLE) == [['add {"a": 2, "b": 3}']]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("show the head", "{}"),
        ("head", "{}"),
        ("show me the first 3 rows", '{"n": 3}'),
        ("head 3", '{"n": 3}'),
        ("head n=3", '{"n": 3}'),
        ("head with n 3", '{"n": 3}'),
        ("give me the head, three rows", '{"n": 3}'),
    ],
)
def test_head_takes_a_count_only_where_there_is_one(text: str, arguments: str) -> None:
    assert steps(text, TABLE) == [[f"head {arguments}"]]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("What's the weather in Paris?", '{"city": "Paris"}'),
        ("weather paris", '{"city": "paris"}'),
        ("Paris weather please", '{"city": "Paris"}'),
        ("weather for the city of Paris", '{"city": "Paris"}'),
        ("weather city=Paris", '{"city": "Paris"}'),
        ("what's the weather in new york tomorrow", '{"city": "new york"}'),
        ("Is it warm in Berlin? Check the weather", '{"city": "Berlin"}'),
        ("Weather in San Francisco in fahrenheit", '{"city": "San Francisco", "unit": "f"}'),
        ("the temperature in Oslo in F, please", '{"city": "Oslo", "unit": "f"}'),
        ("weather like in Rio de Janeiro (°C)", '{"city": "Rio de Janeiro", "unit": "c"}'),
        ('weather(city="Paris", unit="f")', '{"city": "Paris", "unit": "f"}'),
    ],
)
def test_weather_takes_its_city_and_unit(text: str, arguments: str) -> None:
    assert steps(text, TABLE) == [[f"weather {arguments}"]]


@pytest.mark.parametrize("text", ["weather for Paris and London", "weather in Paris and in London"])
def test_several_cities_are_several_calls_of_one_step(text: str) -> None:
    assert steps(text, TABLE) == [['weather {"city": "Paris"}', 'weather {"city": "London"}']]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Search for the best pizza in Rome", "best pizza in Rome"),
        ('search "cats and dogs, then birds"', "cats and dogs, then birds"),
        ("Search the web for python 3 tutorials", "python 3 tutorials"),
        ("query: cats and dogs; use search", "cats and dogs"),
        ("look up quantum computing with search", "quantum computing"),
        ("Can you look up the history of Rome on the web?", "history of Rome"),
    ],
)
def test_search_takes_what_is_looked_for(text: str, query: str) -> None:
    assert steps(text, TABLE) == [[f'search {{"query": "{query}"}}']]


@pytest.mark.parametrize(
    ("text", "column", "kind"),
    [
        ("plot revenue as a bar chart", "revenue", "bar"),
        ("plot the revenue column as bars", "revenue", "bar"),
        ("make a bar chart of revenue", "revenue", "bar"),
        ("Draw a histogram of revenue", "revenue", "hist"),
        ('plot "unit price" as a line', "unit price", "line"),
        ("Plot a LINE chart for column revenue", "revenue", "line"),
        ("plot(column='bar', kind='line')", "bar", "line"),
    ],
)
def test_plot_takes_its_column_and_kind(text: str, column: str, kind: str) -> None:
    assert steps(text, TABLE) == [[f'plot {{"column": "{column}", "kind": "{kind}"}}']]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (
            'Translate "good morning" to French',
            'translate {"text": "good morning", "target_language": "French"}',
        ),
        (
            "translate hello to German",
            'translate {"text": "hello", "target_language": "German"}',
        ),
        (
            "convert 1,100.50 USD to EUR",
            'convert_currency {"amount": 1100.5, "from_currency": "USD", "to_currency": "EUR"}',
        ),
        ("What is the mean of 1, 2 and 3.5?", 'mean {"numbers": [1, 2, 3.5]}'),
        ("average of [4, 8]", 'mean {"numbers": [4, 8]}'),
        (
            'Send an email to bob@example.com with subject "Lunch" and body "At noon?"',
            'send_email {"to": "bob@example.com", "subject": "Lunch", "body": "At noon?"}',
        ),
        ("read the file data/sales.csv", 'read_file {"path": "data/sales.csv"}'),
        ("Read notes.txt, first 20 lines", 'read_file {"path": "notes.txt", "max_lines": 20}'),
        (
            'Create an event "Team lunch" on 2025-03-04',
            'create_event {"title": "Team lunch", "date": "2025-03-04"}',
        ),
        (
            "create event Standup on May 5, 2025 all day",
            'create_event {"title": "Standup", "date": "2025-05-05", "all_day": true}',
        ),
        ("which files are there?", "list_files {}"),
        ("Describe the df sales", 'describe {"df_name": "sales"}'),
        ("summarize the table df, not full", 'describe {"df_name": "df", "full": false}'),
        ("What's the stock price of AAPL?", 'get_stock_price {"ticker": "AAPL"}'),
        ('tag "red" and "blue"', 'tag {"items": ["red", "blue"]}'),
        ("tag items apples, pears", 'tag {"items": ["apples", "pears"]}'),
        (
            "filter rows where the revenue column is above 100",
            'filter_rows {"column": "revenue", "min_value": 100}',
        ),
        ("calculate (2+3)*4", 'calculate {"expression": "(2+3)*4"}'),
        ("subtract 3 from 10", 'subtract {"a": 10, "b": 3}'),
        (
            "Book train to Berlin from Rome, 3 seats, second class",
            'book_train {"origin": "Rome", "destination": "Berlin", "seats": 3,'
            ' "travel_class": "second"}',
        ),
        ("what is the status of order 1234?", 'order_status {"order_id": "1234"}'),
        ("run sql: select * from t limit 5", 'run_sql {"sql": "select * from t", "limit": 5}'),
        ("```sql\nselect a, b\n``` run this sql", 'run_sql {"sql": "select a, b"}'),
    ],
)
def test_arguments_are_read_by_their_kind(text: str, call: str) -> None:
    assert steps(text, OFFICE) == [[call]]


def test_tools_joined_by_and_share_a_step() -> None:
    assert steps("add 2 and 3 and multiply 4 by 5", TABLE) == [
        ['add {"a": 2, "b": 3}', 'multiply {"a": 4, "b": 5}']
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Add 2 and 3, then multiply 4 by 5",
        "add 2 and 3. Multiply 4 by 5.",
        "First add 2 and 3; multiply 4 by 5",
        "add 2 and 3\nmultiply 4 by 5",
    ],
)
def test_tools_in_order_have_a_step_each(text: str) -> None:
    assert steps(text, TABLE) == [['add {"a": 2, "b": 3}'], ['multiply {"a": 4, "b": 5}']]


def test_described_tool_after_a_named_one_has_a_step_too() -> None:
    assert steps("add 2 and 3, then show the first 2 rows", TABLE) == [
        ['add {"a": 2, "b": 3}'], ['head {"n": 2}'],
    ]  # fmt: skip


def test_same_tool_in_other_words_is_called_again() -> None:
    assert steps("What's 2 plus 3 and 4 plus 5?", TABLE) == [
        ['add {"a": 2, "b": 3}', 'add {"a": 4, "b": 5}']
    ]


def test_pronoun_stands_for_the_last_number() -> None:
    text = "add 2 and 3, then multiply the result by 4 and head it"

    assert steps(text, TABLE, 5)[:2] == [['add {"a": 2, "b": 3}'], ['multiply {"a": 5, "b": 4}']]
    assert steps(text, TABLE)[0] == ['add {"a": 2, "b": 3}']


def test_same_call_is_planned_once() -> None:
    plan = plan_calls(["add 2 and 3", "add 2 and 3, please", "head"], TABLE)

    assert [[call.tool for call in step] for step in plan.steps] == [["add"], ["head"]]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("What's the weather?", [("weather", ["city"])]),
        ("What's the weather like today?", [("weather", ["city"])]),
        ("Add 7", [("add", ["b"])]),
        ("add 2.5 and 3", [("add", ["b"])]),
        ("plot revenue", [("plot", ["kind"])]),
        ("search please", [("search", ["query"])]),
    ],
)
def test_named_tool_without_its_arguments_lacks_them(
    text: str, missing: list[tuple[str, list[str]]]
) -> None:
    assert lacks(text, TABLE) == missing
    assert steps(text, TABLE) == []


def test_exact_name_wins_over_a_description() -> None:
    tools = [tool("lookup_rows", "Search rows."), tool("search", "Anything.")]

    assert steps("search rows", tools) == [["search {}"]]


@pytest.mark.parametrize(
    "text", ["\n" * 9_000, "and " * 3_000, "A B " * 3_000, "weather in Paris and London, " * 400]
)
def test_long_text_is_read_quickly_and_in_part(text: str) -> None:
    began = time.perf_counter()

    plan = plan_calls([text], TABLE + OFFICE)

    assert time.perf_counter() - began < 2
    assert plan == plan_calls([text[:CHARS_READ]], TABLE + OFFICE)


WORDS = """add head weather plot search in Paris F bar 3 -2.5 1e999 and then it is n
    = : " ' ( ) , . ²""".split()


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=12))
def test_any_text_gives_arguments_of_the_declared_kinds(words: list[str]) -> None:
    kinds = {"a": int, "b": int, "n": int, "city": str, "unit": str, "query": str, "column": str}

    plan = plan_calls([" ".join(words)], TABLE, [5.0, None])

    arguments = [json.loads(call.text) for step in plan.steps for call in step]
    assert all(isinstance(one[name], kinds.get(name, str)) for one in arguments for name in one)
    assert "" not in [value for one in arguments for value in one.values()]
