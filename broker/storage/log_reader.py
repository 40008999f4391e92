"""Reads a log: the part that consumers see, and the slices of files that answer a fetch.

A consumer usually asks for the offset at which its last answer ended. A few of those ends are
remembered for each log, so that the next answer costs one index search and one header: the search
for its end, the header for the offset that begins there. Answers end at an index entry, or at the
end of the exposed part.

Compaction leaves batches without records. Many clients continue after the last record that they
have read, and would ask for ever for an offset within such a batch. So answers from a compacted log
begin and end with records, as long as there are any.

Nothing here changes a log. A failed read is an error of that read alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.storage import layout
from broker.storage.errors import BytesUnreadable, CorruptLog, InvalidBatch
from broker.storage.segments.batches import header_at
from broker.storage.segments.segment import Segment
from broker.storage.segments.segments import Segments
from broker.storage.segments.timestamps import TimestampedOffset, first_reaching, highest
from wire.framing.slices import FileSlice

_REMEMBERED: Final = 16
_NOT_FOUND: Final = -1


class LogReader:
    """Reads one log. Belongs to the event loop's thread."""

    __slots__ = (
        "_directory", "_end", "_last", "_offset", "_places", "_segments", "compacted",
    )  # fmt: skip

    _end: int
    """The exposed end's position in its segment; `_NOT_FOUND` until it is needed."""

    def __init__(self, directory: Path, segments: Segments) -> None:
        self._directory = directory
        self._segments = segments
        self.compacted = (directory / layout.COMPACTED).exists()
        self._places: dict[int, tuple[Segment, int]] = {}

    def expose(self, offset: int, segment: Segment, position: int) -> None:
        """Exposes everything before `offset`, which is at `position` of a segment."""
        next_segment = self._segments.after(segment) if position == segment.size else None
        if next_segment is not None:
            segment, position = next_segment, 0
        self._offset, self._last, self._end = offset, segment, position

    def expose_before(self, offset: int) -> None:
        """Exposes everything before `offset`, whose position is not known yet."""
        self._offset, self._last, self._end = offset, self._segments.holding(offset), _NOT_FOUND

    def _find_end(self, interval: int) -> None:
        """Done when it is needed: replicas advance more often than consumers ask."""
        if self._end == _NOT_FOUND:
            segment = self._last
            located_batch = segment.find(self._offset, segment.size, interval)
            self.expose(
                self._offset,
                segment,
                segment.size if located_batch is None else located_batch.position,
            )

    def rolled(self, end_offset: int, segment: Segment) -> None:
        """Notes that a new segment begins at the end of the log."""
        if self._offset == end_offset:
            self._last, self._end = segment, 0

    def forget(self) -> None:
        """Drops cached positions, as segments were removed or replaced."""
        self._places.clear()

    def slice(self, offset: int, max_bytes: int, interval: int) -> FileSlice | None:
        """Returns whole batches from the one that holds `offset`, or the next one; None if there is
        none."""
        return self._checked(offset, max_bytes, interval, skips=self.compacted)

    def _checked(
        self, offset: int, max_bytes: int, interval: int, *, skips: bool
    ) -> FileSlice | None:
        try:
            return self._slice(offset, max_bytes, interval, skips=skips)
        except OSError as error:
            raise self._unreadable(error) from error
        except InvalidBatch as error:
            raise self._corrupt(error) from error

    def slice_of_all(
        self, offset: int, end_offset: int, max_bytes: int, interval: int
    ) -> FileSlice | None:
        """Does what `slice` does, up to the log's end instead of the exposed end."""
        exposed_state = self._offset, self._last, self._end
        active_segment = self._segments.active
        self.expose(end_offset, active_segment, active_segment.size)
        try:
            return self._checked(offset, max_bytes, interval, skips=False)
        finally:
            self._offset, self._last, self._end = exposed_state

    def _slice(
        self, offset: int, max_bytes: int, interval: int, *, skips: bool
    ) -> FileSlice | None:
        self._find_end(interval)
        cached_place = self._places.get(offset)
        if cached_place is None or cached_place[1] >= cached_place[0].size:
            cached_place = self._find(offset, interval)
            if cached_place is None:
                return None
        record_place = self._with_records(*cached_place) if skips else None
        segment, position = record_place or cached_place
        if segment is self._last:
            end = self._end
            if position + max_bytes >= end:
                self._remember(self._offset, segment, end)
        else:
            end = segment.size
            self._segments.keep_warm(segment)
        if position + max_bytes < end:
            end = self._end_of_answer(segment, position, position + max_bytes, end, interval)
        if record_place and not (segment is self._last and end == self._end):
            end = segment.end_of_records(position, end, interval)
        return FileSlice(segment.file, position, end - position)

    def _with_records(self, segment: Segment, position: int) -> tuple[Segment, int] | None:
        """The first batch from this one on that has records; None if no exposed batch has."""
        next_segment: Segment | None = segment
        while next_segment is not None:
            end = self._end if next_segment is self._last else next_segment.size
            located_batch = next_segment.with_records(position, end)
            if located_batch is not None:
                return next_segment, located_batch.position
            self._segments.keep_warm(next_segment)
            next_segment = (
                None if next_segment is self._last else self._segments.after(next_segment)
            )
            position = 0
        return None

    def _end_of_answer(
        self, segment: Segment, position: int, limit: int, end: int, interval: int
    ) -> int:
        """The end of the whole batches that fit within `limit`; of one batch, if it is larger."""
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
        """The next fetch is likely to ask for the batch that begins here, now or later."""
        places = self._places
        if len(places) >= _REMEMBERED:
            del places[next(iter(places))]
        places[offset] = segment, position

    def _find(self, offset: int, interval: int) -> tuple[Segment, int] | None:
        segment: Segment | None = self._segments.holding(offset)
        while segment is not None:
            end = self._end if segment is self._last else segment.size
            located_batch = segment.find(offset, end, interval)
            if located_batch is not None:
                return segment, located_batch.position
            if segment is self._last:
                return None
            self._segments.keep_warm(segment)
            segment = self._segments.after(segment)
        return None

    # By time

    def first_reaching(
        self, timestamp: int, start_offset: int, interval: int
    ) -> TimestampedOffset | None:
        """Returns the first record with this timestamp or a later one; None if there is none."""
        with self._visible(interval) as visible_segments:
            return first_reaching(timestamp, visible_segments, start_offset, interval)

    def highest(self, start_offset: int, interval: int) -> TimestampedOffset | None:
        with self._visible(interval) as visible_segments:
            return highest(visible_segments, start_offset, interval)

    @contextmanager
    def _visible(self, interval: int) -> Iterator[Iterator[tuple[Segment, int]]]:
        try:
            self._find_end(interval)
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
