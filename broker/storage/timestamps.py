"""Which record was the first to reach a timestamp, and which has the highest.

The indexes say in which few batches to look; the batches themselves give the answer. Of each segment
only what consumers see counts. Timestamps need not grow from record to record. A batch whose
records cannot be read (the broker never looks inside) is taken by what its header says.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.storage.batches import Located, read_bytes
from broker.storage.segment import Segment
from wire.batch import NO_TIMESTAMP
from wire.errors import BatchError
from wire.records import Record, records

_BEHIND_ALL = 2**63


class TimestampedOffset(NamedTuple):
    """A record's offset, its timestamp, and the leader epoch it was written in."""

    offset: int
    timestamp: int
    leader_epoch: int


Visible = Iterable[
    tuple[Segment, int]
]  # segments, in order, and up to which position they are seen


def first_reaching(
    timestamp: int, visible: Visible, start_offset: int, interval: int
) -> TimestampedOffset | None:
    """The first record from `start_offset` on with this timestamp or a later one."""
    for segment, end in visible:
        if segment.highest_timestamp()[0] < timestamp:
            continue
        reached = segment.time_index.reaching(timestamp)
        before = _BEHIND_ALL if reached is None else reached.last_offset - 1
        position = segment.position_before(max(before, start_offset), end, interval)
        for located in segment.walk(position, end):
            if located.header.max_timestamp < timestamp:
                continue
            for record in _records(segment, located):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return _found(record, located)
    return None


def highest(visible: Visible, start_offset: int, interval: int) -> TimestampedOffset | None:
    """The record from `start_offset` on with the highest timestamp; of several, the first."""
    best, where = NO_TIMESTAMP, None
    for segment, end in visible:
        timestamp, last_offset = _highest(segment, end, start_offset, interval)
        if timestamp > best:
            best, where = timestamp, (segment, end, last_offset)
    if where is None:
        return None
    segment, end, last_offset = where
    located = segment.find(last_offset, end, interval)
    if located is None:
        return None
    within = [each for each in _records(segment, located) if each.offset >= start_offset]
    return _found(max(within, key=lambda record: record.timestamp), located) if within else None


def _highest(segment: Segment, end: int, start_offset: int, interval: int) -> tuple[int, int]:
    """The highest timestamp of what is visible of a segment, and its batch's last offset."""
    timestamp, last_offset = segment.highest_timestamp()
    if end == segment.size and last_offset >= start_offset:
        return timestamp, last_offset
    entry = segment.offset_index.at_or_below_position(end - 1)
    noted = None if entry is None else segment.time_index.noted_by(entry.last_offset)
    if noted is not None and noted.last_offset >= start_offset:
        position = segment.position_before(_BEHIND_ALL, end, interval)
        timestamp, last_offset = noted
    else:
        position = segment.position_before(start_offset, end, interval)
        timestamp, last_offset = NO_TIMESTAMP, segment.base_offset
    for located in segment.walk(position, end):
        header = located.header
        if header.max_timestamp > timestamp and header.last_offset >= start_offset:
            timestamp, last_offset = header.max_timestamp, header.last_offset
    return timestamp, last_offset


def _records(segment: Segment, located: Located) -> Iterator[Record]:
    header = located.header
    try:
        yield from records(read_bytes(segment.file, located.position, header.size))
    except BatchError:
        yield Record(header.base_offset, header.max_timestamp, None, None)


def _found(record: Record, located: Located) -> TimestampedOffset:
    return TimestampedOffset(record.offset, record.timestamp, located.header.leader_epoch)
