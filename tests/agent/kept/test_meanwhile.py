"""What a queue of inotify says of a time when nobody looked: a real one, against what was done."""

import os
import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from inotify_simple import INotify, flags

from agent.kept.meanwhile import (
    CREATE,
    DELETE,
    IS_FOLDER,
    MOVED_FROM,
    MOVED_TO,
    OVERFLOW,
    Event,
    Queue,
)
from agent.kept.watches import watches_of

NAMES = "abcd"
ALL = flags.CREATE | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE


def test_the_kernels_words() -> None:
    assert (CREATE, DELETE) == (flags.CREATE, flags.DELETE)
    assert (MOVED_FROM, MOVED_TO) == (flags.MOVED_FROM, flags.MOVED_TO)
    assert (OVERFLOW, IS_FOLDER) == (flags.Q_OVERFLOW, flags.ISDIR)


def test_the_watches_of_a_queue(tmp_path: Path) -> None:
    with INotify() as inotify:
        watch = inotify.add_watch(tmp_path, ALL)
        assert watches_of(inotify.fileno())[watch] & ALL == ALL
        inotify.rm_watch(watch)
        assert watches_of(inotify.fileno()) == {}


class Folders:
    """Two that are watched and one that is not, what is done in them, and who was there when."""

    def __init__(self, root: Path) -> None:
        self.paths = [root / "one", root / "two", root / "unwatched"]
        for path in self.paths:
            path.mkdir()
        self.there: dict[tuple[int, str], int] = {}  # the file's number
        self.names: dict[int, set[tuple[int, str]]] = {}
        self.new: set[int] = set()

    def make(self, at: tuple[int, str], *, new: bool) -> None:
        if at in self.there:
            return
        (self.paths[at[0]] / at[1]).touch()
        self.there[at] = number = self._number(new=new)
        self.names[number].add(at)

    def _number(self, *, new: bool) -> int:
        self.names[number := len(self.names)] = set()
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
        number = self.there.pop(at)
        if 2 in {at[0], to[0]}:  # from where nobody watched it has come, and to there it has gone
            number = self._number(new=True)
        self.there[to] = number
        self.names[number].add(to)

    def unseen(self) -> set[tuple[int, str]]:
        """Names, in watched folders, of what came there and is not there any more."""
        left = {number for at, number in self.there.items() if at[0] < 2}
        gone = self.new - left
        return {at for number in gone for at in self.names[number] if at[0] < 2}

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
        watches = [inotify.add_watch(path, ALL) for path in folders.paths[:2]]
        for act, *where in done:
            if act == "make":
                folders.make(*where, new=True)  # type: ignore[arg-type]
            else:
                getattr(folders, str(act))(*where)
        queue = Queue(watches, [Event(*each) for each in inotify.read(timeout=0)])
        found = [queue.of(watch) for watch in watches]
        assert all(each.complete for each in found)
        said = {(index, name) for index, each in enumerate(found) for name in each.unseen}
        assert said == folders.unseen()
        there = {
            ((index, name), (watches.index(watch), now))
            for index, each in enumerate(found)
            for name, watch, now in each.there
        }
        assert there == folders.came()


def test_a_queue_that_overflowed_says_nothing() -> None:
    queue = Queue([1], [Event(1, CREATE, 0, "a"), Event(-1, OVERFLOW, 0, "")])
    assert not queue.of(1).complete


def test_a_watch_that_was_not_there_says_nothing() -> None:
    queue = Queue([1], [Event(2, CREATE, 0, "a"), Event(2, DELETE, 0, "a")])
    assert not queue.of(2).complete
    assert queue.of(1).unseen == frozenset()


def test_a_folder_that_came_and_went() -> None:
    events = [Event(1, CREATE | IS_FOLDER, 0, "a"), Event(1, DELETE | IS_FOLDER, 0, "a")]
    assert Queue([1], events).of(1).unseen_folders == {"a"}


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
    Queue([1, 2], events)
    assert os.times().user - before < 5
