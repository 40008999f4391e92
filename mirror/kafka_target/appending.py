"""What a lane does where its target is Apache Kafka.

    what the source sent ─▶ headers written anew ─▶ new runs to the map ─▶ Produce, a batch of each
    partition at a time

Rule 1: Apache Kafka takes one batch of a partition in a request. So what came at once goes out in
        rounds, some of which are under way at a time, in order, on one connection.
Rule 2: if a batch is refused, the target refuses those behind it by their sequences. The partition
        leaves the lane, and begins anew (beginnings.py).
Rule 3: what comes of the source later goes out later: one answer after the other.
Rule 4: each batch must come to lie where the map has it. If it does not, somebody else has written
        to the copy.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from client.committed import READ_COMMITTED
from client.fetch_session import Key
from client.leader_connection import LeaderConnection
from client.mirrored_produce import MirroredBatches, mirrored_body
from mirror.batches import Cut
from mirror.kafka_target.map_topic import MapTopic, Place
from mirror.kafka_target.runs import Page
from mirror.kafka_target.taking import Footing, Taken, take
from mirror.partition import CopiedPartition
from wire.errors import ErrorCode
from wire.messages import produce
from wire.messages.fetch import PartitionData
from wire.messages.produce import PartitionProduceResponse, ProduceResponse
from wire.slices import FileSlice

_ROUNDS: Final = 8  # under way
_COMMIT_MS: Final = 15_000
_ANSWER_S: Final = 30.0
_TAKEN_OVER: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
_NEVER: Final = frozenset({ErrorCode.invalid_timestamp, ErrorCode.record_list_too_large})
_ANEW: Final = frozenset(
    {ErrorCode.out_of_order_sequence_number, ErrorCode.duplicate_sequence_number}
)

Answered = dict[Key, PartitionProduceResponse]


class _Going(NamedTuple):
    """What goes out of one partition. The footing is that by which it was taken, whoever begins
    there meanwhile."""

    key: Key
    footing: Footing
    found: Taken

    def goes(self, number: int) -> bool:
        return number < len(self.found.batches) and not self.footing.is_over


class Appending:
    """Of one lane. Belongs to the event loop."""

    isolation_level = READ_COMMITTED

    def __init__(
        self,
        footings: Mapping[Key, Footing],
        map_topic: MapTopic,
        place: Callable[[Key], Place],
        threads: Executor,
    ) -> None:
        self._footings = footings
        self._map = map_topic
        self._place = place
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()

    def cut(self, partition: CopiedPartition, data: PartitionData) -> Cut:
        """What of an answer goes out."""
        assert not isinstance(data.records, FileSlice)  # those only leave
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
        """On its way behind what was put before; awaited once."""
        taken = [
            _Going(partition.here, self._footings[partition.here], found)
            for partition, found in pieces
            if isinstance(found, Taken)
        ]
        return self._loop.create_task(self._put(taken, target))

    async def _put(self, taken: Sequence[_Going], target: LeaderConnection) -> Answered:
        answered: Answered = {}
        under_way: deque[tuple[int, asyncio.Future[ProduceResponse]]] = deque()

        async def one() -> None:
            number, answer = under_way[0]
            self._note(answered, number, taken, await answer)
            under_way.popleft()

        try:
            async with self._turn:
                await self._write_down(taken)
                for number in range(max((len(each.found.batches) for each in taken), default=0)):
                    if len(under_way) >= _ROUNDS:
                        await one()
                    going = [each for each in taken if each.goes(number)]
                    if going:
                        under_way.append((number, _round(number, going, target)))
            while under_way:
                await one()
        except BaseException:
            for each in taken:
                each.footing.is_over = True
            await asyncio.gather(*(answer for _, answer in under_way), return_exceptions=True)
            raise
        for key, footing, found in taken:
            if footing.is_over:
                answered.setdefault(key, _refusal(key, "what went before was refused"))
            else:
                answered[key] = PartitionProduceResponse(index=key[1])
                footing.written = found.behind
        return answered

    def _note(
        self, answered: Answered, number: int, taken: Sequence[_Going], answer: ProduceResponse
    ) -> None:
        """The first that was refused of a partition counts: what is behind it was, for that."""
        said = {
            (topic.name, each.index): each
            for topic in answer.responses
            for each in topic.partition_responses
        }
        for key, footing, found in taken:
            if number < len(found.batches) and key in said and key not in answered:
                judged = _judged(said[key], found.places[number])
                if judged.error_code is not ErrorCode.none:
                    footing.is_over = True
                    answered[key] = judged

    async def _write_down(self, taken: Sequence[_Going]) -> None:
        pages = [
            (self._place(key), Page(footing.writer, tuple(found.runs)))
            for key, footing, found in taken
            if found.runs and not footing.is_over
        ]
        if pages:
            await self._loop.run_in_executor(self._threads, self._map.write, pages)


def _round(
    number: int, going: Sequence[_Going], target: LeaderConnection
) -> "asyncio.Future[ProduceResponse]":
    topics: dict[str, list[MirroredBatches]] = {}
    for (topic, index), _, found in going:
        head, records = found.batches[number]
        topics.setdefault(topic, []).append(MirroredBatches(index, records, head))
    version = target.version(produce.API)
    body = mirrored_body(version, _COMMIT_MS, topics, transactional_id=None)
    return target.put(produce.API, version, body, _ANSWER_S)


def _judged(said: PartitionProduceResponse, place: int) -> PartitionProduceResponse:
    code, key = said.error_code, ("", said.index)
    message = said.error_message or code.name.replace("_", " ")
    if code is ErrorCode.none and said.base_offset != place:
        message = (
            f"what belongs to offset {place} of the copy has come to {said.base_offset}: somebody "
            "else has written there"
        )
        return _refusal(key, message, _STOPS)
    if code in _TAKEN_OVER:
        return _refusal(key, "another worker of this mirror has taken the partition", _STOPS)
    if code in _NEVER:
        return _refusal(key, message, _STOPS)
    return _refusal(key, message) if code in _ANEW else said


def _refusal(
    key: Key, message: str, code: ErrorCode = ErrorCode.unknown_producer_id
) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=key[1], error_code=code, error_message=message)


_STOPS: Final = ErrorCode.invalid_record
