"""Selects the batches with committed messages from a fetch response, given aborted transactions.

A response at isolation level 1 ends at the last stable offset and lists the aborted transactions
that overlap it, each by producer id and first offset. That producer's batches from there to the
marker that ends the transaction are ignored. Markers are control batches, without messages.

Penstock's brokers have no transactions: they list none, and their last stable offset is the end of
what consumers see.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from wire.errors import BatchError, ErrorCode
from wire.messages.fetch import AbortedTransaction
from wire.record_batches.batch import BatchHeader
from wire.record_batches.records import records

READ_UNCOMMITTED: Final = 0  # isolation levels
READ_COMMITTED: Final = 1

_ABORT: Final = 0


class Committed:
    """Selects committed batches of one response, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction] | None) -> None:
        self._to_come = deque(sorted(aborted or (), key=lambda txn: txn.first_offset))
        self._aborting: set[int] = set()  # producer ids, until their markers

    def counts(self, header: BatchHeader, batch: memoryview) -> bool:
        """Returns whether the batch has committed messages. Raises BatchError for an invalid
        marker."""
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._aborting.add(self._to_come.popleft().producer_id)
        if header.is_control:
            if header.producer_id in self._aborting and _is_abort(batch):
                self._aborting.discard(header.producer_id)
            return False
        if header.is_transactional and header.producer_id in self._aborting:
            return False
        return header.record_count > 0  # compaction leaves empty batches that only keep an offset


def _is_abort(control: memoryview) -> bool:
    """A marker's key consists of a version and a type, two bytes each."""
    for record in records(control):
        if record.key is not None and len(record.key) >= 4:
            return int.from_bytes(record.key[2:4], "big") == _ABORT
    raise BatchError(ErrorCode.corrupt_message, "the control batch has no marker")
