"""Which file is which: what is seen of a file, held against what is remembered of another. Pure.

A source is one incarnation of a file. Names move at every rotation, inodes are given again, and
files that begin alike are common, so no single mark of a file decides. Whoever follows files
gathers the evidence, `RememberedFile` and `SeenFile`, and asks here; the answer is an
`IdentityVerdict`. Where it cannot be known, a line is rather read twice than not at all (decision
20).

**The same file**

1.  A name decides nothing. It says where to look; and where so little else is known that it could
    be anybody's file, it must be the name that the file had (rule 8).
2.  Of files that exist at the same time, device and inode are never the same. While a file is open,
    or its descriptor is kept by whoever started the agent, they are its own. Of one that is closed
    they may be another file's since: if nothing about it has changed (name, size and times), it is
    the same; otherwise it is opened, and held against rules 3 and 4.
3.  A file that was made at another time is another file, whatever it contains. Where it is not
    remembered when the file was made, one that was made after it was last seen is another.
    Where the file system does not know when a file was made, that says nothing.
4.  It must begin as it did: with the up to 1 KiB that were seen of it, known by their digest.
5.  It must go on as it did: the up to 64 bytes before the position must be those that were read
    there. Over a restart only a checksum of them is known; where not even that is, they say
    nothing. Rules 4 and 5 are asked at every read, after the data was read.
6.  If nothing is known of how it began, nor of when it was made, nothing shows whose device and
    inode these are by now: its file is lost, even if they are found under another name.
7.  What is in doubt, because it has fewer bytes than were seen of it or fails rule 4 or 5 at a
    read, is looked into once more by its handle. If it has all bytes again and keeps rules 4 and 5,
    it is the same. If not, it was truncated: the same inode is a new source. So is one without a
    handle that has left its name, if it has the inode and was made when the source's file was.
8.  Over a restart only one that was not made after the source was last seen is the same, and only
    if it begins and goes on so; that it was made at another time before that does not count. Device
    and inode count if some of its bytes are remembered, or the name, or when it was made. Of
    another device number (file systems are numbered anew when they are mounted) the inode counts as
    long as nothing has the former one: if all of 1 KiB is remembered, in the folder of one of its
    names; if less, under one of its names. One that was read to its end counts only if it had
    bytes. One that has less than was read of it is the same only if it was a copy and had that size
    (rule 12). If several fit, one that is not over goes before one that is.
9.  A kept descriptor shows the file that its source had. If that keeps rule 3 but does not begin
    or go on as it did, it was truncated meanwhile, as in rule 7.

**A copy**

10. A rotator that copies and truncates leaves a second file that has what the first one had. Until
    the first one is truncated or leaves nobody can know what the second one is. One that has
    nothing that the source has not waits as long as it grows, and `PATIENCE` longer; then it
    is a file of its own, since two applications may well write the same. It waits also as long as
    the source is in doubt; a source that cannot be looked at makes nobody wait. Of several that
    it may be a copy of, one is enough to wait for.
11. Thousands of files may begin alike. A copy of one has what was read of it last, unless it is
    smaller than that. Of those that may be the original, the likeliest are compared: a name of
    which the copy's is made, then a size that is the copy's or more, and as near to it as may be.
12. A source that has lost its file goes on in a file that is none's and keeps rules 4 and 5, as far
    as both go. If the original is there, truncated, that is enough. If it is gone, the other one
    may have been written anew: it counts only if 1 KiB is remembered of the source and it was
    written before the original was last seen. One that is younger counts if what was read last is
    known, no other source begins so, no archive is the source's, and it cannot have been written
    anew: no input means its name, so that nobody reads it as a file of its own, or its content is
    older than the file, as that of a copy with its times. What the original got after it was copied
    nobody knows then.
13. A file that is written anew by way of another name (as rsync does) goes on as the source that it
    replaces: if that was deleted and is still open, 1 KiB of it is remembered, and what was read of
    it last, and the new one has both and was written before the old one lost its name.
14. An archive is that of a source if its content begins and goes on so, and it was written after
    the source began: rotators leave it the time of its content. Where nobody knows when that was,
    it was made after the source was last seen.
15. A copy of a file of which nothing was read before, made since a time, shows that the file was
    emptied since then if it has a beginning that the file has not.

**Lost**

16. A source without a handle that is found neither by name nor by inode is lost if the folder in
    which it was is there, or was removed from one that is, on the same device. Otherwise its device
    is away: it waits.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, Self

import msgspec

from agent.runs import Fingerprint, KnownSource

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
    COPY = auto()  # and the source goes on in it
    NEW = auto()  # another file, or the same one begun anew
    WAIT = auto()  # nobody can know yet
    LOST = auto()  # the source has no file any more


class RememberedFile(msgspec.Struct, frozen=True):
    """What is known of a source's file. `there_millis` is a time at which it was there, if it is
    not open. `head` are the bytes that the fingerprint is of, and `tail` those before the position,
    where this process has seen them; of the tail `mark` is the checksum, if only that is known. 0
    is what nobody knows."""

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
        """As a journal has it."""
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
    """What an open file shows: `head` are its first bytes, `before` those before the position of
    the source that it is held against, as many as are known of that."""

    size: int
    identity: Identity = (0, 0)
    mtime_ns: int = 0
    born_ns: int = 0
    head: bytes = b""
    before: bytes = b""


class Sighting(NamedTuple):
    """A regular file under a name, as `stat` has it."""

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


# What single marks say


def fingerprint(head: bytes) -> Fingerprint:
    """Of a file's first bytes."""
    head = head[:FULL]
    if not head:
        return NONE
    shorter = (_digest(head[:size])[:_SHORT] for size in _LEVELS if size <= len(head))
    return Fingerprint(len(head), _digest(head), b"".join(shorter))


