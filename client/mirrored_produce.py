"""A Produce whose batches keep their offsets: what a mirror writes into a copy of a topic.

It is an ordinary Produce with acks=-1 under the transactional id of mirrors (wire/mirrored.py).
Each partition has one or several whole batches, as they came from the source; they are handed over
as pieces and never copied.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ground.varints import unsigned_varint
from wire.batch import Buffer
from wire.mirrored import MIRROR_ID
from wire.produce import FLEXIBLE

_ALL: Final = -1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_NO_TAGS: Final = b"\0"


class MirroredBatches(NamedTuple):
    """What goes into one partition of a copy."""

    partition: int
    data: memoryview
    head: bytes = b""  # in place of what was the data's own header


def mirrored_body(
    version: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[MirroredBatches]],
    *,
    transactional_id: str | None = MIRROR_ID,
) -> list[Buffer]:
    """The body of a request, as pieces: what lies around the batches, and their own bytes. Without
    the id it is an ordinary Produce, whose batches get offsets from the target."""
    flexible = version >= FLEXIBLE
    tags = _NO_TAGS if flexible else b""
    pieces: list[Buffer] = []
    around = bytearray(_name(transactional_id, flexible))
    around += _ACKS_AND_TIMEOUT.pack(_ALL, timeout_ms)
    around += _count(len(topics), flexible)
    for name, partitions in topics.items():
        around += _name(name, flexible)
        around += _count(len(partitions), flexible)
        for partition, data, head in partitions:
            around += _INT32.pack(partition)
            around += _count(len(head) + len(data), flexible)
            around += head
            pieces += [around, data]
            around = bytearray(tags)
        around += tags
    pieces.append(around + tags)
    return pieces


def _name(name: str | None, flexible: bool) -> bytes:
    if name is None:
        return unsigned_varint(0) if flexible else _INT16.pack(-1)
    encoded = name.encode()
    return (unsigned_varint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))) + encoded


def _count(count: int, flexible: bool) -> bytes:
    """A number of elements or of bytes; compact ones are one higher, as 0 stands for null."""
    return unsigned_varint(count + 1) if flexible else _INT32.pack(count)
