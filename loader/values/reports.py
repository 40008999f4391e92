"""A task's report on its slice, staged with the slice's files. If the report does not match the
files, the run fails.

Reading the same slice again gives the same report, so it does not matter which attempt of a task
counts.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from ground.intervals import Intervals
from loader.errors import TooManyHours
from loader.values.batch_digests import PackedBatches
from loader.values.tables import UNKNOWN_DIGEST, Digest, Hour, log_name

# The stored form of intervals; computations use half-open ones.
ClosedInterval = tuple[int, int]  # first and last, inclusive
ClosedIntervals = tuple[ClosedInterval, ...]  # ascending, with gaps between them
Landed = int | ClosedIntervals  # events of a source; a number if they are complete from 0 on

MOST_INTERVALS: Final = 10_000  # of one source in one slice; with more it is scattered
MOST_HOURS_OF_RUN: Final = 20_000  # hours with events in one run
MOST_TRACKED: Final = 200_000  # intervals of all sources in one slice; others are not tracked
MOST_REPEATS: Final = 100_000  # stretches of duplicates of one slice


def closed(intervals: Intervals) -> ClosedIntervals:
    return tuple([(first, after - 1) for first, after in intervals])


def half_open(intervals: ClosedIntervals) -> Intervals:
    return tuple([(first, last + 1) for first, last in intervals])


def landed_of(intervals: Intervals) -> Landed:
    """Converts intervals to the compact form, in which a number stands for all events below it."""
    if len(intervals) == 1 and intervals[0][0] == 0:
        return intervals[0][1]
    return closed(intervals)


def intervals_of(landed: Landed) -> Intervals:
    if isinstance(landed, int):
        return ((0, landed),) if landed else ()
    return half_open(landed)


class LandedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The events in one window of event time. Bytes and CRCs are those of whole batches, counted by
    the batch's base timestamp; dead letters are counted by the timestamp of their record."""

    start: int  # milliseconds
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    bytes: int = 0
    crc_sum: int = 0


class SourceRun(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a source that became rows, from batches of this slice and leader epoch."""

    source: str
    intervals: ClosedIntervals
    leader_epoch: int = -1


class Repeat(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive events at consecutive offsets that did not become rows, because their source and
    seq had landed before."""

    source: str
    seq: int
    offset: int
    events: int


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive offsets of one leader epoch, with counts of their contents. Each number is
    counted, not computed from the others."""

    leader_epoch: int
    first: int
    next_offset: int
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    other_hours: int = 0  # of a rebuild: events of hours that are not rebuilt
    markers: int = 0  # control records
    aborted: int = 0  # by transactions
    compacted: int = 0  # removed by compaction
    missing: ClosedIntervals = ()  # gone for an unknown reason, and given up
    windows: tuple[LandedWindow, ...] = ()

    @property
    def no_events(self) -> int:
        """The number of offsets that were found to hold no event."""
        return self.markers + self.aborted + self.compacted

    @property
    def given_up(self) -> int:
        return sum(last - first + 1 for first, last in self.missing)

    @property
    def adds_up(self) -> bool:
        """Whether each offset is accounted for exactly once."""
        events = self.rows + self.duplicates + self.dead + self.other_hours
        return events + self.no_events + self.given_up == self.next_offset - self.first


class LastBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The last batch that was read from a partition; identifies its log."""

    base_offset: int
    next_offset: int
    crc: int
    max_timestamp: int
    leader_epoch: int = -1

    def __str__(self) -> str:
        last_offset, time = self.next_offset - 1, self.max_timestamp
        return f"{self.base_offset} to {last_offset} (CRC {self.crc:08x}, newest time {time})"


class SliceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one completely read slice."""

    slice: int  # the slice's number
    topic: str
    partition: int
    first: int
    next_offset: int  # after its last batch; at least the slice's end
    begins: int  # it accounts for all offsets from here on; earlier ones are another slice's
    leads: int = 0  # the number of empty offsets seen before that
    gives_up: bool = False  # whether empty offsets are missing, not compacted
    leader_epoch: int  # of the last batch, with or without events; -1 if there was none
    batches: int
    bytes: int  # of the batches in the log
    accounts: tuple[Account, ...]  # contiguous, from `begins` to `next_offset`
    rows: dict[Hour, int]  # by hour, in a file of its own or in the one for mixed hours
    sources: tuple[SourceRun, ...] = ()
    scattered: tuple[str, ...] = ()  # sources whose seqs are too scattered to remember
    untracked: int = 0  # rows of sources beyond those that a task can remember
    mixed: tuple[Hour, ...] = ()  # hours whose rows are in the file for mixed hours
    repeated: str = ""  # the source with most duplicates
    repeats: tuple[
        Repeat, ...
    ] = ()  # all duplicates, or the first `MOST_REPEATS` stretches of them
    digests: dict[Hour, Digest] = {}  # of the hours' own files
    dead_digest: Digest = UNKNOWN_DIGEST  # of the file of dead letters
    dead: dict[str, int] = {}  # by reason
    unnamed: int = 0  # dead records that are too many for a letter each
    schema_ids: dict[int, int] = {}  # records by their writer's schema
    last: LastBatch | None = None
    batch_digests: PackedBatches = PackedBatches(b"")  # of the batches that were read

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())

    @property
    def letters(self) -> int:
        """The number of dead letters, which are the rows of their file."""
        return sum(self.dead.values())

    @property
    def dead_count(self) -> int:
        return self.letters + self.unnamed

    @property
    def duplicates(self) -> int:
        return sum(account.duplicates for account in self.accounts)

    @property
    def no_events(self) -> int:
        return sum(account.no_events for account in self.accounts)

    @property
    def other_hours(self) -> int:
        return sum(account.other_hours for account in self.accounts)


def check_hours(reports: Iterable[SliceReport]) -> None:
    """Checks the number of hours, since each needs a folder with a file. Raises TooManyHours."""
    hours: set[Hour] = set()
    for report in reports:
        hours.update(report.rows)
        if len(hours) > MOST_HOURS_OF_RUN:
            log = log_name(report.topic, report.partition)
            raise too_many_hours(log, report.first, report.next_offset)


def too_many_hours(log: str, first: int, next_offset: int | None) -> TooManyHours:
    """The error for a slice whose events in `log` from `first` on belong to too many hours."""
    end_note = "" if next_offset is None else f" to {next_offset - 1}"
    return TooManyHours(
        f"{log}, offsets {first}{end_note}: the run has events of more than {MOST_HOURS_OF_RUN:,}"
        " hours; nothing was committed. If their times are wrong, `oldest` and `newest` turn them"
        " into dead letters; if they are right, --max-records loads fewer at a time"
    )
