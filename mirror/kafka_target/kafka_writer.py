"""Writes the batches of a lane to Apache Kafka.

    data from the source ─▶ new batch headers ─▶ new runs to the map ─▶ Produce, one batch of each
    partition at a time

Rule 1: Apache Kafka accepts one batch of a partition per request. So the batches of a response are
        sent in rounds; several are in flight, in order, on one connection.
Rule 2: if the target refuses a batch, it refuses the ones after it by their sequence numbers. The
        partition leaves the lane, and resumes (resume_points.py).
Rule 3: responses of the source are sent one after the other, in order.
Rule 4: each batch must get the offset that the map has for it. If not, another producer has written
        to the copy.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from client.connection.leader_connection import LeaderConnection
from client.producing.mirrored_produce import MirroredBatches, mirrored_body
from client.reading.committed import READ_COMMITTED
from client.reading.fetch_session import Key
from mirror.kafka_target.map_topic import MapTopic, TargetPartition
from mirror.kafka_target.outgoing import Footing, Taken, take
from mirror.kafka_target.runs import Page
from mirror.partitions.partition import CopiedPartition
from mirror.partitions.whole_batches import Cut
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.messages import produce
from wire.messages.fetch import PartitionData
from wire.messages.produce import PartitionProduceResponse, ProduceResponse

_ROUNDS: Final = 8  # in flight
_COMMIT_MS: Final = 15_000
_ANSWER_S: Final = 30.0
_TAKEN_OVER: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
_NEVER: Final = frozenset({ErrorCode.invalid_timestamp, ErrorCode.record_list_too_large})
_LOST_SEQUENCE: Final = frozenset(
    {ErrorCode.out_of_order_sequence_number, ErrorCode.duplicate_sequence_number}
)

Answered = dict[Key, PartitionProduceResponse]


class _OutgoingPartition(NamedTuple):
    """The outgoing batches of one partition, with the footing for which they were prepared, even if
    the partition has resumed since."""

    key: Key
    footing: Footing
    taken: Taken

    def goes(self, number: int) -> bool:
        return number < len(self.taken.batches) and not self.footing.is_over


class KafkaWriter:
    """The writer of one lane. Belongs to the event loop."""

    isolation_level = READ_COMMITTED

    def __init__(
        self,
        footings: Mapping[Key, Footing],
        map_topic: MapTopic,
        place: Callable[[Key], TargetPartition],
        threads: Executor,
    ) -> None:
        self._footings = footings
        self._map = map_topic
        self._place = place
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()

    def cut(self, partition: CopiedPartition, data: PartitionData) -> Cut:
        """The outgoing batches of a response."""
        assert not isinstance(data.records, FileSlice)  # used only for sending
        return take(
            memoryview(data.records or b""),
            partition.position,
            self._footings[partition.here],
            data.aborted_transactions,
            gaps=partition.compacts,
        )

    def put(
        self, pieces: Sequence[tuple[CopiedPartition, Cut]], target: LeaderConnection
    ) -> Awaitable[Answered]:
        """Sends these batches after the earlier ones. The result must be awaited once."""
        outgoing = [
            _OutgoingPartition(partition.here, self._footings[partition.here], batches)
            for partition, batches in pieces
            if isinstance(batches, Taken)
        ]
        return self._loop.create_task(self._put(outgoing, target))

    async def _put(
        self, outgoing: Sequence[_OutgoingPartition], target: LeaderConnection
    ) -> Answered:
        results_by_key: Answered = {}
        pending: deque[tuple[int, asyncio.Future[ProduceResponse]]] = deque()

        async def settle_oldest() -> None:
            number, answer = pending[0]
            self._note(results_by_key, number, outgoing, await answer)
            pending.popleft()

        try:
            async with self._turn:
                await self._write_down(outgoing)
                rounds = max((len(partition.taken.batches) for partition in outgoing), default=0)
                for number in range(rounds):
                    if len(pending) >= _ROUNDS:
                        await settle_oldest()
                    senders = [partition for partition in outgoing if partition.goes(number)]
                    if senders:
                        pending.append((number, _round(number, senders, target)))
            while pending:
                await settle_oldest()
        except BaseException:
            for partition in outgoing:
                partition.footing.is_over = True
            await asyncio.gather(*(answer for _, answer in pending), return_exceptions=True)
            raise
        for key, footing, taken in outgoing:
            if footing.is_over:
                results_by_key.setdefault(key, _refusal(key, "an earlier batch was refused"))
            else:
                results_by_key[key] = PartitionProduceResponse(index=key[1])
                footing.written = taken.behind
        return results_by_key

    def _note(
        self,
        results_by_key: Answered,
        number: int,
        outgoing: Sequence[_OutgoingPartition],
        answer: ProduceResponse,
    ) -> None:
        """Keep the first refusal of a partition: it is the reason for the later ones."""
        results = {
            (topic.name, partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }
        for key, footing, taken in outgoing:
            if number < len(taken.batches) and key in results and key not in results_by_key:
                result = _judged(results[key], taken.places[number])
                if result.error_code is not ErrorCode.none:
                    footing.is_over = True
                    results_by_key[key] = result

    async def _write_down(self, outgoing: Sequence[_OutgoingPartition]) -> None:
        pages = [
            (self._place(key), Page(footing.writer, tuple(taken.runs)))
            for key, footing, taken in outgoing
            if taken.runs and not footing.is_over
        ]
        if pages:
            await self._loop.run_in_executor(self._threads, self._map.write, pages)


def _round(
    number: int, senders: Sequence[_OutgoingPartition], target: LeaderConnection
) -> "asyncio.Future[ProduceResponse]":
    topics: dict[str, list[MirroredBatches]] = {}
    for (topic, index), _, taken in senders:
        head, records = taken.batches[number]
        topics.setdefault(topic, []).append(MirroredBatches(index, records, head))
    version = target.version(produce.API)
    body = mirrored_body(version, _COMMIT_MS, topics, transactional_id=None)
    return target.put(produce.API, version, body, _ANSWER_S)


def _judged(result: PartitionProduceResponse, place: int) -> PartitionProduceResponse:
    code, key = result.error_code, ("", result.index)
    message = result.error_message or code.name.replace("_", " ")
    if code is ErrorCode.none and result.base_offset != place:
        message = (
            f"the message for offset {place} of the copy got {result.base_offset}: another "
            "producer has written to the copy"
        )
        return _refusal(key, message, _STOPS)
    if code in _TAKEN_OVER:
        return _refusal(key, "another worker of this mirror has taken over the partition", _STOPS)
    if code in _NEVER:
        return _refusal(key, message, _STOPS)
    return _refusal(key, message) if code in _LOST_SEQUENCE else result


def _refusal(
    key: Key, message: str, code: ErrorCode = ErrorCode.unknown_producer_id
) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=key[1], error_code=code, error_message=message)


_STOPS: Final = ErrorCode.invalid_record
