"""Topics that are loaded once an hour, for many hours: of the events' and the loader's clock, so
that a month takes as long as its loads.

Each topic gets some events in each hour, and is loaded five minutes after the hour, which closes
it: no agents are waited for. The filesystem's own clock runs as usual.
"""

import contextlib
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.contents.events import BEGAN, LIMITS, SCHEMA, STEP_MILLIS, finish, finished_batch, send
from bench.figures.plain_python import without_hypothesis
from bench.figures.processes import peak_bytes_of, reset_peak
from bench.servers.brokers import PENSTOCK, penstock_cluster
from bench.spark.driver_commands import Json
from bench.spark.spark_driver import REPOSITORY, SparkDriver
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Batch, TopicPartition
from client.producing.identity import take_identity
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import ServerFailed
from harness.processes.waiting import wait_until
from schemas.registry_client import RegistryClient

PARTITIONS: Final = 2
EVENTS: Final = 100  # of a topic in an hour
DAY: Final = 24
COUNTED: Final = frozenset({1, 2, 3, 7, 14, 21})  # days whose calls are counted, besides the last
_HOUR_MILLIS: Final = 3_600_000
_AFTER_HOUR: Final = 300  # seconds until the load
_HOUR: Final = _HOUR_MILLIS // STEP_MILLIS  # numbers of events
_SETTLED: Final = 3.0  # seconds: a NameNode remembers its counts for one
_PATIENCE: Final = 60.0


class Place(msgspec.Struct, frozen=True):
    """A filesystem to load into. `settings` are those of Hadoop's client, `calls` the number of
    requests that its server has answered, by kind."""

    root: str
    settings: dict[str, str]
    jars: tuple[str, ...]
    calls: Callable[[], Counter[str]]


class Day(msgspec.Struct, frozen=True):
    """Loads of one day. `files`, `folders` and `state_bytes` are those at its end; the last are of
    what the loader keeps about its tables."""

    number: int
    seconds: float  # the median
    calls: Counter[str]  # of all its loads
    loads: int
    driver_bytes: int  # the peak of the driver's Python
    files: int
    folders: int
    state_bytes: int


class _Run(msgspec.Struct, frozen=True):
    driver: SparkDriver
    config: Json
    place: Place
    write_hour: Callable[[int], None]
    topics: int


class HourlyLoads(msgspec.Struct):
    """A broker and a registry."""

    home: Path
    broker: BrokerProcess
    registry: RegistryProcess
    modules: Path
    name: str = PENSTOCK
    _runs: int = 0

    def last_words(self, lines: int) -> str:
        return self.broker.process.last_words(lines)

    def days(self, place: Place, topics: int, hours: int) -> Iterator[Day]:
        """Loads that many topics for so many hours. Yields the days whose calls were counted.
        Raises ServerFailed if a load has not landed all events of its hour, or left the hour open.
        """
        self._runs += 1
        names = [f"hourly-{self._runs}.{number:04}" for number in range(topics)]
        driver = SparkDriver(
            [sys.executable, "-m", "bench.spark.loader_driver"],
            output=self.home / "driver.log",
            environment={"PYTHONPATH": f"{self.modules}:{REPOSITORY}"},
        )
        with self._written(names) as write_hour, driver:
            config = self._config(place)
            driver.ask("start", config)
            run = _Run(driver, config, place, write_hour, topics)
            for first in range(0, hours, DAY):
                hours_of_day = range(first, min(first + DAY, hours))
                if first // DAY + 1 in COUNTED or hours_of_day.stop == hours:
                    yield _counted_day(run, hours_of_day)
                else:
                    _loaded(run, hours_of_day)

    def _config(self, place: Place) -> Json:
        conf = {f"spark.hadoop.{key}": value for key, value in place.settings.items()}
        return {
            "root": place.root,
            "topics": [f"hourly-{self._runs}.*"],
            "brokers": [self.broker.bootstrap],
            "registry": self.registry.url,
            "completeness": {"settle": 0.0},
            "spark": {
                "master": "local[2]",
                "conf": {"spark.jars": ",".join(place.jars), **conf},
            },
        }

    @contextlib.contextmanager
    def _written(self, topics: list[str]) -> Iterator[Callable[[int], None]]:
        """Creates the topics; yields a function that writes all events of an hour."""
        with (
            contextlib.closing(RegistryClient(self.registry.url)) as registry,
            Brokers(Bootstrap.of(self.broker.bootstrap)) as brokers,
        ):
            for topic in topics:
                # The events are older than the default.
                create_topic(brokers, topic, partitions=PARTITIONS, configs={"retention.ms": "-1"})
                schema_id = registry.register(f"{topic}-value", SCHEMA)
            identity = take_identity(brokers)
            with BatchProducer(brokers.bootstrap, identity=identity, limits=LIMITS) as producer:

                def write(hour: int) -> None:
                    for partition in range(PARTITIONS):
                        data = finished_batch(
                            partition, schema_id, hour * _HOUR, EVENTS // PARTITIONS
                        )
                        for topic in topics:
                            send(producer, Batch(TopicPartition(topic, partition), data))
                    finish(producer)

                yield write


def _calls(place: Place) -> Counter[str]:
    time.sleep(_SETTLED)
    return place.calls()


def _counted_day(run: _Run, hours: range) -> Day:
    """Loads these hours. Counting the calls takes seconds."""
    driver, place = run.driver, run.place
    reset_peak(driver.pid)
    calls_before = _calls(place)
    seconds = _loaded(run, hours)
    calls = _calls(place) - calls_before
    whole = driver.ask("content", {"uri": place.root})
    state = driver.ask("content", {"uri": f"{place.root}/_penstock"})
    return Day(
        number=hours.start // DAY + 1,
        seconds=statistics.median(seconds),
        calls=calls,
        loads=len(hours),
        driver_bytes=peak_bytes_of(driver.pid),
        files=whole["files"],
        folders=whole["folders"],
        state_bytes=state["bytes"],
    )


def _loaded(run: _Run, hours: range) -> list[float]:
    """Loads these hours, and returns the seconds of each load."""
    seconds = []
    for hour in hours:
        run.write_hour(hour)
        at = (BEGAN + (hour + 1) * _HOUR_MILLIS) / 1000 + _AFTER_HOUR
        answer = run.driver.ask("load_at", {"config": run.config, "at": at})
        if (answer["rows"], answer["complete"]) != (run.topics * EVENTS, run.topics):
            raise ServerFailed(
                f"hour {hour}: {answer['rows']} rows, {answer['complete']} hours are complete"
            )
        seconds.append(answer["seconds"])
    return seconds


@contextlib.contextmanager
def hourly_loads(home: Path) -> Iterator[HourlyLoads]:
    """Starts a broker and a registry; stops them at the end of the block."""
    with penstock_cluster(home) as (address, broker):
        registry = RegistryProcess(home / "registry", brokers=broker.bootstrap, zookeeper=address)
        with registry:
            wait_until(lambda: registry.is_writer, within=_PATIENCE, what="a registry that writes")
            yield HourlyLoads(home, broker, registry, without_hypothesis(home))
