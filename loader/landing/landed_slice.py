"""What was read of a slice and what became of it, counted: its report in the making.

A batch or a dead letter may claim any time. One that no calendar has counts as the calendar's first
or last; and a dead letter's that is not among those wanted, as the first or last of these: of many
letters with odd times there are few windows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from loader.decoding.decoded import Dead
from loader.landing.duplicates import Duplicates
from loader.landing.stretches import bounds, counted
from loader.reports import MOST_HOURS_OF_RUN, SliceReport, WindowCount, too_many_hours
from loader.tables import FIRST_TIME, HOUR_MILLIS, LAST_TIME, Hour, Slice, hour_of
from wire.batch import BatchHeader


@dataclass(slots=True)
class _Window:
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    bytes: int = 0
    crc_sum: int = 0


@dataclass(slots=True)
class LandedSlice:
    """Counts; decides nothing. With `only_hours`, windows of other hours are not looked at."""

    piece: Slice
    window_millis: int
    times: tuple[int, int]  # the first and the last that are wanted
    only_hours: Collection[Hour] = ()

    _batches: int = 0
    _bytes: int = 0
    _no_events: int = 0
    _other_hours: int = 0
    _duplicates: int = 0
    _next_offset: int | None = None
    _rows: Counter[Hour] = field(default_factory=Counter)
    _dead: Counter[str] = field(default_factory=Counter)
    _schema_ids: Counter[int] = field(default_factory=Counter)
    _windows: dict[int, _Window] = field(default_factory=dict)

    def read(self, header: BatchHeader, events: int, schema_ids: Mapping[int, int]) -> None:
        """A batch, with so many events from the slice's first offset on."""
        if self._next_offset is None:
            self._next_offset = max(header.base_offset, self.piece.first)
        self._no_events += header.next_offset - self._next_offset - events
        self._next_offset = header.next_offset
        self._batches += 1
        self._bytes += header.size
        self._schema_ids.update(schema_ids)
        if (window := self._window(header.base_timestamp)) is not None:
            window.bytes += header.size
            window.crc_sum += header.crc

    def passed_over(self, count: int) -> None:
        """Events of hours that are not wanted."""
        self._other_hours += count

    def died(self, letters: Iterable[Dead]) -> None:
        first, last = self.times
        for letter in letters:
            self._dead[letter.reason] += 1
            time = letter.timestamp
            if not self.only_hours:
                time = min(max(time, first), last)
            if (window := self._window(time)) is not None:
                window.dead += 1

    def landed(self, times: pa.Int64Array, within: tuple[int, int]) -> None:
        """Rows with these times are new. `within` are the earliest and the latest of them. Raises
        TooManyHours."""
        for hour, count in counted(times, HOUR_MILLIS, within).items():
            self._rows[Hour(hour)] += count
        if len(self._rows) > MOST_HOURS_OF_RUN:
            raise too_many_hours(self.piece.log, self.piece.first, self._next_offset)
        for start, count in counted(times, self.window_millis, within).items():
            self._at(start).rows += count

    def repeated(self, times: pa.Int64Array, new: pa.Int64Array) -> None:
        """Of rows with these times only some were new: those with the times of `new`."""
        self._duplicates += len(times) - len(new)
        counts = Counter(counted(times, self.window_millis, bounds(times)))
        if len(new):
            counts.subtract(counted(new, self.window_millis, bounds(new)))
        for start, count in counts.items():
            if count:
                self._at(start).duplicates += count

    def report(
        self, next_offset: int, leader_epoch: int, sources: Duplicates, mixed: Iterable[Hour] = ()
    ) -> SliceReport:
        """All of it. The slice was read up to `next_offset`, into this epoch."""
        behind = 0 if self._next_offset is None else next_offset - self._next_offset
        windows = (
            WindowCount(
                start=start,
                rows=each.rows,
                duplicates=each.duplicates,
                dead=each.dead,
                bytes=each.bytes,
                crc_sum=each.crc_sum,
            )
            for start, each in sorted(self._windows.items())
        )
        return SliceReport(
            slice=self.piece.number,
            topic=self.piece.topic,
            partition=self.piece.partition,
            first=self.piece.first,
            next_offset=next_offset,
            leader_epoch=leader_epoch,
            batches=self._batches,
            bytes=self._bytes,
            no_events=self._no_events + behind,
            rows=dict(sorted(self._rows.items())),
            windows=tuple(windows),
            sources=sources.runs(),
            scattered=sources.scattered,
            untracked=sources.untracked,
            mixed=tuple(sorted(mixed)),
            other_hours=self._other_hours,
            duplicates=self._duplicates,
            repeated=sources.most_repeated,
            dead=dict(self._dead),
            schema_ids=dict(self._schema_ids),
        )

    def _window(self, time: int) -> _Window | None:
        time = min(max(time, FIRST_TIME), LAST_TIME)
        if self.only_hours and hour_of(time) not in self.only_hours:
            return None
        return self._at(time - time % self.window_millis)

    def _at(self, start: int) -> _Window:
        return self._windows.setdefault(start, _Window())
