"""Reports missed files, as shown by the history of names or, without a history, by the times of
folders.

The history is complete while the kernel's events are kept, whether or not a process reads them: a
new process continues at the journal's position. Names that came and went between two looks are
reported, however far apart the looks are, and whichever process looked.

There is no history before a first start, after a reboot, after the kernel has lost events or kept
descriptors are lost, while an input was removed, and on file systems without events. Then the
folders' own times show whether names came or went.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from agent.files.happenings import NotWatched
from agent.files.input_files import InputFiles
from agent.files.listing import Listing
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.unpacking import Unpacking
from agent.files.unwatched import (
    KnownFiles,
    KnownPlaces,
    Place,
    blind_statements,
    by_folder,
    changed,
    of_folder,
)
from agent.history.blind_times import (
    Looked,
    LookedAt,
    Traces,
    blind_since,
    may_be_emptied,
    some_of,
)
from agent.history.clock_setting import ClockSetting, boot_id
from agent.history.memory import LastLook
from agent.history.name_events import NameHistory, Places, follow
from agent.history.position import MOST_PENDING, HistoryPosition, Pending
from agent.open_files.paths import below, folder_of
from agent.recognition.compressed import has_compressed_name
from agent.recognition.identity import Identity

_FROZEN: Final = 5.0
_STOOD_STILL: Final = 1.0
_MILLI_NS: Final = 1_000_000
_MOST_COME: Final = 20_000  # more than the kernel keeps by default


def since_boot() -> float:
    """Seconds since the boot, including those in which the host was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class MissedNames:
    """Watches for missed files of all inputs. `looked` are the last looks before the start;
    `reached` is the position in the history, if it is continued; `known` are the paths of files
    known before."""

    def __init__(
        self,
        shared: SharedByInputs,
        looked: Mapping[str, Looked],
        boot: Callable[[], float],
        reached: HistoryPosition | None,
        known: Collection[str],
    ) -> None:
        self._shared = shared
        self._looked = dict(looked)
        self._boot = boot
        self._begun = self._looked_at = self._before = boot()  # `_begun`: see `begins`
        booted_millis = self._wall_millis - int(self._begun * 1000)
        self.clock = self._clock_before = ClockSetting(boot_id(), booted_millis)
        self._reached = reached
        self._gone_on_with = set(reached.inputs) if reached else set()
        self._known: Collection[str] | None = None  # until the first look is over
        self._named = -1  # the number of the last event with a name
        self._inputs_changed, self._untold = True, 0
        self._why = ""
        self._came: Places[str] = {}  # new names that were not looked at yet
        self._listed: Places[str] = {}  # those that came before the folders were listed
        self._unlisted: set[str] = set()  # changed folders that were not listed since
        self._in_moved_folders: dict[
            int, list[NameHistory[str]]
        ] = {}  # those in moved folders, by watch
        self._listed_moves: set[int] = set()  # watches of moved folders that can be located now
        self._went: list[NameHistory[str]] = []  # removed names that were not reported yet
        self._written: dict[InputFiles, dict[str, Traces]] = {}  # while the process was suspended
        self._gone: dict[InputFiles, list[NameHistory[str]]] = {}  # may be in an archive
        self._found: set[Unpacking] = set()  # unpackings whose archive is known
        if reached is not None:
            self._known = known
            last_look = shared.watcher.last_look
            self._begun = self._looked_at = self._before = last_look.boot_millis / 1000
            booted_millis = last_look.wall_millis - last_look.boot_millis
            self.clock = ClockSetting(boot_id(), booted_millis)
            self._resume(reached)

    @property
    def _wall_millis(self) -> int:
        return int(self._shared.wall() * 1000)

    def _resume(self, reached: HistoryPosition) -> None:
        """Replays the history: names before the position are settled, except pending ones."""
        watcher = self._shared.watcher
        earlier_events = [event for event in watcher.names if event.number < reached.number]
        watcher.names = [event for event in watcher.names if event.number >= reached.number]
        histories = follow(earlier_events, self._came, self._in_moved_folders)
        pending_names = dict(reached.pending)

        def unsettled(named: Iterable[NameHistory[str]]) -> list[NameHistory[str]]:
            return [history for history in named if history.number in pending_names]

        self._went = unsettled(histories)
        self._came = {
            place: history
            for place, history in self._came.items()
            if history.number in pending_names
        }
        self._in_moved_folders = {
            cookie: unsettled_name
            for cookie, named in self._in_moved_folders.items()
            if (unsettled_name := unsettled(named))
        }
        for history in chain(self._went, self._came.values(), *self._in_moved_folders.values()):
            history.since = pending_names[history.number]

    def looked(
        self, every_input: Iterable[tuple[str, InputFiles]], caught_up: Mapping[str, int]
    ) -> list[LookedAt]:
        """New scan times and stamps to journal; none while removed names are unreported, since
        the folders no longer show them."""
        if self._gone or self._in_moved_folders:
            return []
        boot_millis = int(self._boot() * 1000)
        changes = []
        for name, input_files in every_input:
            if input_files.folders.is_news and input_files.folders.scanned_millis:
                caught_up_millis = caught_up.get(input_files.input.topic, 0)
                input_files.caught_up_millis = max(input_files.caught_up_millis, caught_up_millis)
                changes.append(
                    input_files.folders.looked_at(name, input_files.caught_up_millis, boot_millis)
                )
        return changes

    def note_written(self, every_input: Iterable[InputFiles]) -> None:
        for input_files in every_input:
            if input_files.folders.scanned_millis:
                self._inputs_changed |= input_files.folders.all_is_news
                input_files.folders.note_written()

    def remember(self, input_files: InputFiles, name: str) -> None:
        """Restores the input's last look before the start, or before it was removed."""
        self._inputs_changed = True
        look = self._looked.pop(name, None)
        if look is not None and name in self._gone_on_with:
            self._gone_on_with.discard(name)
            input_files.go_on_from(look)
        elif look is not None and input_files.before is None:
            input_files.before, input_files.why_before = look, "no agent followed these files"
            input_files.caught_up_millis = max(input_files.caught_up_millis, look.caught_up_millis)

    def leave(self, input_files: InputFiles, name: str) -> None:
        """Keeps the last look of an input that is removed."""
        self._inputs_changed = True
        self._report_missed(
            input_files, self._gone.pop(input_files, []), self._shared.attention.millis
        )
        if input_files.folders.scanned_millis:
            boot_millis, millis = int(self._boot() * 1000), input_files.folders.scanned_millis
            self._looked[name] = input_files.folders.looked(
                *(millis, input_files.caught_up_millis, boot_millis, input_files.folders.clock)
            )

    def begins(self) -> int:
        """Begins a look; later events belong to the next look. Returns by how many milliseconds the
        wall clock was set since the previous look."""
        wall_millis = self._wall_millis
        self._before, self._begun = self._begun, self._boot()
        self._clock_before = self.clock
        readings = wall_millis, self._wall_millis
        self.clock = self._clock_before.read(int(self._begun * 1000), readings)
        return self.clock.set_since(self._clock_before) or 0

    def was_blind(self, scan_interval: float, *, polling: bool) -> bool:
        """Whether events were lost; or, if files are polled, whether the last look was long ago.
        Call it at each look."""
        self._looked_at = self._boot()
        passed_seconds = self._looked_at - self._before
        if self._shared.watcher.overflowed:
            self._why = "the kernel's event queue overflowed"
            self._came.clear()
            return True
        self._why = f"the agent was suspended for {passed_seconds:.0f} s"
        return polling and passed_seconds > max(_FROZEN, 2 * scan_interval)

    @property
    def was_suspended(self) -> bool:
        """Whether a file created since the last look may have been emptied before this look: always
        if no agent ran in between; in a running agent, if more than a second passed."""
        return self._known is not None or self._looked_at - self._before > _STOOD_STILL

    def begin_again(self, every_input: Iterable[InputFiles], looked_millis: int) -> None:
        """Requests a complete listing, to be compared with the stamps of the last look."""
        for input_files in every_input:
            if input_files.before is None and input_files.folders.scanned_millis:
                boot_millis, caught_up_millis = (
                    int(self._before * 1000),
                    input_files.caught_up_millis,
                )
                input_files.before = input_files.folders.looked(
                    looked_millis, caught_up_millis, boot_millis, self._clock_before
                )
                input_files.why_before = self._why
                input_files.wants_all = True

    def report_blind_time(
        self,
        input_files: InputFiles,
        before: Looked,
        listing: Listing,
        *,
        known: KnownFiles,
    ) -> None:
        """Reports a blind time after a complete listing."""
        blind = blind_since(
            input_files.input.topic,
            before,
            now_millis=self._shared.attention.millis,
            booted_millis=int(self._boot() * 1000),
            clock=self.clock,
            reason=input_files.why_before,
        )
        times_ns = [
            (period.from_millis * _MILLI_NS, (period.to_millis - 1) * _MILLI_NS)
            for period in blind.periods
        ]
        stamps = input_files.folders.stamps
        statements = blind_statements(
            *(input_files.survey, listing, stamps, before, blind),
            known=known,
            written=input_files.written_unread(times_ns),
        )
        self._shared.report(*map(NotWatched, statements))

    def note_what_was_written(self, every_input: Iterable[InputFiles]) -> None:
        """Records files that may have been emptied while the process was suspended, also during
        this look. Call it each time before new files are identified."""
        now_ns = time.time_ns()  # first, so that a pause between the clocks adds to the time
        self._looked_at = self._boot()
        if self.was_suspended:
            times = now_ns - int((self._looked_at - self._before) * 1e9), now_ns
            for input_files in every_input:
                previous_traces = self._written.get(input_files, {})
                self._written[input_files] = input_files.written_unread([times]) | previous_traces

    def process_events(self, before: int) -> None:
        """Processes events after the folders were listed: first those from before the listing, then
        newer ones, which the listing may not show."""
        self._follow(before)
        self._listed = self._came.copy()
        self._unlisted = self._shared.watcher.changed.copy()
        self._listed_moves = set() if self._unlisted else set(self._in_moved_folders)
        self._shared.watcher.collect()
        self._follow(before)

    def _follow(self, before: int) -> None:
        watcher = self._shared.watcher
        names, watcher.names = watcher.names, []
        if names:
            histories = follow(names, self._came, self._in_moved_folders)
            self._went += histories
            self._named = names[-1].number
            for history in chain(histories, self._came.values(), *self._in_moved_folders.values()):
                history.since = history.since or before
                if self._known is not None and not history.is_new:
                    # It existed, and the previous process had not made a source of it.
                    history.is_new = below(*history.places[0]) not in self._known

    def report_passing_names(self, every_input: list[InputFiles], before: int, now: int) -> None:
        """Reports names that came and went between the previous look and this one. Waits for names
        that are neither followed nor gone yet, and for removed ones that may be in an archive still
        searched for."""
        archives = {
            unpacking
            for input_files in every_input
            for unpacking in input_files.unpacking.values()
            if unpacking.archive
        }
        new_archives, self._found = archives - self._found, archives
        if not self._in_moved_folders:
            self._shared.watcher.left.clear()
        if not (self._went or self.waits or self._written):
            return
        histories, self._went = self._went, []
        histories += self._settle_moved_folders()
        if self._read_renamed(every_input, before):
            self.note_what_was_written(every_input)
        self._report_maybe_emptied(before, now)
        files = [followed for input_files in every_input for followed in input_files.files.values()]
        followed = {file.current_path for file in files if not file.nameless}
        for (folder, name), history in list(self._came.items()):
            path = below(folder, name)
            if has_compressed_name(name) or history.is_folder:
                del self._came[folder, name]
            elif self._listed.get((folder, name)) is not history:
                continue  # the listing may show what was there before
            elif not any(input_files.survey.means(path) for input_files in every_input):
                del self._came[folder, name]
                if path not in followed:
                    histories.append(history)  # it was not read under a path that matched
            elif not _is_below(folder, self._unlisted) and (
                path in followed or os.path.lexists(path)
            ):
                del self._came[folder, name]
        waiting_names, self._gone = self._gone, {}
        for input_files in every_input:
            candidates = [*waiting_names.get(input_files, ()), *histories]
            self._report_missed(
                input_files, self._not_unpacked(input_files, candidates, new_archives), now
            )
        if len(self._came) > _MOST_COME:
            self._shared.watcher.overflowed = True  # falls back to folder times

    def _read_renamed(self, every_input: Iterable[InputFiles], before: int) -> bool:
        """Reads new files that had a name that an input matches, and got another one before they
        were opened, as by two rotations while no agent ran. Returns whether there are any.

        The history of names shows which file that is, as long as nothing has happened to its name
        by the time that it was found there."""
        has_followed = False
        for place, came in list(self._came.items()):
            is_renamed = came.is_made and not came.is_folder and len(came.places) > 1
            if not is_renamed or self._listed.get(place) is not came:
                continue
            path = below(*place)
            if has_compressed_name(path) or any(
                other_files.survey.means(path) for other_files in every_input
            ):
                continue

            def is_there(place: tuple[str, str] = place, came: NameHistory[str] = came) -> bool:
                self._shared.watcher.collect()
                self._follow(before)
                return self._came.get(place) is came

            for input_files in every_input:
                if (former_place := _missed(input_files, came)) is not None:
                    former_path = below(*former_place)
                    has_followed |= input_files.follow_renamed(
                        path, former_path, came.since, is_there
                    )
        return has_followed

    def _settle_moved_folders(self) -> list[NameHistory[str]]:
        """Locates names in moved folders by the folder's present path, and names in folders that
        the agent stopped watching where they were. Returns those gone."""
        watcher = self._shared.watcher
        histories = []
        for watch in self._listed_moves & self._in_moved_folders.keys():
            identity = watcher.left[watch]
            present_path = watcher.path_of(identity)
            for history in self._in_moved_folders.pop(watch):
                former, name = history.places[-1]
                is_there = present_path is None and _is_at(former, identity)
                folder = former if is_there else present_path
                if folder is None or not os.path.lexists(below(folder, name)):
                    histories.append(history)
                elif (folder, name) not in self._came:  # otherwise its new path has an event, too
                    if folder != former:
                        history.places.append((folder, name))
                    self._came[folder, name] = history
        return histories

    @property
    def waits(self) -> bool:
        """Whether new or removed names are still to be checked or reported."""
        return bool(self._came or self._in_moved_folders or self._gone)

    def reached(self, inputs: Mapping[str, InputFiles]) -> HistoryPosition | None:
        """The position up to which the history was processed; None if unchanged."""
        watcher, previous = self._shared.watcher, self._reached
        if not watcher.epoch or watcher.overflowed or not self._may_have_gone_on():
            return None
        histories = chain(
            self._came.values(), self._went, *self._in_moved_folders.values(), *self._gone.values()
        )
        pending_names = sorted({Pending(history.number, history.since) for history in histories})
        if len(pending_names) > MOST_PENDING:
            return None
        followed = tuple(
            name for name, input_files in inputs.items() if input_files.has_complete_history
        )
        position = HistoryPosition(watcher.epoch, watcher.number, tuple(pending_names), followed)
        self._untold = len(watcher.untold)
        self._inputs_changed = False
        if previous is None or previous.epoch != position.epoch:
            self._named = -1  # a new epoch numbers events from 0
        else:
            has_changed = self._named >= previous.number or watcher.is_filling
            is_unchanged = (previous.pending, previous.inputs) == (
                position.pending,
                position.inputs,
            )
            if not has_changed and is_unchanged:
                return None
        return position

    def _may_have_gone_on(self) -> bool:
        """Whether the position may have changed: a cheap check at every look."""
        watcher, previous = self._shared.watcher, self._reached
        if previous is None or previous.epoch != watcher.epoch or previous.pending or self.waits:
            return True
        has_changed = self._named >= previous.number or self._went or self._inputs_changed
        is_filling = watcher.is_filling and watcher.number > previous.number
        return bool(has_changed or is_filling or len(watcher.untold) != self._untold)

    def scan_completed(self) -> None:
        """Notes a complete scan, after which more inputs may have a complete history."""
        self._inputs_changed = True
        self._gone_on_with.clear()

    def reached_was_written(self, position: HistoryPosition) -> None:
        watcher = self._shared.watcher
        self._reached = position
        watcher.position_journalled(position.needed_from)
        if watcher.is_full:  # with events still needed by pending names
            watcher.overflowed = True

    def look_journalled(self) -> None:
        """Notes that all results of the last look are journalled."""
        self._known = None
        begun_millis = int(self._begun * 1000)
        wall_millis = begun_millis + self.clock.booted_millis
        self._shared.watcher.looked(LastLook(wall_millis, begun_millis))

    def report_past(self, input_files: InputFiles, folder: str, since: int, past: str) -> None:
        """Reports names that came and went in a folder before it was watched."""
        now_millis, reason = self._shared.attention.millis, f"not watched before; {past}"
        unwatched = changed(input_files.input.topic, folder, since, now_millis, reason)
        self._shared.report(*map(NotWatched, unwatched))

    def _report_maybe_emptied(self, before: int, now: int) -> None:
        """Reports files that may have been emptied while the process was suspended. Leaves out
        files that came by a move or hard link, since their content was made elsewhere; a symbolic
        link counts however it came."""
        passed_seconds = self._looked_at - self._before
        written_files, self._written = self._written, {}
        new_names = {below(*place): history for place, history in self._came.items()}
        for input_files, paths in written_files.items():
            traces_by_path = {
                path: traces
                for path, traces in paths.items()
                if (new_name := new_names.get(path)) is None
                or Path(path).is_symlink()
                or (new_name.is_made and _is_meant(input_files, below(*new_name.places[0])))
            }
            for folder, maybe_emptied in by_folder(traces_by_path).items():
                traces = Traces.CHANGED if maybe_emptied.names else Traces.BRIEF
                names = maybe_emptied.names or maybe_emptied.briefly
                duration = (
                    f"{passed_seconds:.0f} s" if passed_seconds >= 1 else "less than a second"
                )
                reason = f"no look for {duration}; {may_be_emptied(names)}"
                topic = input_files.input.topic
                unwatched = of_folder(
                    *(topic, folder, before, now, reason),
                    traces=traces,
                    set_millis=self._shared.set_millis,
                )
                self._shared.report(*map(NotWatched, unwatched))

    def _not_unpacked(
        self,
        input_files: InputFiles,
        gone: Iterable[NameHistory[str]],
        archives: Collection[Unpacking],
    ) -> list[NameHistory[str]]:
        """Leaves out names whose file is in an archive that was just found to be a source's: the
        last of several files with the compressed name. Waits for those that may be in one."""
        unpackings = input_files.unpacking.values()
        originals = {unpacking.original for unpacking in unpackings if unpacking in archives}
        missed_names: list[NameHistory[str]] = []
        waiting_names: dict[str, NameHistory[str]] = {}
        for missed_name in reversed([history for history in gone if _missed(input_files, history)]):
            path = below(*missed_name.places[-1])
            if path in originals:
                originals.remove(path)
            elif path not in waiting_names and any(
                unpacking.may_be_of(path) for unpacking in unpackings
            ):
                waiting_names[path] = missed_name
            else:
                missed_names.append(missed_name)
        if waiting_names:
            self._gone[input_files] = list(waiting_names.values())[::-1]
        return missed_names[::-1]

    def _report_missed(
        self, input_files: InputFiles, gone: Iterable[NameHistory[str]], now: int
    ) -> None:
        names_by_folder: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for history in gone:
            if (place := _missed(input_files, history)) is not None:
                folder, name = place
                names_by_folder[folder][name] = min(
                    history.since, names_by_folder[folder].get(name, history.since)
                )
        for folder, names in names_by_folder.items():
            reason = f"came and went between two looks: {some_of(list(names))}"
            unwatched = changed(
                *(input_files.input.topic, folder, min(names.values()), now, reason),
                set_millis=self._shared.set_millis,
            )
            self._shared.report(*map(NotWatched, unwatched))


