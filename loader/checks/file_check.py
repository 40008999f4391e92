"""A check of one table: its folders listed, compared, and what has changed told in the ledger.

Every load looks at hours that are young, or were changed lately, and again at those that were not
as they should be: at names and sizes, at the content of what was touched, and of a part of the rest
in turn (comparing.py). Rows are counted only where something differs. Whoever asks for a check has
all of it looked at, and all rows counted. As Spark and Hive do, it passes over names that begin
with `_` or `.`, and over what is still being copied by Hadoop's tools.

What is told first and noted afterwards is told again after a crash, which changes nothing. What the
last check knew and said is in a small file:

    {root}/_penstock/~checks/{table}.json

Where it is lost, sizes of files are only known as far back as there are manifests, and what was
said is said again. Of two loaders who write it at once, one wins; either is true.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ground.known_types import known_type
from loader.checks.comparison import (
    NO_HOUR,
    CommittedFile,
    Files,
    HourOutcome,
    apply_run,
    compared,
    expected,
    is_different,
    to_count,
    to_verify,
    verified_file,
)
from loader.checks.statements import digest, statements, weight
from loader.commit.history import History
from loader.commit.layout import hour_path
from loader.commit.old_hours import recalled
from loader.errors import RunTaken
from loader.ledger.observations import divided
from loader.manifests import Manifest
from loader.parallel import in_parallel
from loader.store.store import PENSTOCK, Entry, Store
from loader.tables import HOUR_MILLIS, Hour, hour_folder, hour_in_folder, hour_of

COPYING: Final = "._COPYING_"
_FEW: Final = 4  # hours of a day that are listed one by one
_DEPTH: Final = 2  # folders between a table and its files
Entries = dict[str, Entry]  # by path
VERSION: Final = 2  # of the small file
# Rows, bytes, which topic; the checksum, when it was modified, and verified.
_Packed = tuple[int, int, int, str, int, int]
READERS: Final = 8
MOST_FAULTY: Final = 500  # hours that are looked at again as something was wrong with them
Count = Callable[[Sequence[str]], Mapping[str, int]]  # rows by path; UNKNOWN: it cannot be read
Tell = Callable[[Sequence[Mapping[str, Any]]], bool]  # lists of entries; False: not taken


def listed(store: Store, table: str, hours: Collection[Hour] | None) -> dict[Hour, Entries]:
    """The files of these hours, or of all that are there. Raises StoreError."""
    if hours is None:
        return _by_hour(table, store.list_recursively(table))
    found: dict[Hour, Entries] = {hour: {} for hour in hours}
    for folder in _folders(table, hours):
        for hour, entries in _by_hour(table, store.list_recursively(folder)).items():
            if hour in found:
                found[hour] |= entries
    return found


def _folders(table: str, hours: Collection[Hour]) -> list[str]:
    """Few: a folder of a day, where many of its hours are wanted."""
    days = Counter(_day(hour) for hour in hours)
    return sorted(
        {f"{table}/{day}" for day, count in days.items() if count > _FEW}
        | {hour_path(table, hour) for hour in hours if days[_day(hour)] <= _FEW}
    )


def _day(hour: Hour) -> str:
    return hour_folder(hour).partition("/")[0]


def _by_hour(table: str, entries: Iterable[Entry]) -> dict[Hour, Entries]:
    found: dict[Hour, Entries] = defaultdict(dict)
    for entry in entries:
        parts = entry.path.removeprefix(f"{table}/").split("/")
        hour = _hour("/".join(parts[:_DEPTH]))
        if hour is not None and parts[_DEPTH:] and all(map(_is_seen, parts[_DEPTH:])):
            found[hour][entry.path] = entry
    return dict(found)


def _is_seen(name: str) -> bool:
    return not name.startswith(("_", ".")) and not name.endswith(COPYING)


def _hour(folder: str) -> Hour | None:
    """Of a folder as runs name it, and only so."""
    try:
        hour = hour_in_folder(folder)
    except ValueError:
        return None
    return hour if hour_folder(hour) == folder else None


class _Version(msgspec.Struct, frozen=True):
    version: int


class _OldFile(msgspec.Struct, frozen=True):
    """Version 1, of Penstock 0.1."""

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
    """As of one run."""

    run: int = 0
    files: Mapping[Hour, Files] = {}
    said: Mapping[Hour, str] = {}  # what was told of an hour, as a digest
    faulty: tuple[Hour, ...] = ()  # hours that were not as they should be


def state_path(table: str) -> str:
    """No table's name begins with `~`."""
    return f"{PENSTOCK}/~checks/{table}.json"


