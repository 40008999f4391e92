"""A complete task: reads a slice from the brokers, decodes it, and returns pieces of files, with a
report at the end.

Its memory is bounded whatever the slice contains: see held_rows.py and slice_files.py. Records that
cannot become rows are kept below `{root}/_dead`.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import Corrupt, OffsetsMissing
from client.reading.fetcher import FetchedBatch
from client.reading.partition_reader import Instead, PartitionReader, PassedOver
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.columns import Columns
from loader.decoding.decoded import Dead, Decoded
from loader.decoding.spark_types import columns_of_spark
from loader.decoding.table_columns import read_in_columns
from loader.errors import DamagedBatch, Mismatch
from loader.landing.collisions import without_losers
from loader.landing.duplicates import Duplicates
from loader.landing.held_rows import HeldRows
from loader.landing.landed_slice import LandedSlice
from loader.landing.pieces import MOST_HOURS, report_piece
from loader.landing.rows import Arrived, beginnings, bounds
from loader.landing.sent_digests import digest_as_sent
from loader.landing.slice_files import SliceFiles
from loader.landing.task_spec import NOTHING_SEEN, Seen, TaskSpec
from loader.landing.writer_schemas import WriterSchemas
from loader.values.batch_digests import (
    MOST_BATCHES,
    NO_MESSAGES,
    PACKED_BYTES,
    UNKNOWN_CONTENT,
    PackedBatches,
    ReadBatch,
    packed,
)
from loader.values.reports import half_open
from loader.values.tables import HOUR_MILLIS, Slice, hour_of
from schemas.parsing import parse
from wire.record_batches.batch import BatchHeader

CLIENT_ID: Final = "penstock-loader"
MOST_DAMAGED: Final = 1_000  # places in a slice that a rebuild passes over
_DEAD_BYTES: Final = 8 * 1024 * 1024  # of dead letters in memory
_OFFSET: Final = "_offset"
DEAD_LETTERS: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("cluster", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),  # the record's, in milliseconds
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("schema_id", pa.int32()),  # -1: none
    ]
)
_AROUND: Final = 400  # bytes of memory of a dead letter, besides key and value


def land(
    piece: Slice, spec: TaskSpec, seen: Seen = NOTHING_SEEN, *, most_hours: int = MOST_HOURS
) -> Iterator[pa.RecordBatch]:
    """The slice's pieces as rows of `PIECES`, in the order in which files need them. Events in
    `seen` are duplicates. At most `most_hours` hours have files of their own."""
    bootstrap = Bootstrap.of(",".join(spec.brokers), spec.security)
    with Brokers(bootstrap, client_id=CLIENT_ID) as brokers, WriterSchemas(spec) as schemas:
        yield from landed(piece, spec, seen, brokers, schemas, most_hours=most_hours)


def landed(
    piece: Slice,
    spec: TaskSpec,
    seen: Seen,
    brokers: Brokers,
    schemas: WriterSchemas,
    *,
    most_hours: int,
) -> Iterator[pa.RecordBatch]:
    """Like `land`, with existing clients."""
    columns = Columns(
        parse(spec.reader_schema, strict=False), header=spec.header, with_cluster=spec.with_cluster
    )
    decoder = BatchDecoder(
        columns,
        schemas,
        topic=piece.topic,
        partition=piece.partition,
        cluster=piece.cluster,
        times=spec.times,
    )
    landing = Landing(piece, spec, seen, most_hours=most_hours)
    # Only a rebuild passes over damaged batches: a load would never read them again.
    most_damaged = MOST_DAMAGED if spec.accept_gap and spec.only_hours else 0
    next_offset, leader_epoch = piece.first, -1
    while True:
        reader = PartitionReader(
            brokers,
            piece.topic,
            piece.partition,
            next_offset,
            piece.end,
            topic_id=piece.topic_id,
            leader_epoch=leader_epoch,
            from_within=piece.from_within and next_offset == piece.first,
        )
        try:
            with closing(reader):
                yield from _land_all(reader, decoder, landing, piece, spec)
                next_offset, leader_epoch = reader.next_offset, reader.leader_epoch
        except Corrupt as error:
            damaged = _damaged(piece, error)
            if not most_damaged:
                raise damaged from None
            most_damaged -= 1
            first = reader.next_offset
            next_offset = min(max(damaged.end, first + 1), piece.end)
            leader_epoch = reader.leader_epoch
            landing.nothing(PassedOver(first, next_offset, Instead.HOLE), given_up=True)
        if next_offset >= piece.end:
            break
    yield from landing.end(next_offset, leader_epoch)


def _land_all(
    reader: PartitionReader,
    decoder: BatchDecoder,
    landing: "Landing",
    piece: Slice,
    spec: TaskSpec,
) -> Iterator[pa.RecordBatch]:
    """Lands what is left to read. Raises Corrupt at a damaged batch."""
    for batch in reader.everything():
        is_given_up = _is_missing(batch) and not reader.is_compacted()
        if is_given_up and not spec.accept_gap:
            raise _missing(piece, batch)
        if isinstance(batch, PassedOver):
            landing.nothing(batch, given_up=is_given_up)
            continue
        decoded = decoder.decode(batch)
        landing.read_batch(batch, decoded)
        if piece.buried:
            decoded = without_losers(decoded, batch.data, half_open(piece.buried))
        yield from landing.take(batch.header, decoded, given_up=is_given_up)


def _damaged(piece: Slice, error: Corrupt) -> DamagedBatch:
    first = max(error.first, 0)
    reason = str(error).partition(": ")[2]
    return DamagedBatch(piece.topic, piece.partition, first, first + max(error.count, 1), reason)


def _is_missing(batch: FetchedBatch | PassedOver) -> bool:
    """Whether offsets have no record, as after compaction."""
    if isinstance(batch, PassedOver):
        return batch.what in {Instead.HOLE, Instead.EMPTIED}
    return batch.header.record_count <= batch.header.last_offset_delta


def _missing(piece: Slice, batch: FetchedBatch | PassedOver) -> OffsetsMissing:
    """The error: only a compacted topic may lack records."""
    if isinstance(batch, PassedOver):
        first, end, fault = batch.first, batch.end, "the log has no records there"
    else:
        header = batch.header
        first, end = header.base_offset, header.next_offset
        fault = f"only {header.record_count:,} records are left of the batch"
    return OffsetsMissing(
        piece.log,
        first,
        end,
        f"{fault}, and the topic is not compacted. To load the rest, and record these as missing:"
        " --accept-gap",
    )


class Landing:
    def __init__(
        self,
        piece: Slice,
        spec: TaskSpec,
        seen: Seen = NOTHING_SEEN,
        *,
        most_hours: int = MOST_HOURS,
    ) -> None:
        self._piece = piece
        self._only_hours = frozenset(spec.only_hours)
        self._columns = columns_of_spark(spec.columns) if spec.columns else None
        self._slice = LandedSlice(piece, spec.window_millis, spec.times, self._only_hours)
        self._duplicates = Duplicates(seen)
        self._memory_bytes = spec.memory_bytes
        self._held: HeldRows | None = None  # created with the columns of the first rows
        self._digests = bytearray()
        self._dead = DeadLetters(piece)
        self._files = SliceFiles(
            piece.number, spec.compression, spec.memory_bytes, most_hours=most_hours
        )

    def take(
        self, header: BatchHeader, decoded: Decoded, *, given_up: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Takes the next batch and its decoded rows. Cuts off the part before the slice. Absent
        records count as given up if `given_up`, otherwise as compacted away. Raises Mismatch if the
        batch does not have the number of records in its header."""
        dead_letters, arrived_rows = decoded.dead, _arrived(decoded)
        self._check(header, 0 if arrived_rows is None else len(arrived_rows), decoded)
        begin_offset = max(header.base_offset, self._piece.first)
        unnamed_count = max(0, decoded.unnamed[1] - max(decoded.unnamed[0], begin_offset))
        if header.base_offset < begin_offset:
            dead_letters = tuple(letter for letter in dead_letters if letter.offset >= begin_offset)
            arrived_rows = arrived_rows and self._from_first(arrived_rows)
        rows = 0 if arrived_rows is None else len(arrived_rows)
        if self._slice.starts_epoch(header.leader_epoch):
            self._duplicates.end_part(self._slice.leader_epoch)
        wanted_rows = self._wanted(arrived_rows) if rows and arrived_rows is not None else None
        new_rows = None if wanted_rows is None else self._duplicates.new(wanted_rows)
        has_duplicates = (
            wanted_rows is not None and new_rows is not None and len(new_rows) < len(wanted_rows)
        )
        self._slice.read(header, decoded.schema_ids, has_duplicates=has_duplicates)
        if rows + len(dead_letters) + unnamed_count < header.next_offset - begin_offset:
            for first, end in _holes(header, begin_offset, arrived_rows, dead_letters):
                self._slice.nothing(first, end, given_up=given_up)
        if unnamed_count:
            self._add_unnamed(header.base_timestamp, unnamed_count)
        if dead_letters:
            yield from self._add_dead(dead_letters)
        self._slice.of_other_hours(rows - (0 if wanted_rows is None else len(wanted_rows)))
        if wanted_rows is not None and new_rows is not None:
            if has_duplicates:
                self._slice.repeated(wanted_rows.times, new_rows.times)
                self._duplicates.note(wanted_rows, new_rows)
            yield from self._land(new_rows)

    def read_batch(self, batch: FetchedBatch, decoded: Decoded) -> None:
        """Notes the digest of a batch, whichever of its rows are wanted."""
        header = batch.header
        times = header.base_timestamp, header.max_timestamp
        if len(decoded.times):
            times = bounds(decoded.times)
        self._note(
            header,
            UNKNOWN_CONTENT if _is_missing(batch) else digest_as_sent(header, batch.data),
            times,
        )

    def _note(self, header: BatchHeader, digest: bytes, times: tuple[int, int]) -> None:
        if len(self._digests) < MOST_BATCHES * PACKED_BYTES:
            batch = ReadBatch(header.base_offset, header.next_offset, *times, digest)
            self._digests += packed(batch)

    def nothing(self, passed: PassedOver, *, given_up: bool) -> None:
        """Takes offsets without a message. Absent ones count as given up if `given_up`, otherwise
        as compacted away."""
        if passed.header is None:
            self._slice.nothing(passed.first, passed.end, given_up=given_up)
            return
        header = passed.header
        if passed.what in {Instead.MARKERS, Instead.ABORTED}:
            self._note(header, NO_MESSAGES, (header.base_timestamp, header.max_timestamp))
        if self._slice.starts_epoch(header.leader_epoch):
            self._duplicates.end_part(self._slice.leader_epoch)
        self._slice.passed_over(header, passed.first, passed.what, given_up=given_up)

    def end(self, next_offset: int, leader_epoch: int) -> Iterator[pa.RecordBatch]:
        """The remaining pieces, and the report. The slice was read up to `next_offset`; the last
        record before that is of `leader_epoch`, -1 if there is none."""
        if self._held is not None:
            for hour, batches in self._held.take_all():
                yield from self._files.rows(hour, batches)
        if (letters := self._dead.take()) is not None:
            yield from self._files.dead(letters)
        yield from self._files.end()
        report = self._slice.report(next_offset, leader_epoch, self._duplicates, self._files)
        yield report_piece(replace(report, batch_digests=PackedBatches(bytes(self._digests))))

    def _check(self, header: BatchHeader, rows: int, decoded: Decoded) -> None:
        """Checks that the batch has as many records as its header says, and no more than offsets.
        If there are fewer, the rest is absent. A broken batch has a dead letter for each offset."""
        count = rows + len(decoded.dead) + decoded.unnamed[1] - decoded.unnamed[0]
        offsets = header.next_offset - header.base_offset
        if count != offsets and (count != header.record_count or count > offsets):
            last_offset = header.next_offset - 1
            raise Mismatch(
                f"{self._piece.log}, offsets {header.base_offset} to {last_offset}: a batch of"
                f" {header.record_count:,} records became {rows:,} rows and"
                f" {count - rows:,} dead letters; nothing was committed. This is a bug in"
                " the loader: report it; --max-records loads the records before it"
            )

    def _wanted(self, arrived: Arrived) -> Arrived | None:
        wanted_rows = self._of_hours(arrived) if self._only_hours else arrived
        return wanted_rows if len(wanted_rows) else None

    def _land(self, new: Arrived) -> Iterator[pa.RecordBatch]:
        if not len(new):
            return
        time_bounds = bounds(new.times)
        self._slice.landed(new.times, time_bounds)
        rows = new.rows if self._columns is None else read_in_columns(new.rows, self._columns)
        if self._held is None:
            self._held = HeldRows(rows.schema, self._memory_bytes)
        self._held.add(rows, new.times, time_bounds)
        if self._held.is_full:
            for hour, batches in self._held.take_largest():
                yield from self._files.rows(hour, batches)

    def _add_dead(self, dead: Sequence[Dead]) -> Iterator[pa.RecordBatch]:
        wanted_letters = [
            letter
            for letter in dead
            if not self._only_hours or hour_of(letter.timestamp) in self._only_hours
        ]
        self._slice.of_other_hours(len(dead) - len(wanted_letters))
        self._slice.died(wanted_letters)
        self._dead.add(wanted_letters)
        if self._dead.bytes >= _DEAD_BYTES and (letters := self._dead.take()) is not None:
            yield from self._files.dead(letters)

    def _add_unnamed(self, time: int, count: int) -> None:
        if self._only_hours and hour_of(time) not in self._only_hours:
            self._slice.of_other_hours(count)
        else:
            self._slice.dead_without_letters(time, count)

    def _from_first(self, arrived: Arrived) -> Arrived:
        first_offset = pa.scalar(self._piece.first, pa.int64())
        return arrived.where(pc.greater_equal(arrived.rows.column(_OFFSET), first_offset))

    def _of_hours(self, arrived: Arrived) -> Arrived:
        first_hour, last_hour = map(hour_of, bounds(arrived.times))
        if first_hour == last_hour and first_hour in self._only_hours:
            return arrived
        hours = beginnings(arrived.times, HOUR_MILLIS)
        hour_array = pa.array(sorted(self._only_hours), pa.int64())
        return arrived.where(pc.is_in(hours, value_set=hour_array))


