"""Where a file is, decided on a listing; whether one is a copy."""

from dataclasses import dataclass

import pytest

from agent.files.listing import Listing, Sighting
from agent.files.originals import PATIENCE, Judgement, judge
from agent.files.tracking import Where, best, places, whereabouts


@dataclass
class File:
    current_path: str = "/l/a"
    identity: tuple[int, int] = (1, 10)
    size: int = 5
    mtime_ns: int = 7
    fd: int | None = None


def seen(path: str, inode: int = 10, size: int = 5, mtime_ns: int = 7) -> Sighting:
    return Sighting(path, 1, inode, size, mtime_ns, False)


def listing(*sightings: Sighting, complete: bool = True) -> Listing:
    return Listing(list(sightings), {"/l"}, complete=complete)


@pytest.mark.parametrize(
    ("listed", "where"),
    [
        (listing(seen("/l/a")), Where.SAME),
        (listing(seen("/l/a", size=6)), Where.CHANGED),
        (listing(seen("/l/a", mtime_ns=8)), Where.CHANGED),
        (listing(seen("/l/a.1")), Where.MOVED),
        (listing(seen("/l/a", inode=11), seen("/l/a.1")), Where.MOVED),
        (listing(seen("/l/a", inode=11)), Where.MISSING),
        (listing(), Where.MISSING),
        (Listing(folders={"/other"}), Where.UNKNOWN),
        (Listing([seen("/other/a")], {"/other"}), Where.UNKNOWN),  # a link, as long as /l is silent
    ],
)
def test_where_a_file_is(listed: Listing, where: Where) -> None:
    assert whereabouts(File(), listed, places(listed)).where is where


@pytest.mark.parametrize("complete", [True, False])
def test_a_folder_that_cannot_be_listed_says_nothing(complete: bool) -> None:
    failing = Listing([], {"/l"}, {"/l": PermissionError()}, complete=complete)
    assert whereabouts(File(), failing, {}).where is Where.UNKNOWN
    below = File(current_path="/l/deep/er/a")
    assert whereabouts(below, failing, {}).where is Where.UNKNOWN
    file = Listing([], {"/l"}, {"/l/a": OSError()}, complete=complete)
    assert whereabouts(File(), file, {}).where is Where.UNKNOWN


def test_a_name_that_is_no_link_is_better() -> None:
    link = Sighting("/l/a", 1, 10, 5, 7, True)
    assert best([link, seen("/l/z"), seen("/l/y")]).path == "/l/y"


@pytest.mark.parametrize(
    ("sizes", "same", "unchanged_for", "judgement"),
    [
        ((2000, 2000), True, 0.0, Judgement.WAIT),
        ((2000, 3000), True, PATIENCE / 2, Judgement.WAIT),
        ((2000, 2000), True, PATIENCE, Judgement.OWN),
        ((2000, 2000), False, 0.0, Judgement.OWN),
        ((2001, 2000), True, 0.0, Judgement.OWN),  # it has what the other one has not
    ],
)
def test_whether_a_file_may_be_a_copy(
    sizes: tuple[int, int], same: bool, unchanged_for: float, judgement: Judgement
) -> None:
    """`sizes`: its own, and that of the other."""
    assert judge(*sizes, same=same, unchanged_for=unchanged_for) is judgement
