"""Reports what may have happened in an input's folders while they were not watched.

`blind_times` has the rules; this module remembers the stamps of folders, and compares names.

A new or renamed folder has a past without events: names may have come and gone before it was
watched. Its mtime is the time of the last such change. If that was the creation of something that
still exists, soon after the folder itself, nothing is unknown: the folder was made, then its
content. If names came or went for longer, or the last change was a removal, the past is unknown.
"""

import os
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from agent.accounting.runs import SourceId
from agent.files.listing import Listing, Survey, sighting_from
from agent.files.unreadable import born_at
from agent.history.blind_times import (
    MOST_FOLDERS,
    MOST_SAID,
    NOT_KNOWN,
    NOWHERE,
    Blind,
    Looked,
    LookedAt,
    MaybeEmptied,
    Names,
    Patterns,
    Stamp,
    Traces,
    Unwatched,
    not_remembered,
    periods,
    statements,
)
from agent.history.clock_setting import ClockSetting, set_words
from agent.open_files.paths import folder_of
from agent.recognition.file_properties import born_ns
from agent.recognition.followed import Followed
from agent.recognition.identity import Identity, Sighting


class Place(NamedTuple):
    """The path of a source's file, its device and inode, and its creation time; 0 if unknown. The
    path of a finished source may be a former one."""

    path: str
    identity: Identity
    born_ns: int
    is_finished: bool = False


_NO_STAMPS: Final[Mapping[str, Stamp]] = {}
_CONFIRMED_S: Final = 61.0  # network file systems show former times for up to a minute

KnownPlaces = Mapping[Identity, Collection[Place]]
"""The places of files by device and inode."""


class KnownFiles(NamedTuple):
    """The files known before a blind time, and after it. `is_read`: whether an input matches a
    path, or has a source of that identity."""

    before: KnownPlaces
    after: KnownPlaces
    is_read: Callable[[str, Identity], bool]


class Folders(msgspec.Struct):
    """The stamps of an input's folders, and which of them must be journalled: all at first and
    after a change of patterns."""

    stamps: dict[str, Stamp] = {}
    patterns: Patterns = NOT_KNOWN
    scanned_millis: int = 0  # when the last scan of all folders began
    clock: ClockSetting = ClockSetting()  # at that time
    news: dict[str, Stamp] = {}
    gone: set[str] = set()
    has_more: bool = False  # more folders than are remembered
    is_news: bool = False
    all_is_news: bool = True
    unsure_since: dict[str, float] = {}  # since when unsure stamps are the same, monotonic

    def go_on_from(self, looked: Looked) -> None:
        """Continues from the stamps that an earlier process journalled."""
        self.stamps, self.patterns = dict(looked.folders), looked.patterns
        self.scanned_millis, self.has_more = looked.millis, looked.has_more
        self.clock = looked.clock
        self.all_is_news = False

    def take(
        self,
        listing: Listing,
        patterns: Patterns,
        millis: int,
        clock: ClockSetting,
        earlier: Mapping[str, Stamp] = _NO_STAMPS,
    ) -> None:
        """Updates the stamps. `earlier` are those of an earlier process."""
        stamps = listing.stamps.copy()
        stamps |= dict.fromkeys(listing.failures.keys() & stamps.keys(), NOWHERE)
        stamps |= self._confirmed(stamps, earlier, listing.began)
        has_more = self._keep_to_most(stamps, complete=listing.complete)
        new_stamps = {
            path: stamp for path, stamp in stamps.items() if self.stamps.get(path) != stamp
        }
        if listing.complete:
            removed_folders = self.stamps.keys() - stamps.keys()
            self.scanned_millis, self.clock = millis, clock
            self.is_news, self.has_more = True, has_more
            self.all_is_news = self.all_is_news or self.patterns != patterns
            self.patterns = patterns
        else:
            removed_folders = (listing.folders & self.stamps.keys()) - stamps.keys()
            has_more = self.has_more or has_more
            self.is_news = (
                self.is_news or bool(new_stamps or removed_folders) or has_more != self.has_more
            )
            self.has_more = has_more
        for path in removed_folders:
            del self.stamps[path]
            self.news.pop(path, None)
        self.gone |= removed_folders
        self.stamps |= new_stamps
        self.news |= new_stamps
        self.gone -= new_stamps.keys()

    def _confirmed(
        self, stamps: Mapping[str, Stamp], earlier: Mapping[str, Stamp], began: float
    ) -> dict[str, Stamp]:
        """The stamps that are sure although their times are in the future, as after the clock was
        set back: those that were sure before, or have stayed the same for long enough."""
        confirmed_stamps = {}
        for path, stamp in stamps.items():
            since = self.unsure_since.pop(path, None)
            if stamp.is_sure or stamp == NOWHERE:
                continue
            before = self.stamps.get(path) or earlier.get(path)
            is_same = before is not None and before[:4] == stamp[:4]
            since = since if is_same and since is not None else time.monotonic()
            if (before is not None and before.shows(stamp)) or began - since > _CONFIRMED_S:
                confirmed_stamps[path] = stamp._replace(is_sure=True)
            else:
                self.unsure_since[path] = since
        return confirmed_stamps

    def _keep_to_most(self, stamps: dict[str, Stamp], *, complete: bool) -> bool:
        """Removes new folders beyond the limit. Returns whether there were any."""
        new_folders = [path for path in stamps if path not in self.stamps]
        kept_count = len(stamps) - len(new_folders) if complete else len(self.stamps)
        surplus_folders = new_folders[max(0, MOST_FOLDERS - kept_count) :]
        for path in surplus_folders:
            del stamps[path]
        return bool(surplus_folders)

    def unsure(self) -> list[str]:
        """The folders that must be listed again."""
        return [
            path for path, stamp in self.stamps.items() if not stamp.is_sure and stamp != NOWHERE
        ]

    def looked_at(self, name: str, caught_up_millis: int, booted_millis: int) -> LookedAt:
        times = self.scanned_millis, caught_up_millis, booted_millis
        if self.all_is_news:
            stamps, patterns = dict(self.stamps), self.patterns
            has_more = self.has_more
            return LookedAt(
                *(name, *times, stamps),
                is_whole=True,
                patterns=patterns,
                has_more=has_more,
                clock=self.clock,
            )
        new_stamps, removed_folders = dict(self.news), tuple(self.gone)
        return LookedAt(
            *(name, *times, new_stamps, removed_folders), has_more=self.has_more, clock=self.clock
        )

    def looked(
        self, millis: int, caught_up_millis: int, booted_millis: int, clock: ClockSetting
    ) -> Looked:
        times = millis, caught_up_millis, booted_millis
        return Looked(*times, dict(self.stamps), self.patterns, self.has_more, clock)

    def note_written(self) -> None:
        self.all_is_news = False
        self.news.clear()
        self.gone.clear()
        self.is_news = False


