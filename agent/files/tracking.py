"""Where a followed file is now, decided on what was listed. Pure.

While a file is open its device and inode are its own: nobody else can have them. Of one that is
not, the same device and inode may be another file's since: unless nothing about it has changed, it
must be opened and held against its fingerprint.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from agent.files.listing import Listing, Sighting

Places = Mapping[tuple[int, int], Sequence[Sighting]]
"""Sightings by device and inode; several where links lead to one file."""


class Tracked(Protocol):
    current_path: str
    identity: tuple[int, int]
    size: int
    mtime_ns: int
    fd: int | None


class Where(Enum):
    SAME = auto()  # and it has not changed
    CHANGED = auto()  # it is larger or smaller, or was touched
    MOVED = auto()
    MISSING = auto()
    UNKNOWN = auto()  # where it should be was not looked at


class Whereabouts(NamedTuple):
    where: Where
    sighting: Sighting | None = None


def places(listing: Listing) -> dict[tuple[int, int], list[Sighting]]:
    found: dict[tuple[int, int], list[Sighting]] = {}
    for sighting in listing.sightings:
        found.setdefault(sighting[1:3], []).append(sighting)
    return found


def whereabouts(tracked: Tracked, listing: Listing, found: Places) -> Whereabouts:
    sightings = found.get(tracked.identity, ())
    for sighting in sightings:
        if sighting.path == tracked.current_path:
            same = sighting.size == tracked.size and sighting.mtime_ns == tracked.mtime_ns
            return Whereabouts(Where.SAME if same else Where.CHANGED, sighting)
    if not listing.covers(tracked.current_path):
        return Whereabouts(Where.UNKNOWN)
    if sightings:
        return Whereabouts(Where.MOVED, best(sightings))
    return Whereabouts(Where.MISSING)


def best(sightings: Sequence[Sighting]) -> Sighting:
    """The name by which a file is called that has several: no link if possible, then the first."""
    return min(sightings, key=lambda each: (each.is_link, each.path))
