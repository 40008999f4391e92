"""What consumers see of a log, and which bytes of which file answer a fetch.

A consumer that reads on asks for the offset at which the last answer ended. Those ends are
remembered, a few per log, so that it costs one index search and one header to answer: the search
for where to end, the header to learn which offset begins there. Answers end where an index entry
points, or where the exposed part of the log does.

Nothing here changes a log. What cannot be read is an error of that read alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.storage.batches import header_at
from broker.storage.errors import BytesUnreadable, CorruptLog, InvalidBatch
from broker.storage.segment import Segment
from broker.storage.segments import Segments
from broker.storage.timestamps import TimestampedOffset, first_reaching, highest
from wire.slices import FileSlice

_REMEMBERED: Final = 16


class LogReader:
    """Belongs to the event loop's thread."""

    __slots__ = ("_directory", "_end", "_last", "_offset", "_places", "_segments")

    def __init__(self, directory: Path, segments: Segments) -> None:
        self._directory = directory
        self._segments = segments
        self._places: dict[int, tuple[Segment, int]] = {}

    def expose(self, offset: int, segment: Segment, position: int) -> None:
        """Consumers see what lies before `offset`, which is at `position` of a segment."""
        following = self._segments.after(segment) if position == segment.size else None
        if following is not None:
            segment, position = following, 0
        self._offset, self._last, self._end = offset, segment, position

    def rolled(self, end_offset: int, segment: Segment) -> None:
        """A segment begins at the end of the log; whoever sees all of that sees it too."""
        if self._offset == end_offset:
            self._last, self._end = segment, 0

    def forget(self) -> None:
        """Segments have gone, or were replaced."""
        self._places.clear()

    def slice(self, offset: int, max_bytes: int, interval: int) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, or the next behind it."""
        try:
            return self._slice(offset, max_bytes, interval)
        except OSError as error:
            raise self._unreadable(error) from error
        except InvalidBatch as error:
            raise self._corrupt(error) from error

    def _slice(self, offset: int, max_bytes: int, interval: int) -> FileSlice | None:
        place = self._places.get(offset)
        if place is None or place[1] >= place[0].size:
            place = self._find(offset, interval)
            if place is None:
                return None
        segment, position = place
        if segment is self._last:
            end = self._end
            if position + max_bytes >= end:
                self._remember(self._offset, segment, end)
        else:
            end = segment.size
            self._segments.keep_warm(segment)
        if position + max_bytes < end:
            end = self._end_of_answer(segment, position, position + max_bytes, end, interval)
        return FileSlice(segment.file, position, end - position)

    def _end_of_answer(
        self, segment: Segment, position: int, limit: int, end: int, interval: int
    ) -> int:
        """Where whole batches that must not reach beyond `limit` end; behind one, if it does."""
        boundary = segment.boundary(position, limit, interval)
        if boundary is not None:
            self._remember(boundary.header.base_offset, segment, boundary.position)
            return boundary.position
        header = header_at(segment.file, position, end)
        if header is None:
            raise InvalidBatch(position, segment.base_offset, "no batch header")
        self._remember(header.next_offset, segment, position + header.size)
        return position + header.size

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        """A batch that begins here, or will, is likely to be asked for next."""
        places = self._places
        if len(places) >= _REMEMBERED:
            del places[next(iter(places))]
        places[offset] = segment, position

    def _find(self, offset: int, interval: int) -> tuple[Segment, int] | None:
        segment: Segment | None = self._segments.holding(offset)
        while segment is not None:
            end = self._end if segment is self._last else segment.size
            found = segment.find(offset, end, interval)
            if found is not None:
                return segment, found.position
            if segment is self._last:
                return None
            self._segments.keep_warm(segment)
            segment = self._segments.after(segment)
        return None

    # By time

    def first_reaching(
        self, timestamp: int, start_offset: int, interval: int
    ) -> TimestampedOffset | None:
        """The first record with this timestamp or a later one."""
        with self._visible() as visible:
            return first_reaching(timestamp, visible, start_offset, interval)

    def highest(self, start_offset: int, interval: int) -> TimestampedOffset | None:
        """The record with the highest timestamp."""
        with self._visible() as visible:
            return highest(visible, start_offset, interval)

    @contextmanager
    def _visible(self) -> Iterator[Iterator[tuple[Segment, int]]]:
        """Segments, and up to where they are seen."""
        try:
            yield self._seen()
        except OSError as error:
            raise self._unreadable(error) from error
        except InvalidBatch as error:
            raise self._corrupt(error) from error

    def _seen(self) -> Iterator[tuple[Segment, int]]:
        for segment in self._segments:
            if segment is self._last:
                yield segment, self._end
                return
            yield segment, segment.size
            self._segments.keep_warm(segment)

    def _unreadable(self, error: OSError) -> BytesUnreadable:
        return BytesUnreadable(f"{self._directory}: {error.strerror or error}")

    def _corrupt(self, error: InvalidBatch) -> CorruptLog:
        return CorruptLog(
            f"{self._directory}: {error.reason} at byte {error.position} of the segment with "
            f"offset {error.offset}"
        )
