"""Writes batches at the end of the active segment, and begins the next one when it is time.

A batch is written whole or not at all: what a short write leaves is cut off again. Where there is
no room that is `DiskFull`, and what else keeps a segment from being opened or begun is
`NotWritten`: everything is as it was. An `OSError` that comes through is one of writing a batch, or
of cutting it off again, and the log must fail; as it must where somebody else has written to the
segment, or replaced it (`Altered`). A segment is finished before the next begins; a
crash between the two leaves one that is full, or one that is empty.
"""

import os
from pathlib import Path

from broker.storage.config import LogConfig
from broker.storage.errors import NO_SPACE, DiskFull, NotWritten
from broker.storage.flush import Pending
from broker.storage.producers import ProducerStates
from broker.storage.reading import Reader
from broker.storage.segment import MAX_POSITION, UNPREPARED, Segment
from broker.storage.segments import Segments
from wire.batch import BatchHeader, stamp


class Writer:
    """The active segment of a log. Belongs to the event loop's thread."""

    __slots__ = (
        "_config", "_directory", "_fd", "_pending", "_producers", "_reader", "_segments",
        "_since_ms", "segment",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        *,
        segments: Segments,
        pending: Pending,
        reader: Reader,
        producers: ProducerStates,
        since_ms: float,
    ) -> None:
        """`since_ms` is when the active segment was first appended to, if it was."""
        self.segment = segments.active
        self._directory = directory
        self._config = config
        self._segments = segments
        self._pending = pending
        self._reader = reader
        self._producers = producers
        self._since_ms = since_ms
        self._fd = -1  # the segment's, once it is prepared

    def reconfigure(self, config: LogConfig) -> None:
        self._config = config
        self.segment.roll_at_ms = UNPREPARED

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """Stamp the batch and write it."""
        last_offset = base_offset + header.last_offset_delta
        segment = self.segment
        position = segment.size
        length = len(batch)
        if (
            position + length > segment.roll_size
            or now_ms >= segment.roll_at_ms
            or last_offset - segment.base_offset > MAX_POSITION
        ):
            segment = self._make_room(length, base_offset, last_offset, now_ms)
            position = segment.size
        stamp(batch, base_offset, leader_epoch)
        try:
            written = os.write(self._fd, batch)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            written = 0
        if written != length:
            os.ftruncate(self._fd, position)
            raise DiskFull(f"no room for a batch in {self._directory}")
        segment.size = position + length
        segment.last_append_ms = now_ms
        timestamp = header.max_timestamp
        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position > segment.index_due:
            segment.index_batch(last_offset, position, self._config.index_interval_bytes)
            if segment.index_entries >= self._config.max_index_entries:
                segment.roll_size = 0

    def _make_room(self, length: int, base_offset: int, last_offset: int, now_ms: int) -> Segment:
        """The segment that takes the next batch: this one, or a new one."""
        segment = self.segment
        try:
            if segment.roll_at_ms == UNPREPARED:
                self._prepare(segment, now_ms)
            if segment.size and (
                segment.size + length > segment.roll_size
                or now_ms >= segment.roll_at_ms
                or last_offset - segment.base_offset > MAX_POSITION
            ):
                self.roll(base_offset)
                segment = self.segment
                self._prepare(segment, now_ms)
        except OSError as error:
            raise NotWritten.because(error, f"no new segment in {self._directory}") from error
        return segment

    def _prepare(self, segment: Segment, now_ms: int) -> None:
        """Open the segment for appending, and set when the next one is to begin."""
        if segment.size == 0:
            self._since_ms = now_ms
        self._fd = segment.appendable().fd
        segment.roll_at_ms = min(self._since_ms, now_ms) + self._config.segment_ms
        full = segment.index_entries >= self._config.max_index_entries
        segment.roll_size = 0 if full else min(self._config.segment_bytes, MAX_POSITION)

    def roll(self, end_offset: int) -> None:
        """Seal the segment and begin the next. Nothing has changed if this raises."""
        sealed = self.segment
        sealed.finish()
        self.segment = Segment.create(
            self._directory, end_offset, self._config.index_interval_bytes
        )
        self._segments.add(self.segment)
        self._pending.seal(sealed, end_offset, self._producers)
        self._reader.rolled(end_offset, self.segment)
