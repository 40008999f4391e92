"""The batches that a slice has read, with their digests, packed into bytes for its report.

Each batch takes 64 bytes: its offsets, the earliest and the latest time of its rows, and the digest
of its content (ledger/passage_digests.py). All batches have one, whatever their headers say:
whoever can alter a batch can alter its producer, too.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, NewType

_PACKED: Final = struct.Struct("<qqqq32s")
PACKED_BYTES: Final = _PACKED.size

PackedBatches = NewType("PackedBatches", bytes)

MOST_BATCHES: Final = 200_000  # of one slice; further ones are not compared
UNKNOWN_CONTENT: Final = bytes(32)  # of a batch that compaction has rewritten
NO_MESSAGES: Final = b"\1" * 32  # of control records and aborted transactions, which no agent sends


class ReadBatch(NamedTuple):
    """A batch at the offsets from `first` up to but excluding `end`, with rows of times from
    `from_time` to `to_time`, inclusive."""

    first: int
    end: int
    from_time: int  # milliseconds
    to_time: int
    digest: bytes


def packed(batch: ReadBatch) -> bytes:
    return _PACKED.pack(*batch)


def unpacked(data: bytes) -> Iterator[ReadBatch]:
    """Returns packed batches. Raises struct.error if the data is not a whole number of them."""
    return map(ReadBatch._make, _PACKED.iter_unpack(data))
