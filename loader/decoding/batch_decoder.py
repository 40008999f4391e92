"""Decodes batches of one partition into rows of one table.

A batch whose records all have the same schema is decoded whole, natively (columns/native.py).
Otherwise its records are separated, and those of a schema decoded together (writers.py). Both ways
give the same rows. A record that cannot be decoded becomes a dead letter with its reason, and does
not affect others.

Used by one thread. An error of the registry is passed on; the content of a batch never causes one.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from client.reading.fetcher import FetchedBatch
from columns.native import Rows, first_schema_id
from loader.decoding.columns import Columns
from loader.decoding.decoded import BROKEN_BATCH, NO_VALUE, NOT_FRAMED, Dead, Decoded
from loader.decoding.row_assembly import RowAssembly
from loader.decoding.writers import SchemaSource, Unusable, Writers
from schemas.envelope import PREFIX_SIZE, split
from schemas.errors import BadMessage
from wire.errors import BatchError
from wire.record_batches.batch import HEADER_SIZE
from wire.record_batches.compression import Codec, decompress
from wire.record_batches.records import Record, records

MOST_BROKEN: Final = 100_000  # records of a broken batch that become dead letters of their own
NOTHING: Final = (0, 0)


class BatchDecoder:
    """Decodes batches of one partition. Rows get `topic` and `partition`, and `cluster` if the
    table has that column. Rows outside of `times` (from and to, in milliseconds) are out of range.
    """

    def __init__(
        self,
        columns: Columns,
        schemas: SchemaSource,
        *,
        topic: str,
        partition: int,
        cluster: str,
        times: tuple[int, int] | None = None,
    ) -> None:
        self._writers = Writers(schemas, columns.reader)
        self._assembly = RowAssembly(columns, topic, partition, cluster, times)

    def decode(self, batch: FetchedBatch) -> Decoded:
        """Decodes a batch, whose CRC must have been checked. Control batches hold no rows."""
        if batch.header.is_control:
            return self._assembly.decoded([], (), {})
        return self._whole(batch) or self._singly(batch)

    def _whole(self, batch: FetchedBatch) -> Decoded | None:
        """Returns None if the batch cannot be decoded whole."""
        header = batch.header
        try:
            data = decompress(Codec(header.codec), batch.data[HEADER_SIZE:])
        except (BatchError, ValueError):
            return None
        schema_id = first_schema_id(data)
        if schema_id is None:
            return None
        writer = self._writers.of(schema_id)
        if isinstance(writer, Unusable) or writer.native is None:
            return None
        rows = writer.native.batch(header, data, schema_id)
        if rows is None:
            return None
        fitting_rows, reasons = self._assembly.rows(rows, writer.conversion)
        letters: list[Dead] = []
        if reasons:
            try:
                unfit_records = [
                    record for record in records(batch.data) if record.offset in reasons
                ]
            except BatchError:
                return None
            letters = [_dead(record, reasons[record.offset], schema_id) for record in unfit_records]
        counts = {schema_id: header.record_count}
        return self._assembly.decoded([fitting_rows], tuple(letters), counts)

    def _singly(self, batch: FetchedBatch) -> Decoded:
        read_records, letters, unnamed_range = _read(batch)
        records_by_prefix: defaultdict[bytes | None, list[Record]] = defaultdict(list)
        for record in read_records:
            records_by_prefix[record.value and record.value[:PREFIX_SIZE]].append(record)
        batches: list[pa.RecordBatch] = []
        counts: dict[int, int] = {}
        for prefix, group in records_by_prefix.items():
            if prefix is None:
                letters += (_dead(record, Unusable(NO_VALUE, "a null value")) for record in group)
                continue
            try:
                schema_id, _ = split(prefix)
            except BadMessage as error:
                letters += (_dead(record, Unusable(NOT_FRAMED, str(error))) for record in group)
                continue
            counts[schema_id] = len(group)
            self._group(schema_id, group, batches, letters)
        letters.sort(key=lambda letter: letter.offset)
        decoded = self._assembly.decoded(batches, tuple(letters), counts)
        return (
            replace(decoded, unnamed=unnamed_range)
            if unnamed_range[0] < unnamed_range[1]
            else decoded
        )

    def _group(
        self,
        schema_id: int,
        group: Sequence[Record],
        batches: list[pa.RecordBatch],
        dead: list[Dead],
    ) -> None:
        """Decodes all records of a batch that name the same schema."""
        writer = self._writers.of(schema_id)
        if isinstance(writer, Unusable):
            dead += (_dead(record, writer, schema_id) for record in group)
            return
        raw_bodies, reasons = writer.read([record.value or b"" for record in group])
        dead += (_dead(group[index], reason, schema_id) for index, reason in reasons.items())
        if not raw_bodies.places:
            return
        readable_records = [group[index] for index in raw_bodies.places]
        offsets = pa.array([record.offset for record in readable_records], pa.int64())
        times = pa.array([record.timestamp for record in readable_records], pa.int64())
        rows, misfits = self._assembly.rows(
            Rows(offsets, times, raw_bodies.bodies), writer.conversion
        )
        batches.append(rows)
        dead += (
            _dead(record, misfits[record.offset], schema_id)
            for record in readable_records
            if record.offset in misfits
        )


def _read(batch: FetchedBatch) -> tuple[list[Record], list[Dead], tuple[int, int]]:
    """The records of a batch. If it is broken, all its other offsets are dead: up to MOST_BROKEN as
    letters, the rest as a half-open range."""
    read_records: list[Record] = []
    header = batch.header
    try:
        for record in records(batch.data):
            read_records.append(record)  # noqa: PERF402  (keeps the records before an error)
    except BatchError as error:
        raw_batch = bytes(batch.data)
        present_offsets = {record.offset for record in read_records}
        missing_offsets = (
            at for at in range(header.base_offset, header.next_offset) if at not in present_offsets
        )
        letters = [
            Dead(
                offset=offset,
                timestamp=header.base_timestamp,
                key=None,
                value=None if index else raw_batch,
                reason=BROKEN_BATCH,
                detail=f"the batch at offset {header.base_offset}: {error}",
            )
            for index, offset in enumerate(islice(missing_offsets, MOST_BROKEN))
        ]
        end_offset = next(missing_offsets, header.next_offset)
        read_records = [record for record in read_records if record.offset < end_offset]
        return read_records, letters, (end_offset, header.next_offset)
    return read_records, [], NOTHING


def _dead(record: Record, why: Unusable, schema_id: int = -1) -> Dead:
    return Dead(
        record.offset, record.timestamp, record.key, record.value, why.reason, why.detail, schema_id
    )
