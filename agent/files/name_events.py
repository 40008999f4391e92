"""What inotify tells of names in folders: files followed by their names, and what came and went
while no agent ran. Pure.

A file that comes, is renamed and goes is one file, across folders where both are watched: the two
halves of a move have one cookie, and each comes once for every path of its folder. A move from
where nobody watches is a file that came; one to where nobody watches is a file that went. Of
contents and inodes all this says nothing.

What comes in a folder that is then moved itself, or is not watched any more, is adrift: it has not
gone, and its path is another folder's, or nobody's.

What stands for a folder is for the caller to choose: a watch, or a path. The kernel's queue goes on
collecting while nobody reads it: an agent to which it was left learns what happened meanwhile.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
IGNORED: Final = 0x8000
IS_FOLDER: Final = 0x40000000

ANY_NAME: Final = CREATE | DELETE | MOVED_FROM | MOVED_TO
_GOES: Final = DELETE | MOVED_FROM

F = TypeVar("F")


class Event(NamedTuple, Generic[F]):
    """As inotify has it: in which folder, what, with which other one, of which name."""

    folder: F
    mask: int
    cookie: int
    name: str


class NameHistory(Generic[F]):
    """A file or folder, and where it was: (folder, name), the first one first."""

    __slots__ = ("is_folder", "is_made", "is_new", "places", "since")

    def __init__(self, place: tuple[F, str], mask: int, *, is_new: bool) -> None:
        self.places: list[tuple[F, str]] = [place]
        self.is_new = is_new  # it came; else it was there before
        self.is_made = mask & CREATE != 0  # there, and not moved there
        self.is_folder = mask & IS_FOLDER != 0
        self.since = 0  # when it had not come yet; for who follows it to say


Places = dict[tuple[F, str], NameHistory[F]]
"""By the folder and the name where it is now."""


def follow(
    events: Iterable[Event[F]],
    there: Places[F],
    adrift: dict[int, list[NameHistory[F]]] | None = None,
) -> list[NameHistory[F]]:
    """What is gone, or is nobody knows where, in the order in which it went.

    `there` is what has come, or has another name, and is there: before these events, and afterwards
    with them. `adrift` is what is there no more as its folder is not that one any more, by the
    cookie of the event that said so.
    """
    moving: defaultdict[int, list[NameHistory[F]]] = defaultdict(list)  # one for each path
    arrived = set()
    gone = []
    for folder, mask, cookie, name in events:
        place = folder, name
        if mask & IGNORED:
            left = [there.pop(each) for each in list(there) if each[0] == folder]
            if left and adrift is not None:
                adrift.setdefault(cookie, []).extend(left)
        elif mask & _GOES:
            named = there.pop(place, None)
            if named is None:
                named = NameHistory(place, mask, is_new=False)
            if mask & DELETE:
                gone.append(named)
            else:
                moving[cookie].append(named)
        elif mask & CREATE:  # what was at that path has not gone, but was moved with its folder
            there[place] = NameHistory(place, mask, is_new=True)
        elif mask & MOVED_TO:
            if place in there:  # something is renamed over it
                gone.append(there.pop(place))
            arrived.add(cookie)
            if moving[cookie]:
                there[place] = named = moving[cookie].pop(0)
                named.places.append(place)
            else:
                there[place] = NameHistory(place, mask, is_new=True)
    for cookie, left in moving.items():
        gone += left if cookie not in arrived else []
    return gone


OVERFLOW: Final = 0x4000


class There(NamedTuple):
    """A name that something had, and where it is now; mostly the same if it is new. `is_made`: it
    was made under that name."""

    name: str
    watch: int
    name_now: str
    is_made: bool = False


class Former(NamedTuple):
    """A name of something that was there before, and where it was `first`, as the earlier agent may
    have known it; where it is `now`, None if it has gone."""

    name: str
    first: tuple[int, str]
    now: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Of one folder.

    `former` are all names that something had which was there before, and went or has another name:
    it may have been the earlier agent's. What came and went was nobody's: `unseen` are all names
    that it had, be it a file or a folder, of which nobody knows what was in it. What came and is
    still there is `there`: who looks only for a name that it had before does not find it.
    """

    former: set[Former] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    there: set[There] = field(default_factory=set)


def folders_meanwhile(
    watches: Collection[int], events: Collection[Event[int]]
) -> dict[int, Meanwhile]:
    """Of each folder that was watched all the time; of none if the kernel could not keep all."""
    if any(mask & OVERFLOW for _, mask, _, _ in events):
        return {}
    found: defaultdict[int, Meanwhile] = defaultdict(Meanwhile)
    there: Places[int] = {}
    for named in follow(events, there):
        if named.is_new:
            for watch, name in named.places:
                found[watch].unseen.add(name)
        elif not named.is_folder:
            for watch, name in named.places:
                found[watch].former.add(Former(name, named.places[0], None))
    for at, named in there.items():
        if named.is_new:
            for place in named.places:
                is_made = named.is_made and place == named.places[0]
                found[place[0]].there.add(There(place[1], *at, is_made))
        elif not named.is_folder:
            for watch, name in named.places:
                found[watch].former.add(Former(name, named.places[0], at))
    return {watch: found[watch] for watch in watches}
