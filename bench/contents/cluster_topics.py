"""Topics of a cluster under test: their creation, deletion and metadata.

A topic is created, and a broker is back, when every broker reports a leader and a full in-sync set
for every partition. Such a request costs a broker some milliseconds per thousand partitions, so it
is sent at most ten times a second.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.loads.requests import AnswerError
from bench.servers.broker_clusters import BROKERS, Cluster, Member
from harness.penstock.broker_metadata import ReportedCluster, ask_cluster

EVERY: Final = 0.1
_PATIENCE: Final = 120.0
_REPLICATED: Final = {"min.insync.replicas": "2"}  # with several replicas


def cluster_metadata(member: Member, topic: str) -> ReportedCluster | None:
    """Returns the cluster as the member reports it; None if the member does not answer."""
    try:
        return ask_cluster(member.bootstrap, topic)
    except OSError:
        return None


def in_sync(members: Iterable[Member], topic: str, partitions: int) -> bool:
    """Whether all members report every replica of the topic in sync."""
    for member in members:
        metadata = cluster_metadata(member, topic)
        if metadata is None or len(metadata.partitions) != partitions:
            return False
        if not all(partition.whole for partition in metadata.partitions.values()):
            return False
    return True


def seconds_until(condition: Callable[[], bool], what: str, *, every: float = EVERY) -> float:
    """Waits for the condition; returns how many seconds that took. Raises AnswerError after two
    minutes."""
    start_time = time.perf_counter()
    while not condition():
        if time.perf_counter() - start_time > _PATIENCE:
            raise AnswerError(f"timed out after {_PATIENCE:g} s: {what}")
        time.sleep(every)
    return time.perf_counter() - start_time


def create(
    cluster: Cluster,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    *,
    replicas: int = BROKERS,
) -> float:
    """Creates the topic; returns the seconds until all brokers report all its replicas in sync."""
    admin = _admin(cluster)
    start_time = time.perf_counter()
    replication_settings = _REPLICATED if replicas > 1 else {}
    request = NewTopic(name, partitions, replicas, config={**replication_settings, **config})
    results = admin.create_topics([request], operation_timeout=_PATIENCE, request_timeout=_PATIENCE)
    results[name].result(_PATIENCE)
    members = cluster.members.values()
    seconds_until(lambda: in_sync(members, name, partitions), f"{name} is in sync")
    return time.perf_counter() - start_time


def leaders(cluster: Cluster, name: str) -> list[int]:
    """Returns the port of each partition's leader."""
    partitions = ask_cluster(cluster.members[1].bootstrap, name).partitions
    return [cluster.members[partitions[index].leader].port for index in sorted(partitions)]


def end(cluster: Cluster, name: str, partitions: int) -> int:
    """Returns the number of messages in all partitions together."""
    request = {TopicPartition(name, index): OffsetSpec.latest() for index in range(partitions)}
    admin = _admin(cluster)  # must outlive the request
    answers = admin.list_offsets(request)
    return sum(answer.result(_PATIENCE).offset for answer in answers.values())


def _is_answered(cluster: Cluster, name: str, partitions: int) -> bool:
    """Whether the leaders serve the topic; Apache Kafka's may learn of it last."""
    try:
        end(cluster, name, partitions)
    except KafkaException:
        return False
    return True


@contextlib.contextmanager
def topic(
    cluster: Cluster,
    *,
    partitions: int,
    replicas: int = BROKERS,
    config: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Creates a topic and waits until all its leaders serve it; deletes it at the end."""
    name = new_name()
    create(cluster, name, partitions, config or {}, replicas=replicas)
    seconds_until(lambda: _is_answered(cluster, name, partitions), f"the leaders of {name} answer")
    try:
        yield name
    finally:
        delete(cluster, name)


def new_name() -> str:
    return f"bench-{time.time_ns()}"


def delete(cluster: Cluster, name: str) -> None:
    admin = _admin(cluster)
    deletions = admin.delete_topics([name], operation_timeout=_PATIENCE, request_timeout=_PATIENCE)
    deletions[name].result(_PATIENCE)


def _admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
