"""Elections: the leader and in-sync replicas of a partition after brokers have joined or left.
Pure.

Rule 1: a leader that is alive and in sync stays, unless it is about to stop (draining) and another
        replica can lead. The next leader is the first live in-sync replica in the order of the
        assignment, with draining ones last. Its epoch is one higher.
Rule 2: under a live leader, dead replicas leave the in-sync set. The epoch stays: the leader
        changes the same node by compare-and-set, so it learns of the change there, and until then
        waits for more replicas than it must, never for fewer.
Rule 3: if no in-sync replica is alive, the partition has no leader, and the in-sync set stays: what
        was acknowledged is on those replicas, and the first to return leads.
Rule 4: only if `unclean.leader.election.enable` is set, the first live replica leads in that case,
        alone in sync. What it lacks is lost, and the state records that this epoch began uncleanly.

So a leader is always in sync, the in-sync set is never empty, and an election that is applied to
its own result changes nothing.

Specified in docs/replication-spec.md: `Elect`, `ElectUnclean` (R6).
"""

from collections.abc import Iterable, Set
from typing import Final

import msgspec
from msgspec.structs import replace

from cluster.controller.partition_states import StateChange
from cluster.values import NO_LEADER, NO_VERSION, ClusterSnapshot, PartitionInfo, TopicInfo

_MOST_UNCLEAN: Final = 8  # leader epochs that a state names


class Brokers(msgspec.Struct, frozen=True):
    """The live brokers, and those of them that are about to stop."""

    live: Set[int]
    draining: Set[int] = frozenset()

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> "Brokers":
        return cls(frozenset(snapshot.brokers), snapshot.draining)


def elected(partition: PartitionInfo, brokers: Brokers, *, unclean: bool = False) -> PartitionInfo:
    """Returns the partition after an election; the same object if nothing has to change."""
    if not partition.replicas:
        return partition
    candidates = _candidates(partition, brokers)
    if candidates:
        leader = _leader(partition, candidates, brokers)
        return _with(partition, leader, _in_sync(partition, brokers))
    live_replicas = _first_those_that_stay(partition.replicas, brokers)
    # Without an ISR nothing was ever in sync, so nothing can be lost.
    if live_replicas and (unclean or not partition.isr):
        new_state = _with(partition, live_replicas[0], (live_replicas[0],))
        return _unclean(new_state) if partition.isr else new_state
    return _with(partition, NO_LEADER, partition.isr)


def preferred(partition: PartitionInfo, brokers: Brokers) -> PartitionInfo:
    """Returns the partition led by the first of its replicas, if that replica can lead."""
    if not partition.replicas or partition.leader == NO_LEADER:
        return partition
    first_replica = partition.replicas[0]
    if first_replica in brokers.draining or first_replica not in _candidates(partition, brokers):
        return partition
    return _with(partition, first_replica, _in_sync(partition, brokers))


def due(topic: TopicInfo, brokers: Brokers, *, unclean: bool) -> list[StateChange]:
    """Returns all changes that are due in a topic, as far as its partitions' states are known."""
    return [
        change_of(topic, index, new_state)
        for index, partition in enumerate(topic.partitions)
        if partition.version != NO_VERSION
        and (new_state := elected(partition, brokers, unclean=unclean)) is not partition
    ]


def change_of(topic: TopicInfo, index: int, after: PartitionInfo) -> StateChange:
    return StateChange(topic=topic.name, topic_id=topic.topic_id, partition=index, after=after)


def _candidates(partition: PartitionInfo, brokers: Brokers) -> list[int]:
    """Replicas that can lead without losing data, the best first."""
    isr = [replica for replica in partition.replicas if replica in partition.isr]
    return _first_those_that_stay(isr, brokers)


def _first_those_that_stay(replicas: Iterable[int], brokers: Brokers) -> list[int]:
    live_replicas = [replica for replica in replicas if replica in brokers.live]
    return sorted(live_replicas, key=lambda replica: replica in brokers.draining)


def _leader(partition: PartitionInfo, candidates: list[int], brokers: Brokers) -> int:
    leader = partition.leader
    is_to_go = leader in brokers.draining and candidates[0] not in brokers.draining
    return leader if leader in candidates and not is_to_go else candidates[0]


def _in_sync(partition: PartitionInfo, brokers: Brokers) -> tuple[int, ...]:
    replicas, live_brokers = partition.replicas, brokers.live
    return tuple(
        replica for replica in partition.isr if replica in live_brokers and replica in replicas
    )


def _unclean(after: PartitionInfo) -> PartitionInfo:
    return replace(after, unclean=(*after.unclean, after.leader_epoch)[-_MOST_UNCLEAN:])


def _with(partition: PartitionInfo, leader: int, isr: tuple[int, ...]) -> PartitionInfo:
    if (leader, isr) == (partition.leader, partition.isr):
        return partition
    epoch = partition.leader_epoch + (leader != partition.leader)
    return replace(partition, leader=leader, isr=isr, leader_epoch=epoch)
