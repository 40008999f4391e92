"""Sources by how they begin, so that a copy of one is recognised.

A rotator that copies and truncates leaves a second file with what the first one had. Until the
first one is truncated nobody can know, so a file whose content another one has waits a moment after
it has stopped growing. Then it is a file of its own: two applications may well write the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from heapq import nsmallest
from typing import Final

from agent.files.followed import Followed

PATIENCE: Final = 2.0

_CONSIDERED: Final = 16
_LEVELS: Final = (16, 64, 256, 1024)


class Originals:
    """Of one input. A source is found by its whole fingerprint, and, as it may have grown since it
    was copied, by some shorter beginnings."""

    def __init__(self) -> None:
        self._by_beginning: dict[bytes, dict[Followed, None]] = {}
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
        if not self._sizes[len(head)]:
            del self._sizes[len(head)]

    def of(self, head: bytes) -> Iterator[Followed]:
        """Those that begin like a file with this head, as far as both go."""
        sizes = {size for size in self._sizes if size <= len(head)}
        sizes.add(max((level for level in _LEVELS if level <= len(head)), default=len(head)))
        found: dict[Followed, None] = {}
        for size in sorted(sizes, reverse=True):
            found |= self._by_beginning.get(head[:size], {})
        return iter(found)

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
    folder, _, name = original.current_path.rpartition("/")
    stem = f"{folder}/{name.partition('.')[0]}"
    size = original.size
    return not copy.current_path.startswith(stem), size < copy.size, abs(size - copy.size)


class Judgement(Enum):
    OWN = auto()
    WAIT = auto()


def judge(size: int, original_size: int, *, same: bool, unchanged_for: float) -> Judgement:
    """Of a file that begins like another, which is there and was not truncated."""
    if not same or size > original_size or unchanged_for >= PATIENCE:
        return Judgement.OWN
    return Judgement.WAIT
