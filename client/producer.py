"""Messages into a topic: collected into batches, sent to the leaders, acknowledged.

A batch is built once. If its fate is unknown (the connection broke, the leader moved) the same
bytes are sent again; with acks=all the batch carries a producer id and a sequence, so that the
broker answers a second arrival with the first one's offset. One batch of a partition is under way
at a time, so that nothing overtakes; the leaders work at the same time.

One thread. What was not flushed when the process ends was not sent.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from aiokafka.partitioner import murmur2

from client.brokers import Brokers
from client.connection import REQUEST_SECONDS, Connection, Pending
from client.errors import ClientError, ErrorCode, check
from wire.batch import NO_PRODUCER, NO_SEQUENCE, next_sequence
from wire.messages import init_producer_id, produce
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from wire.records import Codec, Record, build_batch

BATCH_BYTES: Final = 256 * 1024
_TIMEOUT_MS: Final = 25_000
_RECORD_OVERHEAD: Final = 24  # lengths, deltas and attributes of a record, roughly


class Acks(IntEnum):
    """Whose word a producer waits for."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Identity(NamedTuple):
    """Under which a producer numbers its batches. A newer epoch of the same id fences it off."""

    producer_id: int
    epoch: int


class Delivered(NamedTuple):
    """A batch that the broker has taken; the offset is unknown where nobody answers."""

    partition: int
    base_offset: int | None
    messages: int


_NOBODY: Final = Identity(NO_PRODUCER, -1)


@dataclass(slots=True)
class _Collecting:
    """What will become a partition's next batch."""

    records: list[Record] = field(default_factory=list)
    size: int = 0


class Producer:
    """Writes to one topic, which is created if the broker allows that.

    After an error the fate of what was not acknowledged is open: the producer is of no further use.
    """

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        *,
        acks: Acks = Acks.ALL,
        codec: Codec = Codec.NONE,
        batch_bytes: int = BATCH_BYTES,
        create: bool = True,
        identity: Identity | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """With acks=ALL it takes a new producer id, or `identity`, which must be new in its epoch.

        No answer within `request_seconds`: the batch is sent again.
        """
        self.topic = topic
        self._brokers = brokers
        self._acks = acks
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._request_seconds = request_seconds
        self._found = brokers.topic(topic, create=create)
        self._partitions = len(self._found.partitions)
        self._collecting: dict[int, _Collecting] = {}
        self._unkeyed = itertools.cycle(range(self._partitions))
        self._current = next(self._unkeyed)
        self._sequences = dict.fromkeys(range(self._partitions), 0)
        self._identity = _NOBODY
        if acks is Acks.ALL:
            self._identity = identity or take_identity(brokers)

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> list[Delivered]:
        """Adds a message; when its batch is full, everything collected is sent."""
        if partition is None:
            partition = self._partition_of(key)
        self._found.partition(partition)  # raises unless the topic has it
        collecting = self._collecting.setdefault(partition, _Collecting())
        now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        record = Record(len(collecting.records), now, key, value, tuple(headers))
        collecting.records.append(record)
        collecting.size += len(value or b"") + len(key or b"") + _RECORD_OVERHEAD
        if collecting.size < self._batch_bytes:
            return []
        return self.flush()

    def flush(self) -> list[Delivered]:
        """Sends what was collected and waits for the acknowledgements that were asked for."""
        collected = {
            partition: collecting.records for partition, collecting in self._collecting.items()
        }
        self._collecting.clear()
        self._current = next(self._unkeyed)
        batches = {
            partition: self._build(partition, messages) for partition, messages in collected.items()
        }
        offsets = self._deliver(batches) if batches else {}
        for partition, messages in collected.items():
            self._sequences[partition] = next_sequence(self._sequences[partition], len(messages))
        return [
            Delivered(partition, offsets[partition], len(messages))
            for partition, messages in collected.items()
        ]

    def _partition_of(self, key: bytes | None) -> int:
        """By the key, as all of Kafka's clients do it; without one, a batch's worth to each."""
        if key is None:
            return self._current
        hashed: int = murmur2(key)
        return (hashed & 0x7FFFFFFF) % self._partitions

    def _build(self, partition: int, messages: Sequence[Record]) -> bytes:
        return build_batch(
            messages,
            codec=self._codec,
            leader_epoch=-1,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=(self._sequences[partition] if self._acks is Acks.ALL else NO_SEQUENCE),
        )

    def _deliver(self, batches: dict[int, bytes]) -> dict[int, int | None]:
        """The base offset of each batch, once all are acknowledged."""
        offsets: dict[int, int | None] = {}
        stale = False

        def attempt() -> dict[int, int | None]:
            nonlocal stale
            if stale:
                self._brokers.refresh([self.topic])
            stale = True
            missing = [partition for partition in batches if partition not in offsets]
            answers: list[tuple[Connection, Pending[ProduceResponse]]] = []
            failures: list[ClientError] = []
            for leader, led in self._brokers.leaders(self.topic, missing).items():
                request = self._request({partition: batches[partition] for partition in led})
                try:
                    connection = self._brokers.broker(leader)
                    if self._acks is Acks.NONE:
                        connection.send_unanswered(produce.API, request)
                        offsets.update(dict.fromkeys(led))
                    else:
                        answers.append((connection, self._send(connection, request)))
                except ClientError as error:
                    failures.append(error)
            for connection, pending in answers:
                try:
                    _take(connection.receive(pending), offsets, failures)
                except ClientError as error:
                    failures.append(error)
            # A failure that trying again cannot cure comes first.
            for failure in sorted(failures, key=lambda error: error.retriable):
                raise failure
            return offsets

        return self._brokers.persist(attempt)

    def _send(self, connection: Connection, request: ProduceRequest) -> Pending[ProduceResponse]:
        return connection.send(produce.API, request, within=self._request_seconds)

    def _request(self, batches: dict[int, bytes]) -> ProduceRequest:
        partitions = tuple(
            PartitionProduceData(index=partition, records=memoryview(batch))
            for partition, batch in batches.items()
        )
        return ProduceRequest(
            acks=self._acks,
            timeout=_TIMEOUT_MS,
            topic_data=(TopicProduceData(name=self.topic, partition_data=partitions),),
        )


def take_identity(brokers: Brokers) -> Identity:
    """A producer id that nobody had before."""

    def attempt() -> Identity:
        answer = brokers.call_any(init_producer_id.API, InitProducerIdRequest())
        check(answer.error_code, "producer id")
        return Identity(answer.producer_id, answer.producer_epoch)

    return brokers.persist(attempt)


def _take(
    answer: ProduceResponse, offsets: dict[int, int | None], failures: list[ClientError]
) -> None:
    """Notes what became of each batch."""
    for topic in answer.responses:
        for each in topic.partition_responses:
            if each.error_code is ErrorCode.duplicate_sequence_number:
                offsets[each.index] = None  # it is there, and its offset forgotten
                continue
            try:
                check(each.error_code, f"{topic.name}-{each.index}", each.error_message)
                offsets[each.index] = each.base_offset
            except ClientError as error:
                failures.append(error)
