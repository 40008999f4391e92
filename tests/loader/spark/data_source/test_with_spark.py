"""`spark.read` and `spark.readStream` with `.format("penstock")`, as users have them; and the
examples of docs/spark.md, run as they stand there, but for addresses and folders.

What tasks read is in test_reading.py, how streams go on in test_stream.py. Nobody has registered
the source with Spark: it is found because it is installed.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from cluster.zookeeper_server.jars import find_java
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.errors import OptionRefused
from loader.spark.data_source.stream import from_json
from pyspark_penstock import DefaultSource
from tests.loader.application import BEGAN, VIEW, Application, event_schema, landed
from tests.loader.spark.data_source.conftest import NewApplication, Source

COLUMNS = [
    *("user", "url", "status", "millis"),
    *("time", "host", "app", "source", "seq", "position"),
    *("_topic", "_partition", "_offset"),
]
PAGES = Path(__file__).resolve().parents[4] / "docs"
PAGE = (PAGES / "spark.md").read_text(encoding="utf-8")
FIRST, WINDOWED_COUNT, JOIN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MINUTE = 60_000
ORDER = ({"name": "user", "type": "string"}, {"name": "number", "type": "long"})
STARTS: Final = 5
HAS_LIMITS: Final = hasattr(DataSourceStreamReader, "getDefaultReadLimit")  # since Spark 4.2

T = TypeVar("T")


def until_it_starts(run: Callable[[], T]) -> T:
    """Spark gives a stream's Python process ten seconds to start, which nothing can change: where a
    busy machine takes longer, nothing was read yet, and it is run once more."""
    for _ in range(STARTS - 1):
        try:
            return run()
        except StreamingQueryException as failed:
            if "Python worker failed to connect back" not in str(failed):
                raise
    return run()


def test_a_typed_topic_whose_schema_grew(new_application: NewApplication, reading: Any) -> None:
    application = new_application(partitions=2)
    application.write(300)
    with_referrer = [*VIEW, {"name": "referrer", "type": ["null", "string"], "default": None}]
    application.change(event_schema(with_referrer))
    application.write(200, partition=1, fields={**application.view(3), "referrer": "mail"})
    frame = reading(application.topic).load()
    assert frame.columns == [*COLUMNS[:4], "referrer", *COLUMNS[4:]]
    rows = frame.collect()
    assert landed(rows) == sorted(application.written)
    assert {(row["_partition"], row["referrer"]) for row in rows} == {(0, None), (1, "mail")}
    first = min(rows, key=lambda row: (row["_partition"], row["_offset"]))
    assert first["time"].timestamp() * 1000 == BEGAN
    assert (first["user"], first["status"], first["_topic"]) == ("u0", 200, application.topic)

    nested = reading(application.topic, dead="keep", header="nested").load()
    wanted = "_dead is null and referrer is null and header.seq >= 299 and status = 200"
    assert nested.where(wanted).count() == 1
    # Only the columns that a user asks for come from the tasks.
    few = reading(application.topic).schema("_offset long, user string").load()
    assert few.columns == ["_offset", "user"]
    assert few.where("_offset = 7").collect()[0]["user"] == "u0"


def test_a_renamed_field_is_one_column(new_application: NewApplication, reading: Any) -> None:
    """Under its latest name, whichever an event was written with; also within records."""

    def version(name: str, inner: str, *aliases: str) -> str:
        fields = [{"name": inner, "type": "string", "aliases": list(aliases[1:])}]
        place = {"type": "record", "name": "Place", "fields": fields}
        user = {"name": name, "type": "string", "aliases": list(aliases[:1])}
        return event_schema([user, {"name": "at", "type": place}])

    old, new = version("user", "city"), version("customer", "town", "user", "city")
    application = new_application(schema=old)
    application.write(1, fields={"user": "1", "at": {"city": "a"}})
    application.change(new)
    application.write(1, fields={"customer": "2", "at": {"town": "b"}})
    application.change(old)  # an agent that has the former version still
    application.write(1, fields={"user": "3", "at": {"city": "c"}})
    frame = reading(application.topic).load()
    assert frame.columns == ["customer", "at", *COLUMNS[4:]]
    assert all(field.metadata == {} for field in frame.schema)
    rows = frame.select("customer", "at.town").collect()
    assert sorted(map(tuple, rows)) == [("1", "a"), ("2", "b"), ("3", "c")]


@pytest.mark.slow
@pytest.mark.long
def test_an_environment_that_is_not_activated(
    new_application: NewApplication, source: Source, tmp_path: Path
) -> None:
    """The example of docs/how-to/read-with-spark.md, with and without its line about Python."""
    fields = ({"name": "customer", "type": "string"}, {"name": "amount", "type": "double"})
    application = new_application(schema=event_schema(fields))
    application.write(3, time=BEGAN + 366 * 86_400_000, fields={"customer": "carla", "amount": 12})
    page = (PAGES / "how-to" / "read-with-spark.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^os\.environ.*\n", page, re.MULTILINE)
    (example,) = (
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if line in each
    )
    example = example.replace("127.0.0.1:9092", source.address["brokers"])
    example = example.replace("http://127.0.0.1:8081", source.address["registry"])
    example = example.replace('"orders"', f'"{application.topic}"')
    environment = {
        "PATH": f"{Path(find_java()).parent}:/usr/bin:/bin",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    for text, output in ((example, "carla"), (example.replace(line, ""), "DATA_SOURCE_NOT_FOUND")):
        run = subprocess.run(
            [sys.executable, "-c", text],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert output in run.stdout + run.stderr


def test_conditions_that_spark_pushes_down(
    new_application: NewApplication, reading: Any, spark: SparkSession
) -> None:
    application = new_application(partitions=3)
    for partition in range(3):
        application.write(20, partition=partition)
    frame = reading(application.topic, filterPushdown="true")
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        found = frame.load().where("_partition in (1, 2) and _offset >= 15 and status = 200")
        assert found.rdd.getNumPartitions() == 1  # two partitions, in one small task
        rows = sorted((row["_partition"], row["_offset"]) for row in found.collect())
        assert rows == [(partition, offset) for partition in (1, 2) for offset in range(15, 20)]
    finally:
        spark.conf.unset(setting)
    with pytest.raises(PySparkException, match=setting):
        frame.load().collect()


@pytest.mark.parametrize(
    ("more", "column", "said"),
    [
        ({"maxRecordsPerTrigger": "5"}, (), r"`maxRecordsPerTrigger` is for spark\.readStream"),
        ({}, ("usr", "string"), "names an unknown column usr: the columns are"),
        ({}, ("user", "long"), "column user is string, not bigint"),
    ],
)
def test_what_the_source_refuses(
    application: Application, source: Source, more: dict[str, str], column: Any, said: str
) -> None:
    made = DefaultSource({**source.address, "topic": application.topic, **more})
    with pytest.raises(OptionRefused, match=said):
        made.reader(StructType().add(*column) if column else made.schema())


def test_spark_says_what_was_refused(application: Application, reading: Any) -> None:
    with pytest.raises(PySparkException, match="did you mean `startingOffsets`"):
        reading(application.topic, startOffset="5").load()


def run_query(frame: Any, folder: Path) -> StreamingQuery:
    """To its end."""

    def run() -> StreamingQuery:
        writing = frame.writeStream.format("parquet").trigger(availableNow=True)
        query: StreamingQuery = writing.option("checkpointLocation", f"{folder}/state").start(
            f"{folder}/rows"
        )
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()
        return query

    return until_it_starts(run)


def test_a_stream_reads_each_row_once_over_restarts(
    new_application: NewApplication, streaming: Any, spark: SparkSession, tmp_path: Path
) -> None:
    application = new_application(partitions=2)
    application.write(100)
    application.write(60, partition=1)
    options = {"startingOffsets": "earliest"}
    if HAS_LIMITS:
        options["maxRecordsPerTrigger"] = "70"
    first = run_query(streaming(application.topic, **options), tmp_path)
    sizes = [each["numInputRows"] for each in first.recentProgress if each["numInputRows"]]
    assert sizes == [70, 70, 20] if HAS_LIMITS else [160]
    application.write(30, partition=1)
    second = run_query(streaming(application.topic, **options), tmp_path)
    if HAS_LIMITS:
        (*_, last) = second.recentProgress
        newest = from_json(json.loads(last["sources"][0]["latestOffset"]))
        partitions = newest.topics[application.topic].partitions
        assert {index: each.next for index, each in partitions.items()} == {0: 100, 1: 90}
    assert landed(spark.read.parquet(f"{tmp_path}/rows").collect()) == sorted(application.written)


def test_spark_says_what_fails_a_stream(
    application: Application, streaming: Any, tmp_path: Path
) -> None:
    application.write(3)
    application.send_bytes(b"no envelope")
    application.flush()
    with pytest.raises(PySparkException, match=r"`endingOffsets` is for spark\.read only"):
        run_query(streaming(application.topic, endingOffsets="latest"), tmp_path)
    if not HAS_LIMITS:
        with pytest.raises(PySparkException, match="`maxRecordsPerTrigger` requires Spark 4"):
            run_query(streaming(application.topic, maxRecordsPerTrigger="70"), tmp_path)
    with pytest.raises(PySparkException, match=f"{application.topic}-0, offset 3: names no schema"):
        run_query(streaming(application.topic, startingOffsets="earliest"), tmp_path)


@pytest.fixture(scope="module")
def run_example(
    running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Iterator[Callable[[str, Path], None]]:
    """In a shop: views of seven users, one every ten seconds for half an hour; some of them
    order."""
    brokers, registry = running_broker.bootstrap, running_registry.url
    views = Application(brokers, registry, "shop.page_views", partitions=2)
    orders = Application(brokers, registry, "shop.orders", schema=event_schema(ORDER, "shop.Order"))
    for seq in range(180):
        fields = {**views.view(seq), "url": f"/item/{seq % 5}"}
        views.send(BEGAN + seq * 10_000, "s", seq, partition=seq % 2, fields=fields)
    for number, minute in enumerate((5, 40, 400)):
        fields = {"user": f"u{number}", "number": number}
        orders.send(BEGAN + minute * MINUTE, "o", number, fields=fields)
    views.flush()
    orders.flush()

    def run(example: str, folder: Path) -> None:
        assert "/data/" in example or example == FIRST
        if not HAS_LIMITS:
            example = re.sub(r" +\.option\(\"maxRecordsPerTrigger.*\n", "", example)
        text = example.replace("127.0.0.1:9092", brokers).replace("http://127.0.0.1:8081", registry)
        code = compile(text.replace("/data/", f"{folder}/"), "docs/spark.md", "exec")
        until_it_starts(lambda: exec(code, {}))

    yield run
    views.close()
    orders.close()


@pytest.mark.usefixtures("spark")
def test_the_pages_first_look(
    run_example: Callable[[str, Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example(FIRST, tmp_path)
    assert "|   200|  180|" in capsys.readouterr().out


def test_the_pages_windowed_count(
    spark: SparkSession, run_example: Callable[[str, Path], None], tmp_path: Path
) -> None:
    if not HAS_LIMITS:
        spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    run_example(WINDOWED_COUNT, tmp_path)
    found = {
        (row["minute"].replace(tzinfo=UTC), row["url"]): row["count"]
        for row in spark.read.parquet(f"{tmp_path}/views_per_minute").collect()
    }
    # Ten minutes before the last event, nothing more can come.
    expected = Counter(
        (datetime.fromtimestamp((BEGAN + seq // 6 * MINUTE) / 1000, UTC), f"/item/{seq % 5}")
        for seq in range(180)
        if (seq // 6 + 1) * MINUTE <= 179 * 10_000 - 10 * MINUTE
    )
    assert len(expected) == 19 * 5
    assert found == expected


def test_the_pages_join(
    spark: SparkSession, run_example: Callable[[str, Path], None], tmp_path: Path
) -> None:
    run_example(JOIN, tmp_path)
    found = {
        row["url"]: row["orders"]
        for row in spark.read.parquet(f"{tmp_path}/pages_that_sold").collect()
    }
    expected: dict[str, set[int]] = defaultdict(set)
    for number, minute in enumerate((5, 40, 400)):
        for seq in range(180):
            if seq % 7 == number and 0 <= minute * MINUTE - seq * 10_000 <= 30 * MINUTE:
                expected[f"/item/{seq % 5}"].add(number)
    assert found == {url: len(numbers) for url, numbers in expected.items()}
    assert set().union(*expected.values()) == {0, 1}
