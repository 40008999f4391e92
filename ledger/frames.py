"""Unpacks the records of many batches together, so that one native call can decode them all.

Concatenated zstd frames unpack to their concatenated contents, and records of several batches can
be concatenated, too (columns/native.py reads them). Batches that must be unpacked one by one raise
NotTogether.

Pure.
"""

from collections.abc import Sequence
from typing import Final, Self

import cramjam
import msgspec
import pyarrow as pa

from client.reading.plain_batches import PlainBatch
from wire.record_batches.batch import HEADER_SIZE
from wire.record_batches.compression import Codec

_RATIO: Final = 16  # batches that unpack to more are not read together
_SLACK: Final = 1024 * 1024


class NotTogether(Exception):
    """The batches cannot be decoded together, only one by one."""


class Frames(msgspec.Struct, frozen=True):
    """The records of several batches, unpacked."""

    count: int
    data: bytes | memoryview

    @classmethod
    def of(cls, batches: Sequence[PlainBatch]) -> Self:
        codecs = {codec for _, codec, _, _ in batches}
        if not codecs <= {Codec.NONE, Codec.ZSTD}:
            raise NotTogether
        data: bytes | memoryview = b""
        for codec in codecs:
            records = b"".join(
                [batch[HEADER_SIZE:] for _, own_codec, _, batch in batches if own_codec == codec]
            )
            plain_records = records if codec == Codec.NONE else _unpacked(records)
            data = b"".join((data, plain_records)) if data else plain_records
        return cls(sum([count for _, _, count, _ in batches]), data)


def _unpacked(frames: bytes) -> bytes | memoryview:
    if not frames:
        return b""
    # Most of it is never used, and filling it with zeros would take longer than unpacking.
    buffer = pa.allocate_buffer(len(frames) * _RATIO + _SLACK)
    try:
        size = cramjam.zstd.decompress_into(frames, buffer)
    except cramjam.DecompressionError:
        raise NotTogether from None
    return memoryview(buffer)[:size]
