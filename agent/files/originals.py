"""Sources by how they begin, so that a copy of one is recognised.

A rotator that copies and truncates leaves a second file with what the first one had. Until the
first one is truncated nobody can know, so a file whose content another one has waits a moment after
it has stopped growing. Then it is a file of its own: two applications may well write the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from heapq import nsmallest
from itertools import islice
from typing import Final

from agent.files.followed import Followed

PATIENCE: Final = 2.0

_CONSIDERED: Final = 16
_SCANNED: Final = 500
_LEVELS: Final = (16, 64, 256, 1024)


class Originals:
    """Of one input. A source is found by its whole fingerprint, and, as it may have grown since it
    was copied, by some shorter beginnings."""

    def __init__(self) -> None:
        self._by_beginning: dict[bytes, dict[Followed, None]] = {}
        self._by_stem: dict[str, dict[Followed, None]] = {}
        self._sizes: Counter[int] = Counter()

    def note(self, followed: Followed) -> None:
        """Its fingerprint has grown, or it is new."""
        head = followed.head
        if head == followed.noted and self._has(followed):
            return
        self.drop(followed)
        followed.noted = head
        if head:
            self._sizes[len(head)] += 1
            for beginning in _beginnings(head):
                self._by_beginning.setdefault(beginning, {})[followed] = None
            self._by_stem.setdefault(_stem(followed), {})[followed] = None

    def drop(self, followed: Followed) -> None:
        head = followed.noted
        if not self._has(followed):
            return
        self._sizes[len(head)] -= 1
        for beginning in _beginnings(head):
            same = self._by_beginning[beginning]
            del same[followed]
            if not same:
                del self._by_beginning[beginning]
        named = self._by_stem[_stem(followed)]
        del named[followed]
        if not named:
            del self._by_stem[_stem(followed)]
        if not self._sizes[len(head)]:
            del self._sizes[len(head)]

    def of(self, head: bytes, path: str) -> Iterator[Followed]:
        """Those that begin like a file with this head, as far as both go; if they are very many,
        those of which its name may be made, and the newest."""
        sizes = {size for size in self._sizes if size <= len(head)}
        sizes.add(max((level for level in _LEVELS if level <= len(head)), default=len(head)))
        found: dict[Followed, None] = {}
        for size in sorted(sizes, reverse=True):
            same = self._by_beginning.get(head[:size], {})
            if len(same) > _SCANNED:
                related = (each for each in self._related(path) if each in same)
                found |= dict.fromkeys(islice(related, _SCANNED))
            found |= dict.fromkeys(islice(reversed(same), _SCANNED))
        return iter(found)

    def _related(self, path: str) -> Iterator[Followed]:
        for end in range(len(path), path.rfind("/") + 1, -1):
            yield from self._by_stem.get(path[:end], ())

    def _has(self, followed: Followed) -> bool:
        return followed in self._by_beginning.get(followed.noted, {})


def _beginnings(head: bytes) -> set[bytes]:
    return {head} | {head[:level] for level in _LEVELS if level < len(head)}


def likeliest(alike: Iterable[Followed], copy: Followed, fd: int) -> list[Followed]:
    """Those whose copy it can be, not too many of them, the likeliest first. Files that begin alike
    may be thousands. What was read last of the original stands in the copy as well, if it is large
    enough; that is looked at in all of them. The original has a name of which the copy's is made,
    and a size that is the copy's, or a little more."""
    able = (each for each in alike if each is not copy and _may_be_copied(each, copy, fd))
    return nsmallest(_CONSIDERED, able, key=lambda each: _distance(each, copy))


def _may_be_copied(original: Followed, copy: Followed, fd: int) -> bool:
    ours, theirs = copy.head, original.head
    if not (original.source and (theirs.startswith(ours) or ours.startswith(theirs))):
        return False
    return copy.size < original.progress.position or original.has_tail(fd)


def _distance(original: Followed, copy: Followed) -> tuple[bool, bool, int]:
    is_related = copy.current_path.startswith(_stem(original))
    return not is_related, original.size < copy.size, abs(original.size - copy.size)


def _stem(original: Followed) -> str:
    """What the names of its copies begin with."""
    folder, _, name = original.path.rpartition("/")
    return f"{folder}/{name.rpartition('.')[0] or name}"


class Judgement(Enum):
    OWN = auto()
    WAIT = auto()


def judge(size: int, original_size: int, *, same: bool, unchanged_for: float) -> Judgement:
    """Of a file that begins like another, which is there and was not truncated."""
    if not same or size > original_size or unchanged_for >= PATIENCE:
        return Judgement.OWN
    return Judgement.WAIT