def blind_statements(
    survey: Survey,
    listing: Listing,
    now: Mapping[str, Stamp],
    before: Looked,
    blind: Blind,
    *,
    known: KnownFiles,
    written: Mapping[str, Traces],
) -> list[Unwatched]:
    """The statements about a blind time, after everything was listed. `written`: the files that may
    have been emptied. Folders and files that only new patterns match have no blind time, as no
    input included them."""
    now = {**listing.stamps, **now}
    unreadable = [folder for folder in listing.failures if folder in before.folders]
    if before.patterns.paths:
        previous_survey = Survey(*before.patterns, before=_do_nothing)
        written = {path: traces for path, traces in written.items() if previous_survey.means(path)}
        now = {
            path: stamp
            for path, stamp in now.items()
            if path in before.folders or previous_survey.asks(path)
        }
    further_statements: list[Unwatched] = []
    if before.has_more:
        further_statements = not_remembered(blind, before.folders.keys() | now, MOST_FOLDERS)
        now = {path: stamp for path, stamp in now.items() if path in before.folders}
    unsought_folders = [folder for folder in before.folders if not survey.asks(folder)]
    changed_folders = [
        path for path, stamp in now.items() if not _is_same(before.folders.get(path), stamp)
    ]
    names = {}
    if len(changed_folders) <= MOST_SAID:
        names = {folder: _names(folder, listing, known, blind) for folder in changed_folders}
    return further_statements + statements(
        *(blind, before.folders, now),
        unreadable=unreadable,
        names=names,
        written=by_folder(written),
        unsought=unsought_folders,
    )


def by_folder(written: Mapping[str, Traces]) -> dict[str, MaybeEmptied]:
    """Files that may have been emptied, by the folders where they are."""
    names: dict[str, dict[Traces, list[str]]] = {}
    for path, traces in written.items():
        folder_names = names.setdefault(folder_of(path), {Traces.CHANGED: [], Traces.BRIEF: []})
        folder_names[traces].append(_name(path))
    return {
        folder: MaybeEmptied(folder_names[Traces.CHANGED], folder_names[Traces.BRIEF])
        for folder, folder_names in names.items()
    }


def _do_nothing(_folder: str) -> None:
    """For a survey that lists no folders."""


def _is_same(before: Stamp | None, now: Stamp) -> bool:
    return before is not None and before.shows(now)


