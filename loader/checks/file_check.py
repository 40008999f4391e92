"""A check of one table: lists its folders, compares them, and reports changes in the ledger.

Every load checks young and recently changed hours, and hours that were faulty at the last check:
names and sizes of all files, the content of files that were modified, and the content of some of
the others in turn (comparison.py). It counts rows only where something differs. A check on request
covers all content and counts all rows. Like Spark and Hive, checks skip names that begin with `_`
or `.`, and files that Hadoop's tools are still copying. Faulty hours are marked for their readers
(damage_markers.py). The files of an hour are also compared before it is closed and they are merged.

A report precedes the note that it was made, so after a crash it is repeated, which is harmless. A
small file keeps what the last check found and reported:

    {root}/_penstock/~checks/{table}.json

Without it, file sizes are known only as far back as manifests reach, and reports are repeated. If
two loaders write it at once, one of them wins; both versions are correct.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ground.known_types import known_type
from loader.checks.comparison import (
    NO_HOUR,
    CommittedFile,
    Files,
    HourOutcome,
    apply_run,
    differs,
    expected,
    is_recent,
    outcome_of,
    to_count,
    to_verify,
    verified,
)
from loader.checks.damage_markers import DamageMarkers
from loader.checks.statements import digest, statements, weight
from loader.commit.commit_log import CommitLog
from loader.commit.layout import DAMAGED, hour_path
from loader.commit.old_hours import recalled
from loader.errors import RunTaken
from loader.ledger.observations import divided
from loader.store.parallel import in_parallel
from loader.store.store import PENSTOCK, Entry, Store
from loader.values.manifests import Manifest
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder, hour_in_folder, hour_of

COPYING: Final = "._COPYING_"
_FEW: Final = 4  # up to this many hours of a day are listed one by one
_DEPTH: Final = 2  # folders between a table and its files
Entries = dict[str, Entry]  # by path
VERSION: Final = 2  # of the state file
# Rows, bytes, index of the topic, checksum, modification time, verification time.
_Packed = tuple[int, int, int, str, int, int]
READERS: Final = 8
MOST_FAULTY: Final = 500  # faulty hours that later checks look at again
Count = Callable[[Sequence[str]], Mapping[str, int]]  # rows by path; UNKNOWN: unreadable
Tell = Callable[[Sequence[Mapping[str, Any]]], bool]  # lists of entries; False: not written


class Listing(NamedTuple):
    """The files that readers see in hours' folders, and the names of all entries there."""

    files: dict[Hour, Entries]
    names: dict[Hour, set[str]]


def listed(store: Store, table: str, hours: Collection[Hour] | None) -> Listing:
    """Lists the folders of these hours, or of all hours that have one. Raises StoreError."""
    folders = [table] if hours is None else _folders(store, table, hours)
    files: dict[Hour, Entries] = {hour: {} for hour in hours or ()}
    names: dict[Hour, set[str]] = {}
    for folder in folders:
        for entry in store.list_recursively(folder):
            parts = entry.path.removeprefix(f"{table}/").split("/")
            hour = _hour("/".join(parts[:_DEPTH]))
            if hour is None or not parts[_DEPTH:] or (hours is not None and hour not in files):
                continue
            names.setdefault(hour, set()).add(parts[_DEPTH])
            if all(map(_is_seen, parts[_DEPTH:])):
                files.setdefault(hour, {})[entry.path] = entry
    return Listing(files, names)


def _folders(store: Store, table: str, hours: Collection[Hour]) -> list[str]:
    """The folders to list: a day's folder if many of its hours are needed, else the hours' own. Of
    several days or hours, only those that exist: a quiet table has few, and S3A makes three
    requests to list a missing folder."""
    hours_by_day: dict[str, list[str]] = defaultdict(list)
    for hour in hours:
        hours_by_day[f"{table}/{_day(hour)}"].append(hour_path(table, hour))
    folders: list[str] = []
    for day in _existing(store, table, hours_by_day):
        day_hours = hours_by_day[day]
        folders += [day] if len(day_hours) > _FEW else _existing(store, day, day_hours)
    return sorted(folders)


