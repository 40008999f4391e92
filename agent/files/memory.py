"""Sources that are not followed now: from a journal and not met yet, or finished.

A finished one is remembered as long as its file is there, so that it is not read again, and for a
day beyond, so that it is recognised if it comes back. Device and inode may be another file's since:
the file must begin as it did, have what was read last, and not be made after the source was last
seen.
"""

import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, Self

from agent.files.births import born_ns
from agent.files.fingerprints import FULL, begins, read_head, read_tail
from agent.files.followed import Identity
from agent.files.listing import Sighting
from agent.runs import KnownSource

_FORGOTTEN_AFTER: Final = 86_400.0
_MOST: Final = 50_000

Signature = tuple[str, int, int, int]
"""Path, size, times of modification and change: if they are the same, nothing was done to it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is to be known of an open file, to say which source it is."""

    fd: int
    head: bytes
    size: int
    born_ns: int

    @classmethod
    def of(cls, fd: int, size: int) -> Self:
        return cls(fd, read_head(fd), size, born_ns(fd))

    def has(self, mark: int, position: int) -> bool:
        """Whether this stands before the position, if that is known."""
        return not mark or zlib.crc32(read_tail(self.fd, position)) == mark


class Memory:
    """Of one input."""

    def __init__(self) -> None:
        self._by_identity: dict[Identity, list[KnownSource]] = {}
        self._by_inode: dict[int, list[KnownSource]] = {}
        self._seen_at: dict[str, float] = {}
        self._signatures: dict[Identity, Signature] = {}

    def __len__(self) -> int:
        return len(self._seen_at)

    def add(self, known: KnownSource, sighting: Sighting | None = None) -> None:
        identity = known.device, known.inode
        self._by_identity.setdefault(identity, []).append(known)
        self._by_inode.setdefault(known.inode, []).append(known)
        self._seen_at[known.id] = known.seen_millis / 1000
        if sighting is not None:
            self._signatures[identity] = _signature(sighting)

    def remove(self, known: KnownSource) -> None:
        identity = known.device, known.inode
        self._by_identity[identity].remove(known)
        self._by_inode[known.inode].remove(known)
        if not self._by_identity[identity]:
            del self._by_identity[identity]
            self._signatures.pop(identity, None)
        if not self._by_inode[known.inode]:
            del self._by_inode[known.inode]
        del self._seen_at[known.id]

    def has(self, identity: Identity) -> bool:
        return identity in self._by_identity

    def unfinished(self) -> Iterator[KnownSource]:
        for each in list(self._by_identity.values()):
            yield from [known for known in each if not known.finished]

    def unfinished_at(self, identity: Identity) -> list[KnownSource]:
        return [each for each in self._by_identity.get(identity, ()) if not each.finished]

    def is_unchanged(self, sighting: Sighting, wall: float) -> bool:
        """A finished file that was looked into, and nothing has happened to it since."""
        identity = sighting.identity
        known = self._by_identity.get(identity)
        if known is None:
            return False
        for each in known:
            self._seen_at[each.id] = wall
        signature = self._signatures.get(identity)
        if signature is None or signature[1:] != _signature(sighting)[1:]:
            return False
        self._signatures[identity] = _signature(sighting)
        return True

    def believe(self, sighting: Sighting) -> None:
        """It was looked into: it is what is remembered."""
        self._signatures[sighting.identity] = _signature(sighting)

    def find(
        self, sighting: Sighting, found: Found, is_there: Callable[[Identity], bool]
    ) -> KnownSource | None:
        """The source that a file is, one that is unfinished first. Raises OSError. The same file
        may have another device number after it was mounted again, and another name beside."""
        candidates = [
            each
            for each in self._by_identity.get(sighting.identity, ())
            if each.fingerprint.size
            or sighting.path in {each.path, each.last_path}
            or (each.born_ns and each.born_ns == found.born_ns)
        ]
        candidates += (
            each
            for each in self._by_inode.get(sighting.inode, ())
            if each.device != sighting.device
            and _may_be_named(each, sighting.path)
            and not is_there((each.device, each.inode))
        )
        fitting = [each for each in candidates if _fits(each, found)]
        return min(fitting, key=lambda each: each.finished, default=None)

    def fits(self, known: KnownSource, found: Found) -> bool:
        """Whether a file can be this source, by all that is known of its content."""
        return _fits(known, found)

    def forget(self, wall: float) -> list[KnownSource]:
        """Finished ones that were not seen for a day; called after everything was looked at."""
        finished = [each for known in self._by_identity.values() for each in known if each.finished]
        old = [each for each in finished if self._is_forgotten(each, wall)]
        if len(finished) - len(old) > _MOST:
            left = sorted(set(finished) - set(old), key=lambda each: self._seen_at[each.id])
            old += left[: len(left) - _MOST]
        for each in old:
            self.remove(each)
        return old

    def all(self) -> Collection[KnownSource]:
        return [each for known in self._by_identity.values() for each in known]

    def _is_forgotten(self, known: KnownSource, wall: float) -> bool:
        seen = self._seen_at[known.id]
        if seen > wall:  # the clock was set back
            self._seen_at[known.id] = seen = wall
        return wall - seen > _FORGOTTEN_AFTER


def _may_be_named(known: KnownSource, path: str) -> bool:
    """Of a file of whose first bytes enough are known: another one in its folder, too."""
    names = {known.path, known.last_path}
    if known.fingerprint.size == FULL:
        return path.rpartition("/")[0] in {each.rpartition("/")[0] for each in names if each}
    return bool(known.fingerprint.size) and path in names


def _signature(sighting: Sighting) -> Signature:
    return sighting.path, sighting.size, sighting.mtime_ns, sighting.ctime_ns


def _fits(known: KnownSource, found: Found) -> bool:
    if known.finished and not known.fingerprint.size:
        return False
    if known.seen_millis and found.born_ns > known.seen_millis * 1_000_000:
        return False
    if not begins(known.fingerprint, found.head):
        return False
    position = known.progress.position
    if found.size < position:  # as a copy may that has less than was read
        return bool(known.last_path) and found.size == known.size
    return found.has(known.progress.mark, position)
