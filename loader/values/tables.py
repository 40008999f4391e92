"""The values that all parts of a load share: tables, hours and slices.

A *table* is a folder below the root, fed by one topic, or by several of different clusters.

A *slice* is what one task reads: the batches whose base offset is in a range. So every batch
belongs to one slice, and a slice may extend beyond its range, to the end of its last batch. The
first slice of a partition in a run also has the batch that contains its first offset, from that
offset on, since no other slice reads the rest of that batch.

An *hour* is the time of its beginning in milliseconds, in UTC.
"""

from datetime import UTC, datetime
from typing import Final, NewType

import msgspec

HOUR_MILLIS: Final = 3_600_000
# The years 1 to 9999, the range of rows' times.
FIRST_TIME: Final = -62_135_596_800_000
LAST_TIME: Final = 253_402_300_799_999

Hour = NewType("Hour", int)
Digest = NewType("Digest", bytes)  # the SHA-256 of a file's content, or of a certificate
UNKNOWN_DIGEST: Final = Digest(b"")
Partition = tuple[str, int]  # a topic and a partition of it


def hour_of(millis: int) -> Hour:
    return Hour(millis - millis % HOUR_MILLIS)


def hour_folder(hour: Hour) -> str:
    """The folder of an hour, such as `dt=2026-11-20/hour=07`."""
    begin = datetime.fromtimestamp(hour // 1000, UTC)
    return f"dt={begin.year:04}-{begin.month:02}-{begin.day:02}/hour={begin.hour:02}"


def hour_in_folder(folder: str) -> Hour:
    """The inverse of `hour_folder`. Raises ValueError for other names."""
    begin_time = datetime.strptime(folder, "dt=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
    return Hour(int(begin_time.timestamp()) * 1000)


def log_name(topic: str, partition: int) -> str:
    """The name of a partition's log, such as `page_views-17`."""
    return f"{topic}-{partition}"


class SourceTopic(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    cluster: str  # the name in file names and in `_cluster`


class TableSource(msgspec.Struct, frozen=True, kw_only=True):
    """A table and the topics that feed it."""

    name: str
    topics: tuple[SourceTopic, ...]
    with_cluster: bool = False  # has the column `_cluster`


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The batches of a partition whose base offset is at least `first` and below `end`."""

    number: int  # within its job, from 0
    topic: str
    topic_id: str
    cluster: str
    partition: int
    first: int
    end: int
    from_within: bool = False  # also reads the end of the batch that contains `first`
    besides: bytes = b""  # further events that have landed; see landing/task_spec.py
    buried: tuple[
        tuple[int, int], ...
    ] = ()  # offsets, first and last, whose events lost a collision

    @property
    def log(self) -> str:
        return log_name(self.topic, self.partition)

    @property
    def origin(self) -> Partition:
        return self.topic, self.partition
