"""Follows the files of all inputs. Belongs to one thread; others may call `wake`.

The cost of a look depends on what has happened since the last one: it checks the size of busy
files. Everything else is left to inotify, and to a periodic scan of everything, which needs no
inotify. Scans take at most a fiftieth of a core, so with very many files they are less frequent.
"""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from agent.accounting.runs import KnownSource, SourceId
from agent.configuration.config import AgentLimits, HoldDeleted
from agent.configuration.file_inputs import FileInput
from agent.files.adoption import Adoption
from agent.files.archive_starts import read_archives
from agent.files.archive_states import plan_of
from agent.files.attention import Attention
from agent.files.backfill_plan import BackfillPlan
from agent.files.happenings import (
    Forgettable,
    Grown,
    Happening,
    NotWatched,
    Polling,
    ReadableAgain,
    Released,
)
from agent.files.input_files import InputFiles
from agent.files.listing import Listing, Survey
from agent.files.missed_names import MissedNames, known_places, since_boot
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.source_ends import (
    end_due_sources,
    is_undecided,
    left_unread,
    release_deleted,
    settle_orphans,
    unpack,
)
from agent.files.source_starts import begin
from agent.files.unreadable import Left, born_at
from agent.files.unwatched import KnownFiles, past_of
from agent.history.blind_times import Looked, LookedAt, Patterns, Stamp
from agent.history.clock_setting import set_words
from agent.history.position import HistoryPosition
from agent.history.watcher import LeftHistory, Watcher
from agent.open_files.descriptor_store import HandedOver
from agent.open_files.kept_files import Keeping, KeptKind
from agent.open_files.open_file_limit import Handles, most_handles
from agent.open_files.opening import Opening
from agent.open_files.paths import below, folder_of
from agent.recognition.followed import Followed
from agent.recognition.identity import Identity, IdentityVerdict, doubted

log = logging.getLogger(__name__)

REST: Final = 60.0
_PARTINGS_EVERY: Final = 0.25
_SCANNING: Final = 1 / 50
_LISTING: Final = 1 / 10
_BEGINNING: Final = 0.05
_UNPACKING: Final = 0.05
_ROUNDS: Final = 3
_UNMATCHED_SECONDS: Final = 600.0
_REMOVED_SECONDS: Final = 86_400.0
_MILLIS: Final = 1_000_000  # nanoseconds
_HISTORY: Final = (KeptKind.EVENTS, KeptKind.HISTORY)
_UNKNOWN: Final[Mapping[str, int]] = {}
_NEVER: Final[Mapping[str, Looked]] = {}
_NO_STAMPS: Final[Mapping[str, Stamp]] = {}


