"""A reading task: turns slices of partitions into record batches, each row once.

Batches that extend beyond the slice are read completely, and rows outside of it are dropped. The
only state is rows that wait to be joined with more: a producer's batch may have few rows, and a
record batch costs Spark about as much as a hundred rows.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import OffsetsMissing
from client.producing.delivery import TopicPartition
from client.reading.fetcher import FetchedBatch
from client.reading.offsets import offsets_of
from client.reading.partition_reader import Instead, PartitionReader, PassedOver
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.decoded import Dead, Decoded
from loader.errors import DeadRecord
from loader.landing.writer_schemas import WriterSchemas
from loader.spark.data_source.batch_plan import Task
from loader.spark.data_source.description import CLIENT_ID, DEAD_TYPE, Description, row_schema
from loader.spark.data_source.options import DeadRecords
from loader.values.tables import Slice
from wire.messages.list_offsets import EARLIEST

_log = logging.getLogger("penstock.source")
_OFFSET: Final = "_offset"
# Record batches that reach one of these sizes are passed to Spark, smaller ones are joined.
ROWS: Final = 16_384
BYTES: Final = 4 * 1024 * 1024


def read(task: Task, description: Description) -> Iterator[pa.RecordBatch]:
    """The slices' rows, in record batches of a suitable size."""
    columns = description.columns
    schema = row_schema(description, columns)
    joining = Joining()
    bootstrap = Bootstrap.of(description.brokers)
    with (
        Brokers(bootstrap, client_id=CLIENT_ID) as brokers,
        WriterSchemas(description) as schemas,
    ):
        for piece in task:
            rows = _Rows(piece, description, schema)
            decoder = BatchDecoder(
                columns, schemas, topic=piece.topic, partition=piece.partition, cluster=""
            )
            for batch in _batches(brokers, piece, fail_on_data_loss=description.fail_on_data_loss):
                for record_batch in rows.of(batch, decoder.decode(batch)):
                    yield from joining.add(record_batch)
            rows.log_skipped()
    yield from joining.end()


class _Rows:
    """The requested rows of one slice."""

    def __init__(self, piece: Slice, description: Description, schema: pa.Schema) -> None:
        self._piece = piece
        self._dead = description.dead
        self._schema = schema
        columns = description.wanted
        self._columns_wanted = None if columns is None else list(columns)
        self._skipped: Counter[str] = Counter()

    def of(self, batch: FetchedBatch, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        rows, dead_records = decoded.rows, decoded.dead
        if (
            batch.header.base_offset < self._piece.first
            or batch.header.next_offset > self._piece.end
        ):
            rows = None if rows is None else self._within(rows)
            dead_records = tuple(
                letter
                for letter in dead_records
                if self._piece.first <= letter.offset < self._piece.end
            )
        if rows is not None and rows.num_rows:
            yield self._selected(self._with_dead(rows))
        if dead_records:
            yield from self._dead_rows(dead_records)

    def log_skipped(self) -> None:
        for reason, count in self._skipped.items():
            _log.warning(
                "%s-%d: skipped %d records between offsets %d and %d: %s",
                self._piece.topic,
                self._piece.partition,
                count,
                self._piece.first,
                self._piece.end - 1,
                reason,
            )

    def _within(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        offsets = rows.column(_OFFSET)
        first_offset = pa.scalar(self._piece.first, pa.int64())
        end = pa.scalar(self._piece.end, pa.int64())
        mask = pc.and_(pc.greater_equal(offsets, first_offset), pc.less(offsets, end))
        return rows.filter(mask)

    def _with_dead(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._dead is not DeadRecords.KEEP:
            return rows
        nulls = pa.nulls(rows.num_rows, DEAD_TYPE)
        return pa.RecordBatch.from_arrays([*rows.columns, nulls], schema=self._schema)

    def _dead_rows(self, dead: tuple[Dead, ...]) -> Iterator[pa.RecordBatch]:
        match self._dead:
            case DeadRecords.FAIL:
                first_dead = dead[0]
                raise DeadRecord(
                    f"{self._piece.topic}-{self._piece.partition}, offset {first_dead.offset}: "
                    f"{first_dead.reason}: {first_dead.detail}. To skip such records: option "
                    "dead=skip; to get them in a separate column: dead=keep"
                )
            case DeadRecords.SKIP:
                self._skipped.update(letter.reason for letter in dead)
            case DeadRecords.KEEP:
                yield self._selected(self._kept(dead))

    def _kept(self, dead: tuple[Dead, ...]) -> pa.RecordBatch:
        values = {
            "_topic": lambda _: self._piece.topic,
            "_partition": lambda _: self._piece.partition,
            _OFFSET: lambda letter: letter.offset,
            "_dead": _as_row,
        }
        arrays = [
            pa.array([values[field.name](letter) for letter in dead], field.type)
            if field.name in values
            else pa.nulls(len(dead), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _selected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows if self._columns_wanted is None else rows.select(self._columns_wanted)


def _as_row(dead: Dead) -> dict[str, object]:
    return {
        "reason": dead.reason,
        "detail": dead.detail,
        "timestamp": dead.timestamp,
        "key": dead.key,
        "value": dead.value,
    }


def _batches(brokers: Brokers, piece: Slice, *, fail_on_data_loss: bool) -> Iterator[FetchedBatch]:
    """The batches of the slice; without `fail_on_data_loss`, those that still exist."""
    first_offset = piece.first
    while first_offset < piece.end:
        reader = PartitionReader(
            brokers,
            piece.topic,
            piece.partition,
            first_offset,
            piece.end,
            topic_id=piece.topic_id,
            from_within=piece.from_within,
        )
        try:
            with closing(reader):
                for item in reader.everything():
                    if isinstance(item, FetchedBatch):
                        yield item
                    elif item.what is Instead.HOLE and not reader.is_compacted():
                        _report_missing(piece, item, fail_on_data_loss=fail_on_data_loss)
            return
        except OffsetsMissing as missing:
            if fail_on_data_loss:
                raise
            _log.warning("%s", missing)
            next_offset = max(first_offset, reader.next_offset)
            first_offset = _earliest(brokers, piece)
            if first_offset <= next_offset:
                return  # the log does not start later: nothing remains to be read


def _report_missing(piece: Slice, hole: PassedOver, *, fail_on_data_loss: bool) -> None:
    """Reports missing offsets, which only the log of a compacted topic may have."""
    reason = "the log has no records there, and the topic is not compacted"
    error = OffsetsMissing(piece.log, hole.first, hole.end, reason)
    if fail_on_data_loss:
        raise error
    _log.warning("%s", error)


def _earliest(brokers: Brokers, piece: Slice) -> int:
    target = TopicPartition(piece.topic, piece.partition)
    return offsets_of(brokers, {target: EARLIEST})[target]


class Joining:
    """Joins the record batches of one task, in their order."""

    def __init__(self, *, rows: int = ROWS, most_bytes: int = BYTES) -> None:
        self._enough_rows = rows
        self._enough_bytes = most_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._enough_rows or self._bytes >= self._enough_bytes:
            yield from self.end()

    def end(self) -> Iterator[pa.RecordBatch]:
        if self._waiting:
            yield self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
