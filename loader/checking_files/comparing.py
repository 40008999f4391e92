"""An hour's folder held against what should lie in it. Pure.

Rule 1: a file that is as long as it was committed is taken for what it was, unless its content was
        looked at, and is another, or all are counted.
Rule 2: what a plain reader would see, and no run has written, is too much.
Rule 3: of files of which only the sum is known, only the sum is compared.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from loader.checking_files.committed import ExpectedHour
from loader.tables import Hour

UNKNOWN: Final = -1  # rows of what nobody has counted, or can


class Fault(StrEnum):
    """As the ledger calls it."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


class FileFault(NamedTuple):
    """A file, or the folder of files that cannot be told apart, that is not as it should be."""

    path: str
    fault: Fault
    committed_rows: int
    found_rows: int
    topic: str = ""  # empty: of any

    def __str__(self) -> str:
        if self.fault is Fault.EXTRA and not self.committed_rows:
            return f"{self.path} was written by no run ({_rows(self.found_rows)})"
        if self.fault is Fault.MISSING and self.found_rows <= 0:
            return f"{self.path} is missing ({_rows(self.committed_rows)})"
        if self.found_rows == self.committed_rows:
            return f"{self.path} has other bytes than were committed ({_rows(self.found_rows)})"
        return f"{self.path} has {_rows(self.found_rows)}, not {_rows(self.committed_rows)}"


class HourOutcome(NamedTuple):
    """What came of one hour. `files` and `rows` are those that should be there."""

    hour: Hour
    folder: str
    files: int
    rows: int
    faults: tuple[FileFault, ...]


def to_count(
    hour: ExpectedHour,
    there: Mapping[str, int],
    *,
    all_: bool,
    spoilt: Collection[str] = frozenset(),
) -> list[str]:
    """Files whose rows decide, or are to be told. Sizes are by path. `spoilt` are those whose
    content is not what was committed."""
    wanted = [
        path
        for path, size in there.items()
        if (known := hour.known.get(path)) is not None
        and (all_ or known.bytes != size or path in spoilt)
    ]
    pool = _pool(hour, there)
    if pool and (all_ or not _as_many(hour, there, pool)):
        wanted += pool
    return sorted({*wanted, *_extra(hour, there)})


def compared(
    hour: ExpectedHour,
    there: Mapping[str, int],
    rows: Mapping[str, int],
    *,
    all_: bool,
    spoilt: Collection[str] = frozenset(),
) -> HourOutcome:
    """`rows` are those of the files that were to be counted; one that could not be is UNKNOWN."""
    faults = [*_of_known(hour, there, rows, spoilt), *_of_others(hour, there, rows, all_)]
    faults += [
        FileFault(path, Fault.EXTRA, 0, rows.get(path, UNKNOWN)) for path in _extra(hour, there)
    ]
    return HourOutcome(hour.hour, hour.folder, hour.files, hour.rows, tuple(sorted(faults)))


def _of_known(
    hour: ExpectedHour,
    there: Mapping[str, int],
    rows: Mapping[str, int],
    spoilt: Collection[str],
) -> list[FileFault]:
    found = []
    for path, known in hour.known.items():
        if path not in there:
            found.append(FileFault(path, Fault.MISSING, known.rows, 0, known.topic))
        elif path in spoilt or (
            path in rows and (rows[path], there[path]) != (known.rows, known.bytes)
        ):
            found.append(FileFault(path, Fault.CHANGED, known.rows, rows[path], known.topic))
    return found


def _of_others(
    hour: ExpectedHour, there: Mapping[str, int], rows: Mapping[str, int], all_: bool
) -> list[FileFault]:
    if not hour.unlisted and (gone := sorted(hour.others - there.keys())):
        only = hour.others_rows if len(hour.others) == 1 else UNKNOWN
        return [FileFault(path, Fault.MISSING, only, 0) for path in gone]
    pool = _pool(hour, there)
    as_many = _as_many(hour, there, pool)
    if as_many and not all_:
        return []
    counts = [rows.get(path, UNKNOWN) for path in pool]
    count = UNKNOWN if UNKNOWN in counts else sum(counts)
    if as_many and count == hour.others_rows:
        return []
    path = pool[0] if len(pool) == 1 and not hour.unlisted else hour.folder
    return [FileFault(path, _fault(hour, pool, count), hour.others_rows, count)]


def _fault(hour: ExpectedHour, pool: Sequence[str], count: int) -> Fault:
    """What is wrong with files that can only be judged together."""
    if not hour.unlisted:
        return Fault.CHANGED
    wanted = hour.others_rows
    if count == UNKNOWN:
        count, wanted = len(pool), len(hour.others) + hour.unlisted
    if count == wanted:
        return Fault.CHANGED
    return Fault.MISSING if count < wanted else Fault.EXTRA


def _pool(hour: ExpectedHour, there: Mapping[str, int]) -> list[str]:
    """Files of which only the sum is known. Those without a name cannot be told from others."""
    if hour.unlisted:
        return sorted(there.keys() - hour.known.keys())
    return sorted(hour.others & there.keys())


def _as_many(hour: ExpectedHour, there: Mapping[str, int], pool: Sequence[str]) -> bool:
    return (
        len(pool) == len(hour.others) + hour.unlisted
        and sum(there[path] for path in pool) == hour.others_bytes
    )


def _extra(hour: ExpectedHour, there: Mapping[str, int]) -> list[str]:
    if hour.unlisted:
        return []
    return sorted(there.keys() - hour.known.keys() - hour.others)


def _rows(count: int) -> str:
    return "nobody knows how many rows" if count < 0 else f"{count:,} rows"
