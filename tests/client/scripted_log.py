"""One partition with a scripted log, led by one of two scripted brokers.

For situations that no real broker produces on demand: a change of leader, diverging logs, holes.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from tests.client.scripted_broker import Answer, ScriptedBroker, frame, greeting
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.requests import has_tagged_header, read_body, read_header
from wire.messages import (
    api_versions,
    describe_configs,
    fetch,
    find_coordinator,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
)
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ResourceType,
)
from wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from wire.record_batches.batch import read_header as batch_header

TOPIC = "t"
SERVED: dict[Api[Any, Any], tuple[int, int]] = {
    fetch.API: (4, 12),
    metadata.API: (0, 12),
    api_versions.API: (0, 3),
    offset_for_leader_epoch.API: (2, 4),
    describe_configs.API: (1, 4),
    find_coordinator.API: (0, 3),
    offset_commit.API: (2, 8),
}
_APIS = {api.key: api for api in SERVED}


class ScriptedLog(msgspec.Struct):
    """The brokers' answers, and the requests that they received."""

    batches: Sequence[bytes] = ()
    end: int = 0
    start: int = 0
    topic_id: UUID = msgspec.field(default_factory=lambda: UUID(int=1))
    leader: int = 1
    epoch: int = 0
    epoch_ends: dict[int, int] = {}
    aborted: tuple[AbortedTransaction, ...] = ()
    cut: bool = False  # an answer ends within a batch, if there is one more
    hang_up: int = 0  # so many fetches end with their connection
    throttled: int = 0  # so many fetches are answered with nothing
    slow: int = 0  # so many fetches are answered without records, as from tiered storage
    cleanup: str = "delete"  # the policy; empty if nobody may know it
    described: int = 0  # so often the policy was asked for
    brokers: dict[int, ScriptedBroker] = {}
    fetches: list[tuple[int, int]] = []  # broker and offset
    served: int = 0  # bytes of batches
    consumed: dict[int, int] = {}  # by partition, by any group

    def answer(self, broker: int, request: memoryview) -> bytes | None:
        header = read_header(request)
        if header.api_key == api_versions.API.key:
            return greeting(request, {api.key: versions for api, versions in SERVED.items()})
        api, version = _APIS[header.api_key], header.api_version
        asked = api.decode_request(version, read_body(request, flexible=api.is_flexible(version)))
        if api is fetch.API and self.hang_up:
            self.hang_up -= 1
            return None
        body = bytes(api.encode_response(version, self._said(broker, asked)))
        return frame(header.correlation_id, body, tagged=has_tagged_header(api, version))

    def _said(self, broker: int, asked: object) -> object:
        match asked:
            case FetchRequest():
                return self._fetched(broker, asked)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ended(asked)
            case DescribeConfigsRequest():
                return self._configs()
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(node_id=self.leader)
            case OffsetCommitRequest():
                return self._committed(asked)
        return self._metadata()

    def _metadata(self) -> MetadataResponse:
        brokers = tuple(
            MetadataResponseBroker(node_id=number, host=each.address.host, port=each.address.port)
            for number, each in self.brokers.items()
        )
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader, leader_epoch=self.epoch
        )
        topic = MetadataResponseTopic(name=TOPIC, topic_id=self.topic_id, partitions=(partition,))
        return MetadataResponse(brokers=brokers, topics=(topic,))

    def _epoch_ended(self, asked: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        epoch = asked.topics[0].partitions[0].leader_epoch
        ended = EpochEndOffset(
            partition=0, leader_epoch=epoch, end_offset=self.epoch_ends.get(epoch, -1)
        )
        topic = OffsetForLeaderTopicResult(topic=TOPIC, partitions=(ended,))
        return OffsetForLeaderEpochResponse(topics=(topic,))

    def _committed(self, asked: OffsetCommitRequest) -> OffsetCommitResponse:
        """The committed offset of the only partition."""
        (topic,) = asked.topics
        answers = []
        for each in topic.partitions:
            known = not each.partition_index
            if known:
                self.consumed[each.partition_index] = each.committed_offset
            code = ErrorCode.none if known else ErrorCode.unknown_topic_or_partition
            answers.append(
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            )
        said = OffsetCommitResponseTopic(name=topic.name, partitions=tuple(answers))
        return OffsetCommitResponse(topics=(said,))

    def _configs(self) -> DescribeConfigsResponse:
        self.described += 1
        policy = DescribeConfigsResourceResult(name="cleanup.policy", value=self.cleanup)
        refused = ErrorCode.topic_authorization_failed
        result = DescribeConfigsResult(
            error_code=ErrorCode.none if self.cleanup else refused,
            resource_type=ResourceType.TOPIC,
            resource_name=TOPIC,
            configs=(policy,) if self.cleanup else (),
        )
        return DescribeConfigsResponse(results=(result,))

    def _fetched(self, broker: int, asked: FetchRequest) -> FetchResponse:
        wanted = asked.topics[0].partitions[0]
        self.fetches.append((broker, wanted.fetch_offset))
        if self.throttled:
            self.throttled -= 1
            return FetchResponse(responses=())
        code, records = ErrorCode.none, b""
        if broker != self.leader:
            code = ErrorCode.not_leader_or_follower
        elif 0 <= wanted.current_leader_epoch < self.epoch:
            code = ErrorCode.fenced_leader_epoch
        elif not self.start <= wanted.fetch_offset <= self.end:
            code = ErrorCode.offset_out_of_range
        elif self.slow:
            self.slow -= 1
        else:
            records = self._read(wanted.fetch_offset, wanted.partition_max_bytes)
            self.served += len(records)
        data = PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=self.end + 1,
            last_stable_offset=self.end,
            aborted_transactions=self.aborted,
            records=records,
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic=TOPIC, partitions=(data,)),))

    def _read(self, offset: int, most: int) -> bytes:
        found = b""
        for batch in self.batches:
            if batch_header(batch).base_offset < batch_header(batch).next_offset <= offset:
                continue
            if found and len(found) + len(batch) > most:
                return found + batch[: len(batch) // 2] * self.cut
            found += batch
        return found


@contextmanager
def scripted_log(*, patience_seconds: float = 30.0) -> Iterator[tuple[ScriptedLog, Brokers]]:
    """Brokers 1 and 2, and a client of them."""
    log = ScriptedLog()
    with ExitStack() as stack:
        for number in (1, 2):
            answer: Answer = partial(log.answer, number)
            log.brokers[number] = stack.enter_context(ScriptedBroker([answer] * 100_000))
        addresses = tuple(each.address for each in log.brokers.values())
        yield (
            log,
            stack.enter_context(Brokers(Bootstrap(addresses), patience_seconds=patience_seconds)),
        )
