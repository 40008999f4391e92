"""Many small batches of an answer at once, as far as there is nothing about them that needs care.

Where each entry is a batch of its own, looking at one after the other as objects takes longer than
everything that is done with them afterwards. So they are cut in one loop, which checks of each what
must be checked: it is of format v2, whole, behind the one before it, its CRC is right, it is no
control batch and in no transaction, and it has records. The first that is not so ends the loop, and
somebody looks at it and at what follows with all care. Pure.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from wire.batch import CONTROL, CRC_START, HEADER_SIZE, LENGTH_PREFIX, MAGIC, TRANSACTIONAL

# What of a header is looked at: base offset, length, leader epoch, magic, CRC, attributes, last
# offset delta, greatest timestamp, producer id, number of records.
_HEADER: Final = struct.Struct(">qiibIhi8xqq6xi")
_CODEC: Final = 0x07
_CARE: Final = CONTROL | TRANSACTIONAL

# A batch's producer, codec, number of records, and all of its bytes. Plain tuples, as there are
# many of them: Python's garbage collector does not look at those again.
PlainBatch = tuple[int, int, int, bytes]


class PlainBatches(NamedTuple):
    """In their order, with the greatest timestamp of each. They are the first `size` bytes of the
    answer. `next_offset` is behind them, and `leader_epoch` that of the last one."""

    batches: list[PlainBatch]
    times: list[int]
    size: int
    next_offset: int
    leader_epoch: int


def cut(answer: bytes, first: int, end: int) -> PlainBatches:
    """Those that begin at offset `first` or behind it, and before `end`."""
    batches: list[PlainBatch] = []
    times: list[int] = []
    position, last_epoch, last = 0, -1, len(answer) - HEADER_SIZE
    read, least = _HEADER.unpack_from, HEADER_SIZE - LENGTH_PREFIX
    while position <= last:
        base, length, epoch, magic, crc, attributes, delta, time, producer, count = read(
            answer, position
        )
        after = position + length + LENGTH_PREFIX
        batch = answer[position:after]
        if (
            not first <= base < end
            or length < least
            or len(batch) < length + LENGTH_PREFIX
            or magic != MAGIC
            or attributes & _CARE
            or count < 1
            or delta < 0
            or crc32c(batch[CRC_START:]) != crc
        ):
            break
        batches.append((producer, attributes & _CODEC, count, batch))
        times.append(time)
        first, position, last_epoch = base + delta + 1, after, epoch
    return PlainBatches(batches, times, position, first, last_epoch)
