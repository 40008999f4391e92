"""Counts what was copied of a partition for the ledger, from the headers of its batches. Pure.

Rule 1: a batch that the target has is counted once, in ascending order; repeated ones (of a
        partition that was resumed) are skipped.
Rule 2: the bytes and CRC of a batch count in the window of its base timestamp, as at every tier. So
        do its events if its maximum timestamp lies in the same window: then the batch need not be
        decompressed. Otherwise it is `spread`, and the caller may read its records' times.
Rule 3: missing offsets hold no event where the source compacts. Elsewhere they are not claimed.
        They count as an accepted gap only if the partition was resumed with one there; the reason
        for any other hole is unknown.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from ledger.counting.batches import PartitionCount
from mirror.partitions.gaps import Gap
from wire.record_batches.batch import CONTROL, LENGTH_PREFIX, LOG_APPEND_TIME, BatchHeader

MOST_SPREAD: Final = 256  # batches per partition and entry that are read for their times


class Spread(NamedTuple):
    """A batch with events in more than one window."""

    first: int
    end: int
    events: int
    base_time: int


class CopiedCount(msgspec.Struct):
    """The count of one partition since the last entry."""

    count: PartitionCount
    gap_at: int = -1  # offset of an accepted gap
    gaps: list[Gap] = []  # gaps that were skipped
    spread: list[Spread] = []

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        return self.count.weight + 64 * (len(self.gaps) + len(self.spread))

    @property
    def is_empty(self) -> bool:
        return self.count.is_empty and not self.gaps

    def add(
        self, headers: Sequence[BatchHeader], window_millis: int, *, gaps_are_empty: bool
    ) -> None:
        """Counts batches that the target has; `count.next_offset` is its previous end."""
        count = self.count
        for header in headers:
            base, length, _, _, crc, attributes, delta, base_time, max_time, *_, events = header
            end, counted_end = base + delta + 1, count.next_offset
            if end <= counted_end:
                continue
            if base > counted_end == self.gap_at and not gaps_are_empty:
                self.gaps.append(Gap(counted_end, base))
            first = min(base, counted_end) if gaps_are_empty else base
            events = min(events, delta + 1)  # the target validates this too
            if attributes & CONTROL or events <= 0:
                count.claim(first, end, 0)
                continue
            count.claim(first, end, events)
            sums = count.sums_at(base_time, window_millis)
            sums.bytes += length + LENGTH_PREFIX
            sums.crc_sum += crc
            if attributes & LOG_APPEND_TIME:
                count.sums_at(max_time, window_millis).events += events
            elif base_time // window_millis == max_time // window_millis:
                sums.events += events
            elif len(self.spread) < MOST_SPREAD:
                self.spread.append(Spread(base, end, events, base_time))
            else:
                sums.events += events

    def settle(self, batch: Spread, times: Iterable[int], window_millis: int) -> None:
        """Counts the events of a spread batch by the times of its records; the rest, by its base
        timestamp."""
        rest = batch.events
        for time in times:
            if rest:
                self.count.sums_at(time, window_millis).events += 1
                rest -= 1
        if rest:
            self.count.sums_at(batch.base_time, window_millis).events += rest
