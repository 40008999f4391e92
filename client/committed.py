"""Which batches of an answer hold messages that count: Kafka's transactions, seen from a reader.

An answer that was asked for at isolation level 1 ends at the last stable offset, and names the
transactions that were aborted and reach into it: a producer, and the offset of its first batch.
What that producer wrote from there on, until the marker that ends the transaction, never happened.
The markers are control batches, which are nobody's messages either.

Penstock's brokers have no transactions: they name none, and their last stable offset is the end of
what consumers see.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from wire.batch import BatchHeader
from wire.errors import BatchError, ErrorCode
from wire.messages.fetch import AbortedTransaction
from wire.records import records

READ_UNCOMMITTED: Final = 0  # isolation levels
READ_COMMITTED: Final = 1

_ABORT: Final = 0


class Committed:
    """Judges the batches of one answer, in their order."""

    def __init__(self, aborted: Sequence[AbortedTransaction] | None) -> None:
        self._to_come = deque(sorted(aborted or (), key=lambda each: each.first_offset))
        self._aborting: set[int] = set()  # producers, from here until their markers

    def counts(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether it holds committed messages. Raises BatchError for a marker that is none."""
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._aborting.add(self._to_come.popleft().producer_id)
        if header.is_control:
            if header.producer_id in self._aborting and _is_abort(batch):
                self._aborting.discard(header.producer_id)
            return False
        if header.is_transactional and header.producer_id in self._aborting:
            return False
        return header.record_count > 0  # compaction leaves batches that only keep an offset


def _is_abort(control: memoryview) -> bool:
    """A marker's key is its version and its type, two bytes each."""
    for record in records(control):
        if record.key is not None and len(record.key) >= 4:
            return int.from_bytes(record.key[2:4], "big") == _ABORT
    raise BatchError(ErrorCode.corrupt_message, "a control batch without a marker")
