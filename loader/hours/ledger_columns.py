"""Entries of the ledger as columns: the records of many batches, decoded in one native call.

Frames of zstd that follow one another unpack to what they hold, one after the other. And Kafka
frames records with the same varints as Avro, so records that follow one another are an array of
Avro. It is believed only if every record is as it is expected, without key and headers, of the one
schema, and their sizes are the bytes that were there: else NotTogether, and somebody reads them one
by one.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

import cramjam
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro

from ledger.agents import AgentSaid, Beat, HostRetired, Said
from schemas.event_schemas import LEDGER
from schemas.parsing import AvroSchema
from wire.batch import HEADER_SIZE
from wire.compression import Codec

VERSION: Final = 1  # of what an entry's fields mean

_RATIO: Final = 16  # what unpacks to more is not looked at together
_SLACK: Final = 1024 * 1024
_BETWEEN: Final = "\n"  # names of topics
_NO_TOPICS: Final[frozenset[str]] = frozenset()
_COLUMNS: Final = {
    "time": pa.int64(),
    "host": pa.string(),
    "source": pa.string(),
    "seq": pa.int64(),
    "version": pa.int32(),
    "tier": pa.string(),
}


# A batch that waits to be read: its producer, codec, number of records, and all of its bytes. Plain
# tuples, as there are many of them: Python's garbage collector does not look at those again.
Gathered = tuple[int, int, int, bytes]


class NotTogether(Exception):
    """These batches must be read one by one."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The records of several batches, unpacked."""

    count: int
    data: bytes

    @classmethod
    def of(cls, batches: Iterable[Gathered]) -> Self:
        packed: dict[int, list[bytes]] = {}
        count = 0
        for _, codec, records, data in batches:
            packed.setdefault(codec, []).append(data[HEADER_SIZE:])
            count += records
        plain = packed.pop(Codec.NONE, [])
        frames = b"".join(packed.pop(Codec.ZSTD, []))
        if packed:
            raise NotTogether
        return cls(count, b"".join([_unpacked(frames), *plain]) if plain else _unpacked(frames))


@dataclass(frozen=True, slots=True)
class Found:
    said: list[Said]
    later_versions: int


@dataclass(frozen=True, slots=True)
class ColumnsOfLedger:
    """Reads what was written with one schema."""

    schema_id: int
    text: str  # of an array of records with such entries

    @classmethod
    def of(cls, schema: AvroSchema, schema_id: int) -> Self | None:
        """None if entries of that schema are not to be read together."""
        body = _without_logical_types(json.loads(schema.resolved_text))
        if schema.full_name != LEDGER or _has_bytes(body):
            return None
        return cls(schema_id, json.dumps(_records_of(body)))

    def read(self, frames: Frames) -> Found:
        if not frames.count:
            return Found([], 0)
        records = self._records(frames)
        body = records.field("body")
        try:
            return _found(body)
        except (KeyError, ValueError, pa.ArrowException):  # or a string is not UTF-8
            raise NotTogether from None

    def _records(self, frames: Frames) -> pa.StructArray:
        data = b"".join((_varint(frames.count), frames.data, b"\0"))
        try:
            records = pyruhvro.deserialize_array([data], self.text).column(0).values
        except (ValueError, RuntimeError, OverflowError):
            raise NotTogether from None
        ids = pc.unique(records.field("schema_id").view(pa.int32())).to_pylist()
        wanted = int.from_bytes(self.schema_id.to_bytes(4, "big"), "little", signed=True)
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
        return records


