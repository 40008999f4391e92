"""The body of a Produce request, as pieces: what lies around the batches, and their own bytes.

The same bytes as `wire.messages.produce` through `wire.codec`, which the tests hold it against; but
that copies each batch several times, and a request of megabytes takes as much memory again.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from client.delivery import Acks, Stamped
from wire.batch import Buffer
from wire.primitives import unsigned_varint
from wire.produce import FLEXIBLE

_NO_TRANSACTION: Final = b"\xff\xff"
_NO_TRANSACTION_FLEXIBLE: Final = b"\x00"
_NO_TAGS: Final = b"\x00"
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def produce_body(
    version: int, acks: Acks, timeout_ms: int, topics: Mapping[str, Sequence[Stamped]]
) -> list[Buffer]:
    """One batch each of some partitions of these topics."""
    flexible = version >= FLEXIBLE
    pieces: list[Buffer] = []
    around = bytearray(_NO_TRANSACTION_FLEXIBLE if flexible else _NO_TRANSACTION)
    around += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    around += _count(len(topics), flexible)
    for name, batches in topics.items():
        encoded = name.encode()
        around += unsigned_varint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))
        around += encoded
        around += _count(len(batches), flexible)
        for batch in batches:
            around += _INT32.pack(batch.batch.target.partition)
            around += _count(batch.batch.size, flexible)
            around += batch.head
            pieces += [around, batch.body]
            around = bytearray(_NO_TAGS if flexible else b"")
        around += _NO_TAGS if flexible else b""
    pieces.append(around + (_NO_TAGS if flexible else b""))
    return pieces


def _count(count: int, flexible: bool) -> bytes:
    """A number of elements or of bytes; compact ones are one higher, as 0 stands for null."""
    return unsigned_varint(count + 1) if flexible else _INT32.pack(count)
