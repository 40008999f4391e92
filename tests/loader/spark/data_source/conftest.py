"""Applications, and what the source reads of what they write: without Spark, and with it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.spark.data_source.batch_plan import Task, batch_tasks
from loader.spark.data_source.description import describe
from loader.spark.data_source.options import SourceOptions, read_options
from loader.spark.data_source.reading import read
from loader.spark.data_source.stream import StreamOffset, TopicStream, from_json
from tests.loader.application import Application

NewApplication = Callable[..., Application]
Rows = list[dict[str, Any]]


@pytest.fixture
def new_application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[NewApplication]:
    with ExitStack() as all_of_them:

        def made(suffix: str = "", **settings: Any) -> Application:
            application = Application(
                running_broker.bootstrap, running_registry.url, new_topic + suffix, **settings
            )
            all_of_them.callback(application.close)
            return application

        yield made


@pytest.fixture
def application(new_application: NewApplication) -> Application:
    """Of a topic with one partition."""
    return new_application()


class Source:
    """Options as a user gives them, and what comes of it."""

    def __init__(self, brokers: str, registry: str) -> None:
        self.address = {"brokers": brokers, "registry": registry}

    def options(self, application: Application | None = None, **given: object) -> SourceOptions:
        topic = {} if application is None else {"topic": application.topic}
        others = {name: str(value) for name, value in given.items()}
        return read_options({**self.address, **topic, **others})

    def tasks(self, application: Application | None = None, **given: object) -> list[Task]:
        return batch_tasks(self.options(application, **given))

    def rows(self, application: Application | None = None, **given: object) -> Rows:
        options = self.options(application, **given)
        return rows_of(batch_tasks(options), options)

    def of_spark(self, reader: Any, topic: str, **given: str) -> Any:
        """`spark.read` or `spark.readStream`, with its options."""
        return reader.format("penstock").options(**self.address, topic=topic, **given)


def rows_of(tasks: Sequence[Task], options: SourceOptions) -> Rows:
    description = describe(options)
    return [row for task in tasks for each in read(task, description) for row in each.to_pylist()]


def offsets(rows: Rows) -> list[tuple[int, int]]:
    return [(row["_partition"], row["_offset"]) for row in rows]


class Query:
    """A stream, as Spark drives it: one batch after the other, offsets through JSON."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.stream = TopicStream(options)

    def begin(self) -> StreamOffset:
        return self.stream.initial()

    def batch(
        self, start: StreamOffset, most: int | None = None
    ) -> tuple[StreamOffset, list[tuple[int, int]]]:
        """Where it ends, and the partition and offset of every row."""
        end = from_json(self.stream.next(from_json(start.as_json()), most).as_json())
        return end, offsets(rows_of(self.stream.tasks_between(start, end), self._options))


@pytest.fixture
def source(running_broker: BrokerProcess, running_registry: RegistryProcess) -> Source:
    return Source(running_broker.bootstrap, running_registry.url)


@pytest.fixture
def query(source: Source) -> Iterator[Callable[..., Query]]:
    with ExitStack() as all_of_them:

        def query(application: Application | None = None, **given: str) -> Query:
            made = Query(source.options(application, **given))
            all_of_them.callback(made.stream.close)
            return made

        yield query


@pytest.fixture
def reading(spark: SparkSession, source: Source) -> Any:
    return lambda topic, **given: source.of_spark(spark.read, topic, **given)


@pytest.fixture
def streaming(spark: SparkSession, source: Source) -> Any:
    return lambda topic, **given: source.of_spark(spark.readStream, topic, **given).load()
