"""Batches of a log, and their headers."""

from wire.record_batches.batch import BatchHeader
from wire.record_batches.records import Record, build_batch


def batch(base: int, count: int = 3, text: bytes = b"x") -> bytes:
    return build_batch(
        [Record(base + at, 1_000, None, text * 50) for at in range(count)], base_offset=base
    )


def header(
    base: int, events: int, first: int = 0, last: int = 0, *, attributes: int = 0, delta: int = -1
) -> BatchHeader:
    delta = events - 1 if delta < 0 else delta
    return BatchHeader(base, 100, 0, 2, 7, attributes, delta, first, last, 1, 0, 0, events)
