"""Finds the first record with a timestamp, and the record with the highest timestamp.

The indexes narrow the search to a few batches; the batches themselves give the answer. Only the
exposed part of each segment counts. Timestamps need not grow from record to record. For a batch
whose records cannot be read (the broker never looks inside) its header is used.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.storage.segments.batches import Located, read_bytes
from broker.storage.segments.segment import Segment
from wire.errors import BatchError
from wire.record_batches.batch import NO_TIMESTAMP
from wire.record_batches.records import Record, records

_BEHIND_ALL = 2**63


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


Visible = Iterable[tuple[Segment, int]]  # segments, in order, and their exposed ends


def first_reaching(
    timestamp: int, visible: Visible, start_offset: int, interval: int
) -> TimestampedOffset | None:
    """Returns the first record from `start_offset` on with this timestamp or a later one; None if
    there is none."""
    for segment, end in visible:
        if segment.highest_timestamp(interval)[0] < timestamp:
            continue
        time_entry = segment.reaching(timestamp, interval)
        last_below = _BEHIND_ALL if time_entry is None else time_entry.last_offset - 1
        position = segment.position_before(max(last_below, start_offset), end, interval)
        for located_batch in segment.walk(position, end):
            if located_batch.header.max_timestamp < timestamp:
                continue
            for record in _records(segment, located_batch):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return _found(record, located_batch)
    return None


def highest(visible: Visible, start_offset: int, interval: int) -> TimestampedOffset | None:
    """Returns the record from `start_offset` on with the highest timestamp, the first of several;
    None if there is no record."""
    highest_timestamp, highest_place = NO_TIMESTAMP, None
    for segment, end in visible:
        timestamp, located_batch = _highest(segment, end, start_offset, interval)
        if located_batch is not None and timestamp > highest_timestamp:
            highest_timestamp, highest_place = timestamp, (segment, located_batch)
    if highest_place is None:
        return None
    segment, located_batch = highest_place
    records = [
        record for record in _records(segment, located_batch) if record.offset >= start_offset
    ]
    return (
        _found(max(records, key=lambda record: record.timestamp), located_batch)
        if records
        else None
    )


def _highest(
    segment: Segment, end: int, start_offset: int, interval: int
) -> tuple[int, Located | None]:
    """The highest timestamp in the visible part of a segment, and its batch."""
    first_batch = segment.find(start_offset, end, interval)
    if first_batch is None:
        return NO_TIMESTAMP, None
    timestamp, last_offset = segment.highest_timestamp(interval)
    if end == segment.size and last_offset > first_batch.header.last_offset:
        return timestamp, segment.find(last_offset, end, interval)
    noted_batch, position = segment.noted_before(end, interval)
    timestamp, best_batch = NO_TIMESTAMP, None
    if noted_batch is not None and noted_batch.last_offset > first_batch.header.last_offset:
        timestamp, best_batch = (
            noted_batch.timestamp,
            segment.find(noted_batch.last_offset, end, interval),
        )
    else:
        position = first_batch.position
    for located_batch in segment.walk(position, end):
        header = located_batch.header
        highest_timestamp = header.max_timestamp
        if header.base_offset < start_offset:
            records = (
                record
                for record in _records(segment, located_batch)
                if record.offset >= start_offset
            )
            highest_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
        if highest_timestamp > timestamp:
            timestamp, best_batch = highest_timestamp, located_batch
    return timestamp, best_batch


def _records(segment: Segment, located: Located) -> Iterator[Record]:
    header = located.header
    try:
        yield from records(read_bytes(segment.file, located.position, header.size))
    except BatchError:
        yield Record(header.base_offset, header.max_timestamp, None, None)


def _found(record: Record, located: Located) -> TimestampedOffset:
    return TimestampedOffset(record.offset, record.timestamp, located.header.leader_epoch)
