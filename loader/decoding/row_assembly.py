"""Assembles rows of a table's columns from converted bodies and their origin."""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from columns.conversion import Conversion, constant
from columns.leaves import OUT_OF_RANGE, RECORD_TIMES, bounded
from columns.native import Rows
from loader.config import HeaderColumns
from loader.decoding.columns import ORIGIN, Columns
from loader.decoding.decoded import Dead, Decoded
from loader.decoding.writers import Unusable
from schemas.definitions.types import Record

WANTED_TIME: Final = "time from `oldest` to `newest`"


class RowAssembly:
    """Assembles rows of one partition. Excludes rows outside of `times` (from and to, in
    milliseconds)."""

    def __init__(
        self,
        columns: Columns,
        topic: str,
        partition: int,
        cluster: str,
        times: tuple[int, int] | None,
    ) -> None:
        self._columns = columns
        self._times = times
        if times is not None and not columns.has_header:  # a record without a time has -1
            self._times = max(times[0], 0), times[1]
        self._origin = [name for name in columns.arrow.names if name in ORIGIN]
        self._constants = {
            "_cluster": pa.array([cluster]),
            "_topic": pa.array([topic]),
            "_partition": pa.array([partition], ORIGIN["_partition"]),
        }

    def rows(
        self, read: Rows, conversion: Conversion
    ) -> tuple[pa.RecordBatch, Mapping[int, Unusable]]:
        """The rows that fit, and by offset the reasons for rejecting the others."""
        converted = conversion.convert(read.bodies)
        misfits = converted.misfits
        columns = self._values(converted.column)
        for name in self._origin:
            if name == "_timestamp":
                converted_times = RECORD_TIMES.convert(read.times)
                misfits += converted_times.misfits
                columns.append(converted_times.column)
            else:
                columns.append(self._origin_column(name, read.offsets))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._columns.arrow)
        if self._times is not None:
            times = self._columns.times(batch)
            misfits += bounded(times, self._times, OUT_OF_RANGE, WANTED_TIME).misfits
        if not misfits:
            return batch, {}
        unusable_by_offset: dict[int, Unusable] = {}
        for misfit in misfits:
            unusable = Unusable(misfit.reason, misfit.detail)
            for offset in read.offsets.filter(misfit.rows).to_pylist():
                unusable_by_offset.setdefault(offset, unusable)
        if unusable_by_offset:
            fits_mask = pc.invert(
                pc.is_in(read.offsets, value_set=pa.array(unusable_by_offset, pa.int64()))
            )
            batch = batch.filter(fits_mask)
        return batch, unusable_by_offset

    def decoded(
        self,
        parts: Sequence[pa.RecordBatch],
        dead: tuple[Dead, ...],
        schema_ids: Mapping[int, int],
    ) -> Decoded:
        """Joins the parts in the order of their offsets."""
        parts = [part for part in parts if part.num_rows]
        rows = parts[0] if parts else pa.RecordBatch.from_pylist([], self._columns.arrow)
        if len(parts) > 1:
            rows = pa.concat_batches(parts)
            rows = rows.take(pc.sort_indices(rows.column("_offset")))
        return Decoded(
            rows if parts else None,
            self._columns.times(rows),
            self._columns.sources(rows),
            self._columns.seqs(rows),
            dead,
            schema_ids=schema_ids,
        )

    def _values(self, column: pa.Array) -> list[pa.Array]:
        """The columns of the schema's fields, in the table's order."""
        record = self._columns.reader.type
        if not isinstance(record, Record):
            return [column]
        if not record.fields:
            return []
        values = [column.field(index) for index in range(column.type.num_fields)]
        if not self._columns.has_header:
            return values
        header, *other_values = values
        if self._columns.header is HeaderColumns.NESTED:
            return [*other_values, header]
        return [*other_values, *(header.field(index) for index in range(header.type.num_fields))]

    def _origin_column(self, name: str, offsets: pa.Int64Array) -> pa.Array:
        if name == "_offset":
            return offsets
        column = self._constants[name]
        if len(column) < len(offsets):
            column = self._constants[name] = constant(column[:1], len(offsets))
        return column[: len(offsets)]
