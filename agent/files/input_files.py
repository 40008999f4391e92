"""The files of one input: compares each listing with the known files, and finds new, renamed and
missing ones.

`identity` decides which file is which; this module acts on it. A new file is opened at once, and
its `fstat` is compared with the listing: if it has been replaced since, its folder is listed again.
`source_starts` handles files without a source, `source_ends` sources that have lost their file,
were deleted, or are over.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from agent.accounting.runs import KnownSource, Progress
from agent.configuration.file_inputs import FileInput
from agent.files.archive_choice import MAY_HAVE_BEEN_READ, NOT_UNPACKED, why_skipped
from agent.files.archive_queue import ArchiveQueue
from agent.files.happenings import (
    Appeared,
    Compressed,
    Deleted,
    Ended,
    Forgettable,
    LeftToOther,
    NotWatched,
    Renamed,
)
from agent.files.listing import Listing, Survey, places, sighting_of
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.unpacking import Unpacking
from agent.files.unreadable import Left, NeverRead, UnreadableFiles, born_at
from agent.files.unwatched import Folders, never_clear
from agent.history.blind_times import Looked, Traces, may_hide
from agent.open_files.paths import DELETED, folder_of
from agent.recognition.compressed import has_archive_name, has_compressed_name
from agent.recognition.file_search import (
    device_above,
    find_by_inode,
    find_truncated,
    other_name,
    paths_by_inode,
    was_copied,
)
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    Identity,
    IdentityVerdict,
    SeenFile,
    Sighting,
    Where,
    best,
    is_shown,
    reopened,
    sought,
    whereabouts,
)
from agent.recognition.memory import FoundFile, Memory
from agent.recognition.originals import Originals

_MOST_COMPRESSED = _MOST_SHARED = 1_000  # reported for an input
_MILLIS_NS = 1_000_000
_TICK_NS = 20_000_000  # the clock of file systems may be as late


class InputFiles:
    """The files of one input. `is_new`: the input was never followed before, so `start` applies;
    `since_millis`: when it was first followed, 0 if unknown; `archives_since_millis`: since when it
    reads archives, if it does.

    A `Followed` without a source is a file that is empty, or may be a copy. `orphans` are sources
    whose file was truncated or replaced, with the source that follows it there, if known.
    """

    def __init__(
        self,
        of: FileInput,
        shared: SharedByInputs,
        before_listing: Callable[[str], object],
        *,
        is_new: bool,
        since_millis: int = 0,
        archives_since_millis: int = 0,
    ) -> None:
        self.input = of
        self.survey = Survey(of.paths, of.exclude, before_listing)
        self.originals = Originals()
        self.memory = Memory()
        self.files: dict[Identity, Followed] = {}
        self.leaving: dict[Followed, None] = {}
        self.unpacking: dict[Followed, Unpacking] = {}
        self.others: Sequence[InputFiles] = ()  # the other inputs of its topic
        self.orphans: list[tuple[Followed, Followed | None]] = []
        self.outside: dict[str, None] = {}  # paths of finished files that the input does not match
        self.again: set[str] = set()  # folders that must be listed again
        self.wants_all = True
        self.there_at_first: dict[Identity, Sighting] = {}
        self.compressed: dict[Identity, tuple[int, int]] = {}
        self._shared = shared
        self.is_new = is_new
        self.since_millis = since_millis
        self._archives_since_millis = archives_since_millis
        self.archives = ArchiveQueue()
        self.archives_there: dict[Identity, Sighting] = {}  # if the input reads archives
        self.why_not_read: dict[Identity, str] = {}  # archives
        self.caught_up_millis = 0  # when all that was there had been read and acknowledged
        self.folders = Folders()
        self.before: Looked | None = None  # the last look before an unwatched time
        self.why_before = ""
        self.has_looked = False
        self._listed_millis = 0  # when everything was listed for the last time
        self.matches = False  # at the last complete listing, uncompressed files
        self.matched_millis = 0  # when it last did; 0 if it never did
        self.matched_path = ""
        self._said_compressed: set[Identity] = set()
        self._said_shared: set[Identity] = set()
        self._told_from: float = math.inf  # when the history of names began, in milliseconds
        self.barred = UnreadableFiles()
        self._missing_paths: dict[int, list[str]] | None = None  # by inode

    def remember(self, known: KnownSource) -> None:
        """Restores a source from the journal, before anything is listed."""
        self.memory.add(known)
        if known.seen_millis > self.matched_millis:
            self.matched_millis = known.seen_millis
            self.matched_path = known.last_path or known.path
        if known.finished and known.last_path and not self.survey.means(known.last_path):
            self.outside[known.last_path] = None

    def change(self, of: FileInput, before_listing: Callable[[str], object]) -> list[Left]:
        """Changes the input's configuration; its topic stays. Returns the files that no longer
        match and were never read. The caller drops all files that no longer match."""
        if of.reads_archives and not self.input.reads_archives:
            self._archives_since_millis = int(self._shared.wall() * 1000)
        self.archives.close()
        self.archives = ArchiveQueue()
        self.archives_there.clear()
        self.why_not_read.clear()
        self.input = of
        self.survey = Survey(of.paths, of.exclude, before_listing)
        self.wants_all = True
        self.is_new = self.has_looked = False
        return self.barred.leave(of.topic, int(self._shared.wall() * 1000), self.survey)

    def go_on_from(self, looked: Looked) -> None:
        """Continues from a look of an earlier process, if no event was lost since then."""
        self.folders.go_on_from(looked)
        self._listed_millis, self._told_from = looked.millis, 0
        self.caught_up_millis = max(self.caught_up_millis, looked.caught_up_millis)

    def take(self, listing: Listing) -> None:
        """Updates the files from a listing."""
        by_identity = places(listing.sightings)
        self._missing_paths = None
        if self.input.reads_archives:
            self._note_archives(listing)
        for followed in list(self.files.values()):
            self._follow(followed, *whereabouts(followed, listing, by_identity), listing)
        for identity, sightings in by_identity.items():
            if identity not in self.files:
                self._meet(best(sightings), by_identity)
        if self.barred or listing.failures:
            self._look_at_barred(listing, by_identity)
        if listing.complete:
            self._listed_millis = self._shared.attention.millis
            self._note_matches(listing)
            self._look_outside(by_identity)
            if not self.has_looked:
                self.has_looked = True
                self._miss_remembered(listing, by_identity)

    def _note_archives(self, listing: Listing) -> None:
        for identity, archive in list(self.archives_there.items()):
            if listing.covers(archive.path):
                del self.archives_there[identity]
        for sighting in listing.sightings:
            if has_compressed_name(sighting.path):
                self.archives_there[sighting.identity] = sighting
        for identity in self.why_not_read.keys() - self.archives_there.keys():
            del self.why_not_read[identity]

    def _note_matches(self, listing: Listing) -> None:
        paths = (sighting.path for sighting in listing.sightings)
        path = next((path for path in paths if not has_compressed_name(path)), "")
        self.matches = bool(path or listing.failures)
        if self.matches:
            self.matched_millis = self._shared.attention.millis
            self.matched_path = path or self.matched_path

    def report_lost(self, followed: Followed, what: str) -> None:
        """Reports that a file without a source was lost with unread content, if it had any."""
        if not followed.source and (followed.size or not followed.sealed):
            now_millis = int(self._shared.wall() * 1000)
            self._shared.report(
                NotWatched(never_clear(followed, self.input.topic, what, now_millis))
            )

    def truncated(self, old: Followed, fd: int) -> None:
        """Starts a truncated file again, as a new source."""
        shared = self._shared
        status = os.fstat(fd)
        if old.size:
            self.report_lost(old, "truncated")
        self.give_up(old)
        path = old.current_path
        followed = Followed(path, old.identity, status, shared.handles)
        begun_ns = shared.attention.millis * 1_000_000
        followed.follow_on(old, begun_ns, is_meant=self.survey.means(path))
        followed.belong(self.input)
        shared.attention.note_first_look(followed, shared.now)
        if old.source:
            followed.become(shared.new_source(), self.input, Progress(0))
            self.orphans.append((old, followed))
        self.hold(followed, fd)

    @property
    def has_complete_history(self) -> bool:
        """Whether the history of names covers all folders of the input, and the journal has these
        folders."""
        untold_folders = self._shared.watcher.untold
        is_listed = not self.folders.all_is_news and self.before is None
        return bool(is_listed) and (
            not untold_folders or untold_folders.isdisjoint(self.survey.watched)
        )

    def has_history_since(self, millis: int) -> bool:
        return self.has_complete_history and self._told_from <= millis

    def clock_was_set(self, by_millis: int) -> None:
        """Notes that earlier times are by another setting of the clock."""
        self._told_from = min(self._told_from, self._told_from + by_millis)

    def has_file(self, identity: Identity, born_ns: int) -> bool:
        """Whether the file with this identity that was created at this time is followed or
        remembered."""
        followed = self.files.get(identity)
        is_followed = followed is not None and followed.born_ns == born_ns
        return is_followed or self.memory.has_file(identity, born_ns)

    def start_history(self) -> None:
        """Notes that the history of names is complete from now on: all folders are watched and
        listed."""
        self._told_from = self._shared.attention.millis

    def written_unread(self, times_ns: Sequence[tuple[int, int]]) -> dict[str, Traces]:
        """The unread files that were written to or copied at these times, even briefly, so that
        they may have been emptied meanwhile. These are the beginning and the end of one time, by
        each setting that the clock had in it, the present one last."""
        traces_by_path: dict[str, Traces] = {}
        begun_files = self._shared.attention.begun
        for followed in self.files.values():
            if followed.source and not followed.is_unseen and followed not in begun_files:
                continue
            path, mtime_ns = followed.current_path, followed.mtime_ns
            since_ns, until_ns = next(
                (times for times in times_ns if times[0] <= mtime_ns <= times[1]), times_ns[-1]
            )
            is_told = self.has_history_since(since_ns // 1_000_000)
            # Times after both the present and the last write are from before it was set back.
            begun_times = (
                time_ns
                for time_ns in (followed.born_ns, followed.begun_ns)
                if time_ns <= max(until_ns, mtime_ns)
            )
            from_ns = max([since_ns, *begun_times])
            written_ns, away_ns = mtime_ns - from_ns, until_ns - since_ns
            # The target of a link was not watched.
            traces = may_hide(written_ns, away_ns, is_told=is_told and not followed.real_path)
            if traces is not Traces.CHANGED and was_copied(path, from_ns, self.survey.means):
                traces = Traces.CHANGED
            if traces is not Traces.UNCHANGED:
                traces_by_path[path] = traces
        return traces_by_path

    def close_unreadable(self, followed: Followed, error: OSError) -> None:
        """Closes an open file that can no longer be read."""
        self._shared.cannot_read(followed.current_path, error)
        self._shared.handles.close(followed)
        if not followed.source:
            path, since_millis = followed.current_path, followed.look.met_millis
            self._never_read(self.barred.add_file(followed.identity, path, since_millis))

    def _retry(self, followed: Followed) -> None:
        if followed.trouble is not None:
            self._shared.retry(followed)
            if followed.trouble is None:
                self._note_readable(followed.identity)

    def follow_renamed(
        self, path: str, former: str, since_millis: int, is_there: Callable[[], bool]
    ) -> bool:
        """Follows a file at `path`, which the input does not match, if the file was created as
        `former`, which the input matches, and renamed since. `is_there` returns whether, by the
        history of names, the path still belongs to the same file. Returns whether the file is
        followed."""
        try:
            sighting = sighting_of(Path(path), is_link=False)
        except OSError:
            return False
        if sighting is None or sighting.identity in self.files:
            return False
        if born_at(path) < since_millis * 1_000_000 - _TICK_NS or not is_there():
            return False
        self._meet(sighting, {}, former=former)
        return sighting.identity in self.files

    def missing(self, followed: Followed, listing: Listing) -> None:
        """Handles a file that is no longer under any path that the input matches."""
        self._retry(followed)
        if followed.fd is None and followed.source:
            self._seek(followed, listing)
            return
        if followed.fd is None:
            self.report_lost(followed, "gone")
            self.drop(followed)
            return
        try:
            status = os.fstat(followed.fd)
            has_name = status.st_nlink > 0
            path = os.fspath(Path(f"/proc/self/fd/{followed.fd}").readlink())
        except OSError as error:
            self._shared.handles.trouble(followed, error)
            return
        if has_name:
            if path.endswith(DELETED) and not os.path.lexists(path):
                path = other_name(followed)
            if not path:  # its name is unknown
                followed.note_missed(self._shared.now)
                self.leaving[followed] = None
            elif path != followed.current_path:
                self.rename(followed, path)
        elif not followed.nameless:
            followed.lose_name(self._shared.now, status.st_mtime_ns)
            self.leaving[followed] = None
            self._shared.attention.make_busy(followed, self._shared.now)
            if followed.source:
                self._shared.report(Deleted(followed))

    def rename(self, followed: Followed, path: str) -> None:
        former_path = followed.current_path
        followed.rename(path)
        self.leaving[followed] = None
        if followed.source:
            self._shared.report(Renamed(followed, former_path))
        self._shared.attention.make_busy(followed, self._shared.now)

    def hold(self, followed: Followed, fd: int) -> None:
        """Adds a file with its open descriptor."""
        self.files[followed.identity] = followed
        if followed.leaving:
            self.leaving[followed] = None
        followed.hold(fd)
        if followed.source:
            try:
                followed.settle()
            except OSError as error:
                self._shared.handles.trouble(followed, error)
        self.originals.note(followed)
        self._shared.attention.make_busy(followed, self._shared.now)

    def give_up(self, followed: Followed) -> None:
        """Removes a file without closing its descriptor."""
        self.barred.remove_file(followed.identity)
        self._shared.attention.drop(followed)
        self._shared.handles.take(followed)
        self._shared.handles.notable.discard(followed)
        self.originals.drop(followed)
        self.leaving.pop(followed, None)
        followed.trust()
        if self.files.get(followed.identity) is followed:
            del self.files[followed.identity]

    def drop(self, followed: Followed) -> None:
        fd = followed.fd
        self.give_up(followed)
        if fd is not None:
            os.close(fd)

    def report_compressed(
        self, path: str, identity: Identity, mtime_ns: int, why: str = ""
    ) -> None:
        if identity in self._said_compressed or len(self._said_compressed) >= _MOST_COMPRESSED:
            return
        self._said_compressed.add(identity)
        is_read_whole = self.is_new and not self.input.starts_at_end(mtime_ns / 1e9)
        is_left = self.has_looked or is_read_whole
        self._shared.report(Compressed(self.input.name, path, self.input.topic, is_left, why))

    def _follow(
        self, followed: Followed, where: Where, sighting: Sighting | None, listing: Listing
    ) -> None:
        if sighting is not None and followed.leaving:
            followed.note_found()
        self._retry(followed)
        if where is Where.CHANGED:
            self._shared.attention.make_busy(followed, self._shared.now)
        elif where is Where.MOVED and sighting is not None:
            self._moved(followed, sighting)
        elif where is Where.MISSING or (
            where is Where.UNKNOWN and listing.complete and followed.fd is not None
        ):
            self.missing(followed, listing)

    def _moved(self, followed: Followed, sighting: Sighting) -> None:
        if followed.fd is not None:
            self.rename(followed, sighting.path)
            return
        if not is_shown(followed.remembered()):
            self.lose_file(followed)
            return
        try:
            fd = followed.open(sighting.path)
        except OSError as error:
            self._cannot_read(followed.identity, sighting.path, error)
            return
        self._note_readable(followed.identity)
        if fd is None:  # another file has the device and inode by now
            self.lose_file(followed)
        else:
            self.rename(followed, sighting.path)

    def lose_file(self, followed: Followed) -> None:
        """Drops a file that is neither at its path nor found by its inode number; its source
        becomes an orphan."""
        self.report_lost(followed, "gone")
        self.drop(followed)
        self.again.add(folder_of(followed.current_path))
        if followed.source:
            self.orphans.append((followed, None))

    def _seek(self, followed: Followed, listing: Listing) -> None:
        """Searches for the closed file of a source: by its last path, then by its inode."""
        try:
            is_sought = not self.survey.means(followed.current_path)
            if followed.open(sought=is_sought) is not None:
                followed.note_back()
                if followed.current_path != followed.path:
                    self.leaving[followed] = None
                self._shared.attention.make_busy(followed, self._shared.now)
                self._note_readable(followed.identity)
                return
        except OSError as error:
            self._cannot_read(followed.identity, followed.current_path, error)
            return
        followed.trust()
        if not listing.complete:
            self.wants_all = self.wants_all or not followed.is_away
            return
        path = find_by_inode(followed, self._elsewhere(followed, listing))
        if path:
            self.rename(followed, path)
            return
        truncated_file = find_truncated(followed, self._shared.handles)
        if truncated_file is not None:
            path, fd = truncated_file
            followed.call(path)
            self.truncated(followed, fd)
            return
        if sought(followed.remembered(), device_above(followed)) is IdentityVerdict.LOST:
            self.lose_file(followed)
        elif followed.missing_since is None:
            followed.note_missed(self._shared.now)
            self.leaving[followed] = None

    def _elsewhere(self, followed: Followed, listing: Listing) -> dict[int, list[str]]:
        """The paths of missing files in the folders that inputs of the topic search, when one is
        missed for the first time. They are looked for once in a listing."""
        if followed.missing_since is not None:
            return {}
        if self._missing_paths is None:
            missing_inodes = {
                missing_file.identity[1]
                for missing_file in self.files.values()
                if missing_file.fd is None
            }
            missing_inodes |= {source.inode for source in self.memory.unfinished()}
            folders = listing.folders.union(*(other.survey.folders for other in self.others))
            self._missing_paths = paths_by_inode(sorted(folders), missing_inodes)
        return self._missing_paths

    def _meet(
        self,
        sighting: Sighting,
        by_identity: dict[Identity, list[Sighting]],
        *,
        is_meant: bool = True,
        former: str = "",
    ) -> None:
        """Opens a file that is not followed. `former`: its name that the input matches, if its
        present one does not."""
        shared = self._shared
        identity, wall_time = sighting.identity, shared.wall()
        if self.memory.is_unchanged(sighting, wall_time):
            return
        if has_compressed_name(sighting.path):
            self._meet_archive(sighting, wall_time)
            return
        if any(memory.is_unchanged(sighting, wall_time) for memory in self._memories()) or any(
            _holds(other, identity) for other in self.others
        ):
            self._report_shared(sighting)
            return
        if self.compressed.get(identity) == (sighting.size, sighting.mtime_ns):
            return
        if self.is_new and not self.has_looked:
            self.there_at_first[identity] = sighting
        is_begun = self.barred.has(identity)
        is_begun = is_begun or any(memory.has(identity) for memory in self._memories())
        if not is_begun and self._is_too_old(sighting, wall_time):
            return
        try:
            fd, status = shared.handles.open(sighting.path, former)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._cannot_read(identity, sighting.path, error, is_meant=is_meant)
            return
        if (status.st_dev, status.st_ino) != identity:
            os.close(fd)
            self.again.add(folder_of(sighting.path))
            return
        try:
            file = FoundFile.of(fd, status.st_size)
            source, memory = self._source_of(sighting, file, by_identity.__contains__)
        except OSError as error:
            os.close(fd)
            self._cannot_read(identity, sighting.path, error, is_meant=is_meant)
            return
        shared.note_readable(sighting.path)
        self._note_readable(identity, file.born_ns)
        if any(_has(other, sighting, file) for other in self.others):
            os.close(fd)
            return
        if source is not None and source.finished and status.st_size <= source.progress.position:
            memory.note_checked(sighting)
            os.close(fd)
            if memory is not self.memory:
                self._report_shared(sighting)
            return
        if source is None and not is_meant:
            os.close(fd)
            return
        if source is None:
            self.lose_remembered(identity)
        followed = Followed(former or sighting.path, identity, status, shared.handles)
        followed.call(sighting.path)
        shared.attention.note_first_look(followed, shared.now)
        followed.belong(self.input)
        if source is not None:
            memory.remove(source)
            self.go_on(followed, source)
        elif (
            status.st_size and not self.has_looked
        ):  # it may have been a source that a damaged journal has forgotten
            followed.may_be_forgotten(shared.forgotten_before)
        self.hold(followed, fd)

    def _meet_archive(self, sighting: Sighting, wall: float) -> None:
        path, identity, mtime_ns = sighting.path, sighting.identity, sighting.mtime_ns
        is_read = self.input.reads_archives and has_archive_name(path)
        self.lose_remembered(identity, archives=False)  # it may have the inode of the original
        if not is_read:
            if self.input.reads_archives:
                self.why_not_read[identity] = NOT_UNPACKED
            self.report_compressed(path, identity, mtime_ns)
            return
        if identity in self.archives or self._is_unpacked(identity):
            return
        if self.compressed.get(identity) == (sighting.size, mtime_ns):
            return
        since_ns = self.since_millis * _MILLIS_NS
        if not self.memory.has(identity):
            why = why_skipped(
                self.input, sighting, self.since_millis, self._archives_since_millis, wall
            )
            if why == MAY_HAVE_BEEN_READ:
                self.note_not_read(sighting, why)
            elif why:
                self.why_not_read[identity] = why
            if why:
                return
        self.archives.add(sighting, since_ns)

    def _is_unpacked(self, identity: Identity) -> bool:
        """Whether an archive is read at present."""
        states = (followed.end.unpacked for followed in self.unpacking)
        return any(state and (state.device, state.inode) == identity for state in states)

    def note_empty(self, archive: Sighting) -> None:
        """Notes that there is nothing to read, as long as the archive does not change."""
        self.compressed[archive.identity] = archive.size, archive.mtime_ns
        self.why_not_read[archive.identity] = "it is empty"

    def note_not_read(self, sighting: Sighting, why: str) -> None:
        """Notes that an archive cannot be read, as long as it does not change."""
        self.note_empty(sighting)
        self.why_not_read[sighting.identity] = why
        self.report_compressed(sighting.path, sighting.identity, sighting.mtime_ns, why)

    def _cannot_read(
        self, identity: Identity, path: str, error: OSError, *, is_meant: bool = True
    ) -> None:
        self._shared.cannot_read(path, error)
        if is_meant:
            self._never_read(self.barred.add_file(identity, path, self._seen_millis))

    def _note_readable(self, identity: Identity, born_ns: int = 0) -> None:
        self._never_read(self.barred.remove_file(identity, born_ns))

    @property
    def _seen_millis(self) -> int:
        """The time of the last complete listing before this look."""
        if self.before is not None:
            return self.before.millis
        return self._listed_millis or self._shared.attention.last_millis

    def _never_read(self, gone: Iterable[NeverRead]) -> None:
        topic, now_millis = self.input.topic, self._shared.attention.millis
        self._shared.report(
            *(NotWatched(never_read.unwatched(topic, now_millis)) for never_read in gone)
        )

    def _look_at_barred(
        self, listing: Listing, by_identity: dict[Identity, list[Sighting]]
    ) -> None:
        for identity, never_read_items in self.barred.gone(self.survey, listing, by_identity):
            if self.memory.unfinished_at(identity):
                self.lose_remembered(identity)
            elif identity not in self.files:
                self._never_read([never_read_items])
        self._never_read(self.barred.shown(self.survey, listing, self._seen_millis))

    def _memories(self) -> Iterator[Memory]:
        """All memories that may have sources of the topic, its own first."""
        yield self.memory
        yield from (other.memory for other in self.others)
        yield self._shared.unclaimed

    def _source_of(
        self, sighting: Sighting, file: FoundFile, is_there: Callable[[Identity], bool]
    ) -> tuple[KnownSource | None, Memory]:
        """The source of a file, and the memory that has it: this input's, that of another input of
        the topic, or of a removed one. Prefers unfinished ones, then the furthest."""
        sources = []
        for memory in self._memories():
            topic = "" if memory is self.memory else self.input.topic
            if source := memory.find(sighting, file, is_there, topic):
                sources.append((not source.finished, source.progress.position, source, memory))
        if not sources:
            return None, self.memory
        return max(sources, key=lambda each: each[:2])[2:]

    def _report_shared(self, sighting: Sighting) -> None:
        """Reports, once for each file, that it is a source of another input."""
        identity, path = sighting.identity, sighting.path
        if identity in self._said_shared or not self.survey.means(path):
            return
        if len(self._said_shared) < _MOST_SHARED:
            self._said_shared.add(identity)
            self._shared.report(LeftToOther(self.input.name, path))

    def go_on(self, followed: Followed, known: KnownSource) -> None:
        """Continues a known source, which is removed from its memory; or a new source from its
        position, if the known one has ended."""
        shared = self._shared
        if known.finished or known.topic != self.input.topic:
            if known.finished:
                shared.report(Forgettable(known.id))
            else:
                remembered_file = self.remembered(known)
                remembered_file.finish()
                shared.report(Appeared(remembered_file, known_before=True), Ended(remembered_file))
            next_progress = Progress(known.progress.position)
            followed.become(shared.new_source(), self.input, next_progress)
            shared.report(Appeared(followed, known_before=False))
            return
        followed.resume(known)
        shared.attention.may_begin(followed)
        shared.attention.note_earlier_look(followed, known.seen_millis)
        followed.belong(self.input)
        shared.report(Appeared(followed, known_before=True))
        former_path = known.last_path or known.path
        if former_path != followed.current_path:
            shared.report(Renamed(followed, former_path))

    def _is_too_old(self, sighting: Sighting, wall: float) -> bool:
        mtime = sighting.mtime_ns / 1e9
        if sighting.identity in self.there_at_first and self.input.starts_at_end(mtime):
            return False
        return self.input.is_too_old(mtime, wall)

    def remembered(self, known: KnownSource) -> Followed:
        identity = known.device, known.inode
        path = known.last_path or known.path
        followed = Followed(path, identity, None, self._shared.handles)
        attention = self._shared.attention
        attention.note_earlier_look(
            followed,
            max(known.seen_millis, self.caught_up_millis),
            0 if has_compressed_name(path) else known.size,
        )
        followed.resume(known)
        attention.rest(followed, self._shared.now)
        return followed

    def lose_remembered(self, identity: Identity, *, archives: bool = True) -> None:
        """Makes orphans of remembered sources whose inode belongs to another file now. `archives`:
        also of archives."""
        for source in self.memory.unfinished_at(identity):
            if has_compressed_name(source.path) and not archives:
                continue
            self.memory.remove(source)
            followed = self.remembered(source)
            self._shared.report(Appeared(followed, known_before=True))
            self.orphans.append((followed, None))

    def _look_outside(self, by_identity: dict[Identity, list[Sighting]]) -> None:
        """Checks finished files under paths that the input does not match: a program may still
        write to them."""
        for path in list(self.outside):
            try:
                sighting = sighting_of(Path(path), is_link=False)
            except OSError:
                sighting = None
            if sighting is None or not self.memory.has(sighting.identity):
                del self.outside[path]
            elif sighting.identity not in self.files and sighting.identity not in by_identity:
                self._meet(sighting, by_identity, is_meant=False)

    def _miss_remembered(
        self, listing: Listing, by_identity: dict[Identity, list[Sighting]]
    ) -> None:
        """Handles remembered sources that the first complete listing did not find."""
        for source in self.memory.unfinished():
            identity = source.device, source.inode
            if identity in self.files:
                self.lose_remembered(identity)
            elif identity not in by_identity and listing.covers(source.last_path or source.path):
                self.memory.remove(source)
                followed = self.remembered(source)
                self._shared.report(Appeared(followed, known_before=True))
                self.files[identity] = followed
                self.originals.note(followed)
                self.missing(followed, listing)


def _holds(other: InputFiles, identity: Identity) -> bool:
    """Whether another input has this file open."""
    followed = other.files.get(identity)
    return followed is not None and followed.fd is not None


def _has(other: InputFiles, sighting: Sighting, file: FoundFile) -> bool:
    """Whether another input follows a file that it has closed, or will go on with it after its
    first listing."""
    followed = other.files.get(sighting.identity)
    if followed is not None:
        seen_file = SeenFile(file.size, sighting.identity, born_ns=file.born_ns, head=file.head)
        return reopened(followed.remembered(), seen_file) is IdentityVerdict.SAME
    if other.has_looked:
        return False
    known = other.memory.find(sighting, file, other.files.__contains__, other.input.topic)
    return known is not None and not known.finished