def to_bytes(checked: Checked) -> bytes:
    topics: dict[str, int] = {}
    files = {
        hour: {path: _packed(each, topics) for path, each in of_hour.items()}
        for hour, of_hour in checked.files.items()
    }
    file = _File(
        VERSION, checked.run, list(topics), files, dict(checked.said), list(checked.faulty)
    )
    return msgspec.json.encode(file)


def from_bytes(data: bytes) -> Checked | None:
    """None if it is damaged, or of another version."""
    try:
        version = msgspec.json.decode(data, type=known_type(_Version)).version
        if version not in _FORMATS:
            return None
        file = msgspec.json.decode(data, type=known_type(_FORMATS[version]))
        files = {
            hour: {
                path: CommittedFile(each[0], each[1], file.topics[each[2]], *each[3:])
                for path, each in of_hour.items()
            }
            for hour, of_hour in file.files.items()
        }
    except (msgspec.DecodeError, IndexError):
        return None
    return Checked(file.run, files, file.said, tuple(file.faulty))


def _packed(file: CommittedFile, topics: dict[str, int]) -> _Packed:
    topic = topics.setdefault(file.topic, len(topics))
    return (file.rows, file.bytes, topic, file.checksum, file.modified, file.verified)


class FileCheck:
    """Of one table, by one thread. Raises StoreError, and RunTaken if another loader goes on
    meanwhile: then nobody knows what should be there."""

    def __init__(
        self,
        history: History,
        topics: Sequence[str],
        *,
        young_millis: int,
        count: Count,
        tell: Tell,
        most_bytes: int,
    ) -> None:
        """`topics` feed the table. Of files that nobody has touched, the content of so many bytes
        is looked at by each load."""
        self._history = history
        self._topics = topics
        self._young_millis = young_millis
        self._count = count
        self._tell = tell
        self._most_bytes = most_bytes

    def young(self, now: int) -> list[HourOutcome]:
        """What is wrong with hours that are young. Older ones that are not right, or are again,
        are only told of."""
        latest, before = self._beginning()
        young = self._young(latest, now)
        found = self._checked(latest, before, {*young, *before.faulty}, now, all_=False)
        return [each for each in found if each.faults and each.hour in young]

    def asked(self, hours: Collection[Hour] | None, now: int) -> list[HourOutcome]:
        """What came of these hours, or of all."""
        latest, before = self._beginning()
        return self._checked(latest, before, hours, now, all_=True)

    def _beginning(self) -> tuple[Manifest, Checked]:
        latest = self._history.latest()
        if latest is None or not self._history.is_visible(latest.run):
            raise self._taken()
        data = self._history.store.read(state_path(self._history.table))
        return latest, (data and from_bytes(data)) or Checked()

    def _young(self, latest: Manifest, now: int) -> set[Hour]:
        since, this = now - self._young_millis, hour_of(now)
        young = {Hour(each) for each in range(hour_of(since), this + 1, HOUR_MILLIS)}
        return young | {hour for hour, state in latest.hours.items() if state.at > since}

    def _checked(
        self,
        latest: Manifest,
        before: Checked,
        hours: Collection[Hour] | None,
        now: int,
        *,
        all_: bool,
    ) -> list[HourOutcome]:
        table, store = latest.table, self._history.store
        there = listed(store, table, hours)
        wanted = sorted({*latest.hours, *there} if hours is None else hours)
        latest = recalled(store, latest, wanted, now)
        known = self._known(latest, before, wanted, all_=all_)
        spoilt = self._spoilt(known, wanted, there, now, all_=all_)
        found = self._compared(latest, wanted, known, there, spoilt, all_=all_)
        if max(self._history.runs(), default=0) != latest.run:
            raise self._taken()
        said = self._told(before, found, all_=all_)
        checked_hours = {each.hour for each in found}
        faulty = {each.hour for each in found if each.faults}
        faulty |= {hour for hour in before.faulty if hour not in checked_hours}
        kept = {*self._young(latest, now), *sorted(faulty)[-MOST_FAULTY:]}
        listed_still = {
            hour for hour, state in latest.hours.items() if state.files and not state.unlisted
        }
        after = Checked(
            latest.run,
            {hour: known[hour] for hour in known.keys() & (kept | listed_still) if known[hour]},
            {hour: each for hour, each in said.items() if hour in kept},
            tuple(sorted(faulty & kept)),
        )
        if after != before:
            store.replace(state_path(table), to_bytes(after))
        return found

    def _known(
        self, latest: Manifest, before: Checked, hours: Iterable[Hour], *, all_: bool
    ) -> dict[Hour, Files]:
        """The files of these hours, and of those that are remembered."""
        runs = [run for run in self._history.runs() if run <= latest.run]
        if before.run > latest.run or (runs and before.run and runs[0] > before.run + 1):
            before = Checked()  # what came in between, nobody knows any more
        known = {hour: dict(before.files.get(hour, {})) for hour in {*before.files, *hours}}
        # Of hours that are not remembered, manifests before that may still say something.
        others = {hour: files for hour, files in known.items() if hour not in before.files}
        for run in runs:
            if run > before.run:
                apply_run(known, self._history.read(run))
            elif all_:
                apply_run(others, self._history.read(run))
        return known

    def _spoilt(
        self,
        known: dict[Hour, Files],
        hours: Iterable[Hour],
        there: Mapping[Hour, Entries],
        now: int,
        *,
        all_: bool,
    ) -> set[str]:
        """Files whose content is not what was committed. What was looked at is noted in `known`."""
        files = {path: (hour, file) for hour in hours for path, file in known[hour].items()}
        entries = {path: entry for hour in hours for path, entry in there.get(hour, {}).items()}
        wanted = to_verify(
            {path: file for path, (_, file) in files.items()},
            entries,
            all_=all_,
            most_bytes=self._most_bytes,
            now=now,
        )
        spoilt = set()
        size = sum(entries[path].size for path in wanted)
        sums = in_parallel(self._checksum, wanted, threads=READERS, size=size)
        for path, found in zip(wanted, sums, strict=True):
            hour, file = files[path]
            known[hour][path] = verified_file(file, entries[path], found, now)
            if is_different(file, found):
                spoilt.add(path)
        return spoilt

    def _checksum(self, path: str) -> str:
        return self._history.store.checksum(path)

    def _compared(
        self,
        latest: Manifest,
        hours: Iterable[Hour],
        known: Mapping[Hour, Files],
        entries: Mapping[Hour, Entries],
        spoilt: Collection[str],
        *,
        all_: bool,
    ) -> list[HourOutcome]:
        there = {
            hour: {path: entry.size for path, entry in of_hour.items()}
            for hour, of_hour in entries.items()
        }
        wanted = [
            expected(latest.table, hour, latest.hours.get(hour, NO_HOUR), known.get(hour, {}))
            for hour in hours
        ]
        paths = [
            path
            for each in wanted
            for path in to_count(each, there.get(each.hour, {}), all_=all_, spoilt=spoilt)
        ]
        rows = self._count(paths) if paths else {}
        return [
            compared(each, there.get(each.hour, {}), rows, all_=all_, spoilt=spoilt)
            for each in wanted
        ]

    def _told(
        self, before: Checked, found: Iterable[HourOutcome], *, all_: bool
    ) -> dict[Hour, str]:
        """What has been said of each hour by then."""
        said: list[dict[str, Any]] = []
        digests: dict[Hour, str] = {}
        for each in found:
            if not (each.files or each.faults or each.hour in before.said):
                continue
            those = statements(each, self._topics)
            if all_ or digest(those) != before.said.get(each.hour):
                said += those
                digests[each.hour] = digest(those)
        if said and self._tell([{"checked": part} for part in divided(said, weight)]):
            return {**before.said, **digests}
        return dict(before.said)

    def _taken(self) -> RunTaken:
        return RunTaken(
            f"table {self._history.table}: another loader is at work; its files were not checked"
        )
