"""Appends records to the topic as the writer of one epoch: either all of them, in order, or with an
unknown outcome.

A publisher that failed must not be used again.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError, ErrorCode, Refused
from client.producing.producer import Identity, Producer
from registry.log.topic import CLIENT_ID, largest_batch
from registry.schemas_topic.values import LogRecord
from wire.record_batches.batch import HEADER_SIZE
from wire.record_batches.records import Record, build_batch

_RECORD_OVERHEAD: Final = 32  # upper bound for lengths, deltas and attributes
_NO_LIMIT: Final = 2**31  # bytes: batches are sent by `flush` only


class NotPublished(Exception):
    """It is unknown whether the records are in the topic. `passing`: whether a retry may
    succeed."""

    def __init__(self, why: str, *, passing: bool = True) -> None:
        super().__init__(why)
        self.passing = passing


class Fenced(NotPublished):
    """The epoch is over: a newer writer has written."""


class Begun(NotPublished):
    """The epoch already has a batch with these sequence numbers and different records."""


class NotOurId(NotPublished):
    """The producer id belongs to another producer, so no record was or will be written under it."""


_KINDS: Final = {
    ErrorCode.invalid_producer_epoch: Fenced,
    ErrorCode.producer_fenced: Fenced,
    ErrorCode.unknown_producer_id: NotOurId,
    ErrorCode.out_of_order_sequence_number: Begun,
}


class Publisher:
    """Appends as the producer of one epoch. Used by one thread."""

    def __init__(
        self, bootstrap: Bootstrap, topic: str, identity: Identity, *, seconds: float
    ) -> None:
        """`seconds`: timeout of an append. Raises ClientError."""
        self._brokers = Brokers(bootstrap, client_id=CLIENT_ID, patience_seconds=seconds)
        try:
            self._producer = Producer(
                self._brokers,
                topic,
                batch_bytes=_NO_LIMIT,
                create=False,
                identity=identity,
                request_seconds=seconds,
            )
            self._largest = largest_batch(self._brokers, topic)
        except BaseException:
            self._brokers.close()
            raise

    def close(self) -> None:
        self._brokers.close()

    def takes(self, record: LogRecord) -> bool:
        """Whether a record of this size fits into the topic."""
        batch = build_batch([Record(0, time.time_ns() // 1_000_000, record.key, record.value)])
        return len(batch) <= self._largest

    def fence(self, record: LogRecord) -> None:
        """Begins the epoch with this record, unless it has begun; older epochs end."""
        with suppress(Begun):
            self.append([record])

    def append(self, records: Sequence[LogRecord]) -> int:
        """Appends the records in as few batches as possible; returns the end offset after them."""
        end = 0
        for batch in self._batches(records):
            for record in batch:
                self._producer.send(record.value, record.key, partition=0)
            try:
                (delivery,) = self._producer.flush()
            except Refused as refused:
                kind = _KINDS.get(refused.code, NotPublished)
                raise kind(str(refused), passing=refused.retriable) from None
            except ClientError as error:
                raise NotPublished(str(error), passing=error.retriable) from None
            if delivery.base_offset is None:
                raise NotPublished("the broker did not return the batch's offset")
            end = delivery.base_offset + delivery.messages
        return end

    def _batches(self, records: Sequence[LogRecord]) -> Iterator[list[LogRecord]]:
        batch: list[LogRecord] = []
        size = HEADER_SIZE
        for record in records:
            record_size = len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD
            if batch and size + record_size > self._largest:
                yield batch
                batch, size = [], HEADER_SIZE
            batch.append(record)
            size += record_size
        if batch:
            yield batch
