"""Remembers sources that are not followed at present: finished ones, and those in a journal whose
files were not found yet.

A finished source is remembered as long as its file exists, so that it is not read again, and for a
day longer, so that it is recognised if it comes back; an archive for a year longer. `identity`
decides which file is which.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, Self

import msgspec

from agent.accounting.runs import KnownSource, SourceId
from agent.recognition.compressed import has_compressed_name
from agent.recognition.file_properties import born_ns, read_head, read_tail
from agent.recognition.identity import (
    Identity,
    IdentityVerdict,
    SeenFile,
    Sighting,
    is_unchanged,
    may_be_met,
    met,
)

_FORGOTTEN_AFTER: Final = 86_400.0
_ARCHIVE_FORGOTTEN_AFTER: Final = 366 * 86_400.0
_MOST: Final = 50_000


class FoundFile(msgspec.Struct, frozen=True):
    """The properties of an open file by which its source is found."""

    fd: int
    head: bytes
    size: int
    born_ns: int

    @classmethod
    def of(cls, fd: int, size: int) -> Self:
        return cls(fd, read_head(fd), size, born_ns(fd))

    def beside(self, known: KnownSource) -> SeenFile:
        """The properties of the file for comparison with a source. Raises OSError."""
        position = known.progress.position
        has_mark = known.progress.mark and position <= self.size
        bytes_before = read_tail(self.fd, position) if has_mark else b""
        return SeenFile(self.size, born_ns=self.born_ns, head=self.head, before=bytes_before)


class Memory:
    """The remembered sources of one input, or of none."""

    def __init__(self) -> None:
        self._by_identity: dict[Identity, list[KnownSource]] = {}
        self._by_inode: dict[int, list[KnownSource]] = {}
        self._seen_at: dict[SourceId, float] = {}
        self._looked_into: dict[Identity, Sighting] = {}

    def __len__(self) -> int:
        return len(self._seen_at)

    def add(self, known: KnownSource, sighting: Sighting | None = None) -> None:
        identity = known.device, known.inode
        self._by_identity.setdefault(identity, []).append(known)
        self._by_inode.setdefault(known.inode, []).append(known)
        self._seen_at[known.id] = known.seen_millis / 1000
        if sighting is not None:
            self._looked_into[identity] = sighting

    def remove(self, known: KnownSource) -> None:
        identity = known.device, known.inode
        self._by_identity[identity].remove(known)
        self._by_inode[known.inode].remove(known)
        if not self._by_identity[identity]:
            del self._by_identity[identity]
            self._looked_into.pop(identity, None)
        if not self._by_inode[known.inode]:
            del self._by_inode[known.inode]
        del self._seen_at[known.id]

    def has(self, identity: Identity) -> bool:
        return identity in self._by_identity

    def has_file(self, identity: Identity, born_ns: int) -> bool:
        """Whether a source is the file with this identity that was created at this time."""
        return any(known.born_ns == born_ns for known in self._by_identity.get(identity, ()))

    def at_inode(self, inode: int) -> list[KnownSource]:
        """The sources with this inode, on any device."""
        return list(self._by_inode.get(inode, ()))

    def archives(self) -> Iterator[KnownSource]:
        """The sources that are archives. Any thread."""
        for sources in list(self._by_identity.values()):
            yield from [source for source in sources if has_compressed_name(source.path)]

    def unfinished(self) -> Iterator[KnownSource]:
        for sources in list(self._by_identity.values()):
            yield from [source for source in sources if not source.finished]

    def unfinished_at(self, identity: Identity) -> list[KnownSource]:
        return [source for source in self._by_identity.get(identity, ()) if not source.finished]

    def is_unchanged(self, sighting: Sighting, wall: float) -> bool:
        """Whether the file is that of a finished source, was checked, and is unchanged since."""
        identity = sighting.identity
        known_sources = self._by_identity.get(identity)
        if known_sources is None:
            return False
        for source in known_sources:
            self._seen_at[source.id] = wall
        sighting_before = self._looked_into.get(identity)
        return sighting_before is not None and is_unchanged(sighting_before, sighting)

    def note_checked(self, sighting: Sighting) -> None:
        """Notes that the file was checked, and belongs to a remembered source."""
        self._looked_into[sighting.identity] = sighting

    def find(
        self,
        sighting: Sighting,
        file: FoundFile,
        is_there: Callable[[Identity], bool],
        topic: str = "",
    ) -> KnownSource | None:
        """The source of a file, of `topic` if given, preferring unfinished ones. Raises OSError.
        After its file system was mounted again, the file may have another device number; and a file
        may have several names."""
        candidates = [
            known
            for known in self._by_identity.get(sighting.identity, ())
            if may_be_met(known, sighting, file.born_ns)
        ]
        candidates += (
            known
            for known in self._by_inode.get(sighting.inode, ())
            if known.device != sighting.device
            and may_be_met(known, sighting, file.born_ns)
            and not is_there((known.device, known.inode))
        )
        same_sources = [
            known
            for known in candidates
            if topic in {"", known.topic} and met(known, file.beside(known)) is IdentityVerdict.SAME
        ]
        return min(same_sources, key=lambda known: known.finished, default=None)

    def forget(self, wall: float) -> list[KnownSource]:
        """Removes and returns finished sources not seen for long, after a complete scan."""
        finished_sources = [
            source for known in self._by_identity.values() for source in known if source.finished
        ]
        old_sources = [source for source in finished_sources if self._is_forgotten(source, wall)]
        if len(finished_sources) - len(old_sources) > _MOST:
            recent_sources = sorted(
                set(finished_sources) - set(old_sources), key=lambda known: self._seen_at[known.id]
            )
            old_sources += recent_sources[: len(recent_sources) - _MOST]
        for source in old_sources:
            self.remove(source)
        return old_sources

    def all(self) -> Collection[KnownSource]:
        return [source for known_sources in self._by_identity.values() for source in known_sources]

    def _is_forgotten(self, known: KnownSource, wall: float) -> bool:
        seen_at = self._seen_at[known.id]
        if seen_at > wall:  # the clock was set back
            self._seen_at[known.id] = seen_at = wall
        is_archive = has_compressed_name(known.path)
        return wall - seen_at > (_ARCHIVE_FORGOTTEN_AFTER if is_archive else _FORGOTTEN_AFTER)