def _found(body: pa.StructArray) -> Found:
    """What counts in these entries."""
    header = body.field("header")
    places = dict.fromkeys(("time", "host", "source", "seq"), header)
    columns = {name: places.get(name, body).field(name) for name in _COLUMNS}
    if any(columns[name].type != wanted for name, wanted in _COLUMNS.items()):
        raise NotTogether
    known = pc.less_equal(columns["version"], VERSION)
    agents = pc.and_(known, pc.equal(columns["tier"], "agent"))
    beats = body.field("heartbeats")
    beating = pc.and_(agents, pc.greater(pc.list_value_length(beats), 0))
    operators = pc.and_(known, pc.equal(columns["tier"], "operator"))
    chosen = _chosen(columns["source"], columns["seq"], beats, beating)
    taken = pa.array(chosen, pa.int64())
    source, host, seq, time = (
        columns[name].take(taken).to_pylist() for name in ("source", "host", "seq", "time")
    )
    mine = _beats(beats.take(taken))
    said: list[Said] = list(map(AgentSaid, source, host, seq, time, mine))
    for row in _places(operators):
        at = columns["time"][row].as_py()
        said += [
            HostRetired(each["host"], each["agent"], each["since"], at)
            for each in body.field("retired")[row].as_py()
        ]
    return Found(said, len(body) - (pc.sum(known).as_py() or 0))


def _beats(beats: pa.ListArray) -> list[tuple[Beat, ...]]:
    flat = beats.flatten()
    until = flat.field("until").to_pylist()
    named = pc.binary_join(flat.field("topics"), _BETWEEN).dictionary_encode()
    sets = [
        frozenset(names.split(_BETWEEN)) if names else _NO_TOPICS
        for names in named.dictionary.to_pylist()
    ]
    topics = [sets[each] for each in named.indices.to_pylist()]
    found, at = [], 0
    for length in pc.list_value_length(beats).to_pylist():
        found.append(tuple(map(Beat, until[at : at + length], topics[at : at + length])))
        at += length
    return found


def _chosen(
    source: pa.StringArray, seq: pa.Int64Array, beats: pa.ListArray, beating: pa.BooleanArray
) -> list[int]:
    """Entries that name topics, or say that they have no time, and of each journal the last one
    before each of those, and the last of all."""
    flat = beats.flatten()
    names = pc.greater(pc.list_value_length(flat.field("topics")), 0)
    telling = pc.or_(names, pc.less_equal(flat.field("until"), 0))
    tell = set(pc.unique(pc.list_parent_indices(beats).filter(telling)).to_pylist())
    rows = pc.indices_nonzero(beating)
    chosen: list[int] = []
    last: dict[str, tuple[int, int]] = {}
    columns = (rows.to_pylist(), source.take(rows).to_pylist(), seq.take(rows).to_pylist())
    for row, journal, number in zip(*columns, strict=True):
        if row in tell:
            chosen.append(row)
            chosen += last.pop(journal, ())[1:]
        elif journal in last and number < last[journal][0]:
            chosen.append(row)  # it came again
        else:
            last[journal] = number, row
    return sorted([*chosen, *(row for _, row in last.values())])


def _places(mask: pa.BooleanArray) -> list[int]:
    return pc.indices_nonzero(mask).to_pylist()  # type: ignore[no-any-return]


def _unpacked(frames: bytes) -> bytes:
    if not frames:
        return b""
    room = bytearray(len(frames) * _RATIO + _SLACK)
    try:
        size = cramjam.zstd.decompress_into(frames, room)
    except cramjam.DecompressionError:
        raise NotTogether from None
    return bytes(memoryview(room)[:size])


def _varint(number: int) -> bytes:
    rest, found = number << 1, bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _varint_sizes(numbers: pa.Int64Array) -> int:
    """How many bytes all these take; none is negative, or the sum does not come out."""
    size = len(numbers)
    for bits in range(6, 34, 7):
        size += pc.sum(pc.greater_equal(numbers, 1 << bits)).as_py()
    return size


def _records_of(body: Any) -> Any:
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


def _without_logical_types(json_: Any) -> Any:
    if isinstance(json_, dict):
        return {
            key: _without_logical_types(value)
            for key, value in json_.items()
            if key not in {"logicalType", "doc", "default"}
        }
    if isinstance(json_, list):
        return [_without_logical_types(each) for each in json_]
    return json_


def _has_bytes(type_: Any) -> bool:
    """Types that the native decoder does not take."""
    if isinstance(type_, str):
        return type_ in {"bytes", "fixed"}
    if isinstance(type_, list):
        return any(map(_has_bytes, type_))
    inner = [type_[key] for key in ("type", "items", "values") if key in type_]
    return any(map(_has_bytes, (*inner, *type_.get("fields", ()))))
