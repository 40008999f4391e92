"""What should lie in an hour's folder, and what is wrong with what does. Pure.

A manifest says of the files that its own run has added how large they are, and of all others only
which hours have them, and what these come to. So what runs said is kept (checking.py). A file stays
one of its hour until a run replaces it, also if somebody has taken it away and the hour was closed
without it: its rows were committed, and are missing.

Rule 1: a file that is as long as it was committed is taken for what it was, unless its content was
        looked at, and is another, or all are counted.
Rule 2: what a plain reader would see, and no run has written, is too much.
Rule 3: of files of which only the sum is known, only the sum is compared.
Rule 4: the content of a file that was never looked at, or was modified since, is looked at by the
        next load.
Rule 5: those that nobody has touched are looked at in turn, a certain number of bytes by each load,
        as bytes also change where no file system notices. Who asks for a check has all looked at.
Rule 6: a file whose size is wrong needs no looking at, and one without a checksum cannot be.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from loader.commit.layout import hour_path
from loader.manifests import HourState, Manifest
from loader.store.store import Entry
from loader.tables import Hour

NO_HOUR: Final = HourState(rows=0, files=())
IN_TURN_MILLIS: Final = 3_600_000  # a file is not looked at again within this time
UNKNOWN: Final = -1  # rows of what nobody has counted, or can


class CommittedFile(NamedTuple):
    """As the run that added it has counted it; and when its content was last found to be that."""

    rows: int
    bytes: int
    topic: str = ""  # empty: of several
    checksum: str = ""  # empty: nobody knows
    modified: int = 0  # as it was when its content was looked at; 0: never, or it was wrong
    verified: int = 0  # when that was, milliseconds


Files = dict[str, CommittedFile]  # by path


class ExpectedHour(msgspec.Struct, frozen=True):
    """What should lie in its folder: files that are known, others by name or by number, and what
    these others come to."""

    hour: Hour
    folder: str
    known: Mapping[str, CommittedFile]
    others: frozenset[str] = frozenset()
    unlisted: int = 0
    others_rows: int = 0
    others_bytes: int = 0

    @property
    def files(self) -> int:
        return len(self.known) + len(self.others) + self.unlisted

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.known.values()) + self.others_rows


def apply_run(known: Mapping[Hour, Files], manifest: Manifest) -> None:
    """The files of these hours, as they are after the run that comes next."""
    for hour in manifest.rebuilt:
        if hour in known:
            known[hour].clear()
    replaced = set(manifest.removes)
    if replaced:
        for files in known.values():
            for path in replaced & files.keys():
                del files[path]
    prefix = f"{manifest.table}/"
    for added in manifest.adds:
        if added.hour in known and added.path.startswith(prefix):
            known[added.hour][added.path] = CommittedFile(
                added.rows, added.bytes, added.topic, added.checksum
            )


def expected(table: str, hour: Hour, state: HourState, known: Files) -> ExpectedHour:
    """`state` is what the newest manifest says of the hour. Where it has no names any more, those
    that are known may be among them: then only the sum is."""
    listed = set(state.files)
    of_hour = {path: each for path, each in known.items() if path in listed}
    if state.unlisted:
        known = of_hour
    others = frozenset(listed - known.keys())
    folder = hour_path(table, hour)
    if not others and not state.unlisted:
        return ExpectedHour(hour, folder, known)
    return ExpectedHour(
        hour,
        folder,
        known,
        others,
        state.unlisted,
        max(0, state.rows - sum(each.rows for each in of_hour.values())),
        max(0, state.bytes - sum(each.bytes for each in of_hour.values())),
    )


def to_verify(
    known: Mapping[str, CommittedFile],
    there: Mapping[str, Entry],
    *,
    all_: bool,
    most_bytes: int,
    now: int,
) -> list[str]:
    """Of files that should be there, those whose content is to be looked at now."""
    fitting = [
        path
        for path, file in known.items()
        if file.checksum and path in there and there[path].size == file.bytes
    ]
    if all_:
        return sorted(fitting)
    touched = {path for path in fitting if known[path].modified != there[path].modified}
    others = {path: known[path] for path in fitting if path not in touched}
    return sorted({*touched, *_in_turn(others, most_bytes, now)})


def _in_turn(files: Mapping[str, CommittedFile], most_bytes: int, now: int) -> Iterator[str]:
    """Those that were not looked at for longest; one at least."""
    left = most_bytes
    for path, file in sorted(files.items(), key=lambda each: (each[1].verified, each[0])):
        if left <= 0 or 0 <= now - file.verified < IN_TURN_MILLIS:
            return
        left -= file.bytes
        yield path


def is_different(file: CommittedFile, found: str) -> bool:
    """Whether that is the checksum of another content. Those that were made in another way, or of
    a file that is gone meanwhile, say nothing."""
    method, _, _ = file.checksum.rpartition(":")
    return found.rpartition(":")[0] == method and found != file.checksum


def verified_file(file: CommittedFile, entry: Entry, found: str, now: int) -> CommittedFile:
    """What is known of it then."""
    if not found:
        return file
    if is_different(file, found):
        return file._replace(modified=0)
    return file._replace(modified=entry.modified, verified=now)


class FileFaultKind(StrEnum):
    """As the ledger calls it."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


