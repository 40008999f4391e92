"""DeleteRecords (key 21), versions 0–2.

Raises the start of partitions to an offset, or with -1 to the end of what consumers can read.
Records below it are no longer served, and segments that lie wholly below it are removed. The new
start is kept in a checkpoint. Records acknowledged with acks=1 are flushed first, if they are to be
deleted. A topic that is only compacted rejects this (POLICY_VIOLATION), as in Kafka.
"""

from collections import Counter

import msgspec

from broker.access.authorization import Authorization
from broker.api.exposure import exposed
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.replicas.partitions import Partitions
from broker.storage.errors import StorageError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_END = -1


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    authorization: Authorization


async def handle(
    needs: Needs, request: DeleteRecordsRequest, caller: Caller
) -> DeleteRecordsResponse:
    rights = needs.authorization.of(caller)
    partition_counts = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )

    async def delete(topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        index = wanted.partition_index
        try:
            if partition_counts[topic, index] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate partition in request.")
            rights.check_topic(Operation.DELETE, topic)
            start = await _delete(needs.partitions, topic, index, wanted.offset)
        except (ApiError, StorageError) as error:
            return DeleteRecordsPartitionResult(partition_index=index, error_code=error.code)
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start)

    return DeleteRecordsResponse(
        topics=tuple(
            [
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        [await delete(topic.name, partition) for partition in topic.partitions]
                    ),
                )
                for topic in request.topics
            ]
        )
    )


async def _delete(partitions: Partitions, topic: str, index: int, offset: int) -> int:
    """Delete the records below `offset`; returns the new start offset."""
    partition = partitions.find(topic, index)
    partition.check_leader()
    exposed_offset = partition.log.exposed_offset
    if exposed_offset < partition.acknowledged_end and not 0 <= offset <= exposed_offset:
        await exposed([partition])
        partition.check_leader()
    if not partition.config.deletes:
        raise ApiError(
            ErrorCode.policy_violation,
            f"{topic} is compacted, and its cleanup.policy does not include delete",
        )
    with partition.noticing_failure() as log:
        log.delete_before(log.exposed_offset if offset == _END else offset)
    partition.flush()  # unlinks the removed segments
    return log.start_offset
