"""The loader's decoding of a fetched batch of typed events into Arrow columns."""

from pathlib import Path

from bench.contents.events import BATCH, SCHEMA, finished_batch
from bench.counted.paths import Act
from client.reading.fetcher import FetchedBatch
from loader.config import HeaderColumns
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.columns import Columns
from schemas.parsing import AvroSchema, parse
from wire.record_batches.batch import read_header


class _OneSchema:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def schema(self, _: int) -> AvroSchema:
        return self._schema


def decoded(_: Path) -> Act:
    schema = parse(SCHEMA)
    columns = Columns(schema, header=HeaderColumns.FLAT, with_cluster=False)
    decoder = BatchDecoder(
        columns, _OneSchema(schema), topic="clicks", partition=0, cluster="local", times=None
    )
    data = finished_batch(0, 1, 0, BATCH)
    batch = FetchedBatch(0, read_header(data), memoryview(data))

    def act(times: int) -> None:
        for _ in range(times):
            rows = decoder.decode(batch).rows
            if rows is None or len(rows) != BATCH:
                raise RuntimeError(f"expected {BATCH} decoded events, got {rows}")

    return act
