"""OffsetForLeaderEpoch (key 23), versions 2–4.

Where a leader's epoch ended in this log, so that a consumer or follower learns how far its history
and this one are the same. An epoch above all that are known has no answer (-1, -1); for one that
left nothing here, the nearest below it answers.
"""

from broker.caller import Caller
from broker.errors import ApiError
from broker.partitions import Partitions
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    partitions: Partitions, request: OffsetForLeaderEpochRequest, _caller: Caller
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_find(partitions, topic.topic, each) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _find(partitions: Partitions, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = partitions.find(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    log = partition.log
    epoch, end_offset = log.epochs.end_offset_for(asked.leader_epoch, log.end_offset)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
