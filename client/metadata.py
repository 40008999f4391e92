"""What a cluster says of itself: its brokers, its topics, and who leads each partition."""

import uuid
from collections.abc import Mapping

import msgspec

from client.addresses import Address
from client.errors import ErrorCode, Refused, refusal
from client.rights import TO_SEE, on_topic
from wire.acls import Operation
from wire.messages.metadata import MetadataResponse

NO_LEADER = -1


class BrokerMetadata(msgspec.Struct, frozen=True):
    id: int
    address: Address
    rack: str | None = None


class PartitionMetadata(msgspec.Struct, frozen=True):
    """One partition; `leader` is a broker's id, or -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    error: ErrorCode = ErrorCode.none


class TopicMetadata(msgspec.Struct, frozen=True):
    name: str
    id: uuid.UUID | None
    partitions: tuple[PartitionMetadata, ...]
    internal: bool = False
    error: ErrorCode = ErrorCode.none

    def partition(self, index: int) -> PartitionMetadata:
        """The partition, which has a leader."""
        if not 0 <= index < len(self.partitions):
            raise Refused(
                f"topic {self.name}",
                ErrorCode.invalid_partitions,
                f"it has no partition {index}, only 0 to {len(self.partitions) - 1}",
            )
        found = self.partitions[index]
        if found.leader == NO_LEADER:
            raise Refused(f"{self.name}-{index}", ErrorCode.leader_not_available)
        return found


class ClusterMetadata(msgspec.Struct, frozen=True):
    """One answer: all live brokers, and the topics that were asked for."""

    who: str = ""  # has asked
    cluster_id: str | None = None
    controller: int = -1
    brokers: Mapping[int, BrokerMetadata] = {}
    topics: Mapping[str, TopicMetadata] = {}

    def has(self, name: str) -> bool:
        """Whether the topic exists, as far as the broker knows."""
        found = self.topics.get(name)
        return found is not None and found.error is not ErrorCode.unknown_topic_or_partition

    def topic(self, name: str, *to: Operation, creates: bool = False) -> TopicMetadata:
        """The topic, which exists; its absence may be a passing one. If it is not shown to us, the
        error names what is wanted `to` be done with it as the right that is missing."""
        found = self.topics.get(name)
        if found is None:
            raise Refused(f"topic {name}", ErrorCode.unknown_topic_or_partition)
        if found.error is not ErrorCode.none:
            needs = on_topic(self.who, name, *(to or TO_SEE), creates=creates)
            raise refusal(f"topic {name}", found.error, needs=needs)
        return found


def metadata_of(response: MetadataResponse, who: str = "") -> ClusterMetadata:
    """The response as values of ours; partitions in the order of their numbers."""
    return ClusterMetadata(
        who=who,
        cluster_id=response.cluster_id,
        controller=response.controller_id,
        brokers={
            each.node_id: BrokerMetadata(each.node_id, Address(each.host, each.port), each.rack)
            for each in response.brokers
        },
        topics={
            each.name: TopicMetadata(
                name=each.name,
                id=each.topic_id,
                partitions=tuple(
                    PartitionMetadata(
                        index=partition.partition_index,
                        leader=partition.leader_id,
                        leader_epoch=partition.leader_epoch,
                        replicas=partition.replica_nodes,
                        in_sync=partition.isr_nodes,
                        error=partition.error_code,
                    )
                    for partition in sorted(each.partitions, key=lambda each: each.partition_index)
                ),
                internal=each.is_internal,
                error=each.error_code,
            )
            for each in response.topics
            if each.name is not None
        },
    )