def known_places(input_files: InputFiles) -> KnownPlaces:
    places: defaultdict[Identity, set[Place]] = defaultdict(set)
    for known in input_files.memory.all():
        path, identity = known.last_path or known.path, (known.device, known.inode)
        places[identity].add(Place(path, identity, known.born_ns, is_finished=known.finished))
    for identity, followed in input_files.files.items():
        places[identity].add(Place(followed.current_path, identity, followed.born_ns))
    return places


def _missed(input_files: InputFiles, named: NameHistory[str]) -> tuple[str, str] | None:
    """The first folder and name under which the input would have read it; None if there is none, or
    if it was read before."""
    if not named.is_new and (named.is_folder or _is_meant(input_files, below(*named.places[0]))):
        return None
    if named.is_folder:
        return next((place for place in named.places if input_files.survey.leads_to(*place)), None)
    return next((place for place in named.places if _is_meant(input_files, below(*place))), None)


def _is_at(folder: str, identity: Identity) -> bool:
    """Whether the folder of that device and inode is at this path."""
    try:
        status = Path(folder).stat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == identity


def _is_below(folder: str, changed: Collection[str]) -> bool:
    """Whether a folder is one of `changed`, or below one."""
    while folder not in changed:
        if folder in {"", "/"}:
            return False
        folder = folder_of(folder)
    return True


def _is_meant(input_files: InputFiles, path: str) -> bool:
    return input_files.survey.means(path) and not has_compressed_name(path)
