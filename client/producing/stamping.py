"""Writes a producer's numbers into the header of a finished batch.

The numbers have a fixed position in the header. The CRC covers them and is recomputed. The bytes
after the header are not copied.
"""

import struct
from typing import Final

from crc32c import crc32c

from client.producing.delivery import Batch, Stamped
from client.producing.identity import Identity
from wire.record_batches.batch import CRC_START, HEADER_SIZE

_CRC_AT: Final = 17
_PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qhi")  # id, epoch, base sequence


def stamped(batch: Batch, identity: Identity, base_sequence: int) -> Stamped:
    """Returns the batch with this identity, and with this sequence for its first record."""
    header = bytearray(batch.data[:HEADER_SIZE])
    _PRODUCER.pack_into(header, _PRODUCER_AT, *identity, base_sequence)
    crc = crc32c(memoryview(batch.data)[HEADER_SIZE:], crc32c(header[CRC_START:]))
    struct.pack_into(">I", header, _CRC_AT, crc)
    return Stamped(batch, identity, base_sequence, bytes(header))
