"""What a task says of its slice: staged with its files, and true of them, or the run fails.

Reading the same slice again says the same again, so it does not matter which attempt at a task was
the one that counted.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from ground.intervals import Intervals
from loader.errors import TooManyHours
from loader.tables import Hour, log_name

# As they are written down; who computes with them has them half-open.
ClosedInterval = tuple[int, int]  # first and last, both of them in it
ClosedIntervals = tuple[ClosedInterval, ...]  # ascending, with something between each two
Landed = int | ClosedIntervals  # which events of a source: those that are whole are only counted

MOST_INTERVALS: Final = 10_000  # of one source in one slice; beyond that it is scattered
MOST_HOURS_OF_RUN: Final = 20_000  # that events may be of
MOST_TRACKED: Final = 200_000  # intervals of all sources in one slice; no new ones beyond that
MOST_REPEATS: Final = 100_000  # stretches of duplicates of one slice


def closed(intervals: Intervals) -> ClosedIntervals:
    return tuple([(first, after - 1) for first, after in intervals])


def half_open(intervals: ClosedIntervals) -> Intervals:
    return tuple([(first, last + 1) for first, last in intervals])


def landed_of(intervals: Intervals) -> Landed:
    """With less to write: a number stands for all from 0 on that are below it."""
    if len(intervals) == 1 and intervals[0][0] == 0:
        return intervals[0][1]
    return closed(intervals)


def intervals_of(landed: Landed) -> Intervals:
    if isinstance(landed, int):
        return ((0, landed),) if landed else ()
    return half_open(landed)


class LandedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What lay in one window of event time. Bytes and CRCs are those of whole batches, counted in
    the window of the batch's base timestamp; what cannot be decoded, in that of its record's."""

    start: int  # milliseconds
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    bytes: int = 0
    crc_sum: int = 0


class SourceRun(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of one source became rows of this slice, from batches of this leader epoch."""

    source: str
    intervals: ClosedIntervals
    leader_epoch: int = -1


class Repeat(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive events at consecutive offsets that became no rows, as their source and seq had
    landed before."""

    source: str
    seq: int
    offset: int
    events: int


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive offsets of one leader epoch, and what was found at each. Every figure is of what
    was seen; none of them is what the others leave."""

    leader_epoch: int
    first: int
    next_offset: int
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    other_hours: int = 0  # of a rebuild: events of hours that are not to be rebuilt
    markers: int = 0  # control records
    aborted: int = 0  # by transactions
    compacted: int = 0  # nothing is left there of what a compacted topic had
    missing: ClosedIntervals = ()  # nothing is there, and nobody knows why: it was given up
    windows: tuple[LandedWindow, ...] = ()

    @property
    def no_events(self) -> int:
        """Offsets that were seen to hold none."""
        return self.markers + self.aborted + self.compacted

    @property
    def given_up(self) -> int:
        return sum(last - first + 1 for first, last in self.missing)

    @property
    def adds_up(self) -> bool:
        """Whether there is something known of every offset, and of none twice."""
        events = self.rows + self.duplicates + self.dead + self.other_hours
        return events + self.no_events + self.given_up == self.next_offset - self.first


class LastBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The last batch that was read of a partition: by this, its log is known again."""

    base_offset: int
    next_offset: int
    crc: int
    max_timestamp: int
    leader_epoch: int = -1

    def __str__(self) -> str:
        last, time = self.next_offset - 1, self.max_timestamp
        return f"{self.base_offset} to {last} (CRC {self.crc:08x}, newest time {time})"


class SliceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One slice, read to its end."""

    slice: int  # its number
    topic: str
    partition: int
    first: int
    next_offset: int  # behind its last batch; at least the slice's end
    begins: int  # from here on it accounts for every offset: what is before is another slice's
    leads: int = 0  # so many offsets before that were looked at, and nothing was there
    gives_up: bool = False  # where nothing is there, it is missing, and not compacted away
    leader_epoch: int  # of what lies before `next_offset`, events or not; -1 if nothing was there
    batches: int
    bytes: int  # of the batches, as they lie in the log
    accounts: tuple[Account, ...]  # one behind the other, from `begins` to `next_offset`
    rows: dict[Hour, int]  # by hour; each is a file, or they are in the one for mixed hours
    sources: tuple[SourceRun, ...] = ()
    scattered: tuple[str, ...] = ()  # sources whose seqs are too scattered to be remembered
    untracked: int = 0  # rows of further sources, of which there are too many to be remembered
    mixed: tuple[Hour, ...] = ()  # hours whose rows are in the one file that is to be divided
    repeated: str = ""  # the source with most duplicates
    repeats: tuple[
        Repeat, ...
    ] = ()  # all duplicates, or the first `MOST_REPEATS` stretches of them
    dead: dict[str, int] = {}  # by reason
    unnamed: int = 0  # dead records besides, of which there are too many for a letter each
    schema_ids: dict[int, int] = {}  # how many records of which writer's schema
    last: LastBatch | None = None

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())

    @property
    def letters(self) -> int:
        """Dead letters, each of which is a row of its file."""
        return sum(self.dead.values())

    @property
    def dead_count(self) -> int:
        return self.letters + self.unnamed

    @property
    def duplicates(self) -> int:
        return sum(each.duplicates for each in self.accounts)

    @property
    def no_events(self) -> int:
        return sum(each.no_events for each in self.accounts)

    @property
    def other_hours(self) -> int:
        return sum(each.other_hours for each in self.accounts)


def check_hours(reports: Iterable[SliceReport]) -> None:
    """Each hour is a folder with a file, for ever. Raises TooManyHours."""
    hours: set[Hour] = set()
    for report in reports:
        hours.update(report.rows)
        if len(hours) > MOST_HOURS_OF_RUN:
            log = log_name(report.topic, report.partition)
            raise too_many_hours(log, report.first, report.next_offset)


def too_many_hours(log: str, first: int, next_offset: int | None) -> TooManyHours:
    """What `log` has from `first` on makes them too many."""
    last = "" if next_offset is None else f" to {next_offset - 1}"
    return TooManyHours(
        f"{log}, offsets {first}{last}: with these there are events of more than"
        f" {MOST_HOURS_OF_RUN:,} hours, and nothing was committed. If their times are wrong,"
        " `oldest` and `newest` make dead letters of them; if they are right, --max-records loads"
        " fewer at a time"
    )
