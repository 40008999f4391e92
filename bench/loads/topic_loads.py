"""Many small topics, and a `penstock load` process that loads all of them."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq
import yaml

from bench.contents.events import LIMITS, SCHEMA, STEP_MILLIS, finish, finished_batch, send
from bench.figures.plain_python import without_hypothesis
from bench.servers.brokers import PENSTOCK, penstock_cluster
from bench.servers.loaders import visible_files
from bench.spark.driver_commands import Json
from bench.spark.spark_driver import REPOSITORY
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
RECORDS: Final = 1_000  # of a topic
_HOUR: Final = 3_600_000 // STEP_MILLIS  # events
_MOST_PARTITIONS: Final = 100_000  # of all cases, which share the broker
_PATIENCE: Final = 60.0
_LINES: Final = 40
_NOTHING_NEW: Final = 3  # an exit code


class TopicsLoaded(msgspec.Struct, frozen=True):
    """The cost of one load; `spark` says whether Spark was started."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int  # of its largest process
    files: int
    closed: int  # complete hours
    spark: bool


class TopicLoads(msgspec.Struct):
    """A broker, a registry, and topics that are created on demand."""

    home: Path
    broker: BrokerProcess
    registry: RegistryProcess
    modules: Path
    name: str = PENSTOCK
    _filled: set[str] = set()
    _output: str = ""

    def last_words(self, lines: int) -> str:
        return "\n".join(self._output.splitlines()[-lines:])

    def topics(self, count: int, hours: int, partitions: int = PARTITIONS) -> str:
        """Returns a pattern for `count` topics, created if missing, each with `RECORDS` records
        spread over the hours."""
        name = f"small-{count}-of-{hours}-in-{partitions}"
        if name not in self._filled:
            self._fill([f"{name}.{number:04}" for number in range(count)], hours, partitions)
            os.sync()
            self._filled.add(name)
        return f"{name}.*"

    def plan(self, pattern: str) -> TopicsLoaded:
        """Only plans a load into a new root."""
        return self._load_into(self.home / "root", pattern, {}, "--dry-run")

    def load(
        self, pattern: str, count: int, settings: Json, *, again: bool = False
    ) -> TopicsLoaded:
        """Loads into a new root; with `again`, returns the cost of a second load, which has nothing
        to read. Raises ServerFailed if records are missing."""
        root = self.home / "root"
        try:
            result = self._load_into(root, pattern, settings)
            if again:
                result = self._load_into(root, pattern, settings)
            rows = sum(pq.read_metadata(file).num_rows for file in _files(root))
            if rows != count * RECORDS:
                raise ServerFailed(f"{rows} of {count * RECORDS} records were loaded")
            return result
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _load_into(self, root: Path, pattern: str, settings: Json, *options: str) -> TopicsLoaded:
        config = self.home / "loader.yaml"
        configuration = {
            "root": root.as_uri(),
            "topics": [pattern],
            "brokers": [self.broker.bootstrap],
            "registry": self.registry.url,
            **settings,
        }
        config.write_text(yaml.safe_dump(configuration))
        output = self.home / "load.log"
        environment = {"PYTHONPATH": f"{self.modules}:{REPOSITORY}"}
        with output.open("w") as log:
            start_time = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "load", "--config", str(config), *options],
                # without writing a class data archive, which would add to the time
                env={**os.environ, **environment, "JDK_JAVA_OPTIONS": "-Xshare:auto"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start_time
        process.returncode = os.waitstatus_to_exitcode(status)
        self._output = output.read_text()
        if process.returncode not in {0, _NOTHING_NEW}:
            raise ServerFailed(f"exit code {process.returncode}\n{self.last_words(_LINES)}")
        return TopicsLoaded(
            seconds=seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * 1024,
            files=len(_files(root)),
            closed=sum(1 for _ in root.glob("small-*/dt=*/hour=*/_SUCCESS")),
            spark="starting Spark" in self._output,
        )

    def _fill(self, topics: list[str], hours: int, partitions: int) -> None:
        records_per_hour = RECORDS // partitions // hours
        registry = RegistryClient(self.registry.url)
        with (
            contextlib.closing(registry),
            Brokers(Bootstrap.of(self.broker.bootstrap)) as brokers,
        ):
            for topic in topics:
                create_topic(brokers, topic, partitions=partitions)
                schema_id = registry.register(f"{topic}-value", SCHEMA)
            identity = take_identity(brokers)
            with BatchProducer(brokers.bootstrap, identity=identity, limits=LIMITS) as producer:
                for partition in range(partitions):
                    rest = RECORDS // partitions
                    for hour in range(hours):
                        count = records_per_hour if hour < hours - 1 else rest
                        rest -= count
                        data = finished_batch(partition, schema_id, hour * _HOUR, count)
                        for topic in topics:
                            send(producer, Batch(TopicPartition(topic, partition), data))
                finish(producer)


@contextlib.contextmanager
def topic_loads(home: Path) -> Iterator[TopicLoads]:
    """Starts a broker and a registry; stops them at the end of the block."""
    settings = {"limits": {"partitions": _MOST_PARTITIONS}}
    with penstock_cluster(home, settings) as (address, broker):
        registry = RegistryProcess(home / "registry", brokers=broker.bootstrap, zookeeper=address)
        with registry:
            wait_until(lambda: registry.is_writer, within=_PATIENCE, what="a registry that writes")
            yield TopicLoads(home, broker, registry, without_hypothesis(home))


def _files(root: Path) -> list[Path]:
    return [file for table in root.glob("small-*") for file in visible_files(table)]
