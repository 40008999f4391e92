"""ListOffsets (key 2), versions 1–7.

The offset of the first record that is not older than a timestamp, of the beginning (-2), of the end
of what consumers can read (-1), or of the record with the greatest timestamp (-3). Without such a
record, offset and timestamp are -1. Both isolation levels see the same end, but a client that asks
for committed messages only is not told that of a copy that holds transactions. For a follower, the
end is that of the log. Records acknowledged with acks=1 are flushed first if the answer depends on
them.

A leader that does not yet know everything that was committed before its epoch returns an error,
rather than an end that a consumer may have passed (KIP-207).

A timestamp is looked up in the indexes and then in one batch, which may have to be decompressed.

Not here: version 0 (several offsets for each partition), special timestamps of later versions.
"""

from collections import Counter
from collections.abc import Awaitable, Iterable

import msgspec

from broker.access.authorization import Authorization
from broker.api.exposure import exposed
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.replicas.partition import Partition
from broker.replicas.partitions import Partitions
from broker.storage.errors import StorageError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    authorization: Authorization


def handle(
    needs: Needs, request: ListOffsetsRequest, caller: Caller
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    lagging_partitions: list[Partition] = []
    response = _answer(needs, request, caller, lagging_partitions)
    return (
        _answer_exposed(needs, request, caller, lagging_partitions)
        if lagging_partitions
        else response
    )


async def _answer_exposed(
    needs: Needs, request: ListOffsetsRequest, caller: Caller, behind: Iterable[Partition]
) -> ListOffsetsResponse:
    await exposed(behind)
    return _answer(needs, request, caller, [])


def _answer(
    needs: Needs, request: ListOffsetsRequest, caller: Caller, behind: list[Partition]
) -> ListOffsetsResponse:
    """Adds to `behind` the partitions whose answer may change by exposing more."""
    rights = needs.authorization.of(caller)
    partition_counts = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )

    def find(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        try:
            if partition_counts[topic, index] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate partition in request.")
            rights.check_topic(Operation.DESCRIBE, topic)
            partition = needs.partitions.find(topic, index)
            partition.check_leader(asked.current_leader_epoch)
            partition.check_isolation(request.isolation_level)
            is_follower = request.replica_id >= 0
            answer = _find(partition, asked, caller, is_follower=is_follower)
            is_end = asked.timestamp in {LATEST, MAX_TIMESTAMP} or answer.offset < 0
            hides_records = partition.acknowledged_end > partition.log.exposed_offset
            if is_end and hides_records and not is_follower:
                behind.append(partition)
            return answer
        except (ApiError, StorageError) as error:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)

    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(find(topic.name, partition) for partition in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _find(
    partition: Partition, asked: ListOffsetsPartition, caller: Caller, *, is_follower: bool
) -> ListOffsetsPartitionResponse:
    log, index, timestamp = partition.log, asked.partition_index, asked.timestamp
    if timestamp == LATEST:
        if not is_follower:
            _check_committed(partition)
        return ListOffsetsPartitionResponse(
            partition_index=index,
            offset=log.end_offset if is_follower else log.exposed_offset,
            leader_epoch=partition.leader_epoch,
        )
    if timestamp == EARLIEST:
        return ListOffsetsPartitionResponse(
            partition_index=index,
            offset=log.start_offset,
            leader_epoch=log.epochs.epoch_for(log.start_offset),
        )
    if timestamp == MAX_TIMESTAMP:
        record = partition.latest_timestamp(caller)
    elif timestamp >= 0:
        record = partition.offset_for_timestamp(timestamp, caller)
    else:
        raise ApiError(ErrorCode.unsupported_version, f"timestamp {timestamp} is not supported")
    if record is None:
        _check_committed(partition)
        return ListOffsetsPartitionResponse(partition_index=index)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=record.timestamp,
        offset=record.offset,
        leader_epoch=record.leader_epoch,
    )


def _check_committed(partition: Partition) -> None:
    if not partition.knows_committed:
        raise ApiError(
            ErrorCode.offset_not_available,
            f"{partition.topic}-{partition.index}: the new leader does not yet know the committed "
            "offset",
        )
