"""`python -m bench.quiet_topics`: the cost of loading many quiet topics into HDFS.

One broker, an HDFS, and `--topics` topics with `--events` events each, all in one hour two days
ago. All loads are in one process, whose Spark session runs already. For each, the seconds, the
calls that the NameNode answered, also by method, and the files and folders below the root:

    first load       reads the events; no hour is closed yet
    nothing new      no hour can be closed
    closing          closes the hour with events, and the 48 hours without
    nothing new      after that
    one event more   in each topic, in an hour that is still open
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.contents.events import BEGAN, LIMITS, SCHEMA, STEP_MILLIS, finish, finished_batch, send
from bench.servers.brokers import penstock_cluster
from bench.spark.loader_driver import Unwatched
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Batch, TopicPartition
from client.producing.identity import take_identity
from harness.hadoop.hdfs import RunningHdfs
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from loader.config import CompletenessConfig, LoaderConfig
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.spark_work import SparkWork
from loader.spark.session import end_jvm, open_session
from loader.values.tables import HOUR_MILLIS, hour_of
from pyspark_penstock import LandingSource
from schemas.registry_client import RegistryClient

_NEVER: Final = 1e12  # seconds
_OPEN: Final = CompletenessConfig(settle=_NEVER, deadline=_NEVER)
_CLOSED: Final = CompletenessConfig(settle=0.0, deadline=_NEVER)
_SETTLED: Final = 3.0  # seconds: a NameNode remembers its counts for one
_MOST_METHODS: Final = 8  # that a line names


class Loads(msgspec.Struct):
    """The topics, their HDFS, and the loads of a process."""

    config: LoaderConfig
    spark: SparkWork
    hdfs: RunningHdfs

    def measure(self, name: str, completeness: CompletenessConfig) -> None:
        config = msgspec.structs.replace(self.config, completeness=completeness)
        calls_before, start_time = self._calls(), time.perf_counter()
        outcomes = load(config, LoadRequest(), lambda: self.spark, Unwatched())
        seconds = time.perf_counter() - start_time
        calls = _difference(self._calls(), calls_before)
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        methods = sorted(calls.items(), key=lambda item: -item[1])[:_MOST_METHODS]
        total = sum(calls.values())
        files, folders = self._content()
        print(
            f"{name:16} {seconds:7.1f} s {total:7,} calls {total / len(outcomes):7.1f} a topic"
            f" {files:6,} files {folders:6,} folders  "
            + ", ".join(f"{method} {count:,}" for method, count in methods),
            flush=True,
        )

    def _calls(self) -> dict[str, int]:
        time.sleep(_SETTLED)
        return self.hdfs.namenode.calls()

    def _content(self) -> tuple[int, int]:
        jvm = self.spark.session.sparkContext._gateway.jvm  # type: ignore[union-attr]
        path = jvm.org.apache.hadoop.fs.Path(self.config.root)
        configuration = self.spark.session.sparkContext._jsc.hadoopConfiguration()
        summary = path.getFileSystem(configuration).getContentSummary(path)
        return summary.getFileCount(), summary.getDirectoryCount()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quiet_topics", description=__doc__)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--events", type=int, default=20)
    options = parser.parse_args()
    topics = [f"quiet.{number:04}" for number in range(options.topics)]
    this_hour = hour_of(int(time.time() * 1000))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, _loads(Path(directory)) as loads:
        _write(loads.config, topics, this_hour - 48 * HOUR_MILLIS, 0, options.events)
        loads.measure("first load", _OPEN)
        loads.measure("nothing new", _OPEN)
        loads.measure("closing", _CLOSED)
        loads.measure("nothing new", _CLOSED)
        _write(loads.config, topics, this_hour, options.events, 1)
        loads.measure("one event more", _OPEN)


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {
        method: count - before.get(method, 0)
        for method, count in after.items()
        if count > before.get(method, 0)
    }


def _write(config: LoaderConfig, topics: list[str], hour: int, first: int, count: int) -> None:
    """Appends events of the hour to each topic, which is created if it is missing."""
    bootstrap = Bootstrap.of(config.brokers[0])
    with (
        closing(RegistryClient(config.registry_address)) as registry,
        Brokers(bootstrap) as brokers,
    ):
        for topic in topics if not first else ():
            create_topic(brokers, topic, partitions=1)
            registry.register(f"{topic}-value", SCHEMA)
        schema_id = registry.register(f"{topics[0]}-value", SCHEMA)
        begin = (hour - BEGAN) // STEP_MILLIS + first
        data = finished_batch(0, schema_id, begin, count)
        identity = take_identity(brokers)
        with BatchProducer(bootstrap, identity=identity, limits=LIMITS) as producer:
            for topic in topics:
                send(producer, Batch(TopicPartition(topic, 0), data))
            finish(producer)


@contextmanager
def _loads(home: Path) -> Iterator[Loads]:
    with (
        penstock_cluster(home) as (address, broker),
        RegistryProcess(home / "registry", brokers=broker.bootstrap, zookeeper=address) as registry,
        RunningHdfs(home / "hdfs") as hdfs,
    ):
        wait_until(lambda: registry.is_writer, within=60.0, what="a registry that writes")
        settings = {f"spark.hadoop.{key}": value for key, value in hdfs.configuration.items()}
        config = msgspec.convert(
            {
                "root": f"{hdfs.uri}/logs",
                "topics": ["quiet.*"],
                "brokers": [broker.bootstrap],
                "registry": registry.url,
                "spark": {"master": "local[2]", "conf": settings},
            },
            LoaderConfig,
        )
        os.environ.setdefault("JDK_JAVA_OPTIONS", "-Xshare:auto")
        spark = SparkWork(open_session(config, [LandingSource], None))
        try:
            yield Loads(config, spark, hdfs)
        finally:
            spark.end()
            end_jvm()


if __name__ == "__main__":
    main()
