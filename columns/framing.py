"""Whole batches read at once: Kafka's framing of records, seen as Avro.

Both use the same zigzag varints, so the unpacked records of a batch are the items of an Avro array
(but for the count before them and the zero behind), and a record is one of Avro's:

    length long, attributes boolean (0), timestamp_delta long, offset_delta long,
    key_length long (-1) or key string, value_length long,
    magic boolean (0), schema_id float (its four bytes), body, header_count long (0)

That reads records of one schema, without headers, and all of them with keys or none: those of one
batch, or of many, one behind the other. It is believed only if these constants are what they should
be in every row, and the lengths add up to the bytes that were there; of one batch, also only if
offsets ascend. Bodies that are given one by one are framed likewise: behind each stands a mark.
Another stands behind the whole, or what follows the last body too closely could pass for what
should follow it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from columns.native import MOST_BYTES, NativeType, read
from ground.varints import long_at, long_bytes
from wire.batch import BatchHeader

_START: Final = 4096  # bytes of a batch in which its first body begins, or it is not read whole
_MARK: Final = b"\x9d\x01\xfaPenst"

_MARK_READ: Final = pa.scalar(int.from_bytes(_MARK, "little", signed=True), pa.int64())
_END: Final = b"\0" + _MARK


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch holds: offsets and times of its records, and the bodies in raw form."""

    offsets: pa.Int64Array
    times: pa.Int64Array  # of the records, milliseconds
    bodies: pa.Array


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """What is looked at before a batch is read."""

    has_key: bool
    schema_id: int