def _existing(store: Store, parent: str, folders: Collection[str]) -> Collection[str]:
    """Those of several folders that exist; a single one is not looked for."""
    if len(folders) < 2:
        return folders
    return {entry.path for entry in store.list(parent)}.intersection(folders)


def _day(hour: Hour) -> str:
    return hour_folder(hour).partition("/")[0]


def _is_seen(name: str) -> bool:
    return not name.startswith(("_", ".")) and not name.endswith(COPYING)


def _hour(folder: str) -> Hour | None:
    """The hour of a folder, if the name is exactly as runs write it."""
    try:
        hour = hour_in_folder(folder)
    except ValueError:
        return None
    return hour if hour_folder(hour) == folder else None


class _Version(msgspec.Struct, frozen=True):
    version: int


class _OldFile(msgspec.Struct, frozen=True):
    """The state of a file in version 1, written by Penstock 0.1."""

    version: int
    run: int
    topics: list[str]
    files: dict[Hour, dict[str, tuple[int, int, int]]]
    said: dict[Hour, str]
    faulty: list[Hour]


class _File(msgspec.Struct, frozen=True):
    version: int
    run: int
    topics: list[str]
    files: dict[Hour, dict[str, _Packed]]
    said: dict[Hour, str]
    faulty: list[Hour]


_FORMATS: Final[dict[int, type[_OldFile | _File]]] = {1: _OldFile, VERSION: _File}


class Checked(msgspec.Struct, frozen=True):
    """The state that a check leaves for the next one, as of one run."""

    run: int = 0
    files: Mapping[Hour, Files] = {}
    said: Mapping[Hour, str] = {}  # digest of what was reported of an hour
    faulty: tuple[Hour, ...] = ()  # hours with faults


def state_path(table: str) -> str:
    """The table's state file. No table's name begins with `~`."""
    return f"{PENSTOCK}/~checks/{table}.json"


def to_bytes(checked: Checked) -> bytes:
    topics: dict[str, int] = {}
    files = {
        hour: {path: _packed(file, topics) for path, file in hour_files.items()}
        for hour, hour_files in checked.files.items()
    }
    file = _File(
        VERSION, checked.run, list(topics), files, dict(checked.said), list(checked.faulty)
    )
    return msgspec.json.encode(file)


def from_bytes(data: bytes) -> Checked | None:
    """The state, or None if the data is damaged or of another version."""
    try:
        version = msgspec.json.decode(data, type=known_type(_Version)).version
        if version not in _FORMATS:
            return None
        file = msgspec.json.decode(data, type=known_type(_FORMATS[version]))
        files = {
            hour: {
                path: CommittedFile(fields[0], fields[1], file.topics[fields[2]], *fields[3:])
                for path, fields in hour_files.items()
            }
            for hour, hour_files in file.files.items()
        }
    except (msgspec.DecodeError, IndexError):
        return None
    return Checked(file.run, files, file.said, tuple(file.faulty))


def _packed(file: CommittedFile, topics: dict[str, int]) -> _Packed:
    topic_index = topics.setdefault(file.topic, len(topics))
    return (file.rows, file.bytes, topic_index, file.checksum, file.modified, file.verified)


