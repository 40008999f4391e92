"""The placement of replicas in a cluster, once all its brokers agree on it."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from client.admin.reassignments import Key, Moving, moving
from client.admin.topics import all_topics
from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError
from penstock.brokers.placement import Placement, Racks, Replicas

Plan = dict[Key, Replicas]
NO_CHANGES: Final[Plan] = {}
POLL_SECONDS: Final = 0.5
_SETTLED_SECONDS: Final = 30.0  # by then brokers know the controller's changes
_UNEVEN_SECONDS: Final = 10.0  # enough for the brokers to learn of a completed move


class ClusterState(msgspec.Struct, frozen=True):
    """A cluster, and the placement of its replicas after all reassignments in progress."""

    cluster: ClusterMetadata
    moving: Mapping[Key, Moving]
    placement: Placement

    @property
    def racks(self) -> Racks:
        """The rack of each broker. Brokers without one that have the same address share a rack."""
        brokers = self.cluster.brokers.values()
        return {broker.id: broker.rack or broker.address.host for broker in brokers}


def settled_state(brokers: Brokers, completed: Plan = NO_CHANGES) -> ClusterState:
    """Returns the state of the cluster once all brokers report the same. `completed` has the moves
    that are known to be completed.

    Brokers learn of a completed move later than the controller. Until then they report the replicas
    of before and after together, and a plan would keep both. Before any broker has learnt of it,
    all of them agree: then the partition has more replicas than others of its topic. Topics may be
    uneven for good, so the wait for these is shorter.
    """
    start = time.monotonic()
    while True:
        reassignments = moving(brokers)
        cluster = all_topics(brokers)
        placement = _placement(cluster)
        expected_placement = {
            key: set(completed.get(key, replicas))
            for key, replicas in placement.items()
            if key not in reassignments
        }
        is_settled = all(
            set(reported_placement.get(key, ())) == replicas
            for reported_placement in (placement, *_reported_placements(brokers, cluster))
            for key, replicas in expected_placement.items()
        )
        patience = _SETTLED_SECONDS
        if is_settled:
            patience = _UNEVEN_SECONDS if _uneven(expected_placement) else 0.0
        if time.monotonic() - start >= patience:
            break
        time.sleep(POLL_SECONDS)
    placement |= {
        key: reassignment.target for key, reassignment in reassignments.items() if key in placement
    }
    return ClusterState(cluster, reassignments, placement)


def _uneven(replicas: Mapping[Key, Collection[int]]) -> bool:
    """Whether partitions of a topic differ in their number of replicas."""
    counts: dict[str, int] = {}
    return any(
        counts.setdefault(topic, len(copies)) != len(copies)
        for (topic, _), copies in replicas.items()
    )


def _reported_placements(brokers: Brokers, cluster: ClusterMetadata) -> Iterator[Placement]:
    """The placement as reported by each broker that answers; a dead one may be drained."""
    for broker in cluster.brokers:
        with suppress(ClientError):
            yield _placement(brokers.as_seen_by(broker))


def _placement(cluster: ClusterMetadata) -> Plan:
    return {
        (name, partition.index): partition.replicas
        for name, topic in cluster.topics.items()
        for partition in topic.partitions
    }
