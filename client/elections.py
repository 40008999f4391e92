"""The lead of partitions given back to their first replicas: the controller does it at once, which
otherwise does it now and then."""

from collections.abc import Mapping, Sequence
from typing import Final

from client.brokers import Brokers
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
    """What became of each that was asked for; `none` if its first replica leads now, also if it
    did before."""
    answer = brokers.call_controller(
        elect_leaders.API,
        ElectLeadersRequest(
            topic_partitions=tuple(
                TopicPartitions(topic=name, partitions=tuple(indexes))
                for name, indexes in sorted(partitions.items())
            ),
            timeout=_TIMEOUT_MS,
        ),
    )
    check(answer.error_code, "elections", needs=on_cluster(brokers.who, Operation.ALTER))
    return {
        (topic.topic, each.partition_id): (
            ErrorCode.none if each.error_code is ErrorCode.election_not_needed else each.error_code
        )
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }
