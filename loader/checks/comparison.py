"""The expected content of an hour's folder, and how the actual content differs from it. Pure.

A manifest has the sizes of the files that its own run added; of other files it has only the hours
that they are in, and totals. So what runs committed is remembered between checks (file_check.py). A
file belongs to its hour until a run replaces it, even if it was deleted and the hour was
closed without it: its rows were committed, and are missing.

Rule 1: a file of the committed size counts as unchanged, unless its content was verified and
        differs, or all rows are counted.
Rule 2: a file that readers see and that no run wrote is extra.
Rule 3: where only the total of several files is known, only the total is compared.
Rule 4: the next load verifies the content of a file that was never verified, or was modified since.
Rule 5: unmodified files are verified in turn, a certain number of bytes in each load, since bytes
        can also change without the filesystem noticing. So each load verifies a small table whole,
        and frequent loads do not read a large one all the time. A filesystem that stores checksums
        would not notice either, and is only asked again after a day. A check on request verifies
        all.
Rule 6: a file of the wrong size need not be verified; one without a checksum cannot be.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from loader.commit.layout import hour_path
from loader.store.store import Entry
from loader.values.manifests import HourState, Manifest
from loader.values.tables import Hour

NO_HOUR: Final = HourState(rows=0, files=())
IN_EACH_LOAD: Final = 16 * 1024 * 1024  # up to this many bytes of any files are verified
IN_TURN_MILLIS: Final = 3_600_000  # others are not verified again within this time
STORED_MILLIS: Final = 86_400_000  # stored checksums are not compared again within this time
_LEAST_BYTES: Final = 64 * 1024  # a file counts as this many, as opening it takes as long
UNKNOWN: Final = -1  # number of rows of a file that was not or cannot be counted


class CommittedFile(NamedTuple):
    """A file as counted by the run that added it, with the time of its last verification."""

    rows: int
    bytes: int
    topic: str = ""  # empty: of several topics
    checksum: str = ""  # empty: unknown
    modified: int = 0  # modification time when its content was verified; 0: never, or it differed
    verified: int = 0  # when it was verified, milliseconds


Files = dict[str, CommittedFile]  # by path


class ExpectedHour(msgspec.Struct, frozen=True):
    """The expected content of an hour's folder: known files, other files by name or number, and the
    totals of these other files."""

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
        return sum(file.rows for file in self.known.values()) + self.others_rows


def apply_run(known: Mapping[Hour, Files], manifest: Manifest) -> None:
    """Applies the next run's manifest to the files of these hours."""
    for hour in manifest.rebuilt:
        if hour in known:
            known[hour].clear()
    removed_paths = set(manifest.removes)
    if removed_paths:
        for files in known.values():
            for path in removed_paths & files.keys():
                del files[path]
    prefix = f"{manifest.table}/"
    for added in manifest.adds:
        if added.hour in known and added.path.startswith(prefix):
            known[added.hour][added.path] = CommittedFile(
                added.rows, added.bytes, added.topic, added.checksum
            )


def expected(table: str, hour: Hour, state: HourState, known: Files) -> ExpectedHour:
    """Returns the expected content of an hour, whose `state` is in the newest manifest. If the
    manifest no longer has the names of its files, known files may be among the unlisted ones; then
    only the total is compared."""
    listed_paths = set(state.files)
    known_files = {path: file for path, file in known.items() if path in listed_paths}
    if state.unlisted:
        known = known_files
    other_paths = frozenset(listed_paths - known.keys())
    folder = hour_path(table, hour)
    if not other_paths and not state.unlisted:
        return ExpectedHour(hour, folder, known)
    return ExpectedHour(
        hour,
        folder,
        known,
        other_paths,
        state.unlisted,
        max(0, state.rows - sum(file.rows for file in known_files.values())),
        max(0, state.bytes - sum(file.bytes for file in known_files.values())),
    )


def to_verify(
    known: Mapping[str, CommittedFile],
    present: Mapping[str, Entry],
    *,
    all_: bool,
    most_bytes: int,
    are_stored: bool,
    now: int,
) -> list[str]:
    """The expected files that are due to be verified; `are_stored` says whether the filesystem
    stores checksums."""
    fitting_paths = [
        path
        for path, file in known.items()
        if file.checksum and path in present and present[path].size == file.bytes
    ]
    if all_:
        return sorted(fitting_paths)
    touched_paths = {
        path for path in fitting_paths if known[path].modified != present[path].modified
    }
    other_files = {path: known[path] for path in fitting_paths if path not in touched_paths}
    in_turn = _in_turn(other_files, most_bytes, now, are_stored=are_stored)
    return sorted({*touched_paths, *in_turn})


def _in_turn(
    files: Mapping[str, CommittedFile], most_bytes: int, now: int, *, are_stored: bool
) -> Iterator[str]:
    """The files that were verified longest ago, and at least one that was not recently."""
    size, most_recent_bytes = 0, 0 if are_stored else min(most_bytes, IN_EACH_LOAD)
    for path, file in sorted(files.items(), key=lambda item: (item[1].verified, item[0])):
        weight = max(file.bytes, _LEAST_BYTES)
        if is_recent(file, now, are_stored=are_stored):
            if size + weight > most_recent_bytes:
                continue
        elif size >= most_bytes:
            return
        size += weight
        yield path


def is_recent(file: CommittedFile, now: int, *, are_stored: bool) -> bool:
    """Whether the file was verified so recently that it need not be verified again."""
    return 0 <= now - file.verified < (STORED_MILLIS if are_stored else IN_TURN_MILLIS)


def differs(file: CommittedFile, checksum: str) -> bool:
    """Whether the checksum shows different content. A checksum by another method, or of a missing
    file, proves nothing."""
    method, _, _ = file.checksum.rpartition(":")
    return checksum.rpartition(":")[0] == method and checksum != file.checksum


def verified(file: CommittedFile, entry: Entry, checksum: str, now: int) -> CommittedFile:
    """The file's record, updated after its content was compared."""
    if not checksum:
        return file
    if differs(file, checksum):
        return file._replace(modified=0)
    return file._replace(modified=entry.modified, verified=now)


