"""Indexes sources by their beginnings, to find the possible originals of a copy.

`identity` decides what is a copy.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import Final

from agent.recognition.followed import Followed
from agent.recognition.identity import distance, may_be_copied, stem_of

_CONSIDERED: Final = 16
_SCANNED: Final = 500
_LEVELS: Final = (16, 64, 256, 1024)


class Originals:
    """The index of one input. A source is found by its whole fingerprint, and, since it may have
    grown after it was copied, by some shorter beginnings."""

    def __init__(self) -> None:
        self._by_beginning: dict[bytes, dict[Followed, None]] = {}
        self._by_stem: dict[str, dict[Followed, None]] = {}
        self._sizes: Counter[int] = Counter()
        self._heads: dict[Followed, bytes] = {}  # the indexed beginnings

    def note(self, followed: Followed) -> None:
        """Indexes a source that is new, or whose fingerprint has grown."""
        head = followed.content.head
        if head == self._heads.get(followed):
            return
        self.drop(followed)
        if head:
            self._heads[followed] = head
            self._sizes[len(head)] += 1
            for beginning in _beginnings(head):
                self._by_beginning.setdefault(beginning, {})[followed] = None
            self._by_stem.setdefault(stem_of(followed.path), {})[followed] = None

    def drop(self, followed: Followed) -> None:
        head = self._heads.pop(followed, b"")
        if not head:
            return
        self._sizes[len(head)] -= 1
        for beginning in _beginnings(head):
            sources = self._by_beginning[beginning]
            del sources[followed]
            if not sources:
                del self._by_beginning[beginning]
        sources_by_name = self._by_stem[stem_of(followed.path)]
        del sources_by_name[followed]
        if not sources_by_name:
            del self._by_stem[stem_of(followed.path)]
        if not self._sizes[len(head)]:
            del self._sizes[len(head)]

    def of(self, head: bytes, path: str) -> Iterator[Followed]:
        """The sources that begin like a file with this head, up to the shorter length; if there are
        very many, those whose name the path extends, and the newest."""
        sizes = {size for size in self._sizes if size <= len(head)}
        sizes.add(max((level for level in _LEVELS if level <= len(head)), default=len(head)))
        candidates: dict[Followed, None] = {}
        for size in sorted(sizes, reverse=True):
            sources = self._by_beginning.get(head[:size], {})
            if len(sources) > _SCANNED:
                related_sources = (
                    followed for followed in self._related(path) if followed in sources
                )
                candidates |= dict.fromkeys(islice(related_sources, _SCANNED))
            candidates |= dict.fromkeys(islice(reversed(sources), _SCANNED))
        return iter(candidates)

    def _related(self, path: str) -> Iterator[Followed]:
        for end in range(len(path), path.rfind("/") + 1, -1):
            yield from self._by_stem.get(path[:end], ())


def _beginnings(head: bytes) -> set[bytes]:
    return {head} | {head[:size] for size in _LEVELS if size < len(head)}


def likeliest(alike: Iterable[Followed], copy: Followed, fd: int) -> list[Followed]:
    """The likeliest originals of a copy, best first. Thousands of files may begin alike."""
    readable_originals = (
        original
        for original in alike
        if original is not copy and _may_be_copied(original, copy, fd)
    )
    return nsmallest(
        _CONSIDERED,
        readable_originals,
        key=lambda each: distance(each.path, each.size, copy.current_path, copy.size),
    )


def _may_be_copied(original: Followed, copy: Followed, fd: int) -> bool:
    return bool(original.source) and may_be_copied(original.remembered(), original.beside(copy, fd))
