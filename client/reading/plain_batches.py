"""Splits many small batches from a fetch answer at once, as far as they are plain.

Where every batch has few records, handling each as an object costs more than all later processing.
So they are cut in one loop, which checks of each batch that it has format v2, is complete, follows
the one before, has the right CRC and at least one record, and is neither a control batch nor part
of a transaction. The loop ends at the first other batch; the caller handles the rest one by one.
Pure.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from wire.record_batches.batch import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    TRANSACTIONAL,
)

# The header fields that are read: base offset, length, leader epoch, magic, CRC, attributes, last
# offset delta, greatest timestamp, producer id, number of records.
_HEADER: Final = struct.Struct(">qiibIhi8xqq6xi")
_CODEC: Final = 0x07
_CARE: Final = CONTROL | TRANSACTIONAL

# Producer id, codec, number of records, and all bytes of a batch. Plain tuples, because there are
# many, and Python's garbage collector stops tracking them.
PlainBatch = tuple[int, int, int, bytes]


class PlainBatches(NamedTuple):
    """Batches in order, with the greatest timestamp of each. They are the first `size` bytes of the
    answer; `next_offset` follows them, and `leader_epoch` is that of the last one."""

    batches: list[PlainBatch]
    times: list[int]
    size: int
    next_offset: int
    leader_epoch: int


def cut(answer: bytes, first: int, end: int) -> PlainBatches:
    """Splits off the batches whose base offset is `first` or later, and before `end`."""
    batches: list[PlainBatch] = []
    timestamps: list[int] = []
    position, last_epoch, last_position = 0, -1, len(answer) - HEADER_SIZE
    unpack_header, shortest_length = _HEADER.unpack_from, HEADER_SIZE - LENGTH_PREFIX
    while position <= last_position:
        base, length, epoch, magic, crc, attributes, delta, time, producer, count = unpack_header(
            answer, position
        )
        batch_end = position + length + LENGTH_PREFIX
        batch = answer[position:batch_end]
        if (
            not first <= base < end
            or length < shortest_length
            or len(batch) < length + LENGTH_PREFIX
            or magic != MAGIC
            or attributes & _CARE
            or count < 1
            or delta < 0
            or crc32c(batch[CRC_START:]) != crc
        ):
            break
        batches.append((producer, attributes & _CODEC, count, batch))
        timestamps.append(time)
        first, position, last_epoch = base + delta + 1, batch_end, epoch
    return PlainBatches(batches, timestamps, position, first, last_epoch)
