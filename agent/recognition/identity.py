"""Recognises rotated files: compares a file with what is remembered of a source. Pure.

A source is one incarnation of a file. Names move at every rotation, inodes are reused, and files
with the same beginning are common, so no single property identifies a file. The caller collects the
evidence as `RememberedFile` and `SeenFile`, and gets an `IdentityVerdict`. If the evidence is not
sufficient, a line is read twice rather than not at all (decision 20).

**The same file**

1.  A name decides nothing. It tells where to look; only if too little else is known to identify the
    file, it must be a name that the file had (rule 8).
2.  Two files that exist at the same time never share device and inode. While a file is open, or the
    supervisor keeps its descriptor, they belong to it. Those of a closed file may have been reused:
    if name, size and times are unchanged, it is the same file; otherwise it is opened and checked
    by rules 3 and 4.
3.  A file with another creation time is another file, whatever its content. If the creation time is
    not remembered, a file created after the source's was last seen is another one. If the file
    system has no creation times, this rule says nothing.
4.  A file must begin as before: with the bytes seen of it, up to 1 KiB, known by their digest.
5.  A file must continue as before: the up to 64 bytes before the position must be those read there.
    After a restart only their checksum is known; if not even that is, this rule says nothing. Rules
    4 and 5 are checked at every read, after the data was read.
6.  If neither the beginning nor the creation time of a closed file is known, nothing shows who has
    its device and inode now: the file is lost, even if they are found under another name.
7.  A file is in doubt if it has fewer bytes than were seen, or fails rule 4 or 5 at a read. It is
    checked once more through its descriptor: if it has all bytes again and passes rules 4 and 5, it
    is the same. Otherwise it was truncated, and the same inode is a new source. So is a closed file
    that has left its name, if it has the inode and the creation time of the source's file.
8.  After a restart, a file is the same only if it was not created after the source was last seen,
    and begins and continues as before; a different creation time before that does not matter.
    Device and inode count if bytes, the name or the creation time of the file are remembered. If
    the device number is another one (file systems may get new ones when mounted), the inode counts
    as long as nothing has the former device and inode: in the folder of one of its names, if 1 KiB
    is remembered; otherwise under one of its names. A file that was read to its end counts only if
    it had bytes. A file with fewer bytes than were read is the same only if it was a copy and had
    that size (rule 12). If several match, unfinished sources come first.
9.  A kept descriptor is that of its source's file. If the file passes rule 3, but does not begin or
    continue as before, it was truncated meanwhile, as in rule 7.

**A copy**

10. A rotator that copies and truncates leaves a second file with the content of the first. Until
    the first one is truncated or leaves, it is unknown what the second one is. If it has nothing
    that the source lacks, it waits as long as it grows, and `PATIENCE` longer; then it is a source
    of its own, since two applications may write the same. It also waits while the source is in
    doubt, but not for a source that is not accessible. If it may be a copy of several sources, it
    waits for any of them.
11. Thousands of files may begin alike. A copy has the bytes last read of its original, unless it is
    smaller. Of the possible originals the likeliest are compared: those whose name the copy's name
    extends, then those of the copy's size or more, and of the nearest size.
12. A source that has lost its file continues in a file without a source that passes rules 4 and 5,
    as far as both have bytes. If the original still exists, truncated, that is enough. If it is
    gone, the other file may have been written independently: it counts only if 1 KiB of the source
    is remembered, and it was written before the original was last seen. A younger file counts if
    the bytes last read are known, no other source begins alike, no archive belongs to the source,
    and it cannot have been written independently: no input matches its name, so that it would not
    be read as another source, or its content is older than the file, as in a copy that keeps times.
    Then it is unknown what was written to the original after the copy.
13. A file that was replaced through another name (as by rsync) continues the source that it
    replaces: if that was deleted and is still open, 1 KiB of it and the bytes last read are
    remembered, and the new file has both and was written before the old one lost its name.
14. An archive belongs to a source if its content begins and continues alike, and it was written
    after the source began: rotators give it the time of its content. If that time is unknown, the
    archive must have been created after the source was last seen.
    If the input reads archives, an archive has the lines of any source that begins and continues
    alike up to its position. If less than 1 KiB of the source is remembered, it must not have begun
    after the archive was last written. A file that begins like an archive that is read waits.
15. A copy of an unread file, created since a given time, shows that the file was emptied since then
    if the copy has a beginning that the file lacks.

**Lost**

16. A closed source that is found neither by name nor by inode is lost if its folder exists, or was
    removed from an existing one, on the same device. Otherwise its device is not mounted, and it
    waits.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, Self

import msgspec

from agent.accounting.runs import Fingerprint, KnownSource

FULL: Final = 1024
TAIL: Final = 64
PATIENCE: Final = 2.0
NONE: Final = Fingerprint(0, b"")

_LEVELS: Final = (16, 32, 64, 128, 256, 512, 1024)
_SHORT: Final = 4
_MILLIS: Final = 1_000_000  # nanoseconds
_SECOND: Final = 1_000_000_000

Identity = tuple[int, int]
"""Device and inode: of two files that exist at the same time, never the same."""


class IdentityVerdict(Enum):
    SAME = auto()
    COPY = auto()  # a copy in which the source continues
    NEW = auto()  # another file, or the same one truncated
    WAIT = auto()  # not known yet
    LOST = auto()  # the source's file is gone


class RememberedFile(msgspec.Struct, frozen=True):
    """The record of a source's file; 0 if unknown. A closed file existed at `there_millis`. `head`
    has the bytes of the fingerprint, `tail` the bytes before the position, if this process has read
    them; `mark` is the checksum of the tail, if only that is known."""

    identity: Identity
    born_ns: int = 0
    there_millis: int = 0
    fingerprint: Fingerprint = NONE
    head: bytes = b""
    position: int = 0
    tail: bytes = b""
    mark: int = 0
    size: int = 0
    begun_ns: int = 0

    @classmethod
    def of(cls, known: KnownSource) -> Self:
        """The file of a source in the journal."""
        return cls(
            (known.device, known.inode),
            known.born_ns,
            known.seen_millis,
            known.fingerprint,
            position=known.progress.position,
            mark=known.progress.mark,
            size=known.size,
            begun_ns=known.begun_ns,
        )


class SeenFile(msgspec.Struct, frozen=True):
    """The properties of an open file. `head` has its first bytes, `before` the bytes before the
    position of the compared source, as many as are known of the source."""

    size: int
    identity: Identity = (0, 0)
    mtime_ns: int = 0
    born_ns: int = 0
    head: bytes = b""
    before: bytes = b""


class Sighting(NamedTuple):
    """A regular file under a path, with its status."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    is_link: bool
    ctime_ns: int = 0

    @property
    def identity(self) -> Identity:
        return self.device, self.inode


