"""Elects the preferred leaders of partitions at once, as the controller does periodically."""

from collections.abc import Mapping, Sequence
from typing import Final

from client.connection.brokers import Brokers
from client.errors import ErrorCode, check
from client.rights import on_cluster
from wire.acls import Operation
from wire.messages import elect_leaders
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

_TIMEOUT_MS: Final = 25_000

Partition = tuple[str, int]


def elect_preferred(
    brokers: Brokers, partitions: Mapping[str, Sequence[int]]
) -> dict[Partition, ErrorCode]:
    """Elects preferred leaders. Returns an error code for each partition: `none` if its first
    replica leads now, even if no election was needed."""
    response = brokers.call_controller(
        elect_leaders.API,
        ElectLeadersRequest(
            topic_partitions=tuple(
                TopicPartitions(topic=name, partitions=tuple(indexes))
                for name, indexes in sorted(partitions.items())
            ),
            timeout=_TIMEOUT_MS,
        ),
    )
    check(response.error_code, "elections", needs=on_cluster(brokers.who, Operation.ALTER))
    return {
        (topic.topic, part.partition_id): (
            ErrorCode.none if part.error_code is ErrorCode.election_not_needed else part.error_code
        )
        for topic in response.replica_election_results
        for part in topic.partition_result
    }
