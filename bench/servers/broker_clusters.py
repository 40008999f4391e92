"""Clusters of brokers under test, on one machine and with their defaults: three of either kind.

As a host with two cores they are two of Penstock's, each using one core, or one of Apache Kafka,
which uses both. There are also single brokers.

Penstock's have one ZooKeeper, a separate process that is not part of their figures. Apache Kafka's
are KRaft nodes in combined mode, each a broker and a controller in the quorum; each JVM has the
heap of its start script. They share a disk and a network interface.
"""

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from bench.contents.topics import ask
from bench.loads.requests import AnswerError, frame
from bench.servers.brokers import (
    APACHE_KAFKA,
    KAFKA_HEAP,
    KAFKA_SETTINGS,
    PENSTOCK,
    begin_with_whole_heap,
)
from harness.kafka.apache_kafka import (
    ApacheKafka,
    ApacheKafkaCluster,
    KafkaUnavailable,
    kafka_classpath,
    why_no_kafka,
)
from harness.penstock.broker import BrokerProcess
from harness.penstock.broker_metadata import ask_cluster
from harness.penstock.clusters.zookeepers import ZooKeepers

BROKERS = 3
CORES = 2  # of a host
_PATIENCE = 60.0
_DESCRIBE_QUORUM = 55
_QUORUM = b"__cluster_metadata"

Member = BrokerProcess | ApacheKafka


class Cluster(msgspec.Struct, frozen=True):
    """A cluster of started brokers."""

    name: str
    members: Mapping[int, Member]  # by ID
    durable: Mapping[str, str]  # topic configuration under which acks=all waits for the disks
    controller_of: Callable[[Member], int]  # according to this member
    zookeepers: tuple[int, ...] = ()  # process IDs

    @property
    def bootstrap(self) -> str:
        return ",".join(member.bootstrap for member in self.members.values())

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(member.process.pid for member in self.members.values())

    @property
    def controller(self) -> int:
        return self.controller_of(self.members[1])

    def last_words(self, lines: int) -> str:
        return "\n".join(member.process.last_words(lines) for member in self.members.values())


@contextlib.contextmanager
def _penstock(directory: Path, brokers: int) -> Iterator[Cluster]:
    zookeepers = ZooKeepers(directory)
    try:
        zookeepers.start()
        address = f"{zookeepers.address}/penstock"
        members = {
            number: BrokerProcess(
                directory / f"broker-{number}", zookeeper=address, broker_id=number
            )
            for number in range(1, brokers + 1)
        }
        with contextlib.ExitStack() as stack:
            for member in members.values():  # in parallel
                stack.callback(member.stop)
                member.spawn()
            for member in members.values():
                member.process.wait_ready(member.ready, within=_PATIENCE)
            yield Cluster(
                PENSTOCK,
                members,
                {},
                lambda member: ask_cluster(member.bootstrap, "").controller,
                tuple(server.process.pid for server in zookeepers.servers),
            )
    finally:
        zookeepers.close()


@contextlib.contextmanager
def _apache_kafka(directory: Path, nodes: int) -> Iterator[Cluster]:
    if kafka_classpath() is None:
        raise KafkaUnavailable(why_no_kafka())
    kafka = ApacheKafkaCluster(directory, nodes=nodes, settings=KAFKA_SETTINGS, heap=KAFKA_HEAP)
    for node in kafka.nodes.values():
        begin_with_whole_heap(node)
    with kafka:
        yield Cluster(APACHE_KAFKA, kafka.nodes, {"flush.messages": "1"}, _leader_of_quorum)


def _leader_of_quorum(member: Member) -> int:
    """DescribeQuorum v0; Metadata names an arbitrary broker as the controller."""
    tagged_fields = b"\0"  # no tagged fields
    name = bytes([1 + len(_QUORUM)]) + _QUORUM
    partition = struct.pack(">i", 0) + tagged_fields
    body = tagged_fields + b"\2" + name + b"\2" + partition + tagged_fields + tagged_fields
    answer = ask(member.port, frame(_DESCRIBE_QUORUM, 0, 0, body))
    (error,) = struct.unpack_from(">h", answer, 5)
    if error:
        raise AnswerError(f"DescribeQuorum: error {error}")
    index_position = 4 + len(tagged_fields) + 2 + 1 + len(name) + 1
    _, error, leader = struct.unpack_from(">ihi", answer, index_position)
    if error:
        raise AnswerError(f"DescribeQuorum: error {error} for the partition")
    return int(leader)


ClusterKind = Callable[[Path], contextlib.AbstractContextManager[Cluster]]
CLUSTERS: Mapping[str, ClusterKind] = {
    PENSTOCK: partial(_penstock, brokers=BROKERS),
    APACHE_KAFKA: partial(_apache_kafka, nodes=BROKERS),
}
SINGLE: Mapping[str, ClusterKind] = {
    PENSTOCK: partial(_penstock, brokers=1),
    APACHE_KAFKA: partial(_apache_kafka, nodes=1),
}
HOSTS: Mapping[str, ClusterKind] = {
    PENSTOCK: partial(_penstock, brokers=CORES),
    APACHE_KAFKA: partial(_apache_kafka, nodes=1),
}
