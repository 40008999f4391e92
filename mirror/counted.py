"""What was copied of a partition, counted by the headers of its batches for the ledger. Pure.

Rule 1: a batch that the target has is counted once, in ascending order; what comes again (a
        partition that began anew) is passed over.
Rule 2: bytes and CRC of a batch count in the window of its base timestamp, as at every tier. Its
        events do as well if its greatest timestamp lies in the same window: then nothing is opened.
        Otherwise it is `spread`, and somebody else may look at the times of its records.
Rule 3: offsets that are not there hold no event where the source compacts. Elsewhere they are not
        claimed. They are a gap that was accepted only if the partition was begun with one there: of
        any other hole nobody knows why it is one.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from ledger.counting.batches import PartitionCount
from mirror.batches import Gap
from wire.batch import CONTROL, LENGTH_PREFIX, LOG_APPEND_TIME, BatchHeader

MOST_SPREAD: Final = 256  # batches of a partition, between two entries, that are looked into


class Spread(NamedTuple):
    """A batch whose events lie in more than one window."""

    first: int
    end: int
    events: int
    base_time: int


class CopiedCount(msgspec.Struct):
    """Of one partition, since the last entry."""

    count: PartitionCount
    gap_at: int = -1  # where a gap was accepted
    gaps: list[Gap] = []  # that were passed over
    spread: list[Spread] = []

    @property
    def weight(self) -> int:
        """Bytes, about."""
        return self.count.weight + 64 * (len(self.gaps) + len(self.spread))

    @property
    def is_empty(self) -> bool:
        return self.count.is_empty and not self.gaps

    def add(
        self, headers: Sequence[BatchHeader], window_millis: int, *, gaps_are_empty: bool
    ) -> None:
        """The target has these; `count.next_offset` is where it ended before."""
        count = self.count
        for header in headers:
            base, length, _, _, crc, attributes, delta, base_time, max_time, *_, events = header
            end, reached = base + delta + 1, count.next_offset
            if end <= reached:
                continue
            if base > reached == self.gap_at and not gaps_are_empty:
                self.gaps.append(Gap(reached, base))
            first = min(base, reached) if gaps_are_empty else base
            events = min(events, delta + 1)  # what the target has not believed either
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
        """What is spread counts by the times of its records; by its base timestamp, as far as
        these do not tell."""
        left = batch.events
        for time in times:
            if left:
                self.count.sums_at(time, window_millis).events += 1
                left -= 1
        if left:
            self.count.sums_at(batch.base_time, window_millis).events += left
