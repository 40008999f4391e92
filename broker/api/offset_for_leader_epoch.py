"""OffsetForLeaderEpoch (key 23), versions 2–4.

Where a leader's epoch ended in this log, so that a consumer or follower learns how far its history
agrees with this one. An epoch above all known ones has no answer (-1, -1); for one without batches
here, the nearest lower epoch answers. Only the leader answers.

Consumers need DESCRIBE on the topic; brokers need CLUSTER_ACTION on the cluster.
"""

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.replicas.partition import Partition
from broker.replicas.partitions import Partitions
from broker.storage.state.epochs import NO_EPOCH
from wire.acls import Operation
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    authorization: Authorization


def handle(
    needs: Needs, request: OffsetForLeaderEpochRequest, caller: Caller
) -> OffsetForLeaderEpochResponse:
    rights = needs.authorization.of(caller)
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _find(needs.partitions, rights, topic.topic, partition)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _find(
    partitions: Partitions, rights: Rights, topic: str, asked: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        if not rights.may_on_cluster(Operation.CLUSTER_ACTION):
            rights.check_topic(Operation.DESCRIBE, topic)
        partition = partitions.find(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    epoch, end_offset = end_of_epoch(partition, asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def end_of_epoch(partition: Partition, epoch: int) -> tuple[int, int]:
    """Returns the largest epoch not above the requested one, and its end offset; (-1, -1) if they
    are unknown.

    A leader's own epoch begins at its log's end even before it has a batch: epochs between it and
    the previous one have no batches here.
    """
    log = partition.log
    latest_epoch = log.epochs.latest
    if partition.leads and latest_epoch < epoch < partition.leader_epoch:
        return (latest_epoch if latest_epoch != NO_EPOCH else epoch), log.end_offset
    return log.epochs.end_offset_for(epoch, log.end_offset)
