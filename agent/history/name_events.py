"""Follows files by their names through what inotify tells of folders. Pure.

A file that comes, is renamed and goes is one file, across folders where both are watched: the two
halves of a move have one cookie, and each comes once for every path of its folder. A move from
where nobody watches is a file that came; one to where nobody watches is a file that went. Of
contents and inodes all this says nothing.

What comes in a folder that is then moved itself, or is not watched any more, is adrift: it has not
gone, and its path is another folder's, or nobody's.

What stands for a folder is for the caller to choose: a watch, or a path.
"""

from collections import defaultdict
from collections.abc import Iterable
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
    number: int = 0  # in the history


class NameHistory(Generic[F]):
    """A file or folder, and where it was: (folder, name), the first one first."""

    __slots__ = ("is_folder", "is_made", "is_new", "number", "places", "since")

    def __init__(self, place: tuple[F, str], mask: int, number: int, *, is_new: bool) -> None:
        self.places: list[tuple[F, str]] = [place]
        self.is_new = is_new  # it came; else it was there before
        self.is_made = mask & CREATE != 0  # there, and not moved there
        self.is_folder = mask & IS_FOLDER != 0
        self.number = number  # of the first event about it
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
    for folder, mask, cookie, name, number in events:
        place = folder, name
        if mask & IGNORED:
            left = [there.pop(each) for each in list(there) if each[0] == folder]
            if left and adrift is not None:
                adrift.setdefault(cookie, []).extend(left)
        elif mask & _GOES:
            named = there.pop(place, None)
            if named is None:
                named = NameHistory(place, mask, number, is_new=False)
            if mask & DELETE:
                gone.append(named)
            else:
                moving[cookie].append(named)
        elif mask & CREATE:  # what was at that path has not gone, but was moved with its folder
            there[place] = NameHistory(place, mask, number, is_new=True)
        elif mask & MOVED_TO:
            if place in there:  # something is renamed over it
                gone.append(there.pop(place))
            arrived.add(cookie)
            if moving[cookie]:
                there[place] = named = moving[cookie].pop(0)
                named.places.append(place)
            else:
                there[place] = NameHistory(place, mask, number, is_new=True)
    for cookie, left in moving.items():
        gone += left if cookie not in arrived else []
    return gone
