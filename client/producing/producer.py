"""Sends messages to a topic, collected into batches, through `client.producing.batch_producer`.

Several batches are in flight while the next is collected. With acks=all they are numbered, so that
each is in the log once and in order despite failures; a batch that cannot be delivered ends the
producer.

Not thread-safe. Messages that were not flushed when the process ends may not have been sent.
"""

import itertools
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from client.connection.brokers import Brokers
from client.connection.connection import REQUEST_SECONDS
from client.errors import ErrorCode, Refused
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Acknowledged, Acks, Batch, Rejected, TopicPartition, Unsettled
from client.producing.identity import Identity, take_identity
from client.producing.keys import partition_of
from client.producing.producer_states import look_up
from client.producing.shipping import ShippingLimits
from wire.acls import Operation
from wire.record_batches.records import Codec, Record, build_batch

__all__ = ["BATCH_BYTES", "Acks", "Delivered", "Identity", "Producer", "take_identity"]

BATCH_BYTES: Final = 256 * 1024
_UNDER_WAY_BYTES: Final = 8 * 1024 * 1024
# Over a clean stop Apache Kafka remembers one batch of a producer, though five may be open.
_LEADER_KNOWS_BETTER: Final = {ErrorCode.out_of_order_sequence_number}
_RECORD_OVERHEAD: Final = 24  # approximate: lengths, deltas and attributes of a record


class Delivered(NamedTuple):
    """A batch that the broker has accepted; the offset is None if the broker does not return it."""

    partition: int
    base_offset: int | None
    messages: int


class _Collecting(msgspec.Struct):
    """The next batch of a partition, while it is being filled."""

    records: list[Record] = []
    size: int = 0


class Producer:
    """Writes to one topic, which is created if the broker allows that.

    After an error the outcome of unacknowledged batches is unknown, and the producer is unusable.
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
        """With acks=ALL it uses a new producer id, or `identity`, whose epoch must be unused.

        A batch without an answer within `request_seconds` is sent again. Closing `brokers` closes
        the producer's connections too.
        """
        self.topic = topic
        self._brokers = brokers
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._found = brokers.topic(topic, Operation.WRITE, create=create)
        self._partitions = len(self._found.partitions)
        self._collecting: dict[int, _Collecting] = {}
        self._unkeyed = itertools.cycle(range(self._partitions))
        self._current = next(self._unkeyed)
        self._is_lent = identity is not None
        if acks is Acks.ALL and identity is None:
            identity = take_identity(brokers, topic)
        limits = ShippingLimits(
            memory_bytes=_UNDER_WAY_BYTES,
            request_seconds=request_seconds,
            delivery_seconds=brokers.patience_seconds,
        )
        self._shipper = BatchProducer(
            brokers.bootstrap,
            client_id=brokers.client_id,
            acks=acks,
            identity=identity,
            limits=limits,
        )
        brokers.closes(self._shipper.close)

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> list[Delivered]:
        """Adds a message, and sends a full batch; returns messages delivered meanwhile."""
        if partition is None:
            partition = self._partition_of(key)
        collecting = self._collecting.get(partition)
        if collecting is None:
            self._found.partition(partition)  # raises unless the topic has it
            collecting = self._collecting[partition] = _Collecting()
        now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        record = Record(len(collecting.records), now, key, value, tuple(headers))
        collecting.records.append(record)
        collecting.size += len(value or b"") + len(key or b"") + _RECORD_OVERHEAD
        if collecting.size < self._batch_bytes:
            return []
        return self._ship(partition) + self._work(0.0)

    def flush(self) -> list[Delivered]:
        """Sends all collected messages, and waits until none is in flight."""
        deliveries: list[Delivered] = []
        for partition in list(self._collecting):
            deliveries += self._ship(partition)
        while self._shipper.outstanding:
            deliveries += self._work(1.0)
        return deliveries

    def _partition_of(self, key: bytes | None) -> int:
        """Chooses by key like Kafka's clients; without keys, partitions take turns by batch."""
        if key is None:
            return self._current
        return partition_of(key, self._partitions)

    def _ship(self, partition: int) -> list[Delivered]:
        """Submits the partition's batch, as soon as there is room for it."""
        records = self._collecting.pop(partition).records
        if partition == self._current:
            self._current = next(self._unkeyed)
        data = build_batch(records, codec=self._codec, leader_epoch=-1)
        batch = Batch(TopicPartition(self.topic, partition), data)
        deliveries: list[Delivered] = []
        while not self._shipper.submit(batch):
            deliveries += self._work(1.0)
        return deliveries

    def _work(self, seconds: float) -> list[Delivered]:
        """Returns what is delivered in this time; raises the error of a batch that fails."""
        self._shipper.pump(seconds)
        deliveries: list[Delivered] = []
        for event in self._shipper.collect():
            match event:
                case Acknowledged(batch, base_offset):
                    deliveries.append(_delivered(batch, base_offset))
                case Rejected(_, error):
                    raise error
                case Unsettled():
                    deliveries += self._settle(event)
        return deliveries

    def _settle(self, unsettled: Unsettled) -> list[Delivered]:
        """Continues from the leader's sequence, if the leader knows it and the id is not lent."""
        error = unsettled.error
        if not isinstance(error, Refused) or error.code not in _LEADER_KNOWS_BETTER:
            raise error
        lookup = None if self._is_lent else look_up(self._brokers, unsettled)
        if lookup is None:
            raise error
        self._shipper.renew(
            unsettled.target,
            identity=unsettled.batches[0].identity,
            sequence=lookup.next_sequence,
            first=[stamped_batch.batch for stamped_batch in lookup.absent],
        )
        return [_delivered(stamped_batch.batch, None) for stamped_batch in lookup.there]


def _delivered(batch: Batch, base_offset: int | None) -> Delivered:
    return Delivered(batch.target.partition, base_offset, batch.records)