class Framing:
    """Reads what was written with one schema."""

    def __init__(self, body: NativeType) -> None:
        self._body = body
        self._without_keys = _batch_schema(body, ("key_length", "long"))
        self._with_keys = _batch_schema(body, ("key", "string"))
        self._bodies = _schema(("body", body.json), ("mark", "double"))
        self._constants = _Constants()
        self._ascending = pa.array([], pa.int64())  # for the largest batch so far

    def records(
        self, count: int, unpacked: bytes | memoryview, first: FirstRecord
    ) -> pa.StructArray | None:
        """So many records, in the fields above; None if they are not all of this form."""
        if not self._fits(count, len(unpacked)):
            return None
        schema = self._with_keys if first.has_key else self._without_keys
        records = _items(read(b"".join((long_bytes(count), unpacked, _END)), schema))
        if records is None:
            return None
        constants = self._constants.of(count, first.schema_id)
        if len(records) != count or not (
            (first.has_key or records.field("key_length").equals(constants.minus_one))
            and records.field("header_count").equals(constants.zero)
            and records.field("schema_id").view(pa.int32()).equals(constants.schema_id)
            and not records.field("magic").true_count
            and _size(records.field("length")) == len(unpacked)
        ):
            return None
        return records

    def batch(
        self, header: BatchHeader, unpacked: bytes | memoryview, first: FirstRecord
    ) -> Rows | None:
        """All records of a batch; None if they are not all of this form."""
        records = self.records(header.record_count, unpacked, first)
        if records is None:
            return None
        deltas = records.field("offset_delta")
        if not self._all_there(deltas) and not _ascend(deltas, header.last_offset_delta):
            return None
        if header.is_append_time:
            times = pa.repeat(pa.scalar(header.max_timestamp, pa.int64()), len(records))
        else:
            times = _plus(records.field("timestamp_delta"), header.base_timestamp)
        return Rows(_plus(deltas, header.base_offset), times, records.field("body"))

    def bodies(self, messages: Sequence[bytes]) -> pa.Array | None:
        """The bodies of messages of the envelope; None if one of them cannot be read."""
        if not self._fits(len(messages), sum(map(len, messages))):
            return None
        parts = [long_bytes(len(messages))]
        for message in messages:
            parts += (message[5:], _MARK)
        parts.append(_END)
        items = _items(read(b"".join(parts), self._bodies))
        if items is None:
            return None
        marks = pc.equal(items.field("mark").view(pa.int64()), _MARK_READ)
        if len(items) != len(messages) or marks.true_count < len(marks):
            return None
        return items.field("body")

    def _all_there(self, deltas: pa.Int64Array) -> bool:
        if len(self._ascending) < len(deltas):
            self._ascending = pa.array(range(len(deltas)), pa.int64())
        return bool(deltas.equals(self._ascending[: len(deltas)]))

    def _fits(self, count: int, size: int) -> bool:
        return (
            0 < count <= size
            and count * (self._body.width + 80) + size * self._body.spread <= MOST_BYTES
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """What columns of records are, if all is as expected."""

    minus_one: pa.Int64Array
    zero: pa.Int64Array
    schema_id: pa.Int32Array


class _Constants:
    """Made for the most records so far; others take a part of them."""

    def __init__(self) -> None:
        self._ids: dict[int, _Columns] = {}

    def of(self, count: int, schema_id: int) -> _Columns:
        made = self._ids.get(schema_id)
        if made is None or len(made.zero) < count:
            number = int.from_bytes(schema_id.to_bytes(4, "big"), "little", signed=True)
            made = self._ids[schema_id] = _Columns(
                pa.repeat(pa.scalar(-1, pa.int64()), count),
                pa.repeat(pa.scalar(0, pa.int64()), count),
                pa.repeat(pa.scalar(number, pa.int32()), count),
            )
        if len(made.zero) == count:
            return made
        return _Columns(
            made.minus_one[:count],
            made.zero[:count],
            made.schema_id[:count],
        )


def _plus(numbers: pa.Int64Array, number: int) -> pa.Int64Array:
    # Without its type, a scalar costs ten times what the addition does.
    return pc.add(numbers, pa.scalar(number, pa.int64()))


def _batch_schema(body: NativeType, key: tuple[str, str]) -> str:
    return _schema(
        ("length", "long"),
        ("attributes", "boolean"),
        ("timestamp_delta", "long"),
        ("offset_delta", "long"),
        key,
        ("value_length", "long"),
        ("magic", "boolean"),
        ("schema_id", "float"),
        ("body", body.json),
        ("header_count", "long"),
    )


def _schema(*fields: tuple[str, Any]) -> str:
    items = _record("Item", *fields)
    array = {"type": "array", "items": items}
    return json.dumps(_record("Items", ("items", array), ("mark", "double")))


def _items(found: pa.RecordBatch | None) -> pa.StructArray | None:
    """If they end where they should."""
    if found is None or found.column(1).view(pa.int64())[0] != _MARK_READ:
        return None
    return found.column(0).values


def _record(name: str, *fields: tuple[str, Any]) -> Any:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields],
    }


def _size(lengths: pa.Int64Array) -> int:
    """Bytes of records with these lengths, together with the lengths themselves."""
    bounds = pc.min_max(lengths).as_py()
    if bounds["min"] < 0:
        return -1
    total = pc.sum(lengths).as_py() + len(lengths)
    least = 64
    while bounds["max"] >= least:
        larger = (
            len(lengths)
            if bounds["min"] >= least
            else pc.sum(pc.greater_equal(lengths, least)).as_py()
        )
        total += larger
        least <<= 7
    return int(total)


def _ascend(deltas: pa.Int64Array, last: int) -> bool:
    """As in a compacted batch, where some are missing."""
    inside = deltas[0].as_py() >= 0 and deltas[-1].as_py() <= last
    return inside and bool(pc.all(pc.less(deltas[:-1], deltas[1:])).as_py() is not False)


def first_record(unpacked: bytes | memoryview) -> FirstRecord | None:
    """None if it has not the form that is read whole."""
    start = bytes(unpacked[:_START])
    try:
        at = long_at(start, 0)[1] + 1  # length, attributes
        at = long_at(start, long_at(start, at)[1])[1]  # timestamp, offset
        key_length, at = long_at(start, at)
        at = long_at(start, at + max(key_length, 0))[1]  # key, the value's length
        if key_length < -1 or start[at] or len(start) < at + 5:
            return None
    except (IndexError, ValueError):
        return None
    return FirstRecord(key_length >= 0, int.from_bytes(start[at + 1 : at + 5], "big"))
