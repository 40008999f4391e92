"""Decides whether a batch with the numbers of a stored batch is that batch, sent again.

A producer that has got no answer sends the batch again, and most producers send the same bytes.
Then the CRC decides: it covers everything except what the broker stamps. Otherwise keys, values and
headers are compared, record by record: kafkajs gives a batch that it sends again the time of that
moment; the broker may have put its own time into the stored batch, and compaction drops records of
it.
"""

from typing import Final

from broker.storage.segments.batches import header_at, read_bytes
from broker.storage.segments.files import OpenFile
from wire.errors import BatchError
from wire.framing.slices import FileSlice
from wire.record_batches.batch import read_header, stamp_append_time
from wire.record_batches.records import records

# The event loop waits meanwhile. Larger batches with other bytes count as different.
_MOST_BYTES: Final = 1024 * 1024 + 4096
_MOST_RECORDS: Final = 16_384


def is_repeated(batch: memoryview, base_offset: int, stored: FileSlice) -> bool:
    """Returns whether `stored`, which begins with the batch at `base_offset` or the next one,
    contains the records of `batch`; records removed by compaction count as contained. Overwrites
    `batch`."""
    file = stored.file
    assert isinstance(file, OpenFile), "the log's own"
    stored_header = header_at(file, stored.position, stored.position + stored.length)
    if stored_header is None or stored_header.base_offset != base_offset:
        return True
    if stored_header.is_append_time:
        stamp_append_time(batch, stored_header.max_timestamp)
    batch_header = read_header(batch)
    if batch_header.crc == stored_header.crc:
        return True
    if batch_header.record_count > _MOST_RECORDS or stored_header.size > _MOST_BYTES:
        return False
    try:
        return _has_all(
            batch, read_bytes(file, stored.position, stored_header.size), stored_header.base_offset
        )
    except BatchError:
        return False


def _has_all(batch: memoryview, stored: bytes, base_offset: int) -> bool:
    """Whether `batch` has all records of `stored`, which begins at `base_offset`."""
    sent_records = records(batch, _MOST_BYTES)
    for record in records(stored, _MOST_BYTES):
        position = record.offset - base_offset
        repeated_record = next(
            (record for record in sent_records if record.offset == position), None
        )
        if repeated_record is None or repeated_record[2:] != record[2:]:
            return False
    return True
