"""Counts the record batches of a partition, for a broker's passage in the ledger. Pure.

Rule 1: every batch is counted whole, once, in ascending order. Its offsets are claimed from first
        to last.
Rule 2: events count in the window of their own time. The header is enough for that if the whole
        batch is in one window, and its producer is known to put the smallest time first
        (ledger/counting/owners.py); other batches are opened.
Rule 3: bytes and CRC of a batch count in the window of its base timestamp.
Rule 4: control batches, and what compaction removed from a batch or before it, are offsets without
        events. In a topic that is not compacted, missing offsets are not claimed: the audit reports
        them as a gap.
Rule 5: a batch with a wrong CRC is reported as damaged, not claimed. A batch with a right CRC whose
        records cannot be read was written like that: its events count in the window of its base
        timestamp, by its header.
Rule 6: agents' batches are listed with their CRCs, so that an agent's claims can be compared with
        the batches at these very offsets.

Most batches are agents', contiguous and in one window. These are counted many at a time, column by
column of their headers, at a fifth of the cost.

So in a passage, the events of all windows plus `no_events` equal the number of offsets.
"""

from collections.abc import Callable, Sequence
from itertools import islice, repeat
from operator import add, le, ne
from typing import Any, Final

import msgspec
from crc32c import crc32c

from ledger.counting.owners import Owners
from wire.errors import BatchError
from wire.mirrored import MirrorOf
from wire.record_batches.batch import (
    CONTROL,
    CRC_START,
    LENGTH_PREFIX,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
)
from wire.record_batches.records import records

Json = dict[str, Any]
RawHeader = tuple[int, ...]  # the fields of a BatchHeader

_PASSAGE, _STRETCH, _WINDOW, _DELAYS, _BATCH = 80, 16, 32, 200, 8  # bytes in an entry, about
_LONGEST_DELAY: Final = 48  # doublings of a millisecond: 8,900 years
WRONG_CRC: Final = "the CRC of the batch does not match its bytes"
_EARLIEST: Final = -(2**62)  # clients write any time, and the window starts before it


class Sums(msgspec.Struct):
    """The sums of one time window."""

    events: int = 0
    bytes: int = 0
    crc_sum: int = 0

    def add(self, batches: int, events: int, lengths: int, crc_sum: int) -> None:
        """Adds `batches` batches; `lengths` is the sum of the length fields in their headers."""
        self.events += events
        self.bytes += lengths + batches * LENGTH_PREFIX
        self.crc_sum += crc_sum


class Spoilt(msgspec.Struct, frozen=True):
    """A damaged batch: its offsets, and the reason."""

    first: int
    count: int
    reason: str


class PartitionCount(msgspec.Struct):
    """The counts of one partition since the last entry. Counting continues at `next_offset`.

    `seen` is when the batches arrived, in milliseconds; None if unknown: then delays are not
    counted.
    """

    topic: str
    topic_id: str
    partition: int
    next_offset: int
    leader_epoch: int = -1
    seen: int | None = None
    no_events: int = 0
    stretches: list[list[int]] = []  # [first, behind the last]
    windows: dict[int, Sums] = {}
    delays: list[int] = []
    spoilt: list[Spoilt] = []
    batches: list[tuple[int, int, int]] = []  # of agents: base, delta, CRC or -1
    origin: MirrorOf | None = None  # set if the topic is a mirror's copy

    @property
    def is_empty(self) -> bool:
        return not self.stretches and not self.spoilt

    @property
    def weight(self) -> int:
        """The approximate size of the counts in an entry, in bytes."""
        details = _STRETCH * (len(self.stretches) + 8 * len(self.spoilt))
        names = len(self.topic) + (0 if self.origin is None else len(str(self.origin)))
        details += _WINDOW * len(self.windows) + _BATCH * len(self.batches)
        return _PASSAGE + _DELAYS + names + details

    def claim(self, first: int, end: int, events: int) -> None:
        """Claims the offsets from `first` up to but excluding `end`, which contain `events`
        events."""
        if self.stretches and self.stretches[-1][1] == first:
            self.stretches[-1][1] = end
        else:
            self.stretches.append([first, end])
        self.no_events += end - first - events
        self.next_offset = end

    def sums_at(self, time: int, window_millis: int) -> Sums:
        """Returns the sums of the window that contains `time`."""
        time = max(time, _EARLIEST)
        start = time - time % window_millis
        sums = self.windows.get(start)
        if sums is None:
            sums = self.windows[start] = Sums()
        return sums

    def spoil(self, first: int, count: int, reason: str) -> None:
        """Notes a damaged batch at these offsets."""
        self.spoilt.append(Spoilt(first, count, reason))
        self.next_offset = max(self.next_offset, first + count)

    def late(self, times: Sequence[int], events: Sequence[int]) -> None:
        """Counts the delays of events with these times; `events` has the number of events for each
        time."""
        if self.seen is None:
            return
        lowest_delay, highest_delay = self._delay(max(times)), self._delay(min(times))
        delays = self.delays
        if highest_delay >= len(delays):
            delays.extend([0] * (highest_delay + 1 - len(delays)))
        if lowest_delay == highest_delay:
            delays[lowest_delay] += sum(events)
        else:
            for time, count in zip(times, events, strict=True):
                delays[self._delay(time)] += count

    def _delay(self, time: int) -> int:
        assert self.seen is not None
        return min(max(self.seen - time, 0).bit_length(), _LONGEST_DELAY)


