"""Batches as producers send them, and a decoder for them, for tests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.reading.fetcher import FetchedBatch
from loader.config import HeaderColumns
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.columns import Columns
from loader.decoding.decoded import Decoded
from schemas.envelope import Encoder
from schemas.errors import RegistryRefused
from schemas.parsing import AvroSchema, parse
from wire.record_batches.batch import read_header
from wire.record_batches.records import Codec, Record, build_batch

TIME = 1_795_132_800_123


def fields_of(fields: Iterable[Any]) -> list[Any]:
    """Names with their types, or whole fields."""
    return [
        each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields
    ]


def record(name: str, *fields: Any, **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": fields_of(fields), **more}


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def map_of(values: Any) -> Any:
    return {"type": "map", "values": values}


def fixed(size: int, name: str = "", **more: Any) -> Any:
    return {"type": "fixed", "name": "F", "size": size, "logicalType": name, **more}


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


def logical(of: str, name: str, **more: Any) -> Any:
    return {"type": of, "logicalType": name, **more}


def schema(*fields: Any, name: str = "R", **more: Any) -> AvroSchema:
    """Of a record."""
    return parse(json.dumps(record(name, *fields, **more)), strict=False)


class Known:
    """A registry's schemas, without a registry; counts what it is asked."""

    def __init__(self, schemas: Mapping[int, AvroSchema]) -> None:
        self.schemas = dict(schemas)
        self.asked: list[int] = []

    def schema(self, schema_id: int) -> AvroSchema:
        self.asked.append(schema_id)
        if schema_id not in self.schemas:
            raise RegistryRefused(404, 40403, f"Schema {schema_id} not found")
        return self.schemas[schema_id]


def columns_of(
    reader: AvroSchema, header: HeaderColumns = HeaderColumns.FLAT, *, with_cluster: bool = False
) -> Columns:
    return Columns(reader, header=header, with_cluster=with_cluster)


def decoder(
    columns: Columns, schemas: Mapping[int, AvroSchema], times: tuple[int, int] | None = None
) -> BatchDecoder:
    return BatchDecoder(
        columns, Known(schemas), topic="orders", partition=3, cluster="dc1", times=times
    )


def messages(schema: AvroSchema, schema_id: int, events: Iterable[Any]) -> list[bytes]:
    return Encoder(schema, schema_id).encode_many(events)


def records_of(values: Iterable[bytes | None], first: int = 0) -> list[Record]:
    return [Record(first + at, TIME + at, None, value) for at, value in enumerate(values)]


def batch_of(records: Sequence[Record], codec: Codec = Codec.ZSTD, **header: int) -> FetchedBatch:
    data = build_batch(records, codec=codec, base_offset=records[0].offset, **header)
    return FetchedBatch(3, read_header(data), memoryview(data))


def decode(
    reader: AvroSchema,
    records: Sequence[Record],
    schemas: Mapping[int, AvroSchema] | None = None,
    times: tuple[int, int] | None = None,
    **settings: Any,
) -> Decoded:
    columns = columns_of(reader, **settings)
    return decoder(columns, schemas or {1: reader}, times).decode(batch_of(records))


def rows_of(decoded: Decoded) -> list[dict[str, Any]]:
    return decoded.rows.to_pylist() if decoded.rows is not None else []


def is_origin(name: str) -> bool:
    """Whether a column says where a row came from, and not what it is."""
    return name in {"_timestamp", "_cluster", "_topic", "_partition", "_offset"}
