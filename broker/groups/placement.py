"""Chooses the coordinator of a group by rendezvous hashing.

Each broker computes it from its own map, without communication, and when a broker comes or goes,
only the groups that it coordinates move. Brokers whose maps differ for a moment may both claim a
group: then its fence decides (`cluster.groups.groups`).
"""

from collections.abc import Iterable
from hashlib import blake2b

from cluster.values import ClusterSnapshot


def candidates(snapshot: ClusterSnapshot) -> frozenset[int]:
    """Returns the possible coordinators: the live brokers, without those that are about to stop."""
    live_brokers = frozenset(snapshot.brokers)
    return live_brokers - snapshot.draining or live_brokers


def first_of(group: str, brokers: Iterable[int]) -> int | None:
    """Returns the first choice of broker for a group; None without brokers."""
    return max(brokers, key=lambda broker: (_weight(group, broker), broker), default=None)


def _weight(group: str, broker: int) -> bytes:
    return blake2b(group.encode(), digest_size=8, salt=broker.to_bytes(8, "big")).digest()
