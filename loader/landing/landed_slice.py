"""Counts the records of a slice and their outcomes, for its report.

Each offset is counted where it is seen: as a record, a marker, an empty batch, or a gap. If the
counts do not add up, there is no report. An account ends with its leader epoch. Batches with
duplicates get accounts of their own, which shows where the duplicates are, unless this alternates
too often.

Batches and dead letters may claim any time. A time outside of the calendar counts as the calendar's
first or last; that of a dead letter outside of the accepted times as the first or last of these, so
that odd times create few windows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
import pyarrow as pa

from client.reading.partition_reader import Instead
from ground.intervals import GrowingIntervals
from loader.decoding.decoded import Dead
from loader.errors import Mismatch
from loader.landing.duplicates import Duplicates
from loader.landing.rows import bounds, counted
from loader.landing.slice_files import SliceFiles
from loader.values.reports import (
    MOST_HOURS_OF_RUN,
    Account,
    LandedWindow,
    LastBatch,
    SliceReport,
    closed,
    too_many_hours,
)
from loader.values.tables import FIRST_TIME, HOUR_MILLIS, LAST_TIME, Hour, Slice, hour_of
from wire.record_batches.batch import BatchHeader

MOST_ACCOUNTS: Final = 200  # beyond that, duplicates do not get accounts of their own


class _Window(msgspec.Struct):
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    bytes: int = 0
    crc_sum: int = 0


class _Account(msgspec.Struct):
    """An account to which offsets are added at its end."""

    leader_epoch: int
    first: int
    next_offset: int
    has_duplicates: bool
    rows: int = 0
    duplicates: int = 0
    dead: int = 0
    other_hours: int = 0
    markers: int = 0
    aborted: int = 0
    compacted: int = 0
    missing: GrowingIntervals = msgspec.field(default_factory=GrowingIntervals)
    windows: dict[int, _Window] = {}

    def at(self, start: int) -> _Window:
        return self.windows.setdefault(start, _Window())

    def give_up(self, first: int, last: int) -> None:
        self.missing.add(first, last + 1)

    def finished(self) -> Account:
        return Account(
            leader_epoch=self.leader_epoch,
            first=self.first,
            next_offset=self.next_offset,
            rows=self.rows,
            duplicates=self.duplicates,
            dead=self.dead,
            other_hours=self.other_hours,
            markers=self.markers,
            aborted=self.aborted,
            compacted=self.compacted,
            missing=closed(self.missing.intervals),
            windows=tuple(
                LandedWindow(
                    start=start,
                    rows=window.rows,
                    duplicates=window.duplicates,
                    dead=window.dead,
                    bytes=window.bytes,
                    crc_sum=window.crc_sum,
                )
                for start, window in sorted(self.windows.items())
            ),
        )


class LandedSlice(msgspec.Struct):
    """Counts the records of a slice, and decides nothing. With `only_hours`, windows of other hours
    are not counted."""

    piece: Slice
    window_millis: int
    times: tuple[int, int]  # the first and the last accepted time
    only_hours: Collection[Hour] = ()

    _batches: int = 0
    _bytes: int = 0
    _unnamed: int = 0
    _leads: int = 0
    _gives_up: bool = False
    _accounts: list[_Account] = []
    _last: BatchHeader | None = None
    _rows: Counter[Hour] = msgspec.field(default_factory=Counter)
    _dead: Counter[str] = msgspec.field(default_factory=Counter)
    _schema_ids: Counter[int] = msgspec.field(default_factory=Counter)

    @property
    def leader_epoch(self) -> int:
        """The epoch of the current batch; -1 before the first batch."""
        return self._accounts[-1].leader_epoch if self._accounts else -1

    def starts_epoch(self, leader_epoch: int) -> bool:
        """Whether a batch of this epoch would begin another epoch."""
        return bool(self._accounts) and self._accounts[-1].leader_epoch != leader_epoch

    def read(
        self, header: BatchHeader, schema_ids: Mapping[int, int], *, has_duplicates: bool
    ) -> None:
        """Begins a batch; later calls are about its records."""
        self._account_of(header, has_duplicates=has_duplicates)
        self._batches += 1
        self._bytes += header.size
        self._schema_ids.update(schema_ids)
        if (window := self._window(header.base_timestamp)) is not None:
            window.bytes += header.size
            window.crc_sum += header.crc

    def nothing(self, first: int, end: int, *, given_up: bool) -> None:
        """Counts offsets without a record, between batches or between records of a batch."""
        self._gives_up |= given_up
        if not self._accounts:  # a batch of the previous slice may reach into this one
            self._leads += end - first
            return
        account = self._accounts[-1]
        if given_up:
            account.give_up(first, end - 1)
        else:
            account.compacted += end - first
        account.next_offset = max(account.next_offset, end)

    def passed_over(
        self, header: BatchHeader, first: int, what: Instead, *, given_up: bool
    ) -> None:
        """Counts the offsets of a batch from `first` on, if it has no events of committed
        transactions."""
        account = self._account_of(header, has_duplicates=self._has_duplicates())
        offsets = header.next_offset - first
        match what:
            case Instead.MARKERS:
                account.markers += offsets
            case Instead.ABORTED:
                account.aborted += offsets
            case _ if given_up:
                account.give_up(first, header.next_offset - 1)
            case _:
                account.compacted += offsets

    def of_other_hours(self, count: int) -> None:
        """Counts events of hours that are not being loaded."""
        if count:
            self._accounts[-1].other_hours += count

    def died(self, letters: Iterable[Dead]) -> None:
        for letter in letters:
            self._dead[letter.reason] += 1
            self._died_at(letter.timestamp, 1)

    def dead_without_letters(self, time: int, count: int) -> None:
        """Counts dead records of a batch that has too many to write a dead letter for each."""
        self._unnamed += count
        self._died_at(time, count)

    def landed(self, times: pa.Int64Array, within: tuple[int, int]) -> None:
        """Counts new rows with these times. `within` has the earliest and the latest time. Raises
        TooManyHours."""
        for hour, count in counted(times, HOUR_MILLIS, within).items():
            self._rows[Hour(hour)] += count
        account = self._accounts[-1]
        if len(self._rows) > MOST_HOURS_OF_RUN:
            raise too_many_hours(self.piece.log, self.piece.first, account.next_offset)
        account.rows += len(times)
        for start, count in counted(times, self.window_millis, within).items():
            account.at(start).rows += count

    def repeated(self, times: pa.Int64Array, new: pa.Int64Array) -> None:
        """Counts duplicates: rows with these times, except for those with the times of `new`."""
        account = self._accounts[-1]
        account.duplicates += len(times) - len(new)
        counts = Counter(counted(times, self.window_millis, bounds(times)))
        if len(new):
            counts.subtract(counted(new, self.window_millis, bounds(new)))
        for start, count in counts.items():
            if count:
                account.at(start).duplicates += count

    def report(
        self, next_offset: int, leader_epoch: int, sources: Duplicates, files: SliceFiles
    ) -> SliceReport:
        """The complete report on a slice that was read up to `next_offset`, in the last leader
        epoch `leader_epoch`, and on its files, which have ended. Raises Mismatch if an offset is
        not accounted for."""
        accounts = tuple(account.finished() for account in self._accounts)
        end_offset = accounts[-1].next_offset if accounts else next_offset
        odd_account = next((account for account in accounts if not account.adds_up), None)
        if odd_account is not None or end_offset != next_offset:
            first, end = (
                (end_offset, next_offset)
                if odd_account is None
                else (odd_account.first, odd_account.next_offset)
            )
            raise Mismatch(
                f"{self.piece.log}, offsets {first} to {end - 1}: {unaccounted(odd_account)}"
            )
        return SliceReport(
            slice=self.piece.number,
            topic=self.piece.topic,
            partition=self.piece.partition,
            first=self.piece.first,
            next_offset=next_offset,
            begins=accounts[0].first if accounts else next_offset,
            leads=self._leads,
            gives_up=self._gives_up,
            leader_epoch=leader_epoch,
            batches=self._batches,
            bytes=self._bytes,
            accounts=accounts,
            rows=dict(sorted(self._rows.items())),
            sources=sources.runs(self.leader_epoch),
            scattered=sources.scattered,
            untracked=sources.untracked,
            mixed=tuple(sorted(files.mixed_hours)),
            digests=files.digests,
            dead_digest=files.dead_digest,
            repeated=sources.most_repeated,
            repeats=tuple(sources.repeats),
            dead=dict(self._dead),
            unnamed=self._unnamed,
            schema_ids=dict(self._schema_ids),
            last=None if self._last is None else _identified(self._last),
        )

    def _account_of(self, header: BatchHeader, *, has_duplicates: bool) -> _Account:
        """The account of this batch, extended to the batch's end."""
        account = self._accounts[-1] if self._accounts else None
        if account is None:
            first_offset = max(header.base_offset, self.piece.first)
        else:
            first_offset = account.next_offset
        if (
            account is None
            or account.leader_epoch != header.leader_epoch
            or (account.has_duplicates != has_duplicates and len(self._accounts) < MOST_ACCOUNTS)
        ):
            account = _Account(header.leader_epoch, first_offset, first_offset, has_duplicates)
            self._accounts.append(account)
        account.next_offset = header.next_offset
        self._last = header
        return account

    def _has_duplicates(self) -> bool:
        return bool(self._accounts) and self._accounts[-1].has_duplicates

    def _died_at(self, time: int, count: int) -> None:
        first_time, last_time = self.times
        if not self.only_hours:
            time = min(max(time, first_time), last_time)
        self._accounts[-1].dead += count
        if (window := self._window(time)) is not None:
            window.dead += count

    def _window(self, time: int) -> _Window | None:
        time = min(max(time, FIRST_TIME), LAST_TIME)
        if self.only_hours and hour_of(time) not in self.only_hours:
            return None
        return self._accounts[-1].at(time - time % self.window_millis)


def _identified(header: BatchHeader) -> LastBatch:
    return LastBatch(
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        crc=header.crc,
        max_timestamp=header.max_timestamp,
        leader_epoch=header.leader_epoch,
    )


def unaccounted(odd: Account | None) -> str:
    """Describes an account that does not add up, with advice."""
    description = "no record was read there"
    if odd is not None:
        description = (
            f"{odd.rows:,} rows, {odd.duplicates:,} duplicates, {odd.dead:,} dead letters,"
            f" {odd.other_hours:,} of other hours, {odd.no_events:,} without events and"
            f" {odd.given_up:,} missing do not add up to the number of offsets"
        )
    return (
        f"{description}; nothing was committed. Load again; if it happens again, report it;"
        " --max-records loads the records before it"
    )