def may_be_made(known: RememberedFile, born_ns: int) -> bool:
    """Rule 3."""
    if not born_ns:
        return True
    if known.born_ns:
        return born_ns == known.born_ns
    return was_made_before(known.there_millis, born_ns)


def was_made_before(there_millis: int, born_ns: int) -> bool:
    """Rule 3, where it does not count when the file was made that is remembered."""
    return not there_millis or born_ns <= there_millis * _MILLIS


def were_made_apart(one_ns: int, other_ns: int) -> bool:
    """Rule 3, where nothing else is known of either."""
    return bool(one_ns and other_ns and one_ns != other_ns)


def begins(known: Fingerprint, head: bytes, first: bytes = b"") -> bool:
    """Rule 4. `first` are the bytes that the fingerprint is of, if they are at hand: to compare
    them takes less than a digest."""
    if first:
        return head.startswith(first)
    return len(head) >= known.size and (
        not known.size or _digest(head[: known.size]) == known.digest
    )


def goes_on(tail: bytes, mark: int, before: bytes) -> bool:
    """Rule 5. `before` are as many bytes as the tail has, or as the mark is of."""
    if tail:
        return before == tail
    return not mark or zlib.crc32(before) == mark


def begin_alike(one: bytes, other: bytes) -> bool:
    """As far as both go."""
    return one.startswith(other) or other.startswith(one)


def may_continue(known: RememberedFile, size: int, head: bytes) -> bool:
    """Whether a file of this size that begins so can have what was read of a source, which is to be
    seen from what stands before the position: rule 4, as far as both go."""
    if size < known.position or not known.fingerprint.size:
        return False
    if len(head) < known.fingerprint.size:  # the source has grown since it was copied
        return bool(head) and known.head.startswith(head)
    return begins(known.fingerprint, head, known.head)


def continues(known: RememberedFile, seen: SeenFile) -> bool:
    """Rules 4 and 5, as far as both go."""
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
    """What was found in some folders."""

    def covers(self, path: str, /) -> bool:
        """Whether a file of that path would have been sighted."""


Places = Mapping[Identity, Sequence[Sighting]]
"""Sightings by device and inode; several where links lead to one file."""