class Counting:
    """Counts batches in windows of one length, and remembers which producers are agents."""

    def __init__(self, window_millis: int) -> None:
        self.window_millis = window_millis
        self.opened = 0  # batches
        self._owners = Owners()

    def count(
        self,
        into: PartitionCount,
        header: BatchHeader,
        read: Callable[[], Buffer],
        *,
        gaps_are_empty: bool,
    ) -> None:
        """Counts one batch. `read` returns all of the batch's bytes, and is called only if they are
        needed.

        `gaps_are_empty`: missing offsets before it are known to have no events.
        """
        base, length, _, _, crc, attributes, delta, base_time, max_time, *_, events = header
        end = base + delta + 1
        first = min(base, into.next_offset) if gaps_are_empty else base
        if attributes & CONTROL or events <= 0:
            into.claim(first, end, 0)
            return
        times: list[int] | None = None
        if self._owners.needs_opening(header, self.window_millis):
            batch = read()
            if crc32c(memoryview(batch)[CRC_START:]) != crc:
                into.spoil(base, delta + 1, WRONG_CRC)
                return
            times = self._times(header, batch)
        into.claim(first, end, events)
        if self._owners.names_sources(header):
            is_changed = attributes & LOG_APPEND_TIME or events <= delta
            into.batches.append((base, delta, -1 if is_changed else crc))
        sums = self._sums(into, base_time)
        sums.bytes += length + LENGTH_PREFIX
        sums.crc_sum += crc
        if times is not None:
            self._by_times(into, times)
            return
        if attributes & LOG_APPEND_TIME:
            base_time = max_time
            sums = self._sums(into, max_time)
        sums.events += events
        # The single times are unknown: take the middle for all of them.
        into.late([(base_time + max_time) // 2], [events])

    def count_by_headers(
        self, into: PartitionCount, batches: Sequence[RawHeader], *, gaps_are_empty: bool
    ) -> bool:
        """Counts batches, given in ascending order, from their headers alone; returns False if the
        headers are not enough."""
        bases, lengths, _, _, crcs, attributes, deltas, firsts, lasts, ids, epochs, _, counts = zip(
            *batches, strict=True
        )
        if not self._owners.are_agents(zip(ids, epochs, strict=True)) or min(counts) <= 0:
            return False
        if any(bits & (CONTROL | LOG_APPEND_TIME) for bits in set(attributes)):
            return False
        if any(map(le, counts, deltas)):  # compaction has removed records
            return False
        ends = list(map(add, bases, deltas))
        if not gaps_are_empty and any(map(ne, islice(bases, 1, None), map(add, ends, repeat(1)))):
            return False
        length = self.window_millis
        earliest_time, latest_time = min(firsts), max(lasts)
        is_one_window = earliest_time // length == latest_time // length == min(lasts) // length
        if not (is_one_window and max(firsts) // length == earliest_time // length):
            windows = [time // length for time in firsts]
            if windows != [time // length for time in lasts]:
                return False
            for index, window in enumerate(windows):
                self._sums(into, window * length).add(1, counts[index], lengths[index], crcs[index])
        else:
            sums = self._sums(into, earliest_time)
            sums.add(len(batches), sum(counts), sum(lengths), sum(crcs))
        first = min(bases[0], into.next_offset) if gaps_are_empty else bases[0]
        into.claim(first, ends[-1] + 1, sum(counts))
        into.batches.extend(zip(bases, deltas, crcs, strict=True))
        into.late([(begin + end) // 2 for begin, end in zip(firsts, lasts, strict=True)], counts)
        return True

    def _by_times(self, into: PartitionCount, times: list[int]) -> None:
        length = self.window_millis
        earliest_time, latest_time = min(times), max(times)
        if earliest_time // length == latest_time // length:
            self._sums(into, earliest_time).events += len(times)
        else:
            for time in times:
                self._sums(into, time).events += 1
        into.late(times, [1] * len(times))

    def _sums(self, into: PartitionCount, time: int) -> Sums:
        return into.sums_at(time, self.window_millis)

    def _times(self, header: BatchHeader, batch: Buffer) -> list[int] | None:
        """The times of the records; None if they cannot be read or are not `record_count`."""
        self.opened += 1
        times: list[int] = []
        try:
            for record in records(batch):
                if not times:
                    self._owners.learn(header, record.timestamp, record.value)
                times.append(record.timestamp)
        except BatchError:
            return None
        return times if len(times) == header.record_count else None
