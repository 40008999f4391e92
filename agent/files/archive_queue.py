"""The archives of one input that are not identified yet. `archive_starts` identifies them."""

import heapq
from collections.abc import Generator, Mapping
from typing import NamedTuple

from agent.recognition.followed import Followed
from agent.recognition.identity import Identity, Sighting


class Attempt(NamedTuple):
    """The identification of an archive, which continues with each `next`."""

    sighting: Sighting
    steps: Generator[None]


class ArchiveQueue:
    """Archives take turns: those written since the input is followed come first, then the oldest.
    One that may belong to a file that is still followed waits for it."""

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self._sightings: dict[Identity, Sighting] = {}
        self._ready: list[tuple[bool, int, str, Identity]] = []
        self._delayed: dict[Identity, float] = {}
        self._waiting: dict[Identity, dict[Followed, int]] = {}  # with the positions compared

    def __len__(self) -> int:
        return len(self._sightings)

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._sightings

    @property
    def is_pending(self) -> bool:
        """Whether an archive does not wait for a followed file."""
        return len(self._sightings) > len(self._waiting)

    @property
    def has_next(self) -> bool:
        """Whether an archive is identified now, or will be at once."""
        return bool(self._ready or self.attempt)

    def add(self, sighting: Sighting, since_ns: int) -> None:
        self._sightings[sighting.identity] = sighting
        self._push(sighting.identity, since_ns)

    def next(self, now: float, since_ns: int) -> Sighting | None:
        """The next archive whose turn it is."""
        for identity in [identity for identity, at in self._delayed.items() if at <= now]:
            del self._delayed[identity]
            self._push(identity, since_ns)
        for identity in [
            identity for identity, originals in self._waiting.items() if _have_changed(originals)
        ]:
            del self._waiting[identity]
            self._push(identity, since_ns)
        return self._sightings[heapq.heappop(self._ready)[-1]] if self._ready else None

    def delay(self, sighting: Sighting, until: float) -> None:
        self._delayed[sighting.identity] = until

    def wait_for(self, sighting: Sighting, originals: Mapping[Followed, int]) -> None:
        """Lets an archive wait until one of these files has ended, or was read beyond the position
        compared."""
        self._waiting[sighting.identity] = dict(originals)

    def waits_for(self, identity: Identity) -> str:
        """What the archive waits for; empty if for nothing but its turn. Any thread."""
        originals = self._waiting.get(identity)
        if originals:
            path = next(iter(originals)).current_path
            return f"until {path}, which is still followed, has been read"
        if identity in self._delayed:
            return "until it is closed or can be read"
        return ""

    def close(self) -> None:
        """Closes the archive that is being identified."""
        if self.attempt is not None:
            self.attempt.steps.close()
        self.attempt = None

    def done(self, sighting: Sighting) -> None:
        """Removes an archive, unless it has to be tried again."""
        identity = sighting.identity
        if identity not in self._delayed and identity not in self._waiting:
            del self._sightings[identity]

    def _push(self, identity: Identity, since_ns: int) -> None:
        sighting = self._sightings[identity]
        is_old = sighting.mtime_ns < since_ns
        heapq.heappush(self._ready, (is_old, sighting.mtime_ns, sighting.path, identity))


def _have_changed(originals: Mapping[Followed, int]) -> bool:
    return any(
        followed.end.ended
        or not (followed.source or followed.fd)
        or (followed.progress.position != position and not followed.unread)
        for followed, position in originals.items()
    )