class FaultyFile(NamedTuple):
    """A file, or the folder of files that cannot be told apart, that is not as it should be."""

    path: str
    fault: FileFaultKind
    committed_rows: int
    found_rows: int
    topic: str = ""  # empty: of any

    def __str__(self) -> str:
        if self.fault is FileFaultKind.EXTRA and not self.committed_rows:
            return f"{self.path} was written by no run ({_rows(self.found_rows)})"
        if self.fault is FileFaultKind.MISSING and self.found_rows <= 0:
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
    faults: tuple[FaultyFile, ...]


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
        FaultyFile(path, FileFaultKind.EXTRA, 0, rows.get(path, UNKNOWN))
        for path in _extra(hour, there)
    ]
    return HourOutcome(hour.hour, hour.folder, hour.files, hour.rows, tuple(sorted(faults)))


def _of_known(
    hour: ExpectedHour,
    there: Mapping[str, int],
    rows: Mapping[str, int],
    spoilt: Collection[str],
) -> list[FaultyFile]:
    found = []
    for path, known in hour.known.items():
        if path not in there:
            found.append(FaultyFile(path, FileFaultKind.MISSING, known.rows, 0, known.topic))
        elif path in spoilt or (
            path in rows and (rows[path], there[path]) != (known.rows, known.bytes)
        ):
            found.append(
                FaultyFile(path, FileFaultKind.CHANGED, known.rows, rows[path], known.topic)
            )
    return found


def _of_others(
    hour: ExpectedHour, there: Mapping[str, int], rows: Mapping[str, int], all_: bool
) -> list[FaultyFile]:
    if not hour.unlisted and (gone := sorted(hour.others - there.keys())):
        only = hour.others_rows if len(hour.others) == 1 else UNKNOWN
        return [FaultyFile(path, FileFaultKind.MISSING, only, 0) for path in gone]
    pool = _pool(hour, there)
    as_many = _as_many(hour, there, pool)
    if as_many and not all_:
        return []
    counts = [rows.get(path, UNKNOWN) for path in pool]
    count = UNKNOWN if UNKNOWN in counts else sum(counts)
    if as_many and count == hour.others_rows:
        return []
    path = pool[0] if len(pool) == 1 and not hour.unlisted else hour.folder
    return [FaultyFile(path, _fault(hour, pool, count), hour.others_rows, count)]


def _fault(hour: ExpectedHour, pool: Sequence[str], count: int) -> FileFaultKind:
    """What is wrong with files that can only be judged together."""
    if not hour.unlisted:
        return FileFaultKind.CHANGED
    wanted = hour.others_rows
    if count == UNKNOWN:
        count, wanted = len(pool), len(hour.others) + hour.unlisted
    if count == wanted:
        return FileFaultKind.CHANGED
    return FileFaultKind.MISSING if count < wanted else FileFaultKind.EXTRA


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
