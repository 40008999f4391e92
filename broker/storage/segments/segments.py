"""A log's segments, in order. The last is the active one; the others are sealed.

Only the few sealed ones that were read last keep files open.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from broker.storage.segments.segment import Segment

_WARM: Final = 2


class Segments:
    """The segments of a log, at least one. Belongs to the event loop's thread, once its log is
    open."""

    __slots__ = ("_bases", "_items", "_warm")

    def __init__(self, items: list[Segment]) -> None:
        self._items = items
        self._bases = [segment.base_offset for segment in items]
        self._warm: list[Segment] = []

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, segment: object) -> bool:
        return segment in self._items

    @property
    def first(self) -> Segment:
        return self._items[0]

    @property
    def active(self) -> Segment:
        return self._items[-1]

    @property
    def sealed(self) -> list[Segment]:
        return self._items[:-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._items)

    def holding(self, offset: int) -> Segment:
        """Returns the segment whose range includes `offset`; the first, if that starts later."""
        return self._items[max(bisect_right(self._bases, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        index = bisect_right(self._bases, segment.base_offset)
        return self._items[index] if index < len(self._items) else None

    def add(self, segment: Segment) -> None:
        self._items.append(segment)
        self._bases.append(segment.base_offset)

    def drop_first(self, count: int) -> list[Segment]:
        dropped_segments = self._items[:count]
        self._set(self._items[count:])
        return dropped_segments

    def replace(self, old: list[Segment], new: list[Segment]) -> None:
        at = self._items.index(old[0])
        self._set([*self._items[:at], *new, *self._items[at + len(old) :]])

    def _set(self, items: list[Segment]) -> None:
        self._items = items
        self._bases = [segment.base_offset for segment in items]
        self._warm = [segment for segment in self._warm if segment in items]

    def keep_warm(self, segment: Segment) -> None:
        """Notes that files of a sealed segment were opened; if too many are open, closes the
        segment opened first."""
        if segment in self._warm or segment is self._items[-1]:
            return
        self._warm.append(segment)
        if len(self._warm) > _WARM:
            self._warm.pop(0).cool()

    def rest(self) -> bool:
        """Closes all files until they are needed; returns whether that was possible."""
        while self._warm:
            self._warm.pop().cool()
        return self.active.rest()

    def let_go(self) -> None:
        self._warm.clear()
        for segment in self._items:
            segment.let_go()