class FileCheck:
    """Checks one table, in one thread.

    Raises StoreError, and RunTaken if another loader commits meanwhile: the expected files are
    unknown then.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        topics: Sequence[str],
        *,
        young_millis: int,
        count: Count,
        tell: Tell,
        markers: DamageMarkers,
        most_bytes: int,
    ) -> None:
        """`topics` feed the table. Each load verifies up to `most_bytes` of files that look
        unmodified."""
        self._commit_log = commit_log
        self._topics = topics
        self._young_millis = young_millis
        self._count = count
        self._tell = tell
        self._markers = markers
        self._most_bytes = most_bytes

    def young(self, manifest: Manifest, now: int) -> list[HourOutcome]:
        """Checks young hours and those with known faults, as of the newest manifest, which is
        published. Returns the faulty young hours; faults of older hours only go to the ledger."""
        checked_before = self._checked_before()
        if checked_before.run > manifest.run:
            self._check_alone(manifest)
        young_hours = self._young(manifest, now)
        outcomes = self._check(
            manifest, checked_before, {*young_hours, *checked_before.faulty}, now, all_=False
        )
        return [outcome for outcome in outcomes if outcome.faults and outcome.hour in young_hours]

    def on_request(self, hours: Collection[Hour] | None, now: int) -> list[HourOutcome]:
        """Checks all content of these hours, or of all hours, and returns the outcomes."""
        manifest = self._check_alone(self._commit_log.latest())
        return self._check(manifest, self._checked_before(), hours, now, all_=True)

    def changed_files(
        self, latest: Manifest, hours: Collection[Hour], now: int
    ) -> dict[Hour, list[str]]:
        """Returns the files of these hours whose content is not as committed up to this run."""
        before = self._checked_before()
        present, _ = listed(self._commit_log.store, latest.table, hours)
        known = self._known(latest, before, hours, all_=False)
        spoilt_files = self._spoilt_files(known, hours, present, now, all_=True)
        changed = {hour: sorted(spoilt_files & known[hour].keys()) for hour in hours}
        return {hour: paths for hour, paths in changed.items() if paths}

    def _checked_before(self) -> Checked:
        data = self._commit_log.store.read(state_path(self._commit_log.table))
        return (data and from_bytes(data)) or Checked()

    def _young(self, latest: Manifest, now: int) -> set[Hour]:
        since_millis, current_hour = now - self._young_millis, hour_of(now)
        young_hours = {
            Hour(hour) for hour in range(hour_of(since_millis), current_hour + 1, HOUR_MILLIS)
        }
        return young_hours | {
            hour for hour, state in latest.hours.items() if state.at > since_millis
        }

    def _check(
        self,
        latest: Manifest,
        before: Checked,
        hours: Collection[Hour] | None,
        now: int,
        *,
        all_: bool,
    ) -> list[HourOutcome]:
        table, store = latest.table, self._commit_log.store
        present_files, names = listed(store, table, hours)
        hours_to_check = sorted({*latest.hours, *present_files} if hours is None else hours)
        latest = recalled(store, latest, hours_to_check, now)
        known_files = self._known(latest, before, hours_to_check, all_=all_)
        spoilt_files = self._spoilt_files(
            known_files, hours_to_check, present_files, now, all_=all_
        )
        outcomes = self._outcomes(
            latest, hours_to_check, known_files, present_files, spoilt_files, all_=all_
        )
        is_odd = any(outcome.faults for outcome in outcomes) or DAMAGED in set().union(
            *names.values()
        )
        if is_odd:  # another loader's run may be the reason
            self._check_alone(latest)
        self._markers.update(outcomes, names, latest.hours)
        digests = self._reported(before, outcomes, all_=all_)
        checked_hours = {outcome.hour for outcome in outcomes}
        faulty = {outcome.hour for outcome in outcomes if outcome.faults}
        faulty |= {hour for hour in before.faulty if hour not in checked_hours}
        kept_hours = {*self._young(latest, now), *sorted(faulty)[-MOST_FAULTY:]}
        listed_hours = {
            hour for hour, state in latest.hours.items() if state.files and not state.unlisted
        }
        after = Checked(
            latest.run,
            {
                hour: known_files[hour]
                for hour in known_files.keys() & (kept_hours | listed_hours)
                if known_files[hour]
            },
            {hour: digest for hour, digest in digests.items() if hour in kept_hours},
            tuple(sorted(faulty & kept_hours)),
        )
        if after != before:
            store.replace(state_path(table), to_bytes(after))
        return outcomes

    def _known(
        self, latest: Manifest, before: Checked, hours: Iterable[Hour], *, all_: bool
    ) -> dict[Hour, Files]:
        """The committed files of these hours, and of all hours in the saved state."""
        if all_ or before.run != latest.run:
            runs = sorted(run for run in self._commit_log.known().committed if run <= latest.run)
        else:
            runs = [latest.run]
        if before.run > latest.run or (runs and before.run and runs[0] > before.run + 1):
            before = Checked()  # manifests in between are gone
        known_files = {hour: dict(before.files.get(hour, {})) for hour in {*before.files, *hours}}
        # For hours that the state lacks, earlier manifests may still list files.
        missing_hours = {
            hour: files for hour, files in known_files.items() if hour not in before.files
        }
        for run in runs:
            if run > before.run:
                apply_run(known_files, self._commit_log.read(run))
            elif all_:
                apply_run(missing_hours, self._commit_log.read(run))
        return known_files

    def _spoilt_files(
        self,
        known: dict[Hour, Files],
        hours: Iterable[Hour],
        present: Mapping[Hour, Entries],
        now: int,
        *,
        all_: bool,
    ) -> set[str]:
        """Returns files whose content differs from what was committed, and notes in `known` what
        was verified. If every file is, their turns do not matter, and an idle load writes nothing.
        """
        files = {path: (hour, file) for hour in hours for path, file in known[hour].items()}
        entries = {path: entry for hour in hours for path, entry in present.get(hour, {}).items()}
        are_stored = self._commit_log.store.stores_checksums
        paths_to_verify = to_verify(
            {path: file for path, (_, file) in files.items()},
            entries,
            all_=all_,
            most_bytes=self._most_bytes,
            are_stored=are_stored,
            now=now,
        )
        spoilt_files, is_whole = set(), len(paths_to_verify) == len(files)
        size = sum(entries[path].size for path in paths_to_verify)
        sums = in_parallel(self._checksum, paths_to_verify, threads=READERS, size=size)
        for path, checksum in zip(paths_to_verify, sums, strict=True):
            hour, file = files[path]
            is_untouched = file.modified == entries[path].modified
            if differs(file, checksum):
                spoilt_files.add(path)
            elif is_whole and is_untouched and is_recent(file, now, are_stored=are_stored):
                continue
            known[hour][path] = verified(file, entries[path], checksum, now)
        return spoilt_files

    def _checksum(self, path: str) -> str:
        return self._commit_log.store.checksum(path)

    def _outcomes(
        self,
        latest: Manifest,
        hours: Iterable[Hour],
        known: Mapping[Hour, Files],
        entries: Mapping[Hour, Entries],
        spoilt: Collection[str],
        *,
        all_: bool,
    ) -> list[HourOutcome]:
        sizes = {
            hour: {path: entry.size for path, entry in hour_entries.items()}
            for hour, hour_entries in entries.items()
        }
        expected_hours = [
            expected(latest.table, hour, latest.hours.get(hour, NO_HOUR), known.get(hour, {}))
            for hour in hours
        ]
        paths = [
            path
            for hour in expected_hours
            for path in to_count(hour, sizes.get(hour.hour, {}), all_=all_, spoilt=spoilt)
        ]
        empty = {path for of_hour in sizes.values() for path, size in of_hour.items() if not size}
        rows = dict.fromkeys(empty.intersection(paths), 0)
        if paths := [path for path in paths if path not in empty]:
            rows |= self._count(paths)
        return [
            outcome_of(hour, sizes.get(hour.hour, {}), rows, all_=all_, spoilt=spoilt)
            for hour in expected_hours
        ]

    def _reported(
        self, before: Checked, outcomes: Iterable[HourOutcome], *, all_: bool
    ) -> dict[Hour, str]:
        """Reports what changed, and returns the digests of all that has been reported."""
        report: list[dict[str, Any]] = []
        digests: dict[Hour, str] = {}
        for outcome in outcomes:
            if not (outcome.files or outcome.faults or outcome.hour in before.said):
                continue
            hour_statements = statements(outcome, self._topics)
            if all_ or digest(hour_statements) != before.said.get(outcome.hour):
                report += hour_statements
                digests[outcome.hour] = digest(hour_statements)
        if report and self._tell([{"checked": part} for part in divided(report, weight)]):
            return {**before.said, **digests}
        return dict(before.said)

    def _check_alone(self, latest: Manifest | None) -> Manifest:
        """Checks that this is the newest manifest, and its files are visible. Raises RunTaken."""
        listed_runs = self._commit_log.listed()
        is_newest = latest is not None and latest.run == listed_runs.newest
        if latest is None or not is_newest or latest.run not in listed_runs.visible:
            raise RunTaken(
                f"table {self._commit_log.table}: another loader is at work; its files were not"
                " checked"
            )
        return latest
