"""Topics of a cluster under test: created, deleted, and what all its brokers say of them.

A topic counts as created, and a broker as back, when every broker says that every partition has a
leader and all its replicas in sync. What is asked costs a broker a few milliseconds for a thousand
partitions, so it is asked ten times a second at most.
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
from harness.penstock.broker_metadata import ClusterSaid, ask_cluster

EVERY: Final = 0.1
_PATIENCE: Final = 120.0
_REPLICATED: Final = {"min.insync.replicas": "2"}  # where there are several


def said_by(member: Member, topic: str) -> ClusterSaid | None:
    """None while it does not answer."""
    try:
        return ask_cluster(member.bootstrap, topic)
    except OSError:
        return None


def in_sync(members: Iterable[Member], topic: str, partitions: int) -> bool:
    """Whether all of these say that all of its replicas are."""
    for member in members:
        said = said_by(member, topic)
        if said is None or len(said.partitions) != partitions:
            return False
        if not all(each.whole for each in said.partitions.values()):
            return False
    return True


def seconds_until(holds: Callable[[], bool], what: str, *, every: float = EVERY) -> float:
    """Raises AnswerError after some minutes."""
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > _PATIENCE:
            raise AnswerError(f"not after {_PATIENCE:g} s: {what}")
        time.sleep(every)
    return time.perf_counter() - began


def create(
    cluster: Cluster,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    *,
    replicas: int = BROKERS,
) -> float:
    """How many seconds until it is there."""
    admin = _admin(cluster)
    began = time.perf_counter()
    safe = _REPLICATED if replicas > 1 else {}
    wanted = NewTopic(name, partitions, replicas, config={**safe, **config})
    made = admin.create_topics([wanted], operation_timeout=_PATIENCE, request_timeout=_PATIENCE)
    made[name].result(_PATIENCE)
    members = cluster.members.values()
    seconds_until(lambda: in_sync(members, name, partitions), f"{name} is in sync")
    return time.perf_counter() - began


def leaders(cluster: Cluster, name: str) -> list[int]:
    """The port of each partition's."""
    said = ask_cluster(cluster.members[1].bootstrap, name).partitions
    return [cluster.members[said[each].leader].port for each in sorted(said)]


def end(cluster: Cluster, name: str, partitions: int) -> int:
    """How many messages its partitions have, all together."""
    asked = {TopicPartition(name, each): OffsetSpec.latest() for each in range(partitions)}
    admin = _admin(cluster)  # Lives until it is answered.
    answered = admin.list_offsets(asked)
    return sum(each.result(_PATIENCE).offset for each in answered.values())


def _is_answered(cluster: Cluster, name: str, partitions: int) -> bool:
    """A leader of Apache Kafka's may be told of that after everybody else."""
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
    """A new one, of which all leaders answer; deleted at the end."""
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
    deleted = admin.delete_topics([name], operation_timeout=_PATIENCE, request_timeout=_PATIENCE)
    deleted[name].result(_PATIENCE)


def _admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
