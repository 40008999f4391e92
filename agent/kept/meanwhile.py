"""What came and went in watched folders while no agent ran, from the queue that outlived it. Pure.

The kernel's queue goes on collecting while nobody reads it; files are followed through it by their
names.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agent.name_events import Event, Places, follow

OVERFLOW: Final = 0x4000


class There(NamedTuple):
    """A name that something had, and where it is now; mostly the same if it is new. `is_made`: it
    was made under that name."""

    name: str
    watch: int
    name_now: str
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Of one folder.

    What was there before, and went, was the earlier agent's: `departed` are its names as that agent
    last knew them. What came and went was nobody's: `unseen` are all names that it had, be it a
    file or a folder, of which nobody knows what was in it. What came and is still there is `there`:
    who looks only for a name that it had before does not find it. `renamed` is what was there
    before and has another name, by the first one, as that agent may have known it.
    """

    departed: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    there: set[There] = field(default_factory=set)
    renamed: set[There] = field(default_factory=set)


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
            watch, name = named.places[0]
            found[watch].departed.add(name)
    for at, named in there.items():
        if named.is_new:
            for place in named.places:
                is_made = named.is_made and place == named.places[0]
                found[place[0]].there.add(There(place[1], *at, is_made))
        elif not named.is_folder:
            watch, name = named.places[0]
            found[watch].renamed.add(There(name, *at))
    return {watch: found[watch] for watch in watches}
