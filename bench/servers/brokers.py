"""The brokers under test, started as users start them, with their defaults.

All files of a broker are in the caller's directory. Penstock's ZooKeeper is a separate process that
is not part of the broker's figures; Apache Kafka runs as a KRaft node with its controller inside.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from bench.contents.topics import is_served
from bench.figures.machine import commit
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.kafka.apache_kafka import VERSION as KAFKA_VERSION
from harness.kafka.apache_kafka import ApacheKafka, KafkaUnavailable, kafka_classpath, why_no_kafka
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import ServerFailed, ServerProcess

PENSTOCK = "Penstock"
APACHE_KAFKA = "Apache Kafka"
_RESTART_PATIENCE = 600.0
# The only change of Apache Kafka's defaults frees the disk of a finished run sooner.
KAFKA_SETTINGS: Mapping[str, str] = {"log.segment.delete.delay.ms": "1000"}
KAFKA_HEAP = "1G"


class Server(Protocol):
    port: int
    process: ServerProcess

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Broker(msgspec.Struct, frozen=True):
    """A started broker."""

    name: str
    server: Server
    durable: Mapping[str, str]  # topic configuration under which acks=all waits for the disk

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def pid(self) -> int:
        return self.server.process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,)

    def last_words(self, lines: int) -> str:
        return self.server.process.last_words(lines)

    def kill(self) -> None:
        self.server.process.kill()

    def seconds_until_served(self, topics: Mapping[str, int]) -> float:
        """Restarts the broker; returns the seconds until it serves every partition."""
        start_time = time.perf_counter()
        self.server.process.spawn()
        while not is_served(self.port, topics):
            if not self.server.process.alive:
                raise ServerFailed(f"exited during its start\n{self.server.process.last_words()}")
            if time.perf_counter() - start_time > _RESTART_PATIENCE:
                raise ServerFailed(f"did not start within {_RESTART_PATIENCE:g} s")
            time.sleep(0.005)
        return time.perf_counter() - start_time


def apache_kafka_server(
    directory: Path,
    *,
    settings: Mapping[str, str] | None = None,
    beside: Mapping[str, int] | None = None,
) -> ApacheKafka:
    """Returns a server that is not started yet; `beside` maps protocols to ports of further
    listeners."""
    if kafka_classpath() is None:
        raise KafkaUnavailable(why_no_kafka())
    all_settings = {**KAFKA_SETTINGS, **(settings or {})}
    server = ApacheKafka(directory, settings=all_settings, beside=beside, heap=KAFKA_HEAP)
    begin_with_whole_heap(server)
    return server


def begin_with_whole_heap(server: ApacheKafka) -> None:
    """Sets the initial heap to its maximum, as kafka-server-start.sh does."""
    server.process.command.insert(1, f"-Xms{KAFKA_HEAP}")


@contextlib.contextmanager
def _apache_kafka(directory: Path) -> Iterator[Broker]:
    with apache_kafka_server(directory) as server:
        yield Broker(APACHE_KAFKA, server, {"flush.messages": "1"})


@contextlib.contextmanager
def penstock_cluster(
    directory: Path, settings: Mapping[str, object] | None = None
) -> Iterator[tuple[str, BrokerProcess]]:
    """Starts a broker and its ZooKeeper; yields the address of its cluster map as well."""
    zookeeper = EmbeddedZooKeeper.start(directory / "zookeeper", port=0)
    try:
        address = f"{zookeeper.address}/penstock"
        with BrokerProcess(directory / "broker", zookeeper=address, settings=settings) as server:
            yield address, server
    finally:
        zookeeper.stop()


@contextlib.contextmanager
def _penstock(directory: Path) -> Iterator[Broker]:
    with penstock_cluster(directory) as (_, server):
        yield Broker(PENSTOCK, server, {})


Kind = Callable[[Path], contextlib.AbstractContextManager[Broker]]
KINDS: Mapping[str, Kind] = {
    PENSTOCK: _penstock,
    APACHE_KAFKA: _apache_kafka,
}


def version(name: str) -> str:
    return f"commit {commit()}" if name == PENSTOCK else KAFKA_VERSION
