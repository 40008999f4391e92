"""OffsetCommit (key 8), versions 2–8.

Answered when the offsets are durable: they then survive the death of any broker. An offset that
cannot be committed (missing topic, or no right to read it) does not affect the others. The
retention time that versions 2 to 4 may name is ignored in favour of the broker's.
"""

import time

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.api import group_requests
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import client_of
from broker.groups.coordinator import Coordinator
from cluster.values import CommittedOffset, TopicPartition
from cluster.view import ClusterView
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


class Needs(msgspec.Struct, frozen=True):
    groups: Coordinator
    cluster: ClusterView
    authorization: Authorization
    most_metadata: int
    """The maximal size of an offset's metadata, in bytes."""


async def handle(
    needs: Needs, request: OffsetCommitRequest, caller: Caller
) -> OffsetCommitResponse:
    rights = needs.authorization.of(caller)
    if group_requests.refuses(rights, Operation.READ, request.group_id):
        return _answer(request, {}, group_requests.REFUSED)
    error_codes: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    now = time.time_ns() // 1_000_000
    for topic in request.topics:
        topic_code = _topic_code(needs, rights, topic.name)
        for requested_partition in topic.partitions:
            partition = TopicPartition(topic.name, requested_partition.partition_index)
            code = topic_code or _fault(needs, topic.name, requested_partition)
            if code:
                error_codes[partition] = code
            else:
                offsets[partition] = CommittedOffset(
                    offset=requested_partition.committed_offset,
                    leader_epoch=requested_partition.committed_leader_epoch,
                    metadata=requested_partition.committed_metadata or "",
                    committed_ms=now,
                )
    try:
        code = await needs.groups.commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            offsets,
            client=client_of(caller),
        )
    except ApiError as error:
        code = error.code
    return _answer(request, error_codes, code)


def _topic_code(needs: Needs, rights: Rights, topic: str) -> ErrorCode:
    try:
        rights.check_topic(Operation.READ, topic)
    except ApiError as error:
        return error.code
    exists = topic in needs.cluster.snapshot.topics
    return ErrorCode.none if exists else ErrorCode.unknown_topic_or_partition


def _fault(needs: Needs, topic: str, asked: OffsetCommitRequestPartition) -> ErrorCode:
    info = needs.cluster.snapshot.topics.get(topic)
    if info is None or not 0 <= asked.partition_index < len(info.partitions):
        return ErrorCode.unknown_topic_or_partition
    if len((asked.committed_metadata or "").encode()) > needs.most_metadata:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


def _answer(
    request: OffsetCommitRequest, refused: dict[TopicPartition, ErrorCode], others: ErrorCode
) -> OffsetCommitResponse:
    def code(topic: str, index: int) -> ErrorCode:
        return refused.get(TopicPartition(topic, index), others)

    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=code(topic.name, partition.partition_index),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
