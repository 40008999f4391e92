"""Hours of a fleet in an audit's database, folded in this process without a broker.

Agents name their files and topics once an hour, and files change once a day, so every day takes
about the same space. Rows older than seven days are deleted and their space is used again.
"""

import contextlib
import time
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from audit.store.store import AuditStore
from bench.contents.audit_fleet import MINUTE, Fleet
from bench.contents.ledger_entries import HOUR_MINUTES, fleet_entries
from ledger.reading import LedgerPositions

_AT_ONCE: Final = 5  # minutes; of 10,000 agents, about what a reader returns at once


class Kept(msgspec.Struct, frozen=True):
    """The size of a database, and the number of entries folded into it per second."""

    hours: int
    bytes: int
    bytes_halfway: int
    first_rate: float  # in the first hour
    last_rate: float

    def bytes_after(self, hours: int) -> float:
        """Returns the size after `hours`, extrapolated from the growth in the second half."""
        bytes_per_hour = (self.bytes - self.bytes_halfway) / (self.hours - self.hours // 2)
        return self.bytes + (hours - self.hours) * bytes_per_hour


def fold_hours(directory: Path, fleet: Fleet, hours: int) -> Kept:
    """Folds the hours into a new database in `directory`."""
    rates: list[float] = []
    halfway_bytes = 0
    for first, end in ((0, hours // 2), (hours // 2, hours)):
        halfway_bytes = database_bytes(directory)
        with contextlib.closing(AuditStore.open(directory)) as store:
            rates += [_fold_hour(store, fleet, hour) for hour in range(first, end)]
    return Kept(hours, database_bytes(directory), halfway_bytes, rates[0], rates[-1])


def fold_until_now(directory: Path, fleet: Fleet, minute: int) -> int:
    """Folds the minutes from `minute` until shortly before now, so that no agent appears silent.

    Returns the number of the next minute.
    """
    end = (int(time.time() * 1000) - fleet.begin) // MINUTE - _AT_ONCE
    with contextlib.closing(AuditStore.open(directory)) as store:
        for number in range(minute, end):
            store.fold(fleet.cluster, fleet_entries(fleet, number), LedgerPositions())
    return max(minute, end)


def database_bytes(directory: Path) -> int:
    """Returns the size of the database, including the files that SQLite keeps beside it."""
    return sum(file.stat().st_size for file in directory.glob("audit.db*"))


def _fold_hour(store: AuditStore, fleet: Fleet, hour: int) -> float:
    """Returns the entries folded per second."""
    count, seconds = 0, 0.0
    for first in range(hour * HOUR_MINUTES, (hour + 1) * HOUR_MINUTES, _AT_ONCE):
        body = pa.concat_arrays([fleet_entries(fleet, first + index) for index in range(_AT_ONCE)])
        start_time = time.perf_counter()
        count += store.fold(fleet.cluster, body, LedgerPositions()).entries
        seconds += time.perf_counter() - start_time
    return count / seconds
