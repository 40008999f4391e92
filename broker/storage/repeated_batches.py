"""Decides whether a batch with the numbers of a stored one is that batch, sent again.

A producer that has got no answer sends the same bytes again. The CRC decides: it covers everything
except what the broker stamps. If the broker has put its time into the stored batch, the same time
is put into the repeated one. If the stored batch was rebuilt, its bytes differ although its records
are the same: compaction drops some. So the remaining ones are compared record by record, without
the times if the broker assigned them.
"""

from typing import Final

from broker.storage.batches import header_at, read_bytes
from broker.storage.files import OpenFile
from wire.batch import BatchHeader, read_header, stamp_append_time
from wire.errors import BatchError
from wire.records import records
from wire.slices import FileSlice

# The event loop waits meanwhile. A larger rebuilt batch counts as different.
_MOST_BYTES: Final = 1024 * 1024 + 4096
_MOST_RECORDS: Final = 16_384


def is_repeated(batch: memoryview, base_offset: int, stored: FileSlice) -> bool:
    """Whether `stored`, which begins with the batch at `base_offset` or the next one, has the
    records of `batch`. Writes into `batch`. If compaction has left nothing, nothing contradicts."""
    file = stored.file
    assert isinstance(file, OpenFile), "the log's own"
    there = header_at(file, stored.position, stored.position + stored.length)
    if there is None or there.base_offset != base_offset:
        return True
    if there.is_append_time:
        stamp_append_time(batch, there.max_timestamp)
    here = read_header(batch)
    if here.crc == there.crc:
        return True
    is_rebuilt = (here.attributes, here.record_count) != (there.attributes, there.record_count)
    if not is_rebuilt or here.record_count > _MOST_RECORDS or there.size > _MOST_BYTES:
        return False
    try:
        return _has_all(batch, here, read_bytes(file, stored.position, there.size), there)
    except BatchError:
        return False


def _has_all(batch: memoryview, here: BatchHeader, stored: bytes, there: BatchHeader) -> bool:
    timed = not (here.is_append_time or there.is_append_time)
    sent = records(batch, _MOST_BYTES)
    for record in records(stored, _MOST_BYTES):
        at = record.offset - there.base_offset
        repeated = next((record for record in sent if record.offset == at), None)
        if repeated is None or repeated[2:] != record[2:]:
            return False
        if timed and repeated.timestamp != record.timestamp:
            return False
    return True
