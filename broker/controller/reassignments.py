"""Moves replicas of a partition to other brokers, step by step. Pure.

    begun       the new brokers are replicas beside the old ones; they follow until they are in sync
    finished    all of them are: the old ones are replicas no more, and if one of them led, one of
                the new ones does
    cancelled   before that, the old ones are the replicas again

At every step, an in-sync replica leads if one is alive, and nothing that was acknowledged is only
on brokers that are being removed.
"""

from msgspec.structs import replace

from broker.controller.elections import Brokers, elected
from cluster.values import NO_LEADER, Move, PartitionInfo


def begun(
    partition: PartitionInfo, target: tuple[int, ...], brokers: Brokers
) -> PartitionInfo | None:
    """Returns the partition with its move begun; None if no remaining replica is alive and in
    sync."""
    origin = partition.move.origin if partition.move else partition.replicas
    if set(target) == set(origin):  # another order, or back to where it was
        return _with(partition, target, None, brokers)
    all_replicas = target + tuple(replica for replica in origin if replica not in target)
    return _with(partition, all_replicas, Move(target=target, origin=origin), brokers)


def cancelled(partition: PartitionInfo, brokers: Brokers) -> PartitionInfo | None:
    """Returns the partition with its move cancelled; None if it is too late."""
    assert partition.move is not None
    return _with(partition, partition.move.origin, None, brokers)


def finished(partition: PartitionInfo, brokers: Brokers) -> PartitionInfo | None:
    """Returns the partition with its move finished; None if no move is complete."""
    move = partition.move
    if move is None or not set(move.target) <= set(partition.isr):
        return None
    return _with(partition, move.target, None, brokers)


def _with(
    partition: PartitionInfo, replicas: tuple[int, ...], move: Move | None, brokers: Brokers
) -> PartitionInfo | None:
    new_state = elected(replace(partition, replicas=replicas, move=move), brokers)
    keeps_all_replicas = set(replicas) >= set(partition.replicas)
    if not keeps_all_replicas and new_state.leader == NO_LEADER:
        return None  # replicas to be removed may have data that the others lack
    return new_state