# Single properties


def fingerprint(head: bytes) -> Fingerprint:
    """The fingerprint of a file's first bytes."""
    head = head[:FULL]
    if not head:
        return NONE
    shorter_digests = (_digest(head[:size])[:_SHORT] for size in _LEVELS if size <= len(head))
    return Fingerprint(len(head), _digest(head), b"".join(shorter_digests))


def may_be_made(known: RememberedFile, born_ns: int) -> bool:
    """Rule 3: whether the source's file may have been created at this time."""
    if not born_ns:
        return True
    if known.born_ns:
        return born_ns == known.born_ns
    return was_made_before(known.there_millis, born_ns)


def was_made_before(there_millis: int, born_ns: int) -> bool:
    """Rule 3: whether a file was, or may have been, created before the source's file was last
    seen."""
    return not there_millis or born_ns <= there_millis * _MILLIS


def were_made_apart(one_ns: int, other_ns: int) -> bool:
    """Rule 3: whether the creation times, if known, show two different files."""
    return bool(one_ns and other_ns and one_ns != other_ns)


def begins(known: Fingerprint, head: bytes, first: bytes = b"") -> bool:
    """Rule 4: whether a file begins as before. `first` are the bytes of the fingerprint, if known:
    comparing them is faster than computing a digest."""
    if first:
        return head.startswith(first)
    return len(head) >= known.size and (
        not known.size or _digest(head[: known.size]) == known.digest
    )


