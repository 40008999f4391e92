"""Writes the batches of a lane to its target, by the kind of target.

Penstock's brokers take batches at their offsets (`OffsetsKept`); for Apache Kafka see
mirror/kafka_target.
"""

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from client.connection.leader_connection import LeaderConnection
from client.producing.mirrored_produce import MirroredBatches, mirrored_body
from client.reading.committed import READ_UNCOMMITTED
from client.reading.fetch_session import Key
from mirror.partitions.partition import CopiedPartition
from mirror.partitions.whole_batches import Cut, cut
from wire.framing.slices import FileSlice
from wire.messages import produce
from wire.messages.fetch import PartitionData
from wire.messages.produce import PartitionProduceResponse, ProduceResponse

_COMMIT_MS: Final = 5_000  # after which a partition that holds up others times out
_ANSWER_S: Final = 30.0

Answered = dict[Key, PartitionProduceResponse]
"""The target's results, by its names."""


class TargetWriter(Protocol):
    """The writer of one lane."""

    @property
    def isolation_level(self) -> int:
        """The isolation level for reading the source."""

    def cut(self, partition: CopiedPartition, data: PartitionData) -> Cut:
        """The outgoing batches of a response."""

    def put(
        self, pieces: Sequence[tuple[CopiedPartition, Cut]], target: LeaderConnection
    ) -> Awaitable[Answered]:
        """Sends these pieces after the earlier ones. The result must be awaited once. Sending and
        awaiting raise ClientError."""


class OffsetsKept:
    """Writes the same bytes at the same offsets."""

    isolation_level = READ_UNCOMMITTED

    def cut(self, partition: CopiedPartition, data: PartitionData) -> Cut:
        assert not isinstance(data.records, FileSlice)  # used only for sending
        records = memoryview(data.records or b"")
        return cut(records, partition.position, gaps=partition.compacts)

    def put(
        self, pieces: Sequence[tuple[CopiedPartition, Cut]], target: LeaderConnection
    ) -> Awaitable[Answered]:
        topics: dict[str, list[MirroredBatches]] = {}
        for partition, batches in pieces:
            topic, index = partition.here
            topics.setdefault(topic, []).append(MirroredBatches(index, batches.data))
        version = target.version(produce.API)
        body = mirrored_body(version, _COMMIT_MS, topics)
        return _results(target.put(produce.API, version, body, _ANSWER_S))


async def _results(answered: Awaitable[ProduceResponse]) -> Answered:
    answer = await answered
    return {
        (topic.name, partition.index): partition
        for topic in answer.responses
        for partition in topic.partition_responses
    }
