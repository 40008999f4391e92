"""Checks one table: each hour, that no hour or certificate is missing, and the chain.

The files of many hours are read at a time, so that one large file does not hold up the others. The
certificates are read in the order of time. If a load certifies hours meanwhile, all certificates
are read again until none was added during it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Final

import msgspec

from ground.intervals import Intervals, has, intersection, merged, minus
from ledger.hour_certificates import Reference
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder
from penstock.verify.chain import Chain, Link, check_chain
from penstock.verify.faults import Fault, FaultList, Kind
from penstock.verify.heads import HeadsChecker
from penstock.verify.hours import CheckedHour, HourChecker, HourState, StartedHour
from penstock.verify.keys import TrustedKeys
from penstock.verify.layout import (
    HourFolder,
    complete_hours,
    newest_path,
    table_folders,
)
from penstock.verify.statements import NewestStatement, link_of, read_certificate, read_newest
from penstock.verify.store import Store, Unreadable

_MOST_PENDING: Final = 64  # files that wait to be read, and hours
_ATTEMPTS: Final = 3

OnHour = Callable[[CheckedHour], None]


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """What the user expects of the tables."""

    span: tuple[int, int] | None = None
    """Check the files of these hours only, in milliseconds, and expect all of them; default: those
    from the first certified or complete hour to the last one."""
    allow_missing: bool = False
    allow_uncertified: bool = False


class CheckedTable(msgspec.Struct, kw_only=True):
    """The result for one table."""

    table: str
    faults: FaultList
    first: int = 0  # the range of hours that was checked, in milliseconds
    end: int = 0
    whole_hours: int = 0
    uncertified_hours: int = 0
    open_hours: int = 0  # after the range
    hours_without_rows: int = 0
    unsigned_hours_without_rows: int = 0  # of these
    missing_certificates: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    has_counted_rows: bool = True
    hours_without_heads: int = 0  # of the whole ones
    agents_without_head: dict[str, None] = {}  # in words
    signers: set[str] = msgspec.field(default_factory=set)
    newest: Reference | None = None


class TableChecker:
    """Checks tables of one store."""

    def __init__(
        self, store: Store, keys: TrustedKeys, pool: Executor, expected: Expectations
    ) -> None:
        self._store = store
        self._keys = keys
        self._heads = HeadsChecker(store, keys, allow_missing=expected.allow_missing)
        self._hours = HourChecker(store, keys, pool, self._heads)
        self._expected = expected

    def check(
        self, table: str, remembered: Reference | None, on_hour: OnHour | None = None
    ) -> CheckedTable:
        """Checks a table. `remembered`: the newest certificate that an earlier run has seen."""
        result = CheckedTable(table=table, faults=FaultList())
        try:
            newest = read_newest(self._store, self._keys, table)
            folders = table_folders(self._store, table)
        except Unreadable as error:
            result.faults.add([Fault(kind=Kind.UNREADABLE, path=table, words=str(error))])
            return result
        result.faults.add(
            Fault(kind=Kind.UNLISTED_FILE, path=path, words="belongs to no hour of the table")
            for path in folders.foreign
        )
        hours: list[CheckedHour] = []
        for hour in self._checked(folders.hours):
            if on_hour is not None and self._is_expected(hour.folder):
                on_hour(hour)
            _count(hour, result)
            hours.append(hour)
        links = [hour.link for hour in hours if hour.link is not None]
        self._judge_chain(result, newest, links, remembered)
        self._judge_coverage(result, newest, hours)
        if self._expected.span is None:  # an older file need not have all of today's agents
            result.faults.add(self._heads.lacking_keys(table))
        return result

    def _is_expected(self, folder: HourFolder) -> bool:
        span = self._expected.span
        return span is None or span[0] <= folder.hour < span[1]

    def _checked(self, folders: Sequence[HourFolder]) -> Iterator[CheckedHour]:
        """Checks hours in their order, with the files of several hours being read."""
        started: deque[StartedHour] = deque()
        pending = 0
        for folder in folders:
            hour = self._hours.start(folder, with_files=self._is_expected(folder))
            started.append(hour)
            pending += len(hour.files)
            while max(pending, len(started)) > _MOST_PENDING:
                pending -= len(started[0].files)
                yield self._hours.finish(started.popleft())
        for hour in started:
            yield self._hours.finish(hour)

    def _judge_chain(
        self,
        result: CheckedTable,
        newest: NewestStatement | None,
        links: Sequence[Link],
        remembered: Reference | None,
    ) -> None:
        chain = self._chain(result.table, newest, links, remembered)
        for _ in range(_ATTEMPTS - 1):
            newest_now = read_newest(self._store, self._keys, result.table)
            if not chain.faults or newest_now == newest:
                break
            newest = newest_now
            links = list(self._links(result.table))
            chain = self._chain(result.table, newest, links, remembered)
        if newest is not None:
            result.faults.add(newest.faults)
        elif links and not self._expected.allow_missing:
            path = newest_path(result.table)
            words = f"is missing, and {result.table} has certificates"
            result.faults.add([Fault(kind=Kind.NO_NEWEST, path=path, words=words)])
        result.faults.add(chain.faults)
        result.missing_certificates = chain.missing
        result.newest = chain.newest

    def _chain(
        self,
        table: str,
        newest: NewestStatement | None,
        links: Sequence[Link],
        remembered: Reference | None,
    ) -> Chain:
        return check_chain(
            links,
            None if newest is None else newest.link,
            remembered,
            table=table,
            allow_missing=self._expected.allow_missing,
        )

    def _links(self, table: str) -> Iterator[Link]:
        """Reads all certificates again."""
        for folder in table_folders(self._store, table).hours:
            statement = read_certificate(self._store, self._keys, folder)
            link = None if statement is None else link_of(statement, folder)
            if link is not None:
                yield link

    def _judge_coverage(
        self, result: CheckedTable, newest: NewestStatement | None, hours: Sequence[CheckedHour]
    ) -> None:
        """Finds hours that are missing, open, or complete without a certificate."""
        expected = self._expected
        closed = [hour.folder.hour for hour in hours if hour.state is not HourState.OPEN]
        span = expected.span
        if span is None and closed:
            span = (hours[0].folder.hour, closed[-1] + HOUR_MILLIS)
        if span is None:
            words = "has no complete hour"
            result.faults.add([Fault(kind=Kind.NO_HOUR, path=result.table, words=words)])
            return
        result.first, result.end = span
        empty_hours = () if newest is None else merged(newest.empty_hours)
        within = [hour for hour in hours if span[0] <= hour.folder.hour < span[1]]
        for hour in within:
            result.faults.add(_state_faults(hour, empty_hours, expected))
        result.uncertified_hours = sum(hour.state is HourState.UNCERTIFIED for hour in within)
        result.open_hours = sum(
            hour.state is HourState.OPEN for hour in hours if hour.folder.hour >= span[1]
        )
        if within and result.uncertified_hours == len(within) and expected.allow_uncertified:
            words = "has no certificate at all"
            result.faults.add([Fault(kind=Kind.UNCERTIFIED, path=result.table, words=words)])
        absent = minus((span,), merged(_hour_ranges(within)))
        signed = intersection(absent, empty_hours)
        unsigned = intersection(minus(absent, signed), complete_hours(self._store, result.table))
        result.hours_without_rows = _hours_in(signed) + _hours_in(unsigned)
        result.unsigned_hours_without_rows = _hours_in(unsigned)
        result.faults.add(
            _absent_fault(result.table, first, end)
            for first, end in minus(minus(absent, signed), unsigned)
        )


def _count(hour: CheckedHour, result: CheckedTable) -> None:
    result.faults.add(hour.faults)
    if hour.is_whole and hour.is_checked:
        result.whole_hours += 1
        result.files += hour.files
        result.bytes += hour.bytes
        result.rows += hour.rows
        result.has_counted_rows &= hour.has_counted_rows
        result.signers.update(hour.signers)
        result.hours_without_heads += not hour.has_heads
        result.agents_without_head.update(dict.fromkeys(hour.absent))


def _state_faults(
    hour: CheckedHour, empty_hours: Intervals, expected: Expectations
) -> Iterator[Fault]:
    path = hour.folder.path
    if hour.state is HourState.OPEN:
        yield Fault(kind=Kind.OPEN_HOUR, path=path, words="has no _SUCCESS")
    elif hour.state is HourState.UNCERTIFIED:
        if hour.has_rows and has(empty_hours, hour.folder.hour):
            words = "has rows, and it is signed that the hour had none"
            yield Fault(kind=Kind.UNLISTED_FILE, path=path, words=words)
        elif not expected.allow_uncertified:
            yield Fault(kind=Kind.UNCERTIFIED, path=path, words="is complete, and not certified")


def _absent_fault(table: str, first: int, end: int) -> Fault:
    hours = (end - first) // HOUR_MILLIS
    from_hour = hour_folder(Hour(first))
    words = (
        "has no folder"
        if hours == 1
        else f"is the first of {hours:,} hours in succession that have no folder"
    )
    return Fault(kind=Kind.NO_HOUR, path=f"{table}/{from_hour}", words=words)


def _hour_ranges(hours: Iterable[CheckedHour]) -> Iterator[tuple[int, int]]:
    return ((hour.folder.hour, hour.folder.hour + HOUR_MILLIS) for hour in hours)


def _hours_in(ranges: Intervals) -> int:
    return sum(end - first for first, end in ranges) // HOUR_MILLIS
