"""One load of many topics: schemas that grew, strangers among the events, nothing at all.

A table that cannot be loaded is no reason for the others not to be.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.config import LoaderConfig
from loader.errors import TooManyDead
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome, worst_exit_code
from loader.run.spark_work import SparkWork
from tests.loader.application import BEGAN, Application, Json, event_schema, landed
from tests.loader.loads import Listening, load_once, rows_of

STRANGER = b"\0\x7f\xff\xff\xf0not Avro that anyone knows"  # with an id that no registry has given

OPEN = {"name": "State", "type": "enum", "symbols": ["NEW", "PAID"], "default": "NEW"}
GROWN = {**OPEN, "symbols": ["NEW", "PAID", "SENT"]}
CITY = {"name": "Place", "type": "record", "fields": [{"name": "city", "type": "string"}]}
COUNTRY = {"name": "country", "type": "string", "default": "?"}
WHERE = {**CITY, "fields": [*CITY["fields"], COUNTRY]}


def field(name: str, type_: Any, **more: Any) -> Json:
    return {"name": name, "type": type_, **more}


NOTE = field("note", ["null", "string"], default=None)
TAGS = field("tags", {"type": "array", "items": "string"}, default=[])
VERSIONS = (
    [field("url", "string"), field("count", "int"), field("old", "string"), field("state", OPEN)],
    # a field added, one promoted
    [
        *(field("url", "string"), field("count", "long"), field("old", "string")),
        *(field("state", OPEN), NOTE),
    ],
    # renamed, with a record inside
    [
        *(field("address", "string", aliases=["url"]), field("count", "long")),
        *(field("old", "string"), field("state", OPEN), NOTE),
        field("place", ["null", CITY], default=None),
    ],
    # removed, and an enum that grew
    [
        *(field("address", "string", aliases=["url"]), field("count", "double")),
        *(field("state", GROWN), NOTE, field("place", ["null", CITY], default=None)),
    ],
    # the record inside grew, and the order is another
    [
        *(TAGS, field("place", ["null", WHERE], default=None), NOTE, field("state", GROWN)),
        *(field("count", "double"), field("address", "string", aliases=["url"])),
    ],
)
BODIES: tuple[Json, ...] = (
    {"url": "/1", "count": 1, "old": "x", "state": "PAID"},
    {"url": "/2", "count": 2**40, "old": "x", "state": "NEW", "note": "second"},
    {"address": "/3", "count": 3, "old": "", "state": "NEW", "note": None, "place": {"city": "B"}},
    {"address": "/4", "count": 0.5, "state": "SENT", "note": None, "place": None},
    {
        "address": "/5",
        "count": 5,
        "state": "SENT",
        "note": "",
        "place": {"city": "C", "country": "de"},
        "tags": ["a", "b"],
    },
)
COLUMNS = ("address", "count", "state", "note", "place", "tags")
ROWS: tuple[tuple[Any, ...], ...] = (
    ("/1", 1.0, "PAID", None, None, []),
    ("/2", float(2**40), "NEW", "second", None, []),
    ("/3", 3.0, "NEW", None, Row(city="B", country="?"), []),
    ("/4", 0.5, "SENT", None, None, []),
    ("/5", 5.0, "SENT", "", Row(city="C", country="de"), ["a", "b"]),
)

Write = Callable[..., Application]


@pytest.fixture
def writing_to(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Write]:
    """Applications of topics that begin like the test's."""
    with ExitStack() as stack:

        def made(name: str, **more: Any) -> Application:
            topic = f"{new_topic}.{name}"
            application = Application(running_broker.bootstrap, running_registry.url, topic, **more)
            stack.callback(application.close)
            return application

        yield made


@pytest.fixture
def of_all(config: LoaderConfig, new_topic: str) -> LoaderConfig:
    return msgspec.structs.replace(config, topics=(f"{new_topic}.*",))


def outcomes(spark: SparkSession, config: LoaderConfig) -> dict[str, TableOutcome]:
    """By the last part of the tables' names."""
    found = load(config, LoadRequest(), lambda: SparkWork(spark), Listening())
    return {each.table.rpartition(".")[2]: each for each in found}


def write_versions(application: Application) -> None:
    """What each version of the schema writes, in turn, and a batch of all of them together."""
    for version, body in zip(VERSIONS, BODIES, strict=True):
        application.change(event_schema(version, "shop.Order"))
        application.write(10, time=BEGAN, fields=body)


def test_one_load_of_many(spark: SparkSession, writing_to: Write, of_all: LoaderConfig) -> None:
    versions = writing_to("versions", schema=event_schema(VERSIONS[0], "shop.Order"))
    write_versions(versions)
    views = writing_to("views")
    views.write(20, time=BEGAN)
    views.send_bytes(STRANGER, time=BEGAN)  # one of 21
    views.flush()
    writing_to("nothing", partitions=3)
    strange = writing_to("strange")
    strange.write(3, time=BEGAN)
    strange.send_bytes(STRANGER, time=BEGAN)
    strange.flush()

    config = msgspec.structs.replace(of_all, dead_share=0.05, few_dead=1)
    found = outcomes(spark, config)
    assert (found["versions"].rows, found["versions"].error) == (50, None)
    rows = rows_of(spark, config, versions.topic)
    assert landed(rows) == sorted(versions.written)
    by_offset = {row["_offset"]: tuple(row[name] for name in COLUMNS) for row in rows}
    assert by_offset == {offset: ROWS[offset // 10] for offset in range(50)}

    assert (found["views"].rows, found["views"].dead, found["views"].error) == (20, 1, None)
    assert landed(rows_of(spark, config, views.topic)) == sorted(views.written)
    (letter,) = spark.read.parquet(f"{config.root}/_dead/{views.topic}").collect()
    said = (letter["topic"], letter["partition"], letter["offset"], letter["timestamp"])
    assert said == (views.topic, 0, 20, BEGAN)
    assert (bytes(letter["value"]), letter["schema_id"]) == (STRANGER, 0x7FFFFFF0)
    assert letter["reason"]

    assert (found["nothing"].did_nothing, found["nothing"].error) == (True, None)

    assert isinstance(found["strange"].error, TooManyDead)
    assert f"{strange.topic}-0, offsets 0 to 3" in str(found["strange"].error)
    assert worst_exit_code(list(found.values())) == 6
    nobody = outcomes(spark, config)
    assert {name for name, each in nobody.items() if each.did_nothing} == {
        *("versions", "views", "nothing")
    }
    root = Path(config.root.removeprefix("file://"))
    assert not (root / strange.topic).exists()
    # What was staged for a run that came to nothing goes with it.
    assert list((root / "_penstock" / strange.topic / "staging").iterdir()) == []

    tolerant = msgspec.structs.replace(config, topics=(strange.topic,), dead_share=0.25)
    allowed = load_once(spark, tolerant)
    assert (allowed.rows, allowed.dead) == (3, 1)
    assert landed(rows_of(spark, config, strange.topic)) == sorted(strange.written)


@pytest.mark.long
def test_two_hundred_partitions(
    spark: SparkSession, writing_to: Write, of_all: LoaderConfig
) -> None:
    wide = writing_to("wide", partitions=200)
    for partition in range(200):
        wide.write(2, time=BEGAN, partition=partition)
    outcome = load_once(spark, of_all)
    assert (outcome.rows, len(outcome.ranges)) == (400, 200)
    rows = rows_of(spark, of_all, wide.topic)
    assert landed(rows) == sorted(wide.written)
    assert {row["_partition"] for row in rows} == set(range(200))
