"""Records appended to the topic by the writer of one epoch: whole, in order, or not known to be.

A publisher is of no use any more after it failed.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import ClientError, ErrorCode, Refused
from client.producer import Identity, Producer
from registry.log.topic import CLIENT_ID, largest_batch
from registry.values import LogRecord
from wire.batch import HEADER_SIZE
from wire.records import Record, build_batch

_RECORD_OVERHEAD: Final = 32  # what lengths, deltas and attributes take at most
_WHEN_TOLD: Final = 2**31  # bytes: batches are sent when they are told to be


class NotPublished(Exception):
    """Records may be in the topic, or not. `passing`: the next attempt may do better."""

    def __init__(self, why: str, *, passing: bool = True) -> None:
        super().__init__(why)
        self.passing = passing


class Fenced(NotPublished):
    """The epoch is over: a newer writer has written."""


class Begun(NotPublished):
    """The epoch has a batch with these numbers, and other records."""


class NotOurId(NotPublished):
    """The producer id was given to somebody else: nothing was written under it, nor will be."""


_KINDS: Final = {
    ErrorCode.invalid_producer_epoch: Fenced,
    ErrorCode.producer_fenced: Fenced,
    ErrorCode.unknown_producer_id: NotOurId,
    ErrorCode.out_of_order_sequence_number: Begun,
}


class Publisher:
    """Appends as the producer of one epoch. One thread."""

    def __init__(
        self, bootstrap: Bootstrap, topic: str, identity: Identity, *, seconds: float
    ) -> None:
        """`seconds` is how long an append is tried. Raises a ClientError."""
        self._brokers = Brokers(bootstrap, client_id=CLIENT_ID, patience_seconds=seconds)
        try:
            self._producer = Producer(
                self._brokers,
                topic,
                batch_bytes=_WHEN_TOLD,
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
        """Whether the topic takes a record of this size."""
        batch = build_batch([Record(0, time.time_ns() // 1_000_000, record.key, record.value)])
        return len(batch) <= self._largest

    def fence(self, record: LogRecord) -> None:
        """Begin the epoch with this record, unless somebody has begun it. Older epochs are over."""
        with suppress(Begun):
            self.append([record])

    def append(self, records: Sequence[LogRecord]) -> int:
        """The offset after the last; these follow one another in as few batches as can be."""
        end = 0
        for batch in self._batches(records):
            for record in batch:
                self._producer.send(record.value, record.key, partition=0)
            try:
                (delivered,) = self._producer.flush()
            except Refused as refused:
                kind = _KINDS.get(refused.code, NotPublished)
                raise kind(str(refused), passing=refused.retriable) from None
            except ClientError as error:
                raise NotPublished(str(error), passing=error.retriable) from None
            if delivered.base_offset is None:
                raise NotPublished("the broker has forgotten the batch's offset")
            end = delivered.base_offset + delivered.messages
        return end

    def _batches(self, records: Sequence[LogRecord]) -> Iterator[list[LogRecord]]:
        batch: list[LogRecord] = []
        size = HEADER_SIZE
        for record in records:
            more = len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD
            if batch and size + more > self._largest:
                yield batch
                batch, size = [], HEADER_SIZE
            batch.append(record)
            size += more
        if batch:
            yield batch
