"""Which bytes of which file answer a fetch.

A consumer that reads on asks for the offset at which the last answer ended. Those ends are
remembered, a few per log, so that it costs one index search and one header to answer: the search
for where to end, the header to learn which offset begins there. Answers end where an index entry
points, or where the exposed part of the log does.
"""

from typing import Final, NamedTuple

from broker.storage.batches import header_at
from broker.storage.errors import InvalidBatch
from broker.storage.segment import Segment
from broker.storage.segments import Segments
from wire.slices import FileSlice

_REMEMBERED: Final = 16


class Exposed(NamedTuple):
    """How far consumers see: the offset, and where it lies."""

    offset: int
    segment: Segment
    position: int


class Reader:
    """Belongs to the event loop's thread."""

    __slots__ = ("_places", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._places: dict[int, tuple[Segment, int]] = {}

    def forget(self) -> None:
        """Segments have gone, or were replaced."""
        self._places.clear()

    def slice(
        self, offset: int, max_bytes: int, exposed: Exposed, interval: int
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, or the next behind it."""
        place = self._places.get(offset)
        if place is None or place[1] >= place[0].size:
            place = self._find(offset, exposed, interval)
            if place is None:
                return None
        segment, position = place
        if segment is exposed.segment:
            end = exposed.position
            if position + max_bytes >= end:
                self.remember(exposed.offset, segment, end)
        else:
            end = segment.size
            self._segments.keep_warm(segment)
        if position + max_bytes < end:
            end = self._end(segment, position, position + max_bytes, end, interval)
        return FileSlice(segment.file, position, end - position)

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """A batch that begins here, or will, is likely to be asked for next."""
        places = self._places
        if len(places) >= _REMEMBERED:
            del places[next(iter(places))]
        places[offset] = segment, position

    def _end(self, segment: Segment, position: int, limit: int, end: int, interval: int) -> int:
        """Where an answer of whole batches that must not go beyond `limit` ends."""
        boundary = segment.boundary(position, limit, interval)
        if boundary is not None:
            self.remember(boundary.header.base_offset, segment, boundary.position)
            return boundary.position
        header = header_at(segment.file, position, end)
        if header is None:
            raise InvalidBatch(position, segment.base_offset, "no batch header")
        self.remember(header.next_offset, segment, position + header.size)
        return position + header.size

    def _find(self, offset: int, exposed: Exposed, interval: int) -> tuple[Segment, int] | None:
        segment: Segment | None = self._segments.holding(offset)
        while segment is not None:
            end = exposed.position if segment is exposed.segment else segment.size
            found = segment.find(offset, end, interval)
            if found is not None:
                return segment, found.position
            if segment is exposed.segment:
                return None
            self._segments.keep_warm(segment)
            segment = self._segments.after(segment)
        return None
