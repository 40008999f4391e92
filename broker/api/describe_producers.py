"""DescribeProducers (key 61), version 0.

The idempotent producers that a partition remembers, each with its epoch, last sequence and the time
of its last append (not the record's timestamp): a producer that lost a response can find out
whether its batch was appended. There may be any number of producers, so a partition that a request
names twice is answered once.

Not here: transactions (their fields are -1).
"""

import msgspec

from broker.access.authorization import Authorization
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.replicas.partitions import Partitions
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    authorization: Authorization


def handle(
    needs: Needs, request: DescribeProducersRequest, caller: Caller
) -> DescribeProducersResponse:
    rights = needs.authorization.of(caller)
    described_keys: set[tuple[str, int]] = set()

    def describe(topic: str, index: int) -> PartitionResponse:
        try:
            if (topic, index) in described_keys:
                raise ApiError(ErrorCode.invalid_request, "Duplicate partition in request.")
            described_keys.add((topic, index))
            rights.check_topic(Operation.READ, topic)
            partition = needs.partitions.find(topic, index)
            partition.check_leader()
        except ApiError as error:
            return PartitionResponse(
                partition_index=index, error_code=error.code, error_message=error.message
            )
        return PartitionResponse(
            partition_index=index,
            active_producers=tuple(
                ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp,
                )
                for producer in partition.log.producers.describe()
            ),
        )

    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(describe(topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )
