"""A cluster's metadata: its brokers, its topics, and the leader of each partition."""

import uuid
from collections.abc import Mapping

import msgspec

from client.connection.addresses import Address
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
    """One partition; `leader` is a broker id, or -1 if there is none."""

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
        """Returns a partition that has a leader; raises Refused otherwise."""
        if not 0 <= index < len(self.partitions):
            raise Refused(
                f"topic {self.name}",
                ErrorCode.invalid_partitions,
                f"no partition {index}, only 0 to {len(self.partitions) - 1}",
            )
        partition = self.partitions[index]
        if partition.leader == NO_LEADER:
            raise Refused(f"{self.name}-{index}", ErrorCode.leader_not_available)
        return partition


class ClusterMetadata(msgspec.Struct, frozen=True):
    """One metadata response: all live brokers, and the requested topics."""

    who: str = ""  # describes the client
    cluster_id: str | None = None
    controller: int = -1
    brokers: Mapping[int, BrokerMetadata] = {}
    topics: Mapping[str, TopicMetadata] = {}

    def has(self, name: str) -> bool:
        """Returns whether the topic exists, as far as the broker knows."""
        topic = self.topics.get(name)
        return topic is not None and topic.error is not ErrorCode.unknown_topic_or_partition

    def topic(self, name: str, *to: Operation, creates: bool = False) -> TopicMetadata:
        """Returns a topic that exists; raises Refused otherwise, as its absence may be temporary.
        If the topic is hidden from this client, the error names the right for the intended
        operations `to`."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(f"topic {name}", ErrorCode.unknown_topic_or_partition)
        if topic.error is not ErrorCode.none:
            needs = on_topic(self.who, name, *(to or TO_SEE), creates=creates)
            raise refusal(f"topic {name}", topic.error, needs=needs)
        return topic


def metadata_of(response: MetadataResponse, who: str = "") -> ClusterMetadata:
    """Converts the response; partitions are ordered by index."""
    return ClusterMetadata(
        who=who,
        cluster_id=response.cluster_id,
        controller=response.controller_id,
        brokers={
            broker.node_id: BrokerMetadata(
                broker.node_id, Address(broker.host, broker.port), broker.rack
            )
            for broker in response.brokers
        },
        topics={
            topic.name: TopicMetadata(
                name=topic.name,
                id=topic.topic_id,
                partitions=tuple(
                    PartitionMetadata(
                        index=partition.partition_index,
                        leader=partition.leader_id,
                        leader_epoch=partition.leader_epoch,
                        replicas=partition.replica_nodes,
                        in_sync=partition.isr_nodes,
                        error=partition.error_code,
                    )
                    for partition in sorted(topic.partitions, key=lambda part: part.partition_index)
                ),
                internal=topic.is_internal,
                error=topic.error_code,
            )
            for topic in response.topics
            if topic.name is not None
        },
    )
