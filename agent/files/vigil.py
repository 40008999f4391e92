"""Reports what was not looked at: from the history of names, or from folder times without one.

The history is complete while the kernel's events are kept, whether or not a process reads them: one
that starts goes on where the journal says that the one before had come to. What came and went
between two looks is named, however far they are apart and whoever looked.

There is none before a first start, after a reboot, after the kernel lost events, where what was
kept is lost, while an input was taken out, and on file systems without events. Then the folders'
own times say whether names came or went.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from agent.files.happenings import NotWatched
from agent.files.input_files import InputFiles
from agent.files.listing import Listing
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.unpacking import Unpacking
from agent.files.unwatched import Place, by_folder, changed, of_folder, told
from agent.history.blind_times import (
    Looked,
    LookedAt,
    Traces,
    Unwatched,
    blind_since,
    may_be_emptied,
    some_of,
)
from agent.history.memory import LastLook
from agent.history.name_events import NameHistory, Places, follow
from agent.history.position import MOST_PENDING, HistoryPosition, Pending
from agent.names import below, folder_of
from agent.recognition.compressed import has_compressed_name

_FROZEN: Final = 5.0
_STOOD_STILL: Final = 1.0
_MOST_COME: Final = 20_000  # more than the kernel keeps by default


def since_boot() -> float:
    """Seconds, those included in which the host slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Vigil:
    """Of all inputs. `looked` says when they were looked at before the start; `reached` how far the
    history was gone through by then, if it is gone on with; `known` are the paths of files that
    were known."""

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
        self._reached = reached
        self._gone_on_with = set(reached.inputs) if reached else set()
        self._known: Collection[str] | None = None  # until the first look is over
        self._named = -1  # the event of a name that came last
        self._inputs_changed, self._untold = True, 0
        self._why = ""
        self._came: Places[str] = {}  # and was not looked at yet
        self._listed: Places[str] = {}  # of it, what was there before the folders were listed
        self._unlisted: set[str] = set()  # folders that have changed, and were not
        self._adrift: dict[int, list[NameHistory[str]]] = {}  # of it, by what was its folder
        self._ashore: set[int] = set()  # of these, those of which it can be known where they are
        self._went: list[NameHistory[str]] = []  # of which nothing was said yet
        self._written: dict[InputFiles, dict[str, Traces]] = {}  # while the process stood still
        self._gone: dict[InputFiles, list[NameHistory[str]]] = {}  # and an archive of it is sought
        self._found: set[Unpacking] = set()  # those whose archive is known
        if reached is not None:
            self._known = known
            self._begun = self._looked_at = self._before = (
                shared.watcher.last_look.boot_millis / 1000
            )
            self._resume(reached)

    def _resume(self, reached: HistoryPosition) -> None:
        """What had happened by then was settled, but for what is pending."""
        watcher = self._shared.watcher
        earlier = [each for each in watcher.names if each.number < reached.number]
        watcher.names = [each for each in watcher.names if each.number >= reached.number]
        went = follow(earlier, self._came, self._adrift)
        pending = dict(reached.pending)

        def unsettled(named: Iterable[NameHistory[str]]) -> list[NameHistory[str]]:
            return [each for each in named if each.number in pending]

        self._went = unsettled(went)
        self._came = {at: each for at, each in self._came.items() if each.number in pending}
        self._adrift = {
            cookie: left for cookie, named in self._adrift.items() if (left := unsettled(named))
        }
        for each in chain(self._went, self._came.values(), *self._adrift.values()):
            each.since = pending[each.number]

    def looked(
        self, every_input: Iterable[tuple[str, InputFiles]], caught_up: Mapping[str, int]
    ) -> list[LookedAt]:
        """What is news; none as long as it is not said of something that it has gone: the folders
        do not show it any more."""
        if self._gone or self._adrift:
            return []
        booted = int(self._boot() * 1000)
        found = []
        for name, input_files in every_input:
            if input_files.folders.is_news and input_files.folders.scanned_millis:
                until = caught_up.get(input_files.input.topic, 0)
                input_files.caught_up_millis = max(input_files.caught_up_millis, until)
                found.append(
                    input_files.folders.looked_at(name, input_files.caught_up_millis, booted)
                )
        return found

    def was_written(self, every_input: Iterable[InputFiles]) -> None:
        for input_files in every_input:
            if input_files.folders.scanned_millis:
                self._inputs_changed |= input_files.folders.all_is_news
                input_files.folders.was_written()

    def remember(self, input_files: InputFiles, name: str) -> None:
        """How it was looked at under that name, before the start or before it was taken out."""
        self._inputs_changed = True
        looked = self._looked.pop(name, None)
        if looked is not None and name in self._gone_on_with:
            self._gone_on_with.discard(name)
            input_files.go_on_from(looked)
        elif looked is not None and input_files.before is None:
            input_files.before, input_files.why_before = looked, "no agent followed these files"
            input_files.caught_up_millis = max(
                input_files.caught_up_millis, looked.caught_up_millis
            )

    def leave(self, input_files: InputFiles, name: str) -> None:
        """It is not followed any more."""
        self._inputs_changed = True
        self._say_missed(
            input_files, self._gone.pop(input_files, []), self._shared.attention.millis
        )
        if input_files.folders.scanned_millis:
            booted, millis = int(self._boot() * 1000), input_files.folders.scanned_millis
            self._looked[name] = input_files.folders.looked(
                millis, input_files.caught_up_millis, booted
            )

    def begins(self) -> None:
        """Each look: what happens from now on may be seen by the next one only."""
        self._before, self._begun = self._begun, self._boot()

    def was_blind(self, scan_interval: float, *, polling: bool) -> bool:
        """At each look: whether events were lost, or, where there are none, the last look was long
        ago."""
        self._looked_at = self._boot()
        passed = self._looked_at - self._before
        if self._shared.watcher.overflowed:
            self._why = "more happened at once than the kernel keeps"
            self._came.clear()
            return True
        self._why = f"the agent stood still for {passed:.0f} s"
        return polling and passed > max(_FROZEN, 2 * scan_interval)

    @property
    def stood_still(self) -> bool:
        """Whether a file made since the last look may have been emptied before this one: always if
        no agent ran in between; in a running agent, if more than a second passed."""
        return self._known is not None or self._looked_at - self._before > _STOOD_STILL

    def begin_again(self, every_input: Iterable[InputFiles], looked_millis: int) -> None:
        """All folders are listed, and held against how they stood at that look."""
        for input_files in every_input:
            if input_files.before is None and input_files.folders.scanned_millis:
                booted, caught_up = int(self._before * 1000), input_files.caught_up_millis
                input_files.before = input_files.folders.looked(looked_millis, caught_up, booted)
                input_files.why_before = self._why
                input_files.wants_all = True

    def say(
        self,
        input_files: InputFiles,
        before: Looked,
        listing: Listing,
        *,
        known: set[Place],
        written: Mapping[str, Traces],
    ) -> None:
        """Everything was listed again; `known` are the files that were known before, `written` the
        files that may have been emptied."""
        blind = blind_since(
            input_files.input.topic,
            before,
            now_millis=self._shared.attention.millis,
            booted_millis=int(self._boot() * 1000),
            reason=input_files.why_before,
        )
        stamps = input_files.folders.stamps
        said = told(
            *(input_files.survey, listing, stamps, before, blind),
            known=known,
            written=written,
        )
        self._shared.say(*map(NotWatched, said))

    def note_what_was_written(self, every_input: Iterable[InputFiles]) -> None:
        """If the process stood still, also amid this look: each time before it is decided what new
        files are."""
        now_ns = time.time_ns()  # first, so that a pause between the clocks adds to the time
        self._looked_at = self._boot()
        if self.stood_still:
            times = now_ns - int((self._looked_at - self._before) * 1e9), now_ns
            for each in every_input:
                before = self._written.get(each, {})
                self._written[each] = each.written_unread(*times) | before

    def hear(self, before: int) -> None:
        """Once the folders were listed: what was told before that, since the look before, and then
        what is told since, which they may not show."""
        self._follow(before)
        self._listed = self._came.copy()
        self._unlisted = self._shared.watcher.changed.copy()
        self._ashore = set() if self._unlisted else set(self._adrift)
        self._shared.watcher.collect()
        self._follow(before)

    def _follow(self, before: int) -> None:
        watcher = self._shared.watcher
        names, watcher.names = watcher.names, []
        if names:
            went = follow(names, self._came, self._adrift)
            self._went += went
            self._named = names[-1].number
            for each in chain(went, self._came.values(), *self._adrift.values()):
                each.since = each.since or before
                if self._known is not None and not each.is_new:
                    # It was there, and the process before this one had not made a source of it.
                    each.is_new = below(*each.places[0]) not in self._known

    def say_what_came_and_went(self, every_input: list[InputFiles], before: int, now: int) -> None:
        """Between the look before and this one. What has come and is neither followed nor gone yet
        is waited for, and what is gone and may be in an archive that is sought."""
        found = {each for one in every_input for each in one.unpacking.values() if each.archive}
        news, self._found = found - self._found, found
        if not self._adrift:
            self._shared.watcher.left.clear()
        if not (self._went or self.waits or self._written):
            return
        gone, self._went = self._went, []
        gone += self._wash_ashore()
        self._say_what_may_have_been_emptied(before, now)
        files = [each for input_files in every_input for each in input_files.files.values()]
        followed = {each.current_path for each in files if not each.nameless}
        for (folder, name), came in list(self._came.items()):
            path = below(folder, name)
            if has_compressed_name(name) or came.is_folder:
                del self._came[folder, name]
            elif self._listed.get((folder, name)) is not came:
                continue  # what is there may be what was there before
            elif not any(input_files.survey.means(path) for input_files in every_input):
                del self._came[folder, name]
                if path not in followed:
                    gone.append(came)  # it was not looked at under a name that was meant
            elif not _is_below(folder, self._unlisted) and (
                path in followed or os.path.lexists(path)
            ):
                del self._came[folder, name]
        waiting, self._gone = self._gone, {}
        for input_files in every_input:
            mine = [*waiting.get(input_files, ()), *gone]
            self._say_missed(input_files, self._not_unpacked(input_files, mine, news), now)
        if len(self._came) > _MOST_COME:
            self._shared.watcher.overflowed = True  # the folders are asked

    def _wash_ashore(self) -> list[NameHistory[str]]:
        """What is adrift is where its folder is now, or it is gone with it or from it, which is
        returned."""
        watcher = self._shared.watcher
        gone = []
        for watch in self._ashore & self._adrift.keys():
            folder = watcher.path_of(watcher.left[watch])
            for named in self._adrift.pop(watch):
                place = folder or "", named.places[-1][1]
                if folder is None or not os.path.lexists(below(*place)):
                    gone.append(named)
                elif place not in self._came:  # else it came there by that path, too
                    named.places.append(place)
                    self._came[place] = named
        return gone

    @property
    def waits(self) -> bool:
        """Whether something has come or gone of which nothing is known or said yet."""
        return bool(self._came or self._adrift or self._gone)

    def reached(self, inputs: Mapping[str, InputFiles]) -> HistoryPosition | None:
        """How far the history is gone through; None if that is no news."""
        watcher, before = self._shared.watcher, self._reached
        if not watcher.epoch or watcher.overflowed or not self._may_have_gone_on():
            return None
        named = chain(self._came.values(), self._went, *self._adrift.values(), *self._gone.values())
        pending = sorted({Pending(each.number, each.since) for each in named})
        if len(pending) > MOST_PENDING:
            return None
        followed = tuple(name for name, each in inputs.items() if each.is_told_all)
        now = HistoryPosition(watcher.epoch, watcher.number, tuple(pending), followed)
        self._untold = len(watcher.untold)
        self._inputs_changed = False
        if before is None or before.epoch != now.epoch:
            self._named = -1  # numbers begin anew
        else:
            is_news = self._named >= before.number or watcher.is_filling
            if not is_news and (before.pending, before.inputs) == (now.pending, now.inputs):
                return None
        return now

    def _may_have_gone_on(self) -> bool:
        """Whether the position may be another one; asked at every look."""
        watcher, before = self._shared.watcher, self._reached
        if before is None or before.epoch != watcher.epoch or before.pending or self.waits:
            return True
        is_news = self._named >= before.number or self._went or self._inputs_changed
        is_filling = watcher.is_filling and watcher.number > before.number
        return bool(is_news or is_filling or len(watcher.untold) != self._untold)

    def was_scanned(self) -> None:
        """Everything was listed, so other inputs than before may have a complete history."""
        self._inputs_changed = True
        self._gone_on_with.clear()

    def reached_was_written(self, position: HistoryPosition) -> None:
        watcher = self._shared.watcher
        self._reached = position
        watcher.dealt_with(position.needed_from)
        if watcher.is_full:  # of what is waited for, for too long
            watcher.overflowed = True

    def was_looked(self) -> None:
        """All that the last look found out is written down."""
        self._known = None
        begun = int(self._begun * 1000)
        self._shared.watcher.looked(LastLook(self._shared.attention.millis, begun))

    def say_past(self, input_files: InputFiles, folder: str, since: int, past: str) -> None:
        """Of a folder that is watched only now."""
        now, why = self._shared.attention.millis, f"it was not watched before; {past}"
        self._shared.say(NotWatched(changed(input_files.input.topic, folder, since, now, why)))

    def _say_what_may_have_been_emptied(self, before: int, now: int) -> None:
        """As at a start; of files that were moved there nobody had looked at what they were, and
        hard links lead to what was there. A symbolic link may come in any way."""
        passed = self._looked_at - self._before
        written, self._written = self._written, {}
        came = {below(*at): each for at, each in self._came.items()}
        for input_files, paths in written.items():
            mine = {
                path: traces
                for path, traces in paths.items()
                if (named := came.get(path)) is None
                or Path(path).is_symlink()
                or (named.is_made and _is_meant(input_files, below(*named.places[0])))
            }
            for folder, emptied in by_folder(mine).items():
                traces = Traces.CHANGED if emptied.names else Traces.BRIEF
                names = emptied.names or emptied.briefly
                away = f"{passed:.0f} s" if passed >= 1 else "less than a second"
                why = f"nobody looked for {away}; {may_be_emptied(names)}"
                topic = input_files.input.topic
                said = of_folder(topic, folder, before, now, why, traces=traces)
                self._shared.say(NotWatched(said))

    def _not_unpacked(
        self,
        input_files: InputFiles,
        gone: Iterable[NameHistory[str]],
        found: Collection[Unpacking],
    ) -> list[NameHistory[str]]:
        """Without what is in an archive that was just found to be a source's: of several files that
        had the name which was compressed, the last one is. What may be in one is waited for."""
        unpacking = input_files.unpacking.values()
        originals = {each.original for each in unpacking if each in found}
        missed: list[NameHistory[str]] = []
        waiting: dict[str, NameHistory[str]] = {}
        for named in reversed([each for each in gone if _missed(input_files, each)]):
            path = below(*named.places[-1])
            if path in originals:
                originals.remove(path)
            elif path not in waiting and any(each.may_be_of(path) for each in unpacking):
                waiting[path] = named
            else:
                missed.append(named)
        if waiting:
            self._gone[input_files] = list(waiting.values())[::-1]
        return missed[::-1]

    def _say_missed(
        self, input_files: InputFiles, gone: Iterable[NameHistory[str]], now: int
    ) -> None:
        missed: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for each in gone:
            if (place := _missed(input_files, each)) is not None:
                folder, name = place
                missed[folder][name] = min(each.since, missed[folder].get(name, each.since))
        for folder, some in missed.items():
            said = _came_and_went(input_files, folder, list(some), min(some.values()), now)
            self._shared.say(NotWatched(said))


