"""Validates requests to create or extend topics, and assigns their partitions to brokers.

Pure: a request, one snapshot of the map and a random number give an assignment, or an `ApiError`
with the code and message that Kafka's tools expect. Counts are checked against their caps before
anything is allocated for them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

import msgspec

from broker.configs.topic_config import NOTHING, TopicDefaults
from broker.errors import ApiError, ErrorCode
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name, colliding
from cluster.values import ClusterSnapshot, TopicInfo

MOST_PARTITIONS = 10_000  # of one request
UNSAID = -1  # Kafka's value for "the broker's default"
Assignment = tuple[tuple[int, ...], ...]


class NewTopic(msgspec.Struct, frozen=True):
    """A requested topic: by its counts, or by the brokers of each partition."""

    name: str
    partitions: int = UNSAID
    replication_factor: int = UNSAID
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] = msgspec.field(default_factory=lambda: NOTHING)


def replication_factor(info: TopicInfo) -> int:
    """Returns the intended number of replicas of each partition; a partition being moved has
    more."""
    return min(
        (
            len(partition.move.target if partition.move else partition.replicas)
            for partition in info.partitions
        ),
        default=0,
    )


def check_new_name(name: str, snapshot: ClusterSnapshot) -> None:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        raise ApiError(ErrorCode.invalid_topic_exception, str(error)) from None
    if name in snapshot.deleting:
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion.")
    if name in snapshot.topics:
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if colliding_name := colliding(name, snapshot.topics):
        raise ApiError(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topics: {colliding_name}",
        )


def placement(
    topic: NewTopic, defaults: TopicDefaults, snapshot: ClusterSnapshot, chance: float
) -> Assignment:
    """Returns the brokers of each partition of a new topic; `chance`, from 0 to 1, selects the
    first."""
    if topic.assignment is not None:
        return _given(topic.assignment, snapshot)
    partitions, factor = topic.partitions, topic.replication_factor
    if partitions == UNSAID:
        partitions = defaults.partitions
    if factor == UNSAID:
        factor = defaults.replication_factor
    _check_count(partitions)
    _check_factor(factor, len(snapshot.brokers))
    start = int(chance * len(snapshot.brokers))
    return assign(_racks(snapshot), partitions, factor, start=start)


def extension(
    info: TopicInfo,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    snapshot: ClusterSnapshot,
) -> Assignment:
    """Returns the replicas of the partitions that are added to a topic."""
    partition_count = len(info.partitions)
    if count == partition_count:
        raise ApiError(
            ErrorCode.invalid_partitions, f"Topic already has {partition_count} partitions."
        )
    if count < partition_count:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"Topic currently has {partition_count} partitions, "
            f"which is higher than the requested {count}.",
        )
    added_count = count - partition_count
    _check_count(added_count)
    first_replicas = info.partitions[0].replicas
    if assignments is not None:
        if len(assignments) != added_count:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Increasing the number of partitions by {added_count} "
                f"but {len(assignments)} assignments provided.",
            )
        return _checked(assignments, len(first_replicas), snapshot)
    _check_factor(len(first_replicas), len(snapshot.brokers))
    racks = _racks(snapshot)
    return assign(
        racks,
        added_count,
        len(first_replicas),
        start=start_of(racks, first_replicas[0]),
        first_partition=partition_count,
    )


def check_target(target: Sequence[int], snapshot: ClusterSnapshot) -> tuple[int, ...]:
    """Checks the replicas that a client has given for a partition. Raises ApiError."""
    return _checked([target], len(target), snapshot)[0]


def check_room(
    assignment: Assignment,
    snapshot: ClusterSnapshot,
    being_made: Iterable[Assignment],
    most: int,
) -> None:
    """Raises ApiError if a broker would have more than `most` partitions."""
    added_counts = _held(assignment)
    held_counts = _held(
        partition.replicas for info in snapshot.topics.values() for partition in info.partitions
    ) + _held(chain.from_iterable(being_made))
    for broker, added_count in added_counts.items():
        if held_counts[broker] + added_count > most:
            raise ApiError(
                ErrorCode.invalid_partitions,
                f"broker {broker} has {held_counts[broker]} partitions, at most {most} are allowed "
                f"(`limits.partitions`): there is no room for {added_count} more",
            )


def _held(assignment: Iterable[Sequence[int]]) -> Counter[int]:
    return Counter(chain.from_iterable(assignment))


def _check_count(partitions: int) -> None:
    if partitions < 1:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"Number of partitions must be larger than 0, not {partitions}.",
        )
    if partitions > MOST_PARTITIONS:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"Number of partitions must be at most {MOST_PARTITIONS}, not {partitions}.",
        )


def _check_factor(factor: int, brokers: int) -> None:
    if factor < 1:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"Replication factor must be larger than 0, not {factor}.",
        )
    if factor > brokers:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {factor} larger than available brokers: {brokers}.",
        )


def _given(assignment: Mapping[int, Sequence[int]], snapshot: ClusterSnapshot) -> Assignment:
    """A new topic's assignment as the client gave it, checked."""
    _check_count(len(assignment))
    if sorted(assignment) != list(range(len(assignment))):
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    factor = len(assignment[0])
    return _checked([assignment[index] for index in range(len(assignment))], factor, snapshot)


