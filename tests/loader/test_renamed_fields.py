"""Whole loads, while fields are renamed beneath them: a field has one column, whoever wrote its
events, and no file is rewritten for it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset
from pyspark.sql import SparkSession

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.config import CompletenessConfig, FileFormat, LoaderConfig, Tasks
from loader.decoding.table_columns import are_same
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour, hour_folder
from tests.loader.application import BEGAN, HOUR, Application, Json, event_schema
from tests.loader.loads import EITHER_WAY, LONG_AGO, folder_of, load_once, rows_of

HEADER: Final = {"time", "host", "app", "source", "seq", "position"}
ORIGIN: Final = {"_topic", "_partition", "_offset"}
NEVER: Final = CompletenessConfig(settle=1e12, deadline=1e12)
Fields = Sequence[Json]


def field(name: str, type_: Any = "string", *aliases: str, **more: Any) -> Json:
    return {"name": name, "type": type_, "aliases": list(aliases), **more}


class Written(msgspec.Struct, frozen=True):
    """Events of a version, and whether a load follows."""

    fields: Fields
    events: Sequence[Json]
    loads: bool = True


class Renaming(msgspec.Struct, frozen=True):
    name: str
    steps: Sequence[Written]
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]  # in the order of events
    remarks: Sequence[str] = ()


USER, CUSTOMER = (field("user"),), (field("customer", "string", "user"),)
RENAMED: Final = "field `customer`, formerly `user`, has column `user`"


def place(name: str, *aliases: str) -> Json:
    return {"type": "record", "name": "Place", "fields": [field(name, "string", *aliases)]}


def union(kind: str, *aliases: str) -> Fields:
    fields = [field("n", "int")]
    record = {"type": "record", "name": kind, "aliases": list(aliases), "fields": fields}
    return (field("value", ["string", record]),)


def state(*symbols: str) -> Fields:
    type_ = {"type": "enum", "name": "State", "symbols": symbols, "default": symbols[-1]}
    return (field("state", type_),)


RENAMINGS: Final = (
    Renaming(
        "both names in each load",
        (
            Written(USER, [{"user": "1"}]),
            Written(CUSTOMER, [{"customer": "2"}], loads=False),
            Written(USER, [{"user": "3"}]),
            Written(CUSTOMER, [{"customer": "4"}], loads=False),
            Written(USER, [{"user": "5"}]),
        ),
        ("user",),
        [("1",), ("2",), ("3",), ("4",), ("5",)],
        [RENAMED],
    ),
    Renaming(
        "before the first load",
        (
            Written(USER, [{"user": "1"}], loads=False),
            Written(CUSTOMER, [{"customer": "2"}]),
            Written(USER, [{"user": "3"}]),
        ),
        ("customer",),
        [("1",), ("2",), ("3",)],
    ),
    Renaming(
        "an alias that is gone again",
        (
            Written(USER, [{"user": "1"}]),
            Written(CUSTOMER, [{"customer": "2"}]),
            Written((field("customer"),), [{"customer": "3"}]),
        ),
        ("user",),
        [("1",), ("2",), ("3",)],
        [RENAMED],
    ),
    Renaming(
        "an alias that comes too late",
        (
            Written(USER, [{"user": "1"}]),
            Written((field("customer", default=""),), [{"customer": "2"}]),
            Written(CUSTOMER, [{"customer": "3"}], loads=False),
            Written(USER, [{"user": "4"}]),
        ),
        ("user", "customer"),
        [("1", None), (None, "2"), (None, "3"), (None, "4")],
    ),
    Renaming(
        "names exchanged, by way of a third",
        (
            Written((field("a"), field("b")), [{"a": "a1", "b": "b1"}]),
            Written((field("a"), field("x", "string", "b")), [{"a": "a2", "x": "b2"}]),
            Written((field("b", "string", "a"), field("x")), [{"b": "a3", "x": "b3"}]),
            Written((field("b"), field("a", "string", "x")), [{"b": "a4", "a": "b4"}]),
        ),
        ("a", "b"),
        [(f"a{number}", f"b{number}") for number in range(1, 5)],
        [
            "field `x`, formerly `b`, has column `b`",
            "field `b`, formerly `a`, has column `a`",
            "field `a`, formerly `x`, has column `b`",
        ],
    ),
    Renaming(
        "the former name used again",
        (
            Written(USER, [{"user": "1"}]),
            Written(CUSTOMER, [{"customer": "2"}]),
            Written(
                (field("user", "int", default=0), field("customer")),
                [{"user": 7, "customer": "3"}],
                loads=False,
            ),
            Written(CUSTOMER, [{"customer": "4"}]),
        ),
        ("user", "user_"),
        [("1", None), ("2", None), ("3", 7), ("4", 0)],
        [RENAMED],
    ),
    Renaming(
        "taken back",
        (
            Written(USER, [{"user": "1"}]),
            Written(CUSTOMER, [{"customer": "2"}]),
            Written((field("user", "string", "customer"),), [{"user": "3"}], loads=False),
            Written(CUSTOMER, [{"customer": "4"}]),
        ),
        ("user",),
        [("1",), ("2",), ("3",), ("4",)],
        [RENAMED, "field `user`, formerly `customer`, has column `user`"],
    ),
    Renaming(
        "fields of records",
        (
            Written(
                (field("at", place("city")), field("all", {"type": "array", "items": "Place"})),
                [{"at": {"city": "1"}, "all": [{"city": "x"}]}],
            ),
            Written(
                (
                    field("at", place("town", "city")),
                    field("all", {"type": "array", "items": "Place"}),
                ),
                [{"at": {"town": "2"}, "all": [{"town": "y"}, {"town": "z"}]}],
            ),
        ),
        ("at", "all"),
        [
            ({"city": "1"}, [{"city": "x"}]),
            ({"city": "2"}, [{"city": "y"}, {"city": "z"}]),
        ],
        [
            "field `town`, formerly `city`, has column `at.city`",
            "field `town`, formerly `city`, has column `all.city`",
        ],
    ),
    Renaming(
        "a record in a union",
        (
            Written(union("Order"), [{"value": {"n": 1}}, {"value": "s"}]),
            Written(union("Purchase", "Order"), [{"value": {"n": 3}}], loads=False),
            Written(union("Order"), [{"value": {"n": 4}}]),
        ),
        ("value",),
        [
            ({"member_string": None, "member_Order": {"n": 1}},),
            ({"member_string": "s", "member_Order": None},),
            ({"member_string": None, "member_Order": {"n": 3}},),
            ({"member_string": None, "member_Order": {"n": 4}},),
        ],
        ["field `member_Purchase`, formerly `member_Order`, has column `value.member_Order`"],
    ),
    Renaming(
        # Avro knows no aliases of symbols: an event with the former one gets the default.
        "a symbol of an enum",
        (
            Written(state("NEW", "OTHER"), [{"state": "NEW"}]),
            Written(state("OPEN", "OTHER"), [{"state": "OPEN"}], loads=False),
            Written(state("NEW", "OTHER"), [{"state": "NEW"}]),
        ),
        ("state",),
        [("NEW",), ("OPEN",), ("OTHER",)],
    ),
    Renaming(
        "renamed and widened",
        (
            Written((field("n", "int"),), [{"n": 1}]),
            Written((field("count", "long", "n"),), [{"count": 2**40}], loads=False),
            Written((field("n", "int"),), [{"n": 3}]),
        ),
        ("n",),
        [(1,), (2**40,), (3,)],
        ["field `count`, formerly `n`, has column `n`"],
    ),
    Renaming(
        "renamed, with a type that is not wider",
        (
            Written((field("n", "long"),), [{"n": 1}]),
            Written((field("count", "double", "n"),), [{"count": 0.5}], loads=False),
            Written((field("n", "long"),), [{"n": 3}]),
        ),
        ("n", "count"),
        [(1, None), (None, 0.5), (None, 3.0)],
    ),
)


def columns_of(rows: Sequence[Any], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The columns of Spark's rows, in the order of events."""
    by_seq = sorted((row.asDict(recursive=True) for row in rows), key=lambda row: row["seq"])
    return [tuple(row[name] for name in columns) for row in by_seq]


