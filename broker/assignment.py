"""Which brokers hold which partitions of a topic. Pure: chance is passed in.

Leaders go round the brokers, which are lined up so that neighbours differ in rack; the followers of
a partition come from the brokers after its leader, from racks that it does not use yet as long as
there are any, and the distance grows with every round, so that no broker always follows the same
other. A broker whose rack is not known counts as a rack of its own.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

Assignment = tuple[tuple[int, ...], ...]


def assign(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    first_partition: int = 0,
) -> Assignment:
    """Replicas of `partitions` new partitions, leaders first, over the brokers in `racks`."""
    if not 1 <= replication_factor <= len(racks):
        raise ValueError(f"{replication_factor} replicas on {len(racks)} brokers")
    brokers = _alternating(racks)
    return tuple(
        _replicas(brokers, racks, number + start, replication_factor)
        for number in range(first_partition, first_partition + partitions)
    )


def start_of(racks: Mapping[int, str | None], first_leader: int) -> int:
    """The `start` that a topic was assigned with whose first partition has this leader."""
    brokers = _alternating(racks)
    return brokers.index(first_leader) if first_leader in brokers else 0


def _replicas(
    brokers: Sequence[int], racks: Mapping[int, str | None], turn: int, count: int
) -> tuple[int, ...]:
    round_, place = divmod(turn, len(brokers))
    leader = brokers[place]
    others = [*brokers[place + 1 :], *brokers[:place]]
    shift = round_ % len(others) if others else 0
    others = others[shift:] + others[:shift]
    used = {_rack(leader, racks)}
    apart: list[int] = []
    rest: list[int] = []
    for broker in others:
        rack = _rack(broker, racks)
        (rest if rack in used else apart).append(broker)
        used.add(rack)
    return (leader, *[*apart, *rest][: count - 1])


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers, one of each rack in turn."""
    by_rack: dict[object, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(_rack(broker, racks), []).append(broker)
    rows = zip_longest(*by_rack.values())
    return [broker for broker in chain.from_iterable(rows) if broker is not None]


def _rack(broker: int, racks: Mapping[int, str | None]) -> object:
    return racks[broker] or broker