def _checked(
    replicas: Sequence[Sequence[int]], factor: int, snapshot: ClusterSnapshot
) -> Assignment:
    for brokers in replicas:
        if not brokers or len(brokers) != factor:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                "All partitions should have the same number of replicas, at least one.",
            )
        if len(set(brokers)) < len(brokers):
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Duplicate brokers not allowed in replica assignment: {_listed(brokers)}.",
            )
        if unknown_brokers := set(brokers) - snapshot.brokers.keys():
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Unknown broker(s) in replica assignment: {_listed(sorted(unknown_brokers))}.",
            )
    return tuple(tuple(brokers) for brokers in replicas)


def _racks(snapshot: ClusterSnapshot) -> dict[int, str | None]:
    """Without racks, brokers of one machine count as one rack."""
    return {broker.broker_id: broker.rack or broker.machine for broker in snapshot.brokers.values()}


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(str(broker) for broker in brokers[:20])


def assign(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    first_partition: int = 0,
) -> Assignment:
    """Assigns `partitions` new partitions to the brokers in `racks`; returns their replicas,
    leaders first.

    Leaders go round the brokers, which are lined up so that neighbours differ in rack; the
    followers of a partition come from the brokers after its leader, from racks that it does not use
    yet as long as there are any, and the distance grows with every round, so that no broker always
    follows the same other. A broker whose rack is not known counts as a rack of its own.
    """
    if not 1 <= replication_factor <= len(racks):
        raise ValueError(f"cannot place {replication_factor} replicas on {len(racks)} brokers")
    brokers = _alternating(racks)
    return tuple(
        _replicas(brokers, racks, index + start, replication_factor)
        for index in range(first_partition, first_partition + partitions)
    )


def start_of(racks: Mapping[int, str | None], first_leader: int) -> int:
    """Returns the `start` with which `assign` gives a topic's first partition this leader."""
    brokers = _alternating(racks)
    return brokers.index(first_leader) if first_leader in brokers else 0


def _replicas(
    brokers: Sequence[int], racks: Mapping[int, str | None], turn: int, count: int
) -> tuple[int, ...]:
    round_, leader_index = divmod(turn, len(brokers))
    leader = brokers[leader_index]
    other_brokers = [*brokers[leader_index + 1 :], *brokers[:leader_index]]
    shift = round_ % len(other_brokers) if other_brokers else 0
    other_brokers = other_brokers[shift:] + other_brokers[:shift]
    used_racks = {_rack(leader, racks)}
    brokers_apart: list[int] = []
    other_candidates: list[int] = []
    for broker in other_brokers:
        rack = _rack(broker, racks)
        (other_candidates if rack in used_racks else brokers_apart).append(broker)
        used_racks.add(rack)
    return (leader, *[*brokers_apart, *other_candidates][: count - 1])


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers, alternating between racks."""
    brokers_by_rack: dict[object, list[int]] = {}
    for broker in sorted(racks):
        brokers_by_rack.setdefault(_rack(broker, racks), []).append(broker)
    rows = zip_longest(*brokers_by_rack.values())
    return [broker for broker in chain.from_iterable(rows) if broker is not None]


def _rack(broker: int, racks: Mapping[int, str | None]) -> object:
    return racks[broker] or broker
