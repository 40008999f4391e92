"""What a queue of inotify says of a time when nobody looked: a real one, against what was done."""

import os
import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from inotify_simple import INotify, flags

from agent.files.watching import watches_of
from agent.kept.meanwhile import OVERFLOW, Meanwhile, folders_meanwhile
from agent.name_events import ANY_NAME, CREATE, DELETE, IS_FOLDER, MOVED_FROM, MOVED_TO, Event

NAMES = "abcd"


def test_the_kernels_word() -> None:
    assert flags.Q_OVERFLOW == OVERFLOW


def test_the_watches_of_a_queue(tmp_path: Path) -> None:
    with INotify() as inotify:
        watch = inotify.add_watch(tmp_path, ANY_NAME)
        assert watches_of(inotify.fileno())[watch] & ANY_NAME == ANY_NAME
        inotify.rm_watch(watch)
        assert watches_of(inotify.fileno()) == {}


class Folders:
    """Two that are watched and one that is not, what is done in them, and who was there when."""

    def __init__(self, root: Path) -> None:
        self.paths = [root / "one", root / "two", root / "unwatched"]
        for path in self.paths:
            path.mkdir()
        self.there: dict[tuple[int, str], int] = {}  # the file's number
        self.names: dict[int, list[tuple[int, str]]] = {}  # the first one first
        self.new: set[int] = set()
        self.replaced: set[int] = set()  # by something that was renamed

    def make(self, at: tuple[int, str], *, new: bool) -> None:
        if at in self.there:
            return
        (self.paths[at[0]] / at[1]).touch()
        self.there[at] = number = self._number(new=new)
        self.names[number].append(at)

    def _number(self, *, new: bool) -> int:
        self.names[number := len(self.names)] = []
        if new:
            self.new.add(number)
        return number

    def delete(self, at: tuple[int, str]) -> None:
        if self.there.pop(at, None) is not None:
            (self.paths[at[0]] / at[1]).unlink()

    def move(self, at: tuple[int, str], to: tuple[int, str]) -> None:
        if at not in self.there or at == to:
            return
        (self.paths[at[0]] / at[1]).rename(self.paths[to[0]] / to[1])
        if to in self.there:
            self.replaced.add(self.there[to])
        number = self.there.pop(at)
        if 2 in {at[0], to[0]}:  # from where nobody watched it has come, and to there it has gone
            number = self._number(new=True)
        self.there[to] = number
        self.names[number].append(to)

    def gone(self) -> set[int]:
        return self.names.keys() - {number for at, number in self.there.items() if at[0] < 2}

    def unseen(self) -> set[tuple[int, str]]:
        """Names, in watched folders, of what came there and is not there any more."""
        gone = self.gone() & self.new
        return {at for number in gone for at in self.names[number] if at[0] < 2}

    def departed(self) -> set[tuple[int, str]]:
        """First names, in watched folders, of what was there and is not any more; but of what was
        replaced where it had always been: no event tells of it."""
        untold = {number for number in self.replaced if len(self.names[number]) == 1}
        first = {self.names[number][0] for number in self.gone() - self.new - untold}
        return {at for at in first if at[0] < 2}

    def renamed(self) -> set[tuple[tuple[int, str], tuple[int, str]]]:
        """First names of what was there before and was renamed, each with where it is."""
        old = {at: number for at, number in self.there.items() if number not in self.new}
        moved = {
            at: self.names[number] for at, number in old.items() if len(self.names[number]) > 1
        }
        return {(names[0], at) for at, names in moved.items() if at[0] < 2}

    def came(self) -> set[tuple[tuple[int, str], tuple[int, str]]]:
        """Names, in watched folders, of what came and is there, each with where it is."""
        new = {at: number for at, number in self.there.items() if at[0] < 2 and number in self.new}
        return {
            (name, at) for at, number in new.items() for name in self.names[number] if name[0] < 2
        }


places = st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(NAMES))
acts = st.one_of(
    st.tuples(st.just("make"), places),
    st.tuples(st.just("delete"), places),
    st.tuples(st.just("move"), places, places),
)


@given(before=st.lists(places, max_size=6), done=st.lists(acts, max_size=25))
def test_all_that_came_and_went_is_named(
    before: list[tuple[int, str]], done: list[tuple[object, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as root, INotify() as inotify:
        folders = Folders(Path(root))
        for at in before:
            folders.make(at, new=False)
        watches = [inotify.add_watch(path, ANY_NAME) for path in folders.paths[:2]]
        for act, *where in done:
            if act == "make":
                folders.make(*where, new=True)  # type: ignore[arg-type]
            else:
                getattr(folders, str(act))(*where)
        queue = [Event(*each) for each in inotify.read(timeout=0)]
        found = list(folders_meanwhile(watches, queue).values())
        assert len(found) == len(watches)
        unseen = {(index, name) for index, each in enumerate(found) for name in each.unseen}
        assert unseen == folders.unseen()
        departed = {(index, name) for index, each in enumerate(found) for name in each.departed}
        assert departed == folders.departed()
        there = {
            ((index, name), (watches.index(watch), now))
            for index, each in enumerate(found)
            for name, watch, now, _ in each.there
        }
        assert there == folders.came()
        renamed = {
            ((index, name), (watches.index(watch), now))
            for index, each in enumerate(found)
            for name, watch, now, _ in each.renamed
        }
        assert renamed == folders.renamed()


def test_a_queue_that_overflowed_says_nothing() -> None:
    events = [Event(1, CREATE, 0, "a"), Event(-1, OVERFLOW, 0, "")]
    assert folders_meanwhile([1], events) == {}


def test_a_watch_that_was_not_there_says_nothing() -> None:
    events = [Event(2, CREATE, 0, "a"), Event(2, DELETE, 0, "a")]
    assert folders_meanwhile([1], events) == {1: Meanwhile()}


def test_a_folder_that_came_and_went() -> None:
    events = [Event(1, CREATE | IS_FOLDER, 0, "a"), Event(1, DELETE | IS_FOLDER, 0, "a")]
    assert folders_meanwhile([1], events)[1].unseen == {"a"}


def test_very_many_events_cost_little(tmp_path: Path) -> None:
    """As many as a queue has by default, in two folders."""
    chance = random.Random(1)
    names = [f"app.log.{number}" for number in range(50)]
    masks = [CREATE, DELETE, MOVED_FROM, MOVED_TO]
    events = [
        Event(
            chance.choice([1, 2]), chance.choice(masks), chance.randrange(9), chance.choice(names)
        )
        for _ in range(16_384)
    ]
    before = os.times().user
    folders_meanwhile([1, 2], events)
    assert os.times().user - before < 5
