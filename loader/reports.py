"""What a task says of its slice: staged with its files, and true of them, or the run fails.

Reading the same slice again says the same again, so it does not matter which attempt at a task was
the one that counted.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from loader.errors import TooManyHours
from loader.tables import Hour, log_name

Interval = tuple[int, int]  # first and last, both of them in it
Intervals = tuple[Interval, ...]  # ascending, with something between each two
Landed = int | Intervals  # which events of a source: those that are whole are only counted

MOST_INTERVALS: Final = 10_000  # of one source in one slice; beyond that it is scattered
MOST_HOURS_OF_RUN: Final = 20_000  # that events may be of
MOST_TRACKED: Final = 200_000  # intervals of all sources in one slice; no new ones beyond that


class WindowCount(msgspec.Struct, frozen=True, kw_only=True):
    """What lay in one window of event time. Bytes and CRCs are those of whole batches, counted in
    the window of the batch's base timestamp; what cannot be decoded, in that of its record's."""

    start: int  # milliseconds
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    bytes: int = 0
    crc_sum: int = 0


class SourceRun(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of one source became rows of this slice."""

    source: str
    intervals: Intervals


class SliceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One slice, read to its end."""

    slice: int  # its number
    topic: str
    partition: int
    first: int
    next_offset: int  # behind its last batch; at least the slice's end
    leader_epoch: int  # of what lies before `next_offset`, events or not; -1 if nothing was there
    batches: int
    bytes: int  # of the batches, as they lie in the log
    # Offsets without an event, from its first batch on: control records, aborted transactions, what
    # compaction removed. Those before may belong to the last batch of the slice before.
    no_events: int
    rows: dict[Hour, int]  # by hour; each is a file, or they are in the one for mixed hours
    windows: tuple[WindowCount, ...]
    sources: tuple[SourceRun, ...] = ()
    scattered: tuple[str, ...] = ()  # sources whose seqs are too scattered to be remembered
    untracked: int = 0  # rows of further sources, of which there are too many to be remembered
    mixed: tuple[Hour, ...] = ()  # hours whose rows are in the one file that is to be divided
    other_hours: int = 0  # of a rebuild: events of hours that are not to be rebuilt
    duplicates: int = 0
    repeated: str = ""  # the source with most of them
    dead: dict[str, int] = {}  # by reason
    schema_ids: dict[int, int] = {}  # how many records of which writer's schema

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())

    @property
    def dead_count(self) -> int:
        return sum(self.dead.values())


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