def _holes(
    header: BatchHeader, begins: int, arrived: Arrived | None, dead: Sequence[Dead]
) -> Iterator[tuple[int, int]]:
    """The offsets of a batch without a record, as half-open ranges."""
    rows = [] if arrived is None else arrived.rows.column(_OFFSET).to_pylist()
    next_offset = begins
    for offset in (*sorted((*rows, *(letter.offset for letter in dead))), header.next_offset):
        if offset > next_offset:
            yield next_offset, offset
        next_offset = offset + 1


def _arrived(decoded: Decoded) -> Arrived | None:
    if decoded.rows is None or not decoded.rows.num_rows:
        return None
    return Arrived(decoded.rows, decoded.times, decoded.sources, decoded.seqs)


class DeadLetters:
    def __init__(self, piece: Slice) -> None:
        self._piece = piece
        self._letters: list[Dead] = []
        self.bytes = 0

    def add(self, letters: Sequence[Dead]) -> None:
        self._letters += letters
        self.bytes += sum(_size(letter) for letter in letters)

    def take(self) -> pa.Table | None:
        """All dead letters; None if there are none."""
        letters, self._letters, self.bytes = self._letters, [], 0
        if not letters:
            return None
        piece, count = self._piece, len(letters)
        columns = [
            pa.repeat(piece.topic, count),
            pa.repeat(piece.cluster, count),
            pa.repeat(pa.scalar(piece.partition, pa.int32()), count),
            pa.array([letter.offset for letter in letters], pa.int64()),
            pa.array([letter.timestamp for letter in letters], pa.int64()),
            pa.array([letter.key for letter in letters], pa.binary()),
            pa.array([letter.value for letter in letters], pa.binary()),
            pa.array([letter.reason for letter in letters], pa.string()),
            pa.array([letter.detail.encode(errors="replace") for letter in letters], pa.string()),
            pa.array([_signed(letter.schema_id) for letter in letters], pa.int32()),
        ]
        return pa.Table.from_arrays(columns, schema=DEAD_LETTERS)


def _size(letter: Dead) -> int:
    return len(letter.key or b"") + len(letter.value or b"") + len(letter.detail) + _AROUND


def _signed(schema_id: int) -> int:
    """An id's four bytes, which may be any number, as the signed integer of Avro and Java."""
    return (schema_id + (1 << 31)) % (1 << 32) - (1 << 31)
