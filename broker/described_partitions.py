"""A topic's partitions as Metadata describes them, kept as long as nothing about them changes.

Clients ask again every few minutes, all of them; to describe thousands of partitions anew for each
would hold up everybody else.
"""

from collections.abc import Set
from dataclasses import dataclass

from broker.errors import ApiError
from broker.partitions import Partitions
from cluster.values import ClusterSnapshot, PartitionInfo, TopicInfo
from wire.errors import ErrorCode
from wire.messages.metadata import MetadataResponsePartition
from wire.primitives import Repeated

NOBODY = -1


@dataclass(frozen=True, slots=True)
class _Described:
    """What was described, and what that went by."""

    info: TopicInfo
    brokers: Set[int]
    changes: int
    partitions: Repeated


class DescribedPartitions:
    """As one broker sees them. Belongs to the event loop."""

    def __init__(self, broker_id: int, partitions: Partitions) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._described: dict[str, _Described] = {}

    def of(self, snapshot: ClusterSnapshot, info: TopicInfo) -> Repeated:
        """Those of a topic that the snapshot has."""
        known = self._described.get(info.name)
        brokers, changes = snapshot.brokers.keys(), self._partitions.changes
        if (
            known is None
            or known.info is not info
            or known.changes != changes
            or known.brokers != brokers
        ):
            described = Repeated(
                self._describe(snapshot, info.name, index, partition)
                for index, partition in enumerate(info.partitions)
            )
            known = _Described(info, frozenset(brokers), changes, described)
            for gone in self._described.keys() - snapshot.topics.keys():
                del self._described[gone]
            self._described[info.name] = known
        return known.partitions

    def _describe(
        self, snapshot: ClusterSnapshot, topic: str, index: int, info: PartitionInfo
    ) -> MetadataResponsePartition:
        offline = tuple(each for each in info.replicas if each not in snapshot.brokers)
        leader = info.leader
        if leader == self._broker_id and not self._is_served(topic, index):
            offline = (*offline, leader)
        if leader in offline or leader not in snapshot.brokers:
            leader = NOBODY
        return MetadataResponsePartition(
            error_code=ErrorCode.leader_not_available if leader == NOBODY else ErrorCode.none,
            partition_index=index,
            leader_id=leader,
            leader_epoch=info.leader_epoch,
            replica_nodes=info.replicas,
            isr_nodes=info.isr,
            offline_replicas=offline,
        )

    def _is_served(self, topic: str, index: int) -> bool:
        try:
            return not self._partitions.find(topic, index).offline_reason
        except ApiError:
            return False