def goes_on(tail: bytes, mark: int, before: bytes) -> bool:
    """Rule 5: whether a file continues as before. `before` has as many bytes as the tail, or as the
    mark covers."""
    if tail:
        return before == tail
    return not mark or zlib.crc32(before) == mark


class Beginning:
    """The first bytes of a file, for comparison with many sources."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._digests: dict[int, bytes] = {}

    def is_of(self, known: Fingerprint) -> bool:
        """Rule 4: whether the file begins with the bytes of this fingerprint."""
        size = known.size
        if size not in self._digests:
            self._digests[size] = _digest(self._head[:size])
        return 0 < size <= len(self._head) and self._digests[size] == known.digest


def begin_alike(first: bytes, other: bytes) -> bool:
    """Whether two beginnings agree, up to the shorter length."""
    return first.startswith(other) or other.startswith(first)


def may_continue(known: RememberedFile, size: int, head: bytes) -> bool:
    """Rule 4, up to the shorter length: whether a file of this size and beginning may have the
    bytes read of a source, so that rule 5 must be checked."""
    if size < known.position or not known.fingerprint.size:
        return False
    if len(head) < known.fingerprint.size:  # the source has grown since the copy
        return bool(head) and known.head.startswith(head)
    return begins(known.fingerprint, head, known.head)


def continues(known: RememberedFile, seen: SeenFile) -> bool:
    """Rules 4 and 5: whether a file begins and continues like the source, up to the shorter
    length."""
    return may_continue(known, seen.size, seen.head) and goes_on(
        known.tail, known.mark, seen.before
    )


# The same file


class Tracked(Protocol):
    @property
    def current_path(self) -> str: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def size(self) -> int: ...

    @property
    def mtime_ns(self) -> int: ...


class Listed(Protocol):
    def covers(self, path: str, /) -> bool:
        """Whether a file of that path would have been listed."""


Places = Mapping[Identity, Sequence[Sighting]]
"""Sightings by device and inode; several if links lead to the same file."""


class Where(Enum):
    SAME = auto()  # unchanged
    CHANGED = auto()  # with another size or mtime
    MOVED = auto()
    MISSING = auto()
    UNKNOWN = auto()  # its folder was not listed


class Whereabouts(NamedTuple):
    where: Where
    sighting: Sighting | None = None


def whereabouts(tracked: Tracked, listing: Listed, by_identity: Places) -> Whereabouts:
    """Rule 2: where a followed file is, according to a listing."""
    sightings = by_identity.get(tracked.identity, ())
    for sighting in sightings:
        if sighting.path == tracked.current_path:
            is_same = sighting.size == tracked.size and sighting.mtime_ns == tracked.mtime_ns
            return Whereabouts(Where.SAME if is_same else Where.CHANGED, sighting)
    if not listing.covers(tracked.current_path):
        return Whereabouts(Where.UNKNOWN)
    if sightings:
        return Whereabouts(Where.MOVED, best(sightings))
    return Whereabouts(Where.MISSING)


def best(sightings: Sequence[Sighting]) -> Sighting:
    """The preferred one of several paths of a file: no link if possible, then the first."""
    return min(sightings, key=lambda each: (each.is_link, each.path))


def is_unchanged(before: Sighting, now: Sighting) -> bool:
    """Rule 2: whether a finished file is unchanged since it was checked."""
    properties_before = before.size, before.mtime_ns, before.ctime_ns
    return properties_before == (now.size, now.mtime_ns, now.ctime_ns)


def is_untouched(tracked: Tracked, identity: Identity, size: int, mtime_ns: int) -> bool:
    """Rule 2: whether the file now at the path of a closed file is that file, unchanged."""
    is_same = identity == tracked.identity and size == tracked.size
    return is_same and mtime_ns == tracked.mtime_ns


def is_shown(known: RememberedFile) -> bool:
    """Rule 6: whether enough is known to recognise the file."""
    return bool(known.fingerprint.size or known.born_ns)


def reopened(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Rules 2 to 4: the verdict on a file that was closed and opened again. Every read checks the
    tail."""
    is_same = (
        seen.identity == known.identity
        and may_be_made(known, seen.born_ns)
        and begins(known.fingerprint, seen.head, known.head)
    )
    return IdentityVerdict.SAME if is_same else IdentityVerdict.LOST


