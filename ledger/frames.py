"""The records of many batches as one array of Avro, so that one native call can decode them all.

Frames of zstd that follow one another unpack to what they hold, one after the other. And Kafka
frames records with the same varints as Avro, so records that follow one another are an array of
Avro: `Frames` makes it, `records_schema` says of what. It is believed only if every record is as it
is expected, without key and headers, of the one schema, and their sizes are the bytes that were
there (`check_records`): else NotTogether, and somebody reads them one by one.

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import cramjam
import pyarrow as pa
import pyarrow.compute as pc

from client.plain_batches import PlainBatch
from ground.varints import long_bytes
from wire.batch import HEADER_SIZE
from wire.compression import Codec

_RATIO: Final = 16  # what unpacks to more is not looked at together
_SLACK: Final = 1024 * 1024


class NotTogether(Exception):
    """These batches must be read one by one."""


@dataclass(frozen=True, slots=True)
class Frames:
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
            packed = b"".join([batch[HEADER_SIZE:] for _, its, _, batch in batches if its == codec])
            unpacked = packed if codec == Codec.NONE else _unpacked(packed)
            data = b"".join((data, unpacked)) if data else unpacked
        return cls(sum([count for _, _, count, _ in batches]), data)

    def as_array(self) -> bytes:
        """As Avro has an array: how many, all of them, and no more."""
        return b"".join((long_bytes(self.count), self.data, b"\0"))


def records_schema(body: Any) -> Any:
    """Of such an array, whose records have values in Confluent's format with this body."""

    def field(name: str, type_: Any) -> Any:
        return {"name": name, "type": type_}

    record = [
        field("length", "long"),
        field("attributes", "boolean"),
        field("timestamp_delta", "long"),
        field("offset_delta", "long"),
        field("key_length", "long"),
        field("value_length", "long"),
        field("magic", "boolean"),
        field("schema_id", "float"),
        field("body", body),
        field("header_count", "long"),
    ]
    items = {"type": "record", "name": "RecordOfBatch", "fields": record}
    array = {"type": "array", "items": items}
    return {"type": "record", "name": "Batch", "fields": [field("records", array)]}


def check_records(records: pa.StructArray, frames: Frames, schema_id: int) -> None:
    """Raises NotTogether unless that is what these frames hold, all of that schema."""
    ids = pc.unique(records.field("schema_id").view(pa.int32())).to_pylist()
    wanted = int.from_bytes(schema_id.to_bytes(4, "big"), "little", signed=True)
    lengths = records.field("length")
    believed = (
        len(records) == frames.count
        and ids == [wanted]
        and pc.unique(records.field("key_length")).to_pylist() == [-1]
        and not pc.any(records.field("magic")).as_py()
        and not pc.any(pc.not_equal(records.field("header_count"), 0)).as_py()
        and pc.sum(lengths).as_py() + _varint_sizes(lengths) == len(frames.data)
    )
    if not believed:
        raise NotTogether


def _unpacked(frames: bytes) -> bytes | memoryview:
    if not frames:
        return b""
    # Most of it is never touched: memory that is made of zeros first takes longer than unpacking.
    room = pa.allocate_buffer(len(frames) * _RATIO + _SLACK)
    try:
        size = cramjam.zstd.decompress_into(frames, room)
    except cramjam.DecompressionError:
        raise NotTogether from None
    return memoryview(room)[:size]


def _varint_sizes(numbers: pa.Int64Array) -> int:
    """How many bytes all these take; none is negative, or the sum does not come out."""
    size = len(numbers)
    for bits in range(6, 34, 7):
        size += pc.sum(pc.greater_equal(numbers, 1 << bits)).as_py()
    return size
