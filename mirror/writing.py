"""What a lane does with what a source sends, by what its target is.

Penstock's brokers take batches at the offsets that they have (`OffsetsKept`); what Apache Kafka
takes is in mirror/kafka_target.
"""

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from client.committed import READ_UNCOMMITTED
from client.fetch_session import Key
from client.leader_connection import LeaderConnection
from client.mirrored_produce import MirroredBatches, mirrored_body
from mirror.batches import Cut, cut
from mirror.partition import CopiedPartition
from wire.messages import produce
from wire.messages.fetch import PartitionData
from wire.messages.produce import PartitionProduceResponse, ProduceResponse
from wire.slices import FileSlice

_COMMIT_MS: Final = 5_000  # after which a partition that holds up others is told
_ANSWER_S: Final = 30.0

Answered = dict[Key, PartitionProduceResponse]
"""What the target says, by its names."""


class Writing(Protocol):
    """Of one lane."""

    @property
    def isolation_level(self) -> int:
        """At which the source is read."""

    def cut(self, partition: CopiedPartition, data: PartitionData) -> Cut:
        """What of an answer of the source goes out."""

    def put(
        self, pieces: Sequence[tuple[CopiedPartition, Cut]], target: LeaderConnection
    ) -> Awaitable[Answered]:
        """On its way behind what was put before; to be awaited once. Both raise ClientError."""


class OffsetsKept:
    """The same bytes, at the same offsets."""

    isolation_level = READ_UNCOMMITTED

    def cut(self, partition: CopiedPartition, data: PartitionData) -> Cut:
        assert not isinstance(data.records, FileSlice)  # those only leave
        records = memoryview(data.records or b"")
        return cut(records, partition.position, gaps=partition.compacts)

    def put(
        self, pieces: Sequence[tuple[CopiedPartition, Cut]], target: LeaderConnection
    ) -> Awaitable[Answered]:
        topics: dict[str, list[MirroredBatches]] = {}
        for partition, found in pieces:
            topic, index = partition.here
            topics.setdefault(topic, []).append(MirroredBatches(index, found.data))
        version = target.version(produce.API)
        body = mirrored_body(version, _COMMIT_MS, topics)
        return _results(target.put(produce.API, version, body, _ANSWER_S))


async def _results(answered: Awaitable[ProduceResponse]) -> Answered:
    answer = await answered
    return {
        (topic.name, each.index): each
        for topic in answer.responses
        for each in topic.partition_responses
    }
