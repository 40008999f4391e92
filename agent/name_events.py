"""What inotify tells of names in folders, and files followed through it by their names. Pure.

A file that comes, is renamed and goes is one file, across folders where both are watched: the two
halves of a move have one cookie. A move from where nobody watches is a file that came; one to where
nobody watches is a file that went. Of contents and inodes all this says nothing.

What stands for a folder is for the caller to choose: a watch, or a path.
"""

from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, TypeVar

MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
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


class Named(Generic[F]):
    """A file or folder, and where it was: (folder, name), the first one first."""

    __slots__ = ("is_folder", "is_made", "is_new", "places")

    def __init__(self, place: tuple[F, str], mask: int, *, is_new: bool) -> None:
        self.places: list[tuple[F, str]] = [place]
        self.is_new = is_new  # it came; else it was there before
        self.is_made = mask & CREATE != 0  # there, and not moved there
        self.is_folder = mask & IS_FOLDER != 0


Places = dict[tuple[F, str], Named[F]]
"""By the folder and the name where it is now."""


def follow(events: Iterable[Event[F]], there: Places[F]) -> list[Named[F]]:
    """What is gone, or is nobody knows where, in the order in which it went.

    `there` is what has come, or has another name, and is there: before these events, and afterwards
    with them.
    """
    moving: dict[int, Named[F]] = {}
    gone = []
    for folder, mask, cookie, name in events:
        place = folder, name
        if mask & _GOES:
            named = there.pop(place, None)
            if named is None:
                named = Named(place, mask, is_new=False)
            if mask & DELETE:
                gone.append(named)
            else:
                moving[cookie] = named
        elif mask & CREATE:  # what was at that path has not gone, but was moved with its folder
            there[place] = Named(place, mask, is_new=True)
        elif mask & MOVED_TO:
            if place in there:  # something is renamed over it
                gone.append(there.pop(place))
            if cookie in moving:
                there[place] = named = moving.pop(cookie)
                named.places.append(place)
            else:
                there[place] = Named(place, mask, is_new=True)
    return [*gone, *moving.values()]
