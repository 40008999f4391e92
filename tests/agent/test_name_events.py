"""Files followed by their names, through what inotify tells of them."""

import pytest
from inotify_simple import flags

from agent.name_events import (
    CREATE,
    DELETE,
    IS_FOLDER,
    MOVED_FROM,
    MOVED_TO,
    Event,
    Named,
    Places,
    follow,
)

Told = list[tuple[int, str, int]]


def test_the_kernels_words() -> None:
    assert (CREATE, DELETE) == (flags.CREATE, flags.DELETE)
    assert (MOVED_FROM, MOVED_TO) == (flags.MOVED_FROM, flags.MOVED_TO)
    assert flags.ISDIR == IS_FOLDER


def followed(told: Told, places: Places[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Names of what is gone, and of what is there; those of what was there before in brackets."""
    gone = follow([Event("/a", mask, cookie, name) for mask, name, cookie in told], places)
    there = {now: names_of(each) for (_, now), each in places.items()}
    return [" ".join(names_of(each)) for each in gone], there


def names_of(named: Named[str]) -> list[str]:
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
