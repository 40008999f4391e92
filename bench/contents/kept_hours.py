"""Hours of a fleet in an audit's database, folded in this process, without a broker.

The agents' file names and topics are named once an hour, files change once a day: what a day takes
on the disk is no more than the days after it, and what is gone after seven makes room.
"""

import contextlib
import time
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from audit.store.store import AuditStore
from bench.contents.audit_fleet import MINUTE, Fleet
from bench.contents.ledger_entries import HOUR_MINUTES, said
from ledger.reading import LedgerPositions

_AT_ONCE: Final = 5  # minutes: of 10,000 agents about as much as a reader hands out at once


class Kept(msgspec.Struct, frozen=True):
    """What became of the hours, in bytes and in entries folded a second."""

    hours: int
    bytes: int
    bytes_halfway: int
    first_rate: float  # in the first hour
    last_rate: float

    def bytes_after(self, hours: int) -> float:
        """As the second half of them grew."""
        each = (self.bytes - self.bytes_halfway) / (self.hours - self.hours // 2)
        return self.bytes + (hours - self.hours) * each


def fold_hours(directory: Path, fleet: Fleet, hours: int) -> Kept:
    """Into a new database there."""
    rates: list[float] = []
    halfway = 0
    for first, end in ((0, hours // 2), (hours // 2, hours)):
        halfway = database_bytes(directory)
        with contextlib.closing(AuditStore.open(directory)) as store:
            rates += [_fold_hour(store, fleet, hour) for hour in range(first, end)]
    return Kept(hours, database_bytes(directory), halfway, rates[0], rates[-1])


def fold_until_now(directory: Path, fleet: Fleet, minute: int) -> int:
    """From that minute on, but for the last few, which are still to come: how many there are then.
    Else all agents would be silent."""
    end = (int(time.time() * 1000) - fleet.begin) // MINUTE - _AT_ONCE
    with contextlib.closing(AuditStore.open(directory)) as store:
        for each in range(minute, end):
            store.fold(fleet.cluster, said(fleet, each), LedgerPositions())
    return max(minute, end)


def database_bytes(directory: Path) -> int:
    """Of the database, and of what SQLite has beside it."""
    return sum(file.stat().st_size for file in directory.glob("audit.db*"))


def _fold_hour(store: AuditStore, fleet: Fleet, hour: int) -> float:
    """Entries a second."""
    count, seconds = 0, 0.0
    for first in range(hour * HOUR_MINUTES, (hour + 1) * HOUR_MINUTES, _AT_ONCE):
        body = pa.concat_arrays([said(fleet, first + each) for each in range(_AT_ONCE)])
        began = time.perf_counter()
        count += store.fold(fleet.cluster, body, LedgerPositions()).entries
        seconds += time.perf_counter() - began
    return count / seconds
