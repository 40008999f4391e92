"""Batches of one partition become rows of one table.

A batch is read whole, natively (columns/native.py), if its records are alike: of one schema.
Otherwise its records are taken apart, and those of a schema read together (writers.py).
Either way gives the same rows. What cannot be read is dead, with its reason, and costs no other
record anything.

Used by one thread. A registry that does not answer is an error that passes through; nothing that a
batch holds is.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from client.fetcher import FetchedBatch
from columns.native import Rows, first_schema_id
from loader.decoding.columns import Columns
from loader.decoding.decoded import BROKEN_BATCH, NO_VALUE, NOT_FRAMED, Dead, Decoded
from loader.decoding.row_assembly import RowAssembly
from loader.decoding.writers import SchemaSource, Unusable, Writers
from schemas.envelope import PREFIX_SIZE, split
from schemas.errors import BadMessage
from wire.batch import HEADER_SIZE
from wire.compression import Codec, decompress
from wire.errors import BatchError
from wire.records import Record, records

MOST_BROKEN: Final = 100_000  # records of a batch that cannot be read, each of which is named
NOTHING: Final = (0, 0)


class BatchDecoder:
    """Rows have the batch's `topic` and `partition`, and `cluster` if the table wants it. What has
    another time than `times`, from and to in milliseconds, is out of range."""

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
        """The batch's CRC is right. Control batches hold nothing."""
        if batch.header.is_control:
            return self._assembly.decoded([], (), {})
        return self._whole(batch) or self._singly(batch)

    def _whole(self, batch: FetchedBatch) -> Decoded | None:
        """None if the batch is not of the one form that is read whole."""
        header = batch.header
        try:
            unpacked = decompress(Codec(header.codec), batch.data[HEADER_SIZE:])
        except (BatchError, ValueError):
            return None
        schema_id = first_schema_id(unpacked)
        if schema_id is None:
            return None
        writer = self._writers.of(schema_id)
        if isinstance(writer, Unusable) or writer.native is None:
            return None
        rows = writer.native.batch(header, unpacked, schema_id)
        if rows is None:
            return None
        made, bad = self._assembly.rows(rows, writer.conversion)
        dead: list[Dead] = []
        if bad:
            try:
                found = [each for each in records(batch.data) if each.offset in bad]
            except BatchError:
                return None
            dead = [_dead(record, bad[record.offset], schema_id) for record in found]
        counts = {schema_id: header.record_count}
        return self._assembly.decoded([made], tuple(dead), counts)

    def _singly(self, batch: FetchedBatch) -> Decoded:
        found, dead, unnamed = _read(batch)
        by_prefix: defaultdict[bytes | None, list[Record]] = defaultdict(list)
        for record in found:
            by_prefix[record.value and record.value[:PREFIX_SIZE]].append(record)
        made: list[pa.RecordBatch] = []
        counts: dict[int, int] = {}
        for prefix, group in by_prefix.items():
            if prefix is None:
                dead += (_dead(each, Unusable(NO_VALUE, "a null value")) for each in group)
                continue
            try:
                schema_id, _ = split(prefix)
            except BadMessage as error:
                dead += (_dead(each, Unusable(NOT_FRAMED, str(error))) for each in group)
                continue
            counts[schema_id] = len(group)
            self._group(schema_id, group, made, dead)
        dead.sort(key=lambda each: each.offset)
        decoded = self._assembly.decoded(made, tuple(dead), counts)
        return replace(decoded, unnamed=unnamed) if unnamed[0] < unnamed[1] else decoded

    def _group(
        self,
        schema_id: int,
        group: Sequence[Record],
        made: list[pa.RecordBatch],
        dead: list[Dead],
    ) -> None:
        """All records of a batch that name the same schema."""
        writer = self._writers.of(schema_id)
        if isinstance(writer, Unusable):
            dead += (_dead(record, writer, schema_id) for record in group)
            return
        read, bad = writer.read([record.value or b"" for record in group])
        dead += (_dead(group[place], why, schema_id) for place, why in bad.items())
        if not read.places:
            return
        own = [group[place] for place in read.places]
        offsets = pa.array([record.offset for record in own], pa.int64())
        times = pa.array([record.timestamp for record in own], pa.int64())
        rows, misfits = self._assembly.rows(Rows(offsets, times, read.bodies), writer.conversion)
        made.append(rows)
        dead += (
            _dead(record, misfits[record.offset], schema_id)
            for record in own
            if record.offset in misfits
        )


def _read(batch: FetchedBatch) -> tuple[list[Record], list[Dead], tuple[int, int]]:
    """The records of a batch. If it is broken, all its other offsets are dead: those with a letter
    of their own, and, of very many, those behind them: from, and up to but without."""
    found: list[Record] = []
    header = batch.header
    try:
        for record in records(batch.data):
            found.append(record)  # noqa: PERF402  (it may end with an error, and what came counts)
    except BatchError as error:
        raw = bytes(batch.data)
        there = {record.offset for record in found}
        missing = (at for at in range(header.base_offset, header.next_offset) if at not in there)
        dead = [
            Dead(
                offset=offset,
                timestamp=header.base_timestamp,
                key=None,
                value=None if place else raw,
                reason=BROKEN_BATCH,
                detail=f"the batch at offset {header.base_offset}: {error}",
            )
            for place, offset in enumerate(islice(missing, MOST_BROKEN))
        ]
        rest = next(missing, header.next_offset)
        found = [record for record in found if record.offset < rest]
        return found, dead, (rest, header.next_offset)
    return found, [], NOTHING


def _dead(record: Record, why: Unusable, schema_id: int = -1) -> Dead:
    return Dead(
        record.offset, record.timestamp, record.key, record.value, why.reason, why.detail, schema_id
    )