class Files:
    """The files of all inputs. `happenings` describes what a look found, `followed` the files to
    read.

    seen              names of inputs that were followed before, even without a source: `start` does
                      not apply to them. Default: the inputs of the known sources
    since             when inputs were first followed, in milliseconds; 0 or nothing: unknown
    archives_since    when inputs began to read archives; nothing: now
    forgotten_before  if the journal was damaged, it may have lost sources and progress that ledger
                      entries below this number have; otherwise -1
    torn              the journal may lack the last of what was shipped
    reached           the journal's position in the history of names
    keeping           keeps open files over a crash
    left              descriptors handed over by an earlier process
    worked            returns the CPU time of this thread
    opening           decides which files may be opened
    """

    def __init__(  # noqa: PLR0917  the first six are its parts
        self,
        inputs: Sequence[FileInput],
        known: Sequence[KnownSource],
        new_source: Callable[[], SourceId],
        limits: AgentLimits,
        hold: HoldDeleted,
        scan_interval: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        seen: Collection[str] | None = None,
        since: Mapping[str, int] = _UNKNOWN,
        archives_since: Mapping[str, int] = _UNKNOWN,
        looked: Mapping[str, Looked] = _NEVER,
        forgotten_before: int = -1,
        torn: bool = False,
        reached: HistoryPosition | None = None,
        spool: Path | None = None,
        rest: float = REST,
        events: bool = True,
        boot: Callable[[], float] = since_boot,
        keeping: Keeping | None = None,
        left: Sequence[HandedOver] = (),
        worked: Callable[[], float] = time.thread_time,
        opening: Opening | None = None,
    ) -> None:
        self._keeping = keeping
        self._worked = worked
        self._adoption = Adoption(left, known, keeping)
        if forgotten_before >= 0:
            reached = None
        watcher = self._watcher(reached, events=events)
        handles = Handles(most_handles(limits.open_files), wall, keeping, opening)
        attention = Attention(watcher, handles, self._no_events)
        self._shared = SharedByInputs(
            watcher, handles, attention, new_source, wall, hold, spool, rest, now=clock()
        )
        self._scan_interval = scan_interval
        self._next_scan = self._next_listing = self._next_partings = float("-inf")
        self.scanned_millis = 0  # when the last scan of everything began; any thread
        self._looked_ns = self._listed_ns = self._scanned_ns = 0  # by the clock of file systems
        self._told: set[str] = set()  # folders with events since the previous listing
        self._said_polling = False
        if torn or forgotten_before >= 0:
            self._shared.doubtful = {source.id: source.progress.position for source in known}
        if forgotten_before >= 0:
            self._shared.forgotten_before = forgotten_before
            looked = {name: look.if_forgotten() for name, look in looked.items()}
        shared = self._shared
        begun_millis = int(wall() * 1000)
        if watcher.goes_on:
            log.info(
                "continuing the history of names last_look_seconds=%.1f events=%d",
                boot() - watcher.last_look.boot_millis / 1000,
                watcher.number - (reached.number if reached is not None else 0),
            )
            begun_millis = watcher.last_look.wall_millis
            self._looked_ns = self._listed_ns = self._scanned_ns = begun_millis * _MILLIS
        shared.attention.begins(begun_millis, is_caught_up=True)
        self._missed_names = MissedNames(
            shared, looked, boot, reached if watcher.goes_on else None, self._adoption.known_paths
        )
        self._by_input: dict[str, InputFiles] = {}
        self._unsure: dict[InputFiles, list[str]] = {}
        for source in known:
            shared.unclaimed.add(source)
        self._left: list[Left] = []
        self._since, self._archives_since = since, archives_since
        self._seen = set(seen) if seen is not None else {source.input for source in known}
        self._follow(inputs)

    def _watcher(self, reached: HistoryPosition | None, *, events: bool) -> Watcher:
        """A watcher that continues the history handed over, if complete, or starts a new one."""
        kept_descriptors = [self._adoption.own.get(history_kind) for history_kind in _HISTORY]
        queue, memory = kept_descriptors
        left_history = LeftHistory(queue.fd, memory.fd) if queue and memory else None
        watcher = Watcher(events=events, left=left_history, reached=reached)
        if left_history is None:
            for descriptor in kept_descriptors:
                if descriptor is not None:
                    os.close(descriptor.fd)
        if self._keeping is not None:
            for kind, fd, kept_descriptor in zip(
                _HISTORY, (watcher.descriptor, watcher.memory), kept_descriptors, strict=True
            ):
                name = kept_descriptor.name if kept_descriptor else ""
                self._keeping.keep_own(kind, fd, name, is_same=watcher.goes_on)
        return watcher

    def last_look(self, now: float) -> list[Happening]:
        """Looks at all files a last time before they are no longer followed, and returns the
        happenings."""
        self._next_scan = float("-inf")
        return self.look(now)

    def look(self, now: float) -> list[Happening]:
        """Returns happenings since the last look. Call it every 20 to 50 ms."""
        shared = self._shared
        shared.now = now
        self._looked_ns = time.time_ns()
        shared.set_millis = self._missed_names.begins()
        if shared.set_millis:
            self._clock_was_set(shared.set_millis)
        shared.watcher.collect()
        previous_millis = shared.attention.millis
        millis = int(shared.wall() * 1000)
        shared.attention.begins(millis, is_caught_up=not shared.watcher.overflowed)
        if self._missed_names.was_blind(self._scan_interval, polling=self._said_polling):
            self._missed_names.begin_again(self._by_input.values(), previous_millis)
        if self._missed_names.was_suspended:
            self._next_listing = now
        self._list(now)
        shared.attention.look(now)
        self._missed_names.note_what_was_written(self._by_input.values())
        for _ in range(_ROUNDS):
            self._note()
            self._missed_names.note_what_was_written(self._by_input.values())
            self._begin()
            is_needed_again = any(
                input_files.again or input_files.orphans for input_files in self._by_input.values()
            )
            if not shared.handles.notable and not is_needed_again:
                break
        unpacking = time.thread_time() + _UNPACKING
        for input_files in self._by_input.values():
            unpack(input_files, self._by_input.values(), shared, unpacking)
            if input_files.input.reads_archives:
                read_archives(input_files, self._by_input.values(), shared, unpacking)
        self._missed_names.process_events(previous_millis)
        # The process may have been suspended since the look began.
        retry_millis = max(millis, int(shared.wall() * 1000))
        self._missed_names.report_passing_names(
            list(self._by_input.values()), previous_millis, retry_millis
        )
        if now >= self._next_partings:
            self._next_partings = now + _PARTINGS_EVERY
            for input_files in self._by_input.values():
                end_due_sources(input_files, shared)
            release_deleted(list(self._by_input.values()), shared)
        reported_happenings, shared.reported = shared.reported, []
        return reported_happenings

    def _clock_was_set(self, by_millis: int) -> None:
        """Notes that earlier times are by another setting of the wall clock. Times of files are
        compared with the earlier of both."""
        if words := set_words(by_millis):
            log.warning("%s", words)
        by_ns = by_millis * _MILLIS
        self._listed_ns = min(self._listed_ns, self._listed_ns + by_ns)
        self._scanned_ns = min(self._scanned_ns, self._scanned_ns + by_ns)
        for input_files in self._by_input.values():
            input_files.clock_was_set(by_millis)

    def keep(self, now: float) -> None:
        """Hands open files to the keeper. Called after the results of `look` were journalled, so
        that the journal knows the source of every kept file."""
        self._missed_names.look_journalled()
        if self._keeping is not None:
            self._keeping.flush(now)

    def history(self) -> HistoryPosition | None:
        """The position up to which events have been processed, if it has changed. The caller
        journals it after all reported happenings."""
        return self._missed_names.reached(self._by_input)

    def history_was_written(self, position: HistoryPosition) -> None:
        self._missed_names.reached_was_written(position)

    def ready(self) -> list[Followed]:
        """The files with unread bytes, least recently read first."""
        unread_files = self._shared.attention.unread
        for followed in [file for file in unread_files if not file.unread]:
            del unread_files[followed]
        readable_files = [
            file for file in unread_files if not (file.suspect or file.trouble or file.is_away)
        ]
        return sorted(readable_files, key=lambda file: file.served)

    def following(self) -> Collection[Followed]:
        all_input_files = list(self._by_input.values())
        files = chain.from_iterable(
            list(input_files.files.values()) for input_files in all_input_files
        )
        return [followed for followed in files if followed.source]

    @property
    def open_files(self) -> int:
        """The number of open files. Any thread."""
        return len(self._shared.handles)

    @property
    def kept_files(self) -> int:
        """The number of open files that outlive this process. Any thread."""
        return self._keeping.kept if self._keeping is not None else 0

    @property
    def undecided(self) -> set[str]:
        """Topics with something that is not identified yet: a file that may be a copy or was
        replaced, or a folder that is not listed yet."""
        shared = self._shared
        unclear_files = (
            followed for followed in shared.attention.unclear if followed.trouble is None
        )
        notable_files = (
            handle for handle in shared.handles.notable if isinstance(handle, Followed)
        )
        odd_inputs = {followed.input for followed in chain(unclear_files, notable_files)}
        changed_folders = shared.watcher.changed
        return {
            input_files.input.topic
            for name, input_files in self._by_input.items()
            if name in odd_inputs
            or is_undecided(input_files)
            or (changed_folders and input_files.survey.concerned(changed_folders))
        }

    @property
    def barred(self) -> set[str]:
        """Topics with files or folders that the agent may not read."""
        return {
            input_files.input.topic for input_files in self._by_input.values() if input_files.barred
        }

    def has_matches(self, name: str) -> bool:
        """Whether there are files that the input matches, also those that it leaves to another
        input. Any thread."""
        input_files = self._by_input.get(name)
        return input_files is not None and input_files.matches

    def unmatched(self, name: str) -> tuple[int, str] | None:
        """Since when (milliseconds) no file matches an input that had files, and the path of the
        last one; None if the input has files, never had any, or has had none for a short time only,
        or for so long that its application may have been removed. Any thread."""
        input_files = self._by_input.get(name)
        if input_files is None or input_files.matches or not input_files.matched_path:
            return None
        since_millis = input_files.matched_millis
        if not _UNMATCHED_SECONDS <= self._shared.wall() - since_millis / 1000 < _REMOVED_SECONDS:
            return None
        return since_millis, input_files.matched_path

    def means(self, name: str, path: str) -> bool:
        """Whether the input matches a file of that path, or searches a folder of that path. Any
        thread."""
        input_files = self._by_input.get(name)
        return input_files is not None and (
            path in input_files.survey.watched or input_files.survey.means(path)
        )

    def waiting_archives(self, name: str) -> int:
        """The number of the input's archives that are not identified yet, or whose file is still
        followed. Any thread."""
        input_files = self._by_input.get(name)
        return len(input_files.archives) if input_files is not None else 0

    def backfill_plan(self, name: str) -> BackfillPlan | None:
        """The archives of an input, if it reads archives. Any thread."""
        input_files = self._by_input.get(name)
        if input_files is None or not input_files.input.reads_archives:
            return None
        return plan_of(input_files)

    @property
    def at_rest(self) -> bool:
        """Whether looks will find nothing until inotify reports something or the next scan is
        due."""
        unpacking = any(input_files.unpacking for input_files in self._by_input.values())
        is_idle = self._shared.attention.at_rest and not self._shared.watcher.has_news
        return is_idle and not self.undecided and not unpacking

    def looked(self, caught_up: Mapping[str, int]) -> list[LookedAt]:
        """New scan times of inputs, and changed stamps of their folders, which the caller journals
        after all reported happenings. `caught_up`: the time up to which a topic's lines are
        acknowledged."""
        return self._missed_names.looked(self._by_input.items(), caught_up)

    def looked_was_written(self) -> None:
        self._missed_names.note_written(self._by_input.values())

    def snapshot_of(self, followed: Followed) -> KnownSource:
        return followed.known(self._shared.wall())

    def wait(self, seconds: float) -> None:
        """Waits for inotify, or `wake`, or the timeout."""
        self._shared.watcher.wait(seconds)

    def wake(self) -> None:
        self._shared.watcher.wake()

    def reconfigure(self, inputs: Sequence[FileInput]) -> list[Happening]:
        """Replaces the inputs. Sources whose files still belong to their input continue. Files of
        new inputs are found at the next look."""
        inputs_by_name = {input_.name: input_ for input_ in inputs}
        for name, input_files in list(self._by_input.items()):
            new_input = inputs_by_name.get(name)
            if new_input is None or new_input.topic != input_files.input.topic:
                self._remove(name)
            elif new_input != input_files.input:
                self._change(input_files, new_input)
        self._follow([input_ for input_ in inputs if input_.name not in self._by_input])
        self._report_left_unread()
        reported_happenings, self._shared.reported = self._shared.reported, []
        return reported_happenings

    def close(self) -> None:
        for followed in [
            file for input_files in self._by_input.values() for file in input_files.files.values()
        ]:
            self._shared.close(followed)
        for unpacking in [
            unpacking
            for input_files in self._by_input.values()
            for unpacking in input_files.unpacking.values()
        ]:
            unpacking.close()
        for input_files in self._by_input.values():
            input_files.archives.close()
        self._by_input.clear()
        self._adoption.close()
        self._shared.watcher.close()
        if self._keeping is not None:
            self._keeping.close()

    # Listing

    def _list(self, now: float) -> None:
        watcher, all_input_files = self._shared.watcher, list(self._by_input.values())
        scans_everything = now >= self._next_scan or watcher.overflowed
        started_at = self._worked()
        if scans_everything or any(input_files.wants_all for input_files in all_input_files):
            self._adoption.adopt(all_input_files, self._shared.unclaimed.all(), self._shared)
        if scans_everything:
            began_millis = int(self._shared.wall() * 1000)
            if watcher.overflowed:
                watcher.overflowed = False
                watcher.begin_epoch()
            self._told, watcher.changed = watcher.changed, set()
            listings = [self._all(input_files) for input_files in all_input_files]
            for input_files, listing in zip(all_input_files, listings, strict=True):
                self._take(input_files, listing)
            self._after_scan(all_input_files)
            seconds = self._worked() - started_at
            self._next_scan = now + max(self._scan_interval, seconds / _SCANNING)
            self._listed_ns = self._scanned_ns = self._looked_ns
            self.scanned_millis = began_millis
            self._missed_names.scan_completed()
        elif now >= self._next_listing:
            self._told = changed_folders = watcher.changed
            watcher.changed = set()
            unsure_folders, self._unsure = self._unsure, {}
            for input_files in all_input_files:
                folders_again, input_files.again = input_files.again, set()
                folders_again |= set(unsure_folders.get(input_files, ()))
                if input_files.wants_all:
                    self._take(input_files, self._all(input_files))
                elif (
                    folders := (
                        input_files.survey.concerned(changed_folders) if changed_folders else set()
                    )
                    | folders_again
                ):
                    self._take(input_files, input_files.survey.some(folders))
            self._next_listing = now + (self._worked() - started_at) / _LISTING
            self._listed_ns = self._looked_ns
        watcher.newly_watched.clear()

    def _all(self, input_files: InputFiles) -> Listing:
        input_files.wants_all = False
        input_files.again.clear()
        return input_files.survey.all()

    def _take(self, input_files: InputFiles, listing: Listing) -> None:
        shared = self._shared
        for path, error in listing.failures.items():
            shared.cannot_read(path, error)
        if shared.unreadable:
            for folder in listing.folders - listing.failures.keys():
                shared.note_readable(folder)
        previous_look, searched_patterns = input_files.before, input_files.folders.patterns
        known_files = (
            known_places(input_files) if previous_look is not None and listing.complete else {}
        )
        patterns = Patterns(input_files.input.paths, input_files.input.exclude)
        input_files.take(listing)
        input_files.folders.take(
            listing,
            patterns,
            input_files.barred.seen_up_to(shared.attention.millis),
            self._missed_names.clock,
            earlier=previous_look.folders if previous_look is not None else _NO_STAMPS,
        )
        self._unsure[input_files] = input_files.folders.unsure()
        if previous_look is None and shared.watcher.newly_watched and searched_patterns.paths:
            self._say_past(input_files, listing, searched_patterns)
        if listing.complete and (previous_look is not None or not searched_patterns.paths):
            input_files.start_history()
        if previous_look is not None and listing.complete:
            input_files.before = None
            self._missed_names.report_blind_time(
                *(input_files, previous_look, listing),
                known=KnownFiles(known_files, known_places(input_files), self._is_read),
            )

    def _is_read(self, path: str, identity: Identity) -> bool:
        born_ns = born_at(path)
        return any(
            input_files.survey.means(path) or (born_ns and input_files.has_file(identity, born_ns))
            for input_files in self._by_input.values()
        )

    def _say_past(self, input_files: InputFiles, listing: Listing, sought: Patterns) -> None:
        """Reports what may have happened in new folders before they were watched, for those that
        the input already searched."""
        new_watches, survey = self._shared.watcher.newly_watched, None
        for folder in new_watches.keys() & listing.stamps.keys():
            survey = survey or Survey(*sought, before=lambda _folder: None)
            if not survey.asks(folder):
                continue
            stamp, since_ns = listing.stamps[folder], self._told_ns(folder)
            if stamp[:2] != new_watches[folder].identity:
                continue
            is_above_watched = self._shared.watcher.watch_of(folder_of(folder)) >= 0
            past_events = past_of(folder, stamp, since_ns)
            if self._missed_names.was_suspended and not is_above_watched:
                past_events = past_events or "another folder may have been in its place"
            if past_events:
                self._missed_names.report_past(
                    input_files, folder, since_ns // _MILLIS, past_events
                )

    def _told_ns(self, folder: str) -> int:
        """A time before the folder was created or replaced: that of the previous look, if the
        kernel reported it, otherwise that of the last scan."""
        if self._shared.watcher.newly_watched[folder].instead:
            is_told = folder_of(folder) in self._told
        else:
            is_told = any(
                f"{folder}/".startswith(below(folder_with_events, ""))
                for folder_with_events in self._told
            )
        return self._listed_ns if is_told else self._scanned_ns

    def _after_scan(self, every_input: Sequence[InputFiles]) -> None:
        shared = self._shared
        for path in [path for path in shared.unreadable if not os.path.lexists(path)]:
            del shared.unreadable[path]
            shared.report(ReadableAgain(path, gone=True))
        folders = {folder for input_files in every_input for folder in input_files.survey.watched}
        shared.watcher.unwatch_folders_but(folders)
        wall_time = shared.wall()
        if any(input_files.archives.has_next for input_files in every_input):
            return  # they may have the lines of any source
        for input_files in every_input:
            shared.report(
                *(Forgettable(source.id) for source in input_files.memory.forget(wall_time))
            )

    def _before_listing(self, folder: str) -> int:
        """Watches a folder before it is listed, so that nothing is missed. Returns the watch."""
        reason = self._shared.watcher.watch_folder(folder)
        if reason:
            self._no_events(folder, reason)
        return self._shared.watcher.watch_of(folder)

    def _no_events(self, path: str, why: str) -> None:
        if not self._said_polling:
            self._said_polling = True
            self._shared.report(Polling(path, why))

    # Identification

    def _begin(self) -> None:
        unclear_files, started_at = self._shared.attention.unclear, self._worked()
        for followed in list(unclear_files):
            if self._worked() - started_at > _BEGINNING:
                return
            del unclear_files[followed]
            unclear_files[followed] = None  # to the end of the queue
            input_files = self._by_input.get(followed.input)
            if input_files is not None and not followed.suspect and followed.trouble is None:
                begin(input_files, followed, self._shared)

    def _note(self) -> None:
        """Handles the files that reading or looking found changed."""
        shared = self._shared
        notable_handles, shared.handles.notable = shared.handles.notable, set()
        for holder in notable_handles:
            if isinstance(holder, Followed):
                self._note_one(holder)
        for input_files in self._by_input.values():
            folders, input_files.again = input_files.again, set()
            folders |= {folder_of(orphan.current_path) for orphan, _ in input_files.orphans}
            if folders:
                self._take(input_files, input_files.survey.some(folders))
                settle_orphans(input_files, shared)
        shared.watcher.newly_watched.clear()

    def _note_one(self, followed: Followed) -> None:
        input_files = self._by_input.get(followed.input)
        if input_files is None or input_files.files.get(followed.identity) is not followed:
            return
        shared = self._shared
        if followed.trouble is not None:
            input_files.close_unreadable(followed, followed.trouble)
            return
        if followed.suspect:
            self._question(input_files, followed)
            return
        input_files.originals.note(followed)
        if followed.source and followed.content.reports_fingerprint():
            shared.report(Grown(followed))

    def _question(self, input_files: InputFiles, followed: Followed) -> None:
        """Handles a file that has changed: truncated, replaced, renamed or gone."""
        followed.trust()
        try:
            fd = followed.fd
            if fd is None:
                fd, status = self._shared.handles.open(followed.current_path)
                if (status.st_dev, status.st_ino) != followed.identity:
                    os.close(fd)
                    raise FileNotFoundError
                os.close(fd)
                if (fd := followed.open()) is None:
                    followed.trust()
                    input_files.lose_file(followed)
                    return
            if doubted(followed.remembered(), followed.seen(fd)) is IdentityVerdict.SAME:
                self._shared.attention.make_busy(followed, self._shared.now)
                return
            input_files.truncated(followed, fd)
        except (FileNotFoundError, NotADirectoryError):
            input_files.wants_all = True
            return
        except OSError as error:
            self._shared.handles.trouble(followed, error)

    # Inputs

    def _follow(self, inputs: Sequence[FileInput]) -> None:
        archive_topics = {each.topic for each in inputs if each.reads_archives}
        archive_topics |= {
            input_files.input.topic
            for input_files in self._by_input.values()
            if input_files.input.reads_archives
        }
        self._shared.archive_topics = frozenset(archive_topics)
        names = {input_.name for input_ in inputs} | self._by_input.keys()
        for input_ in inputs:
            is_new = input_.name not in self._seen
            self._seen.add(input_.name)
            now_millis = int(self._shared.wall() * 1000)
            since_millis = now_millis if is_new else self._since.get(input_.name, 0)
            input_files = InputFiles(
                *(input_, self._shared, self._before_listing),
                is_new=is_new,
                since_millis=since_millis,
                archives_since_millis=self._archives_since.get(input_.name, now_millis),
            )
            self._by_input[input_.name] = input_files
            self._missed_names.remember(input_files, input_.name)
        self._claim({input_.name: self._by_input[input_.name] for input_ in inputs}, names)
        for input_files in self._by_input.values():
            input_files.others = [
                other
                for other in self._by_input.values()
                if other is not input_files and other.input.topic == input_files.input.topic
            ]

    def _claim(self, new: Mapping[str, InputFiles], names: Collection[str]) -> None:
        """Assigns unclaimed sources to new inputs, and to inputs that have been renamed."""
        for source in self._shared.unclaimed.all():
            input_files = new.get(source.input)
            if source.input not in names:
                input_files = _new_input_of(source, new.values())
                if input_files is not None:
                    self._missed_names.remember(input_files, source.input)
            if input_files is not None:
                self._shared.unclaimed.remove(source)
                input_files.remember(source)
                input_files.is_new = False

    def _remove(self, name: str) -> None:
        input_files = self._by_input.pop(name)
        self._unsure.pop(input_files, None)
        self._missed_names.leave(input_files, name)
        self._left += input_files.barred.leave(
            input_files.input.topic, int(self._shared.wall() * 1000)
        )
        for followed in dict.fromkeys([*input_files.files.values(), *input_files.unpacking]):
            self._release(input_files, followed)
        for unpacking in input_files.unpacking.values():
            unpacking.close()
        input_files.archives.close()
        for source in input_files.memory.all():
            self._shared.unclaimed.add(source)

    def _change(self, input_files: InputFiles, new: FileInput) -> None:
        self._left += input_files.change(new, self._before_listing)
        for followed in list(input_files.files.values()):
            if not input_files.survey.means(followed.path):
                self._release(input_files, followed)
        for source in self._shared.unclaimed.all():
            if source.input == new.name and input_files.survey.means(source.path):
                self._shared.unclaimed.remove(source)
                input_files.remember(source)

    def _release(self, input_files: InputFiles, followed: Followed) -> None:
        self._shared.attention.refresh(followed, self._shared.now)
        left_file = left_unread(input_files, followed, self._shared)
        if left_file is not None:
            self._left.append(Left(followed.current_path, left_file, followed.source))
        input_files.drop(followed)
        for other in input_files.others:
            other.wants_all = True  # it may match the file
        if followed.source:
            self._shared.unclaimed.add(self.snapshot_of(followed))
            self._shared.report(Released(followed))

    def _report_left_unread(self) -> None:
        """Reports unread content of files that were dropped by changed or removed inputs, if their
        topic has heartbeats, and no other input takes them over."""
        left_files, self._left = self._left, []
        all_input_files = self._by_input.values()
        claimed_sources = {
            known_source.id
            for input_files in all_input_files
            for known_source in input_files.memory.unfinished()
        }
        for path, unwatched, source in left_files:
            same_topic = [
                input_files
                for input_files in all_input_files
                if input_files.input.topic == unwatched.topic
            ]
            is_taken_over = any(input_files.survey.means(path) for input_files in same_topic)
            if same_topic and source not in claimed_sources and not is_taken_over:
                self._shared.report(NotWatched(unwatched))


def _new_input_of(known: KnownSource, inputs: Iterable[InputFiles]) -> InputFiles | None:
    """The input that takes over a source whose own input has been removed or renamed."""
    path = known.last_path or known.path
    for input_files in inputs:
        if input_files.input.topic == known.topic and input_files.survey.means(path):
            return input_files
    return None
