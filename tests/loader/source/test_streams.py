"""`spark.readStream.format("penstock")`: each row once, from checkpoint to checkpoint.

First as Spark drives it, but without Spark, which takes seconds for what takes milliseconds; then
with it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from loader.errors import GapError, OptionRefused
from loader.source.description import describe
from loader.source.options import read_options
from loader.source.reading import read
from loader.source.stream import StreamOffset, TopicStream, from_json
from tests.client.test_partition_reader import delete_before
from tests.loader.application import Application, landed
from tests.loader.source.conftest import NewApplication
from tests.loader.source.starting import until_it_starts


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as connected:
        yield connected


class Query:
    """A stream, as Spark drives it: one batch after the other, offsets through JSON."""

    def __init__(self, brokers: str, registry: str, **given: str) -> None:
        options = read_options({"brokers": brokers, "registry": registry, **given})
        self._description = describe(options)
        self.stream = TopicStream(options)

    def begin(self) -> StreamOffset:
        return self.stream.initial()

    def batch(
        self, start: StreamOffset, most: int | None = None
    ) -> tuple[StreamOffset, list[tuple[int, int]]]:
        """Where it ends, and the partition and offset of every row."""
        end = from_json(self.stream.next(from_json(start.as_json()), most).as_json())
        tasks = self.stream.tasks_between(start, end)
        rows = [
            row
            for task in tasks
            for each in read(task, self._description)
            for row in each.to_pylist()
        ]
        return end, [(row["_partition"], row["_offset"]) for row in rows]


@pytest.fixture
def query(running_broker: BrokerProcess, running_registry: RegistryProcess) -> Iterator[Any]:
    made: list[Query] = []

    def query(**given: str) -> Query:
        made.append(Query(running_broker.bootstrap, running_registry.url, **given))
        return made[-1]

    yield query
    for each in made:
        each.stream.close()


def offsets(partition: int, *numbers: int) -> list[tuple[int, int]]:
    return [(partition, each) for each in range(*numbers)]


def test_batch_after_batch(application: Application, brokers: Brokers, query: Any) -> None:
    application.write(10)
    late = query(topic=application.topic)
    early = query(topic=application.topic, startingOffsets="earliest", maxBytesPerTask="1000")
    ends, starts = late.begin(), early.begin()
    assert late.batch(ends) == (ends, [])
    application.write(5)
    admin.add_partitions(brokers, application.topic, 2)
    ends, rows = late.batch(ends)
    assert rows == offsets(0, 10, 15)
    middle, rows = early.batch(starts, most=12)
    assert rows == offsets(0, 12)
    starts, rows = early.batch(middle)
    assert rows == offsets(0, 12, 15)
    assert early.batch(starts) == (starts, [])
    # The same batch again, as after a crash.
    assert early.batch(middle) == (starts, offsets(0, 12, 15))


def test_what_retention_takes(application: Application, brokers: Brokers, query: Any) -> None:
    application.write(10)
    strict = query(topic=application.topic, startingOffsets="earliest")
    lenient = query(topic=application.topic, failOnDataLoss="false")
    start = strict.begin()
    brokers.topic(application.topic)
    delete_before(brokers, application.topic, 4)
    with pytest.raises(GapError, match=f"{application.topic}-0: offsets 0 to 3 were deleted"):
        strict.batch(start)
    end, rows = lenient.batch(start)
    assert rows == offsets(0, 4, 10)
    assert lenient.batch(end) == (end, [])


def test_topics_that_come_and_go(new_application: NewApplication, query: Any) -> None:
    one = new_application("-one")
    one.write(3)
    stream = query(topicPattern=f"{one.topic[:-4]}-*", startingOffsets="earliest")
    start, rows = stream.batch(stream.begin())
    assert rows == offsets(0, 3)
    two = new_application("-two")
    two.write(2)
    start, rows = stream.batch(start)
    assert rows == offsets(0, 2)
    other = query(topic=two.topic)
    with pytest.raises(OptionRefused, match=f"read topic {one.topic}, and option `topic` does not"):
        other.batch(start)


def test_a_run_ends_where_it_was_to_end(application: Application, query: Any) -> None:
    application.write(10)
    stream = query(topic=application.topic, startingOffsets="earliest")
    start = stream.begin()
    stream.stream.end_here()
    application.write(10)
    start, rows = stream.batch(start, most=7)
    assert rows == offsets(0, 7)
    start, rows = stream.batch(start, most=7)
    assert rows == offsets(0, 7, 10)
    assert stream.batch(start, most=7) == (start, [])


def run(frame: Any, folder: Path, **trigger: Any) -> StreamingQuery:
    """A query, run to its end."""
    return until_it_starts(lambda: run_once(frame, folder, **trigger))


def run_once(frame: Any, folder: Path, **trigger: Any) -> StreamingQuery:
    writing = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/state")
    query: StreamingQuery = writing.trigger(**(trigger or {"availableNow": True})).start(
        f"{folder}/rows"
    )
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()
    return query


def test_spark_reads_each_row_once_over_restarts(
    new_application: NewApplication, streaming: Any, spark: SparkSession, tmp_path: Path
) -> None:
    application = new_application(partitions=2)
    application.write(100)
    application.write(60, partition=1)

    def frame() -> Any:
        source = streaming().option("topic", application.topic)
        return (
            source.option("startingOffsets", "earliest").option("maxRecordsPerTrigger", "70").load()
        )

    first = run(frame(), tmp_path)
    sizes = [each["numInputRows"] for each in first.recentProgress if each["numInputRows"]]
    assert sizes == [70, 70, 20]
    application.write(30, partition=1)
    second = run(frame(), tmp_path)
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
    frame = streaming().option("topic", application.topic)
    with pytest.raises(PySparkException, match=r"`endingOffsets` is for spark\.read only"):
        run(streaming().options(topic=application.topic, endingOffsets="latest").load(), tmp_path)
    said = f"{application.topic}-0, offset 3: names no schema"
    with pytest.raises(PySparkException, match=said):
        run(frame.option("startingOffsets", "earliest").load(), tmp_path)
