"""Converts arrays and maps: converts the items of all rows in one pass, then restores the row
boundaries."""

from bisect import bisect_right

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from columns.conversion import Conversion, Converted, Misfit
from columns.raw_form import ENTRY, KEY


class ListConversion(msgspec.Struct, frozen=True):
    column: pa.DataType
    items: Conversion

    @property
    def raw(self) -> pa.DataType:
        return pa.list_(self.items.raw)

    def convert(self, raw: pa.Array) -> Converted:
        converted = self.items.convert(raw.values)
        return Converted(
            _as_list(self.column, raw, converted.column),
            tuple(_of_lists(misfit, raw) for misfit in converted.misfits),
        )


class MapConversion(msgspec.Struct, frozen=True):
    """Converts maps. If a key occurs several times, its last value counts."""

    column: pa.DataType
    keys: Conversion
    values: Conversion

    @property
    def raw(self) -> pa.DataType:
        return pa.list_(pa.struct([(KEY, self.keys.raw), (ENTRY, self.values.raw)]))

    def convert(self, raw: pa.Array) -> Converted:
        converted_keys = self.keys.convert(raw.values.field(KEY))
        converted_values = self.values.convert(raw.values.field(ENTRY))
        fields = [self.column.key_field, self.column.item_field]
        entries = pa.StructArray.from_arrays(
            [converted_keys.column, converted_values.column], fields=fields
        )
        misfits = (
            _of_lists(misfit, raw)
            for misfit in (*converted_keys.misfits, *converted_values.misfits)
        )
        return Converted(_without_repeated_keys(_as_list(self.column, raw, entries)), (*misfits,))


def _as_list(column: pa.DataType, raw: pa.Array, values: pa.Array) -> pa.Array:
    """Divides `values` into the same lists as `raw`."""
    return pa.Array.from_buffers(
        column, len(raw), raw.buffers()[:2], raw.null_count, raw.offset, [values]
    )


def _of_lists(misfit: Misfit, lists: pa.Array) -> Misfit:
    """A list is a misfit if one of its items is."""
    starts = lists.offsets.to_pylist()
    bad_rows = {
        bisect_right(starts, item) - 1
        for item in pc.indices_nonzero(misfit.rows).to_pylist()
        if starts[0] <= item < starts[-1]
    }
    rows = pa.array([row in bad_rows for row in range(len(lists))], pa.bool_())
    return Misfit(rows, misfit.reason, misfit.detail)


def _without_repeated_keys(maps: pa.MapArray) -> pa.MapArray:
    entries = len(maps.keys)
    if entries < 2:
        return maps
    rows = pc.list_parent_indices(_as_list(pa.list_(maps.type.key_type), maps, maps.keys))
    if len(rows) == entries:  # otherwise some are in no map
        pairs = pa.table({"row": rows, "key": maps.keys})
        if pairs.group_by(["row", "key"], use_threads=False).aggregate([]).num_rows == entries:
            return maps
    return pa.array(
        [None if entry is None else list(dict(entry).items()) for entry in maps.to_pylist()],
        maps.type,
    )
