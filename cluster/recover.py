"""Rebuilds the map from partition directories, after the loss of ZooKeeper's data.

Each broker adds the contents of its own directory, in any order; repetition changes nothing. First
everything is compared, and a single mismatch stops it before anything is written. Not restored is
what the directories do not contain: configuration overrides, users, and partitions without any
surviving replica, which stay without a leader.

A recovered partition gets a leader epoch above all in its log, so that epochs never run backwards.
The replica with the newest epoch becomes the leader.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from cluster.controller.controller import current_epoch, write_fenced
from cluster.controller.topics import add_partitions, create_topic, list_topics, read_topic
from cluster.errors import MapDisagrees
from cluster.layout import nodes, paths
from cluster.layout.names import check_topic_name
from cluster.records import identity
from cluster.session.operations import Operation, Set, in_transactions
from cluster.session.session import Session
from cluster.values import NO_EPOCH, NO_LEADER, ControllerEpoch, PartitionInfo, TopicInfo

_NOWHERE: Final = PartitionInfo(
    replicas=(), leader=NO_LEADER, leader_epoch=NO_EPOCH, isr=(), controller_epoch=NO_EPOCH
)


class FoundPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's directory; `leader_epoch` is the newest in its log, NO_EPOCH if there is
    none."""

    topic: str
    index: int
    topic_id: UUID
    leader_epoch: int = NO_EPOCH


class RecoveredTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that `recover` created, completed or left unchanged, and the partitions that still
    lack a replica."""

    cluster_id: str
    topics_created: tuple[str, ...]
    topics_completed: tuple[str, ...]  # existed, but lacked something this broker has
    topics_unchanged: tuple[str, ...]
    without_replica: tuple[tuple[str, int], ...]  # partitions that no broker has contributed yet


def recover(
    session: Session, *, broker_id: int, cluster_id: str, directories: Iterable[FoundPartition]
) -> RecoveredTopics:
    """Adds a broker's partitions to the map. The broker must not be running."""
    directories = tuple(directories)
    epoch = current_epoch(session)
    names = {partition.topic for partition in directories}
    topics = {name: topic for name in list_topics(session) if (topic := read_topic(session, name))}
    _compare(identity.find_cluster_id(session), cluster_id, topics, directories)
    target = with_partitions(topics, broker_id, directories, epoch.epoch)

    identity.claim_cluster_id(session, cluster_id)
    for name in sorted(names):
        old_topic = topics.get(name)
        if old_topic is None:
            create_topic(session, epoch, target[name], {})
        elif old_topic != target[name]:
            _complete(session, epoch, old_topic, target[name])
    return RecoveredTopics(
        cluster_id=cluster_id,
        topics_created=tuple(sorted(names - topics.keys())),
        topics_completed=tuple(
            sorted(name for name in names & topics.keys() if topics[name] != target[name])
        ),
        topics_unchanged=tuple(
            sorted(name for name in names & topics.keys() if topics[name] == target[name])
        ),
        without_replica=tuple(
            (name, index)
            for name in sorted(names)
            for index, partition in enumerate(target[name].partitions)
            if not partition.replicas
        ),
    )


def with_partitions(
    known: Mapping[str, TopicInfo],
    broker_id: int,
    found: Iterable[FoundPartition],
    controller_epoch: int,
) -> dict[str, TopicInfo]:
    """Returns the state that the topics should have: their known state, with the directories
    added."""
    by_topic: dict[str, list[FoundPartition]] = defaultdict(list)
    for partition in found:
        by_topic[partition.topic].append(partition)
    target = {}
    for name, directories in by_topic.items():
        partitions = list(known[name].partitions) if name in known else []
        count = max(directory.index for directory in directories) + 1
        partitions += [_NOWHERE] * (count - len(partitions))
        for directory in directories:
            partitions[directory.index] = _with_replica(
                partitions[directory.index], broker_id, directory.leader_epoch, controller_epoch
            )
        target[name] = TopicInfo(
            name=name, topic_id=directories[0].topic_id, partitions=tuple(partitions)
        )
    return target


def _with_replica(
    partition: PartitionInfo, broker_id: int, newest_epoch: int, controller_epoch: int
) -> PartitionInfo:
    if broker_id not in partition.replicas:
        partition = replace(partition, replicas=(*partition.replicas, broker_id))
    if partition.leader != NO_LEADER and newest_epoch < partition.leader_epoch:
        return partition
    return replace(
        partition,
        leader=broker_id,
        leader_epoch=newest_epoch + 1,
        isr=(broker_id,),
        controller_epoch=controller_epoch,
    )


def _compare(
    known_cluster: str | None,
    cluster_id: str,
    known: Mapping[str, TopicInfo],
    found: Iterable[FoundPartition],
) -> None:
    """Raise MapDisagrees with all mismatches, if there are any."""
    mismatches = []
    if known_cluster not in {None, cluster_id}:
        mismatches.append(
            f"the map is cluster {known_cluster}'s, the directory cluster {cluster_id}'s"
        )
    ids = {name: topic.topic_id for name, topic in known.items()}
    for partition in found:
        check_topic_name(partition.topic)
        expected = ids.setdefault(partition.topic, partition.topic_id)
        if partition.topic_id != expected:
            mismatches.append(
                f"{partition.topic}-{partition.index} has topic id {partition.topic_id}, "
                f"the topic has {expected}"
            )
    if mismatches:
        raise MapDisagrees("nothing was recovered: " + "; ".join(mismatches))


def _complete(
    session: Session, epoch: ControllerEpoch, before: TopicInfo, target: TopicInfo
) -> None:
    """Write what `before` lacks; a new run completes it after a crash."""
    count = len(before.partitions)
    if len(target.partitions) > count:
        add_partitions(session, epoch, target.name, count, target.partitions[count:])
    operations: list[Operation] = [
        Set(paths.partition_state(target.name, index), nodes.encode(nodes.state_node(partition)))
        for index, partition in enumerate(target.partitions[:count])
        if partition != before.partitions[index]
    ]
    operations.append(Set(paths.topic(target.name), nodes.encode(nodes.topic_node(target))))
    for piece in in_transactions(operations):
        write_fenced(session, epoch, piece)