def known_places(input_files: InputFiles) -> set[Place]:
    """Where its files were that are known."""
    remembered = input_files.memory.all()
    places = {(each.last_path or each.path, (each.device, each.inode)) for each in remembered}
    return places | {(each.current_path, each.identity) for each in input_files.files.values()}


def _missed(input_files: InputFiles, named: NameHistory[str]) -> tuple[str, str] | None:
    """The first folder and name under which it would have been looked at; None if there is none, or
    if it had been looked at before."""
    if not named.is_new and (named.is_folder or _is_meant(input_files, below(*named.places[0]))):
        return None
    if named.is_folder:
        return next((each for each in named.places if input_files.survey.leads_to(*each)), None)
    return next((each for each in named.places if _is_meant(input_files, below(*each))), None)


def _is_below(folder: str, changed: Collection[str]) -> bool:
    """Whether it is one of these, or in one."""
    while folder not in changed:
        if folder in {"", "/"}:
            return False
        folder = folder_of(folder)
    return True


def _is_meant(input_files: InputFiles, path: str) -> bool:
    return input_files.survey.means(path) and not has_compressed_name(path)


def _came_and_went(
    input_files: InputFiles, folder: str, names: Sequence[str], since: int, now: int
) -> Unwatched:
    why = f"came and went between two looks: {some_of(names)}"
    return changed(input_files.input.topic, folder, since, now, why)
