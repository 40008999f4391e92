"""Builds a finished record batch: frames stretches of events, compresses, adds the header. Pure."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from crc32c import crc32c

from agent.accounting.runs import WindowCount
from agent.configuration.config import BatchCompression
from agent.encoding.batches.compression import compressed
from agent.encoding.batches.framing import Stretch, framed
from client.producing.delivery import Batch, TopicPartition
from wire.record_batches.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
)
from wire.record_batches.compression import Codec

_CODECS: Final = {
    BatchCompression.NONE: Codec.NONE,
    BatchCompression.GZIP: Codec.GZIP,
    BatchCompression.SNAPPY: Codec.SNAPPY,
    BatchCompression.LZ4: Codec.LZ4,
    BatchCompression.ZSTD: Codec.ZSTD,
}
_FEW: Final = 6


def build(
    target: TopicPartition, stretches: Sequence[Stretch], compression: BatchCompression
) -> Batch:
    """Builds a batch of one or more events. Its base timestamp is the smallest, so that the base
    and maximum timestamps show whether all events lie in one window."""
    codec = _CODECS[compression]
    base_time = min(stretch.earliest for stretch in stretches)
    count = sum(map(len, stretches))
    body = compressed(codec, framed(stretches, base_time))
    header = HEADER.pack(
        *(0, HEADER_SIZE - LENGTH_PREFIX + len(body), -1, MAGIC, 0, codec, count - 1),
        *(base_time, max(stretch.latest for stretch in stretches)),
        *(NO_PRODUCER, -1, NO_SEQUENCE, count),
    )
    crc = crc32c(body, crc32c(header[CRC_START:])).to_bytes(4, "big")
    return Batch(target, b"".join((header[: CRC_START - 4], crc, header[CRC_START:], body)))


def window_counts(stretches: Sequence[Stretch], window_millis: int) -> tuple[WindowCount, ...]:
    """The number of events in each window, in ascending order."""
    counts: Counter[int] = Counter()
    for stretch in stretches:
        first, last = stretch.earliest // window_millis, stretch.latest // window_millis
        if first == last:
            counts[first] += len(stretch)
            continue
        bounds = range((first + 1) * window_millis, last * window_millis + 1, window_millis)
        counts.update(dict(_counted(stretch, range(first, last + 1), bounds)))
    return tuple(
        WindowCount(window * window_millis, counts[window])
        for window in sorted(counts)
        if counts[window]
    )


def delay_counts(stretches: Sequence[Stretch], now_millis: int) -> tuple[int, ...]:
    """The number of events by their delay until now: below 1 ms, below 2 ms, 4 ms, 8 ms and so
    on."""
    counts: Counter[int] = Counter()
    for stretch in stretches:
        highest_bit, lowest_bit = (
            _bits(now_millis - stretch.earliest),
            _bits(now_millis - stretch.latest),
        )
        if highest_bit == lowest_bit:
            counts[highest_bit] += len(stretch)
            continue
        bounds = [now_millis - (1 << bits - 1) + 1 for bits in range(highest_bit, lowest_bit, -1)]
        counts.update(dict(_counted(stretch, range(highest_bit, lowest_bit - 1, -1), bounds)))
    return tuple(counts[bits] for bits in range(max(counts) + 1))


def _bits(delay: int) -> int:
    return delay.bit_length() if delay > 0 else 0


def _counted(
    stretch: Stretch, classes: Sequence[int], bounds: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The number of times in each class; each bound begins the next class, and there is one at
    least. With few bounds, comparing all times with each bound is faster than bisecting for each
    time."""
    times = stretch.times
    assert not isinstance(times, int)
    if len(bounds) > _FEW:
        counts = Counter([bisect_right(bounds, time) for time in times])
        yield from ((classes[index], count) for index, count in counts.items())
        return
    previous_count = len(times)
    for index, bound in enumerate(bounds):
        remaining_count = sum(map(bound.__le__, times))
        yield classes[index], previous_count - remaining_count
        previous_count = remaining_count
    yield classes[-1], previous_count


__all__ = ["build", "delay_counts", "window_counts"]
