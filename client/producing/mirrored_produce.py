"""Encodes a Produce request whose batches keep their offsets, as a mirror writes them into a copy
of a topic.

It is an ordinary Produce with acks=-1 under the transactional id of mirrors (wire/mirrored.py).
Each partition gets one or more whole batches as received from the source; they are passed on as
pieces, never copied.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ground.varints import unsigned_varint
from wire.mirrored import MIRROR_ID
from wire.produce import FLEXIBLE
from wire.record_batches.batch import Buffer

_ALL: Final = -1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_NO_TAGS: Final = b"\0"


class MirroredBatches(NamedTuple):
    """The batches for one partition of a copy."""

    partition: int
    data: memoryview
    head: bytes = b""  # replaces the first batch's header


def mirrored_body(
    version: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[MirroredBatches]],
    *,
    transactional_id: str | None = MIRROR_ID,
) -> list[Buffer]:
    """Returns the request body as pieces: the fields around the batches, and the batches' own
    bytes. Without the mirrors' transactional id it is an ordinary Produce, and the target assigns
    offsets."""
    flexible = version >= FLEXIBLE
    tags = _NO_TAGS if flexible else b""
    pieces: list[Buffer] = []
    buffer = bytearray(_name(transactional_id, flexible))
    buffer += _ACKS_AND_TIMEOUT.pack(_ALL, timeout_ms)
    buffer += _count(len(topics), flexible)
    for name, partitions in topics.items():
        buffer += _name(name, flexible)
        buffer += _count(len(partitions), flexible)
        for partition, data, header in partitions:
            buffer += _INT32.pack(partition)
            buffer += _count(len(header) + len(data), flexible)
            buffer += header
            pieces += [buffer, data]
            buffer = bytearray(tags)
        buffer += tags
    pieces.append(buffer + tags)
    return pieces


def _name(name: str | None, flexible: bool) -> bytes:
    if name is None:
        return unsigned_varint(0) if flexible else _INT16.pack(-1)
    name_bytes = name.encode()
    return (
        unsigned_varint(len(name_bytes) + 1) if flexible else _INT16.pack(len(name_bytes))
    ) + name_bytes


def _count(count: int, flexible: bool) -> bytes:
    """Encodes a number of elements or bytes; compact counts are one higher, as 0 means null."""
    return unsigned_varint(count + 1) if flexible else _INT32.pack(count)