class FileFaultKind(StrEnum):
    """The ledger's names for faults of files."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


class FaultyFile(NamedTuple):
    """A file that differs from what was committed; or its folder, if the files there cannot be told
    apart."""

    path: str
    fault: FileFaultKind
    committed_rows: int
    found_rows: int
    topic: str = ""  # empty: any

    def __str__(self) -> str:
        if self.fault is FileFaultKind.EXTRA and not self.committed_rows:
            return f"{self.path} was written by no run ({_rows(self.found_rows)})"
        if self.fault is FileFaultKind.MISSING and self.found_rows <= 0:
            return f"{self.path} is missing ({_rows(self.committed_rows)})"
        if self.found_rows == self.committed_rows:
            return (
                f"{self.path} differs in content from what was committed ({_rows(self.found_rows)})"
            )
        return f"{self.path} has {_rows(self.found_rows)}, not {_rows(self.committed_rows)}"


class HourOutcome(NamedTuple):
    """The result of checking an hour. `files` and `rows` are the expected numbers."""

    hour: Hour
    folder: str
    files: int
    rows: int
    faults: tuple[FaultyFile, ...]


def to_count(
    hour: ExpectedHour,
    sizes: Mapping[str, int],
    *,
    all_: bool,
    spoilt: Collection[str] = frozenset(),
) -> list[str]:
    """The files whose rows are needed for a verdict or a report. `sizes` are by path; the content
    of `spoilt` files differs from what was committed."""
    paths = [
        path
        for path, size in sizes.items()
        if (known_file := hour.known.get(path)) is not None
        and (all_ or known_file.bytes != size or path in spoilt)
    ]
    pool = _pool(hour, sizes)
    if pool and (all_ or not _as_many(hour, sizes, pool)):
        paths += pool
    return sorted({*paths, *_extra(hour, sizes)})


def outcome_of(
    hour: ExpectedHour,
    sizes: Mapping[str, int],
    rows: Mapping[str, int],
    *,
    all_: bool,
    spoilt: Collection[str] = frozenset(),
) -> HourOutcome:
    """The outcome for an hour. `rows` has the row counts of the files that `to_count` named;
    UNKNOWN if a file is unreadable."""
    faults = [
        *_faults_of_known(hour, sizes, rows, spoilt),
        *_faults_of_others(hour, sizes, rows, all_),
    ]
    faults += [
        FaultyFile(path, FileFaultKind.EXTRA, 0, rows.get(path, UNKNOWN))
        for path in _extra(hour, sizes)
    ]
    return HourOutcome(hour.hour, hour.folder, hour.files, hour.rows, tuple(sorted(faults)))


def _faults_of_known(
    hour: ExpectedHour,
    sizes: Mapping[str, int],
    rows: Mapping[str, int],
    spoilt: Collection[str],
) -> list[FaultyFile]:
    faults = []
    for path, known_file in hour.known.items():
        if path not in sizes:
            faults.append(
                FaultyFile(path, FileFaultKind.MISSING, known_file.rows, 0, known_file.topic)
            )
        elif path in spoilt or (
            path in rows and (rows[path], sizes[path]) != (known_file.rows, known_file.bytes)
        ):
            faults.append(
                FaultyFile(
                    path, FileFaultKind.CHANGED, known_file.rows, rows[path], known_file.topic
                )
            )
    return faults


def _faults_of_others(
    hour: ExpectedHour, sizes: Mapping[str, int], rows: Mapping[str, int], all_: bool
) -> list[FaultyFile]:
    if not hour.unlisted and (missing_paths := sorted(hour.others - sizes.keys())):
        rows_each = hour.others_rows if len(hour.others) == 1 else UNKNOWN
        return [FaultyFile(path, FileFaultKind.MISSING, rows_each, 0) for path in missing_paths]
    pool = _pool(hour, sizes)
    has_enough = _as_many(hour, sizes, pool)
    if has_enough and not all_:
        return []
    counts = [rows.get(path, UNKNOWN) for path in pool]
    count = UNKNOWN if UNKNOWN in counts else sum(counts)
    if has_enough and count == hour.others_rows:
        return []
    path = pool[0] if len(pool) == 1 and not hour.unlisted else hour.folder
    return [FaultyFile(path, _fault_kind(hour, pool, count), hour.others_rows, count)]


def _fault_kind(hour: ExpectedHour, pool: Sequence[str], count: int) -> FileFaultKind:
    """The fault of files that can only be judged together."""
    if not hour.unlisted:
        return FileFaultKind.CHANGED
    expected_count = hour.others_rows
    if count == UNKNOWN:
        count, expected_count = len(pool), len(hour.others) + hour.unlisted
    if count == expected_count:
        return FileFaultKind.CHANGED
    return FileFaultKind.MISSING if count < expected_count else FileFaultKind.EXTRA


def _pool(hour: ExpectedHour, sizes: Mapping[str, int]) -> list[str]:
    """The files that are known only as a total. Unlisted files cannot be told from others."""
    if hour.unlisted:
        return sorted(sizes.keys() - hour.known.keys())
    return sorted(hour.others & sizes.keys())


def _as_many(hour: ExpectedHour, sizes: Mapping[str, int], pool: Sequence[str]) -> bool:
    return (
        len(pool) == len(hour.others) + hour.unlisted
        and sum(sizes[path] for path in pool) == hour.others_bytes
    )


def _extra(hour: ExpectedHour, sizes: Mapping[str, int]) -> list[str]:
    if hour.unlisted:
        return []
    return sorted(sizes.keys() - hour.known.keys() - hour.others)


def _rows(count: int) -> str:
    return "an unknown number of rows" if count < 0 else f"{count:,} rows"