def _names(folder: str, listing: Listing, known: KnownFiles, blind: Blind) -> Names:
    here = [
        place
        for places in known.before.values()
        for place in places
        if folder_of(place.path) == folder
    ]
    paths = {place: place.path for place in here if place.is_finished}
    for place in here:
        for after in known.after.get(place.identity, ()):
            if after.path != place.path and after.born_ns == place.born_ns > 0:
                paths.setdefault(place, after.path)
    new, unread = [], []
    listed = {sighting.path for sighting in listing.sightings}
    for sighting in chain(listing.sightings, _not_listed(folder, listed)):
        path = sighting.path
        is_here = folder_of(path) == folder
        same = [
            place
            for place in known.before.get(sighting.identity, ())
            if (is_here or folder_of(place.path) == folder) and _is_at(place, sighting, blind)
        ]
        paths |= {place: path for place in same if paths.get(place) != place.path}
        if same or not is_here or not _is_made_in(blind, sighting):
            continue
        if path in listed:
            new.append(_name(path))
        elif not known.is_read(path, sighting.identity):
            unread.append(f"{_name(path)} ({sighting.size:,} bytes)")
    return Names(
        renamed=[
            f"{_name(place.path)} to {os.path.relpath(paths[place], folder)}"
            for place in here
            if paths.get(place, place.path) != place.path
        ],
        new=new,
        gone=[_name(place.path) for place in here if place not in paths],
        unread=unread,
    )


def _is_at(place: Place, sighting: Sighting, blind: Blind) -> bool:
    """Whether a file with the place's inode is the same file: an inode may be used again."""
    if sighting.path == place.path and not blind.has(sighting.ctime_ns):
        return True
    born_ns = born_at(sighting.path)
    if born_ns and place.born_ns:
        return born_ns == place.born_ns
    return not blind.has(born_ns) if born_ns else sighting.path == place.path


def _is_made_in(blind: Blind, sighting: Sighting) -> bool:
    """Whether a file was created in a blind time, as far as its times tell."""
    return blind.has(sighting.ctime_ns) and (blind.has(born_at(sighting.path) or sighting.ctime_ns))


def _not_listed(folder: str, listed: Container[str]) -> Iterator[Sighting]:
    """The files in a folder whose names the input does not match: a known one may have been renamed
    to one of them, and a new one may have had a name that it does."""
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _MOST_LOOKED_AT):
                if entry.path not in listed and entry.is_file(follow_symlinks=False):
                    yield sighting_from(entry.stat(follow_symlinks=False), entry.path)
    except OSError:
        return


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def changed(
    topic: str, folder: str, since: int, now: int, why: str, *, set_millis: int = 0
) -> list[Unwatched]:
    """The statements that a folder had content that was not read."""
    return of_folder(topic, folder, since, now, why, traces=Traces.CHANGED, set_millis=set_millis)


def of_folder(
    topic: str, folder: str, since: int, now: int, why: str, *, traces: Traces, set_millis: int = 0
) -> list[Unwatched]:
    """The statements about a folder since then: one, or two if the clock was set meanwhile."""
    why = "; ".join(filter(None, (why, set_words(set_millis))))
    return [
        Unwatched(topic, folder or "/", SourceId(""), -1, *period, traces, why)
        for period in periods(since, now, set_millis)
    ]


def never_clear(followed: Followed, topic: str, what: str, now_millis: int) -> Unwatched:
    """The statement that nothing is known of the content of a file without a source."""
    path = followed.current_path
    born_millis = followed.born_ns // 1_000_000 or now_millis
    since_millis = min(followed.look.met_millis, born_millis, now_millis)
    reason = f"{what} before it was identified: {_name(path)}"
    return Unwatched(
        *(topic, folder_of(path), SourceId(""), -1),
        *(since_millis, max(followed.look.looked_millis, now_millis) + 1, Traces.CHANGED, reason),
    )


_MILLIS: Final = 1_000_000  # nanoseconds
_MOST_LOOKED_AT: Final = 10_000  # names of a folder
_MOMENT_NS: Final = 1_000_000_000
_TICK_NS: Final = 20_000_000


def past_of(folder: str, stamp: Stamp, since_ns: int) -> str:
    """Describes the names that came and went in a folder since `since_ns`; empty if none did, or if
    the folder is gone."""
    if stamp.mtime_ns < since_ns - _TICK_NS:
        return ""
    try:
        born_ns = _born_ns(folder)
        if stamp.mtime_ns - max(born_ns, since_ns) > _MOMENT_NS:
            return "names came or went for longer than a second"
        return "" if _is_near(born_ns, stamp) or _has_come(folder, stamp) else "names came and went"
    except OSError:
        return ""


def _has_come(folder: str, stamp: Stamp) -> bool:
    """Whether an entry was created or moved there at the folder's mtime; or may have been, if
    creation times are unknown."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_near(entry.stat(follow_symlinks=False).st_ctime_ns, stamp):
                return True
            born_ns = _born_ns(entry.path)
            if not born_ns or _is_near(born_ns, stamp):
                return True
    return False


def _is_near(time_ns: int, stamp: Stamp) -> bool:
    return abs(time_ns - stamp.mtime_ns) <= _TICK_NS


def _born_ns(path: str) -> int:
    path_fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return born_ns(path_fd)
    finally:
        os.close(path_fd)