class Where(Enum):
    SAME = auto()  # and it has not changed
    CHANGED = auto()  # it is larger or smaller, or was touched
    MOVED = auto()
    MISSING = auto()
    UNKNOWN = auto()  # where it should be was not looked at


class Whereabouts(NamedTuple):
    where: Where
    sighting: Sighting | None = None


def whereabouts(tracked: Tracked, listing: Listed, found: Places) -> Whereabouts:
    """Rule 2: what a listing says of a file that is followed."""
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


def is_unchanged(before: Sighting, now: Sighting) -> bool:
    """Rule 2, of a finished file that was looked into before."""
    then = before.size, before.mtime_ns, before.ctime_ns
    return then == (now.size, now.mtime_ns, now.ctime_ns)


def is_untouched(tracked: Tracked, identity: Identity, size: int, mtime_ns: int) -> bool:
    """Rule 2, of a file that is closed, by what its name leads to now."""
    same = identity == tracked.identity and size == tracked.size
    return same and mtime_ns == tracked.mtime_ns


def is_shown(known: RememberedFile) -> bool:
    """Rule 6: whether anything could show that a file is the one that is remembered."""
    return bool(known.fingerprint.size or known.born_ns)


def reopened(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Of a file that was closed: rules 2 to 4. Of its tail every read is asked."""
    same = (
        seen.identity == known.identity
        and may_be_made(known, seen.born_ns)
        and begins(known.fingerprint, seen.head, known.head)
    )
    return IdentityVerdict.SAME if same else IdentityVerdict.LOST


def doubted(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Of a file that was in doubt, by its handle: rule 7."""
    same = seen.size >= known.size and continues(known, seen)
    return IdentityVerdict.SAME if same else IdentityVerdict.NEW


def moved_away(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Of a file under another name that is not the source as it was: NEW if it is its inode, begun
    anew (rule 7)."""
    same = seen.identity == known.identity and known.born_ns == seen.born_ns
    return IdentityVerdict.NEW if same and known.born_ns else IdentityVerdict.LOST


def may_be_met(known: KnownSource, sighting: Sighting, born_ns: int) -> bool:
    """Rule 8: whether a file under that name is to be held against a source of a journal. The inode
    is the same."""
    names = {known.path, known.last_path}
    if known.device == sighting.device:
        made = known.born_ns and known.born_ns == born_ns
        return bool(known.fingerprint.size or sighting.path in names or made)
    if known.fingerprint.size == FULL:
        return _folder(sighting.path) in {_folder(each) for each in names if each}
    return bool(known.fingerprint.size) and sighting.path in names


def met(known: KnownSource, seen: SeenFile) -> IdentityVerdict:
    """Of a source of a journal, by all that is known of its content: rule 8."""
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
    """Of a descriptor that was kept, and has the device and inode of a source: rule 9. LOST if it
    is none's that is remembered."""
    if _fits(known, seen):
        return IdentityVerdict.SAME
    return (
        IdentityVerdict.NEW
        if was_made_before(known.seen_millis, seen.born_ns)
        else IdentityVerdict.LOST
    )


# Copies


class Compared(msgspec.Struct, frozen=True):
    """A source beside a file that begins as it does, once they were compared. `is_away`: nobody
    can look at it. `is_certain`: it is what it was. `has_all`: it has all bytes of the file."""

    size: int = 0
    is_away: bool = False
    is_certain: bool = False
    has_all: bool = False


def undecided(size: int, originals: Iterable[Compared], *, unchanged_for: float) -> IdentityVerdict:
    """Of a file of that size whose originals are not deleted: rule 10."""
    waits = any(_makes_wait(each, size, unchanged_for) for each in originals)
    return IdentityVerdict.WAIT if waits else IdentityVerdict.NEW


def _makes_wait(original: Compared, size: int, unchanged_for: float) -> bool:
    if original.is_away:
        return False
    if not original.is_certain:
        return True
    return original.has_all and size <= original.size and unchanged_for < PATIENCE


def may_be_copied(known: RememberedFile, copy: SeenFile) -> bool:
    """Rule 11: whether a file that begins so can be a copy of a source."""
    if not begin_alike(known.head, copy.head):
        return False
    return copy.size < known.position or goes_on(known.tail, known.mark, copy.before)


def distance(original: str, original_size: int, copy: str, size: int) -> tuple[bool, bool, int]:
    """Rule 11, by paths and sizes: less is likelier."""
    is_related = copy.startswith(stem_of(original))
    return not is_related, original_size < size, abs(original_size - size)


def stem_of(path: str) -> str:
    """What the names of its copies begin with."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.rpartition('.')[0] or name}"


def taken_over(known: RememberedFile, seen: SeenFile, there_born_ns: int | None) -> IdentityVerdict:
    """Of a source that has lost its file, and a file that is none's: rule 12. `there_born_ns`: when
    the file was made that has the original's device and inode now, None if there is none."""
    if not continues(known, seen):
        return IdentityVerdict.NEW
    if there_born_ns is not None and may_be_made(known, there_born_ns):
        return IdentityVerdict.COPY
    is_older = seen.mtime_ns <= known.there_millis * _MILLIS
    return (
        IdentityVerdict.COPY if known.fingerprint.size >= FULL and is_older else IdentityVerdict.NEW
    )


def left_in_copy(known: RememberedFile, seen: SeenFile) -> IdentityVerdict:
    """Of a source whose file is gone, and one that cannot have been written anew: rule 12."""
    is_tail_known = bool(known.tail or known.mark or not known.position)
    is_sure = known.fingerprint.size >= FULL and is_tail_known
    return IdentityVerdict.COPY if is_sure and continues(known, seen) else IdentityVerdict.NEW


def shows_copied(seen: SeenFile) -> bool:
    """Rule 12: its content is older than the file."""
    return 0 < seen.mtime_ns < seen.born_ns


def replaced(known: RememberedFile, seen: SeenFile, lost_name_ns: int) -> IdentityVerdict:
    """Of a source whose file was deleted then, and is open: rule 13."""
    is_sure = known.fingerprint.size >= FULL and bool(known.tail or not known.position)
    same = is_sure and seen.mtime_ns < lost_name_ns and continues(known, seen)
    return IdentityVerdict.COPY if same else IdentityVerdict.NEW


def may_be_archive(known: RememberedFile, mtime_ns: int, ctime_ns: int) -> bool:
    """Rule 14: whether a compressed file of these times can be what became of a source's. Archives
    know full seconds only."""
    if known.begun_ns:
        return mtime_ns // _SECOND >= known.begun_ns // _SECOND
    return ctime_ns // _MILLIS >= known.there_millis


def archived(known: RememberedFile, head: bytes, before: bytes) -> IdentityVerdict:
    """Of what an archive has unpacked, up to the position: rule 14."""
    if begins(known.fingerprint, head) and goes_on(known.tail, known.mark, before):
        return IdentityVerdict.COPY
    return IdentityVerdict.NEW


def may_be_archived(known: RememberedFile, head: bytes) -> bool:
    """Rule 14, as long as less than all of its beginning may be unpacked."""
    return len(head) < known.fingerprint.size or begins(known.fingerprint, head)


def shows_emptied(copy_born_ns: int, copied: bytes, there: bytes, since_ns: int) -> bool:
    """Rule 15, by how the copy and the file begin."""
    return copy_born_ns > since_ns and not there.startswith(copied)


# Lost


def sought(known: RememberedFile, device: int | None) -> IdentityVerdict:
    """Of a source that was not found: rule 16. `device` is that of the nearest folder that is there
    above its file, None if nobody can tell."""
    return IdentityVerdict.LOST if device == known.identity[0] else IdentityVerdict.WAIT


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _digest(head: bytes) -> bytes:
    return hashlib.blake2b(head, digest_size=16).digest()
