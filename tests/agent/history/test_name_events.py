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

Told = list[tuple[int, str, int]]
Place = tuple[int, str]


def test_the_kernels_words() -> None:
    assert (CREATE, DELETE) == (flags.CREATE, flags.DELETE)
    assert (MOVED_FROM, MOVED_TO) == (flags.MOVED_FROM, flags.MOVED_TO)
    assert (flags.ISDIR, flags.IGNORED) == (IS_FOLDER, IGNORED)


def followed(told: Told, places: Places[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Names of what is gone, and of what is there; those of what was there before in brackets."""
    gone = follow([Event("/a", mask, cookie, name) for mask, name, cookie in told], places)
    there = {now: names_of(each) for (_, now), each in places.items()}
    return [" ".join(names_of(each)) for each in gone], there


def names_of(named: NameHistory[str]) -> list[str]:
    names = [name for _, name in named.places]
    return names if named.is_new else [f"({' '.join(names)})"]


@pytest.mark.parametrize(
    ("told", "gone", "there"),
    [
        ([(CREATE, "x", 0)], [], {"x": ["x"]}),
        ([(CREATE, "x", 0), (DELETE, "x", 0)], ["x"], {}),
        ([(DELETE, "x", 0)], ["(x)"], {}),
        (
            [(CREATE, "x", 0), (MOVED_FROM, "x", 7), (MOVED_TO, "y", 7)],
            [],
            {"y": ["x", "y"]},
        ),
        ([(CREATE, "x", 0), (MOVED_FROM, "x", 7)], ["x"], {}),
        ([(MOVED_FROM, "old", 7), (MOVED_TO, "x", 7)], [], {"x": ["(old x)"]}),
        ([(MOVED_FROM, "old", 7), (MOVED_TO, "x", 7), (DELETE, "x", 0)], ["(old x)"], {}),
        (
            [(CREATE, "x", 0), (MOVED_FROM, "old", 7), (MOVED_TO, "x", 7)],
            ["x"],
            {"x": ["(old x)"]},
        ),
        ([(MOVED_TO, "x", 9), (DELETE, "x", 0)], ["x"], {}),
        ([(CREATE, "x", 0), (CREATE, "x", 0)], [], {"x": ["x"]}),
    ],
)
def test_what_is_gone_and_what_is_there(
    told: Told, gone: list[str], there: dict[str, list[str]]
) -> None:
    assert followed(told, {}) == (gone, there)


def test_a_move_in_a_folder_that_has_two_paths() -> None:
    """Each has its own history."""
    there: Places[str] = {}
    came = [Event(each, CREATE, 0, "x") for each in ("/a", "/b")]
    moved = [Event(each, MOVED_FROM, 7, "x") for each in ("/a", "/b")]
    arrived = [Event(each, MOVED_TO, 7, "y") for each in ("/a", "/b")]
    assert follow([*came, *moved, *arrived], there) == []
    assert {at: each.places for at, each in there.items()} == {
        ("/a", "y"): [("/a", "x"), ("/a", "y")],
        ("/b", "y"): [("/b", "x"), ("/b", "y")],
    }


def test_a_move_from_a_folder_that_has_two_paths() -> None:
    """It is one file, and not gone."""
    there: Places[str] = {}
    came = [Event(each, CREATE, 0, "x") for each in ("/a", "/b")]
    moved = [Event(each, MOVED_FROM, 7, "x") for each in ("/a", "/b")]
    assert follow([*came, *moved, Event("/c", MOVED_TO, 7, "y")], there) == []
    assert list(there) == [("/c", "y")]
    gone = follow(moved, {})
    assert [each.places for each in gone] == [[("/a", "x")], [("/b", "x")]]


def test_a_path_that_is_not_that_folders_any_more() -> None:
    """What came there is adrift, and what came since under the same path is not."""
    there: Places[str] = {}
    adrift: dict[int, list[NameHistory[str]]] = {}
    came = [Event("/a", CREATE, 0, "x"), Event("/b", CREATE, 0, "x")]
    left = [Event("/a", IGNORED, 5, ""), Event("/a", CREATE, 0, "x")]
    assert follow([*came, *left], there, adrift) == []
    assert [each.places for each in adrift.pop(5)] == [[("/a", "x")]]
    assert not adrift
    assert sorted(there) == [("/a", "x"), ("/b", "x")]


def test_what_has_come_is_followed_on() -> None:
    places: Places[str] = {}
    told = [(CREATE, "x", 0), (MOVED_FROM, "x", 1), (MOVED_TO, "y", 1)]
    assert followed(told, places) == ([], {"y": ["x", "y"]})
    told = [(MOVED_FROM, "y", 2), (MOVED_TO, "z", 2), (CREATE, "y", 0), (DELETE, "z", 0)]
    assert followed(told, places) == (["x y z"], {"y": ["y"]})


def test_a_folder_is_told_from_a_file() -> None:
    (gone,) = follow([Event("/a", DELETE | IS_FOLDER, 0, "x")], {})
    assert gone.is_folder
    places: Places[str] = {}
    follow(
        [Event("/a", mask, 0, name) for mask, name in [(CREATE, "x"), (CREATE | IS_FOLDER, "y")]],
        places,
    )
    assert [each.is_folder for each in places.values()] == [False, True]


def test_what_is_made_is_told_from_what_is_moved() -> None:
    places: Places[str] = {}
    told = [(CREATE, "x", 0), (MOVED_FROM, "x", 1), (MOVED_TO, "y", 1), (MOVED_TO, "z", 2)]
    followed(told, places)
    assert [each.is_made for each in places.values()] == [True, False]


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