BY_SPARK: Final = ("both names in each load", "fields of records")
CASES: Final = [
    pytest.param(renaming, tasks, id=f"{renaming.name}, {way}")
    for renaming in RENAMINGS
    for way, tasks in EITHER_WAY.items()
    if tasks.without_spark or renaming.name in BY_SPARK
]

Write = Callable[[Fields], Application]


@pytest.fixture
def writing(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Write]:
    """The application of the test's topic, which begins with these fields."""
    with ExitStack() as stack:

        def made(fields: Fields) -> Application:
            schema = event_schema(fields)
            application = Application(
                running_broker.bootstrap, running_registry.url, new_topic, schema=schema
            )
            stack.callback(application.close)
            return application

        yield made


@pytest.mark.parametrize(("renaming", "tasks"), CASES)
def test_one_column_for_a_field(
    spark: SparkSession, writing: Write, config: LoaderConfig, renaming: Renaming, tasks: Tasks
) -> None:
    application = writing(renaming.steps[0].fields)
    config = msgspec.structs.replace(config, tasks=tasks, upgrade_bytes=0)
    waiting = msgspec.structs.replace(config, completeness=NEVER)
    remarks: list[str] = []
    for step in renaming.steps:
        application.change(event_schema(step.fields))
        for event in step.events:
            application.write(1, fields=event)
        if step.loads:
            outcome = load_once(spark, waiting)
            assert outcome.dead == 0
            remarks += outcome.warnings
    assert remarks == list(renaming.remarks)
    folder = folder_of(config, application.topic)
    table = pq.read_schema(folder / "_common_metadata")
    assert set(table.names) - HEADER - ORIGIN == set(renaming.columns)
    wanted = list(renaming.rows)
    assert columns_of(rows_of(spark, config, application.topic), renaming.columns) == wanted

    assert load_once(spark, config).complete == [BEGAN]
    assert columns_of(rows_of(spark, config, application.topic), renaming.columns) == wanted
    plain = dataset.dataset(folder_of(config, application.topic, hour_folder(Hour(BEGAN))))
    assert are_same(plain.schema, table)
    assert load_once(spark, config, LoadRequest(upgrade_schema=True)).did_nothing


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.JSON])
def test_other_formats(
    spark: SparkSession, writing: Write, config: LoaderConfig, format_: FileFormat
) -> None:
    application = writing(USER)
    config = msgspec.structs.replace(config, format=format_)
    application.write(1, fields={"user": "1"})
    load_once(spark, config)
    application.change(event_schema(CUSTOMER))
    application.write(1, fields={"customer": "2"})
    assert load_once(spark, config).late == 1
    rows = spark.read.format(format_.value).load(f"{config.root}/{application.topic}").collect()
    assert columns_of(rows, ["user"]) == [("1",), ("2",)]
    assert "customer" not in rows[0].asDict()


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_a_complete_hour_stays_as_it_is(
    spark: SparkSession, writing: Write, config: LoaderConfig, tasks: Tasks
) -> None:
    """A renaming alone is no reason to rewrite older hours; a rebuild gives the same rows again."""
    config = msgspec.structs.replace(config, tasks=tasks, completeness=LONG_AGO)
    application = writing(USER)
    application.write(2, time=BEGAN - HOUR, fields={"user": "1"})
    load_once(spark, config)
    hour = folder_of(config, application.topic, hour_folder(Hour(BEGAN - HOUR)))
    (file,) = hour.glob("part-*")

    application.change(event_schema([*CUSTOMER, field("zone", default="z")]))
    application.write(1, fields={"customer": "2", "zone": "a"})
    grown = load_once(spark, config)
    assert (grown.upgraded, grown.warnings) == ([BEGAN - HOUR], [RENAMED])  # of the new field
    (file,) = hour.glob("part-*")
    application.change(event_schema([field("client", "string", "customer", "user"), field("zone")]))
    application.write(1, fields={"client": "3", "zone": "b"})
    renamed = load_once(spark, config)
    assert (renamed.upgraded, renamed.late, renamed.dead) == ([], 1, 0)
    assert renamed.warnings == ["field `client`, formerly `customer`, has column `user`"]
    assert list(hour.glob("part-*")) == [file]
    columns = ("user", "zone")
    rows = columns_of(rows_of(spark, config, application.topic), columns)
    assert rows == [("1", None), ("1", None), ("2", "a"), ("3", "b")]
    assert load_once(spark, config, LoadRequest(upgrade_schema=True)).did_nothing
    assert load_once(spark, config, LoadRequest(check_files=())).faults == []
