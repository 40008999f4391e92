"""Names followed through what inotify tells of them: in words, and by a real queue."""

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inotify_simple import INotify, flags

from agent.history.name_events import (
    ANY_NAME,
    CREATE,
    DELETE,
    IGNORED,
    IS_FOLDER,
    MOVED_FROM,
    MOVED_TO,
    Event,
    NameHistory,
    Places,
    follow,
)


def events(*told: tuple[int, str, int], folders: str = "/a") -> list[Event[str]]:
    return [
        Event(folder, mask, cookie, name)
        for mask, name, cookie in told
        for folder in folders.split()
    ]


def names_of(named: NameHistory[str]) -> str:
    """What was there before, in brackets."""
    names = " ".join(f"{folder}/{name}" for folder, name in named.places)
    return names if named.is_new else f"({names})"


def test_the_kernels_words() -> None:
    assert (CREATE, DELETE) == (flags.CREATE, flags.DELETE)
    assert (MOVED_FROM, MOVED_TO) == (flags.MOVED_FROM, flags.MOVED_TO)
    assert (flags.ISDIR, flags.IGNORED) == (IS_FOLDER, IGNORED)


MOVED = [(CREATE, "x", 0), (MOVED_FROM, "x", 7), (MOVED_TO, "y", 7)]
GONE_FROM_BOTH = events((CREATE, "x", 0), (MOVED_FROM, "x", 7), folders="/a /b")


@pytest.mark.parametrize(
    ("told", "gone", "there"),
    [
        (events((DELETE, "x", 0)), ["(/a/x)"], []),
        (events((MOVED_FROM, "old", 7), (MOVED_TO, "x", 7)), [], ["(/a/old /a/x)"]),
        (events((CREATE, "x", 0), (CREATE, "x", 0)), [], ["/a/x"]),
        (events(*MOVED), [], ["/a/x /a/y"]),
        # A folder that has two paths: each has its own history.
        (events(*MOVED, folders="/a /b"), [], ["/a/x /a/y", "/b/x /b/y"]),
        # From there to elsewhere: it is one file, and not gone.
        ([*GONE_FROM_BOTH, *events((MOVED_TO, "y", 7), folders="/c")], [], ["/a/x /c/y"]),
        (events((MOVED_FROM, "x", 7), folders="/a /b"), ["(/a/x)", "(/b/x)"], []),
    ],
)
def test_what_is_gone_and_what_is_there(
    told: list[Event[str]], gone: list[str], there: list[str]
) -> None:
    places: Places[str] = {}
    assert [names_of(each) for each in follow(told, places)] == gone
    assert [names_of(each) for each in places.values()] == there


def test_a_path_that_is_not_that_folders_any_more() -> None:
    """What came there is adrift, and what came since under the same path is not."""
    there: Places[str] = {}
    adrift: dict[int, list[NameHistory[str]]] = {}
    came = events((CREATE, "x", 0), folders="/a /b")
    left = [Event("/a", IGNORED, 5, ""), Event("/a", CREATE, 0, "x")]
    assert follow([*came, *left], there, adrift) == []
    assert [each.places for each in adrift.pop(5)] == [[("/a", "x")]]
    assert not adrift
    assert sorted(there) == [("/a", "x"), ("/b", "x")]


def test_what_has_come_is_followed_on() -> None:
    places: Places[str] = {}
    assert follow(events(*MOVED), places) == []
    told = [(MOVED_FROM, "y", 2), (MOVED_TO, "z", 2), (CREATE, "y", 0), (DELETE, "z", 0)]
    assert [names_of(each) for each in follow(events(*told), places)] == ["/a/x /a/y /a/z"]
    assert [names_of(each) for each in places.values()] == ["/a/y"]


def test_files_and_folders_what_is_made_and_what_is_moved_are_told_apart() -> None:
    (gone,) = follow(events((DELETE | IS_FOLDER, "x", 0)), {})
    assert gone.is_folder
    places: Places[str] = {}
    follow(events(*MOVED, (MOVED_TO, "z", 2), (CREATE | IS_FOLDER, "d", 0)), places)
    assert [each.is_made for each in places.values()] == [True, False, True]
    assert [each.is_folder for each in places.values()] == [False, False, True]


NAMES = "abcd"


class Folders:
    """Two that are watched and one that is not, what is done in them, and who was there when."""

    def __init__(self, root: Path) -> None:
        self.paths = [root / "one", root / "two", root / "unwatched"]
        for path in self.paths:
            path.mkdir()
        self.there: dict[tuple[int, str], int] = {}  # the file's number
        self.names: dict[int, list[tuple[int, str]]] = {}  # the first one first
        self.new: set[int] = set()

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
        queue = [
            Event(watch, mask, cookie, name, number)
            for number, (watch, mask, cookie, name) in enumerate(inotify.read(timeout=0))
        ]
        there: Places[int] = {}
        gone = follow(queue, there)
        unseen = {
            (watches.index(watch), name)
            for named in gone
            if named.is_new
            for watch, name in named.places
        }
        assert unseen == folders.unseen()
        came = {
            ((watches.index(watch), name), (watches.index(at[0]), at[1]))
            for at, named in there.items()
            if named.is_new
            for watch, name in named.places
        }
        assert came == folders.came()
        numbers = [named.number for named in gone if named.is_new]
        assert len(numbers) == len(set(numbers)), "each is known by the event that it began with"


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
    follow(events, {})
    assert os.times().user - before < 5
