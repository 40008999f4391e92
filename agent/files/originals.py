"""Whether a file is a copy: sources found by how they begin, and what is made of it.

A rotator that copies and truncates leaves a second file with what the first one had. Until the
first one is truncated nobody can know, so a file whose content another one has waits a moment. Then
it is a file of its own, except if it has at least 1 KiB and all that the other had: such a copy is
not read again, only what is added to it.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from agent.files.fingerprints import FULL, fingerprint
from agent.files.followed import Followed
from agent.runs import Fingerprint, KnownSource

PATIENCE: Final = 2.0

Original = Followed | KnownSource


class Originals:
    """Sources by fingerprint."""

    def __init__(self) -> None:
        self._by_size: dict[int, dict[bytes, dict[int, Original]]] = {}

    def add(self, original: Original, mark: Fingerprint) -> None:
        if mark.size:
            same_size = self._by_size.setdefault(mark.size, {})
            same_size.setdefault(mark.digest, {})[id(original)] = original

    def remove(self, original: Original, mark: Fingerprint) -> None:
        same_size = self._by_size.get(mark.size, {})
        same = same_size.get(mark.digest, {})
        same.pop(id(original), None)
        if not same:
            same_size.pop(mark.digest, None)
        if not same_size:
            self._by_size.pop(mark.size, None)

    def note(self, followed: Followed) -> None:
        """Its fingerprint has grown, or it is new."""
        self.remove(followed, followed.indexed)
        followed.indexed = followed.fingerprint
        self.add(followed, followed.indexed)

    def drop(self, followed: Followed) -> None:
        self.remove(followed, followed.indexed)

    def of(self, head: bytes) -> Iterator[Original]:
        """Those that begin like a file with this head."""
        for size in sorted(self._by_size, reverse=True):
            if size <= len(head):
                same = self._by_size[size].get(fingerprint(head[:size]).digest, {})
                yield from list(same.values())


class Judgement(Enum):
    OWN = auto()
    WAIT = auto()
    COPY = auto()


def judge(
    size: int, original_size: int, original_size_then: int, *, same: bool, unchanged_for: float
) -> Judgement:
    """Of a file that begins like another, which is there and was not truncated.

    `original_size_then` is what the other had when this one was first seen.
    """
    if not same or size > original_size:
        return Judgement.OWN
    if unchanged_for < PATIENCE:
        return Judgement.WAIT
    if size < max(FULL, original_size_then):
        return Judgement.OWN
    return Judgement.COPY