def doubted(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Rule 7: the verdict on a file in doubt, read through its descriptor."""
    is_same = seen.size >= known.size and continues(known, seen)
    return IdentityVerdict.SAME if is_same else IdentityVerdict.NEW


def moved_away(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Rule 7: the verdict on a file under another name that does not continue the source. NEW if it
    is the source's file, truncated."""
    is_same = seen.identity == known.identity and known.born_ns == seen.born_ns
    return IdentityVerdict.NEW if is_same and known.born_ns else IdentityVerdict.LOST


def may_be_met(known: KnownSource, sighting: Sighting, born_ns: int) -> bool:
    """Rule 8: whether a file with the same inode must be compared with a source of the journal."""
    names = {known.path, known.last_path}
    if known.device == sighting.device:
        is_same_creation = known.born_ns and known.born_ns == born_ns
        return bool(known.fingerprint.size or sighting.path in names or is_same_creation)
    if known.fingerprint.size == FULL:
        return _folder(sighting.path) in {_folder(name) for name in names if name}
    return bool(known.fingerprint.size) and sighting.path in names


def met(known: KnownSource, seen: SeenFile) -> IdentityVerdict:
    """Rule 8: the verdict on a file, by its content, for a source of the journal."""
    return IdentityVerdict.SAME if _fits(known, seen) else IdentityVerdict.NEW


def _fits(known: KnownSource, seen: SeenFile) -> bool:
    if known.finished and not known.fingerprint.size:
        return False
    if not was_made_before(known.seen_millis, seen.born_ns):
        return False
    if not begins(known.fingerprint, seen.head):
        return False
    if seen.size < known.progress.position:
        return bool(known.last_path) and seen.size == known.size
    return goes_on(b"", known.progress.mark, seen.before)


def kept(known: KnownSource, seen: SeenFile) -> IdentityVerdict:
    """Rule 9: the verdict on a kept descriptor with the device and inode of a source. LOST if it is
    a different file."""
    if _fits(known, seen):
        return IdentityVerdict.SAME
    return (
        IdentityVerdict.NEW
        if was_made_before(known.seen_millis, seen.born_ns)
        else IdentityVerdict.LOST
    )


# Copies


class Compared(msgspec.Struct, frozen=True):
    """The comparison of a file with a source that begins alike. `is_away`: the source's file is not
    accessible; `is_certain`: it is unchanged; `has_all`: it has all bytes of the compared file."""

    size: int = 0
    is_away: bool = False
    is_certain: bool = False
    has_all: bool = False


def undecided(size: int, originals: Iterable[Compared], *, unchanged_for: float) -> IdentityVerdict:
    """Rule 10: the verdict on a file of this size whose possible originals are not deleted."""
    has_waiting_original = any(_makes_wait(original, size, unchanged_for) for original in originals)
    return IdentityVerdict.WAIT if has_waiting_original else IdentityVerdict.NEW


def _makes_wait(original: Compared, size: int, unchanged_for: float) -> bool:
    if original.is_away:
        return False
    if not original.is_certain:
        return True
    return original.has_all and size <= original.size and unchanged_for < PATIENCE


def may_be_copied(known: RememberedFile, copy: SeenFile) -> bool:
    """Rule 11: whether a file may be a copy of a source, by its beginning."""
    if not begin_alike(known.head, copy.head):
        return False
    return copy.size < known.position or goes_on(known.tail, known.mark, copy.before)


def distance(original: str, original_size: int, copy: str, size: int) -> tuple[bool, bool, int]:
    """Rule 11: a sort key of a possible original, by paths and sizes. The smallest key is the
    likeliest original's."""
    is_related = copy.startswith(stem_of(original))
    return not is_related, original_size < size, abs(original_size - size)


def stem_of(path: str) -> str:
    """The beginning that the paths of a file's copies share."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.rpartition('.')[0] or name}"


def taken_over(known: RememberedFile, seen: SeenFile, there_born_ns: int | None) -> IdentityVerdict:
    """Rule 12: the verdict on a file without a source, for a source that has lost its file.
    `there_born_ns` is the creation time of the file that has the original's inode now; None if
    there is none."""
    if not continues(known, seen):
        return IdentityVerdict.NEW
    if there_born_ns is not None and may_be_made(known, there_born_ns):
        return IdentityVerdict.COPY
    is_older = seen.mtime_ns <= known.there_millis * _MILLIS
    return (
        IdentityVerdict.COPY if known.fingerprint.size >= FULL and is_older else IdentityVerdict.NEW
    )


def left_in_copy(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Rule 12: the verdict on a file that was not written independently, for a source whose file is
    gone."""
    is_tail_known = bool(known.tail or known.mark or not known.position)
    is_sure = known.fingerprint.size >= FULL and is_tail_known
    return IdentityVerdict.COPY if is_sure and continues(known, seen) else IdentityVerdict.NEW


def shows_copied(seen: SeenFile) -> bool:
    """Rule 12: whether the content is older than the file, as in a copy that keeps times."""
    return 0 < seen.mtime_ns < seen.born_ns


def replaced(known: RememberedFile, seen: SeenFile, lost_name_ns: int) -> IdentityVerdict:
    """Rule 13: the verdict on a file that may have replaced the source's open file, which was
    deleted at `lost_name_ns`."""
    is_sure = known.fingerprint.size >= FULL and bool(known.tail or not known.position)
    is_same = is_sure and seen.mtime_ns < lost_name_ns and continues(known, seen)
    return IdentityVerdict.COPY if is_same else IdentityVerdict.NEW


def may_be_archive(known: RememberedFile, mtime_ns: int, ctime_ns: int) -> bool:
    """Rule 14: whether a compressed file may contain a source's file, by its times. Archives have
    times in whole seconds only."""
    if known.begun_ns:
        return mtime_ns // _SECOND >= known.begun_ns // _SECOND
    return ctime_ns // _MILLIS >= known.there_millis


def archived(known: RememberedFile, head: bytes, before: bytes) -> IdentityVerdict:
    """Rule 14: the verdict on the content of an archive up to the position."""
    if begins(known.fingerprint, head) and goes_on(known.tail, known.mark, before):
        return IdentityVerdict.COPY
    return IdentityVerdict.NEW


def may_be_archived(known: RememberedFile, head: bytes) -> bool:
    """Rule 14: whether an archive may contain the source's file, while its beginning may not be
    fully unpacked."""
    return len(head) < known.fingerprint.size or begins(known.fingerprint, head)


def may_be_original(known: Fingerprint, begun_ns: int, archive_mtime_ns: int) -> bool:
    """Rule 14: whether an archive that begins alike may have the lines of a source that began at
    this time; 0 if unknown."""
    return known.size >= FULL or archive_mtime_ns // _SECOND >= begun_ns // _SECOND


def shows_emptied(copy_born_ns: int, copied: bytes, there: bytes, since_ns: int) -> bool:
    """Rule 15: whether a copy shows that the file was emptied, by the beginnings of both."""
    return copy_born_ns > since_ns and not there.startswith(copied)


# Lost


def sought(known: RememberedFile, device: int | None) -> IdentityVerdict:
    """Rule 16: the verdict on a source that was not found. `device` is that of the nearest existing
    folder above its file; None if unknown."""
    return IdentityVerdict.LOST if device == known.identity[0] else IdentityVerdict.WAIT


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _digest(head: bytes) -> bytes:
    return hashlib.blake2b(head, digest_size=16).digest()
