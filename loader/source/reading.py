"""What a task does: slices of partitions become record batches, each row once.

The batches that a slice begins or ends within are read as well, and what lies outside of the slice
is left out. Nothing is kept but what is joined to the next record batch: an agent's batch may have
few rows, and a record batch costs Spark about as much as a hundred rows.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import OffsetsMissing
from client.fetcher import FetchedBatch
from client.offsets import offsets_of
from client.partition_reader import Instead, PartitionReader, PassedOver
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.decoded import Dead, Decoded
from loader.errors import DeadRecord
from loader.landing.writer_schemas import WriterSchemas
from loader.source.batch_plan import Task
from loader.source.description import CLIENT_ID, DEAD_TYPE, Description, row_schema
from loader.source.options import DeadRecords
from loader.tables import Slice
from wire.messages.list_offsets import EARLIEST

_log = logging.getLogger("penstock.source")
_OFFSET: Final = "_offset"
# Record batches that are as large as one of these are given to Spark, smaller ones joined.
ROWS: Final = 16_384
BYTES: Final = 4 * 1024 * 1024


def read(task: Task, description: Description) -> Iterator[pa.RecordBatch]:
    """The slices' rows, in record batches that are worth their way to Spark."""
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
                for made in rows.of(batch, decoder.decode(batch)):
                    yield from joining.add(made)
            rows.say_what_was_skipped()
    yield from joining.end()


class _Rows:
    """Rows of one slice, as they were asked for."""

    def __init__(self, piece: Slice, description: Description, schema: pa.Schema) -> None:
        self._piece = piece
        self._dead = description.dead
        self._schema = schema
        wanted = description.wanted
        self._wanted = None if wanted is None else list(wanted)
        self._skipped: Counter[str] = Counter()

    def of(self, batch: FetchedBatch, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """What the slice has of a batch."""
        rows, dead = decoded.rows, decoded.dead
        if (
            batch.header.base_offset < self._piece.first
            or batch.header.next_offset > self._piece.end
        ):
            rows = None if rows is None else self._within(rows)
            dead = tuple(
                each for each in dead if self._piece.first <= each.offset < self._piece.end
            )
        if rows is not None and rows.num_rows:
            yield self._chosen(self._with_dead(rows))
        if dead:
            yield from self._buried(dead)

    def say_what_was_skipped(self) -> None:
        for reason, count in self._skipped.items():
            _log.warning(
                "%s-%d: %d records between offsets %d and %d were passed over: %s",
                self._piece.topic,
                self._piece.partition,
                count,
                self._piece.first,
                self._piece.end - 1,
                reason,
            )

    def _within(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Offsets ascend."""
        offsets = rows.column(_OFFSET)
        first = pa.scalar(self._piece.first, pa.int64())
        end = pa.scalar(self._piece.end, pa.int64())
        wanted = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end))
        return rows.filter(wanted)

    def _with_dead(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._dead is not DeadRecords.KEEP:
            return rows
        alive = pa.nulls(rows.num_rows, DEAD_TYPE)
        return pa.RecordBatch.from_arrays([*rows.columns, alive], schema=self._schema)

    def _buried(self, dead: tuple[Dead, ...]) -> Iterator[pa.RecordBatch]:
        match self._dead:
            case DeadRecords.FAIL:
                first = dead[0]
                raise DeadRecord(
                    f"{self._piece.topic}-{self._piece.partition}, offset {first.offset}: "
                    f"{first.reason}: {first.detail}. To pass over what cannot be decoded: option "
                    "dead=skip; to have it in a column of its own: dead=keep"
                )
            case DeadRecords.SKIP:
                self._skipped.update(each.reason for each in dead)
            case DeadRecords.KEEP:
                yield self._chosen(self._kept(dead))

    def _kept(self, dead: tuple[Dead, ...]) -> pa.RecordBatch:
        known = {
            "_topic": lambda _: self._piece.topic,
            "_partition": lambda _: self._piece.partition,
            _OFFSET: lambda each: each.offset,
            "_dead": _as_row,
        }
        arrays = [
            pa.array([known[field.name](each) for each in dead], field.type)
            if field.name in known
            else pa.nulls(len(dead), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _chosen(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows if self._wanted is None else rows.select(self._wanted)


def _as_row(dead: Dead) -> dict[str, object]:
    return {
        "reason": dead.reason,
        "detail": dead.detail,
        "timestamp": dead.timestamp,
        "key": dead.key,
        "value": dead.value,
    }


def _batches(brokers: Brokers, piece: Slice, *, fail_on_data_loss: bool) -> Iterator[FetchedBatch]:
    """Of all the slice; or, if that does not matter, of what is left of it."""
    first = piece.first
    while first < piece.end:
        reader = PartitionReader(
            brokers,
            piece.topic,
            piece.partition,
            first,
            piece.end,
            topic_id=piece.topic_id,
            from_within=piece.from_within,
        )
        try:
            with closing(reader):
                for each in reader.everything():
                    if isinstance(each, FetchedBatch):
                        yield each
                    elif each.what is Instead.HOLE and not reader.is_compacted():
                        _hole(piece, each, fail_on_data_loss=fail_on_data_loss)
            return
        except OffsetsMissing as missing:
            if fail_on_data_loss:
                raise
            _log.warning("%s", missing)
            reached = max(first, reader.next_offset)
            first = _earliest(brokers, piece)
            if first <= reached:
                return  # it does not begin later: there is no more of what was meant


def _hole(piece: Slice, hole: PassedOver, *, fail_on_data_loss: bool) -> None:
    """Only the log of a compacted topic may have nothing between what lies around."""
    why = "there is nothing between what lies around them, and the topic is not compacted"
    missing = OffsetsMissing(piece.log, hole.first, hole.end, why)
    if fail_on_data_loss:
        raise missing
    _log.warning("%s", missing)


def _earliest(brokers: Brokers, piece: Slice) -> int:
    target = TopicPartition(piece.topic, piece.partition)
    return offsets_of(brokers, {target: EARLIEST})[target]


class Joining:
    """Of one task. Rows come out in the order in which they came in."""

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
        """What is waiting."""
        if self._waiting:
            yield self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
