"""Follows files by name through inotify's events of folders. Pure.

A file that is created, renamed and removed is one file, also across watched folders: the two events
of a move share a cookie, and each comes once for every path of its folder. A move from an unwatched
folder is a new file; one to an unwatched folder is a removal. Content and inodes are not
considered.

A file is adrift if its folder was moved, or is no longer watched: the file is not gone, but its
path now belongs to another folder, or to none.

The caller chooses what identifies a folder: a watch, or a path.
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
    """An event of inotify: the folder, the kind, the cookie of a move, the name."""

    folder: F
    mask: int
    cookie: int
    name: str
    number: int = 0  # in the history


class NameHistory(Generic[F]):
    """A file or folder, and its places in order: (folder, name)."""

    __slots__ = ("is_folder", "is_made", "is_new", "number", "places", "since")

    def __init__(self, place: tuple[F, str], mask: int, number: int, *, is_new: bool) -> None:
        self.places: list[tuple[F, str]] = [place]
        self.is_new = is_new  # rather than there before the first event
        self.is_made = mask & CREATE != 0  # created there rather than moved there
        self.is_folder = mask & IS_FOLDER != 0
        self.number = number  # of the first event about it
        self.since = 0  # a time before it came; set by the caller


Places = dict[tuple[F, str], NameHistory[F]]
"""Files by their current folder and name."""


def follow(
    events: Iterable[Event[F]],
    there: Places[F],
    adrift: dict[int, list[NameHistory[F]]] | None = None,
) -> list[NameHistory[F]]:
    """Processes events. Returns the files that were removed or moved out of sight, in order.

    Updates `there`, the new and renamed files that still exist, and `adrift`, the files whose
    folder is no longer at its path, by the cookie of the event that reported it.
    """
    moved_histories: defaultdict[int, list[NameHistory[F]]] = defaultdict(list)  # one for each path
    arrived_cookies = set()
    removed_histories = []
    for folder, mask, cookie, name, number in events:
        place = folder, name
        if mask & IGNORED:
            histories = [there.pop(key) for key in list(there) if key[0] == folder]
            if histories and adrift is not None:
                adrift.setdefault(cookie, []).extend(histories)
        elif mask & _GOES:
            history = there.pop(place, None)
            if history is None:
                history = NameHistory(place, mask, number, is_new=False)
            if mask & DELETE:
                removed_histories.append(history)
            else:
                moved_histories[cookie].append(history)
        elif mask & CREATE:  # a file known at that path is not gone, but was moved with its folder
            there[place] = NameHistory(place, mask, number, is_new=True)
        elif mask & MOVED_TO:
            if place in there:  # something is renamed over it
                removed_histories.append(there.pop(place))
            arrived_cookies.add(cookie)
            if moved_histories[cookie]:
                there[place] = history = moved_histories[cookie].pop(0)
                history.places.append(place)
            else:
                there[place] = NameHistory(place, mask, number, is_new=True)
    for cookie, histories in moved_histories.items():
        removed_histories += histories if cookie not in arrived_cookies else []
    return removed_histories
