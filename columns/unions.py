"""Converts from and to unions, in the raw form and as columns (column_types.py defines these)."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from columns.conversion import TRUE, Conversion, Converted, Misfit, constant
from columns.raw_form import branch_name


class Branch(msgspec.Struct, frozen=True):
    """The target of a writer's branch: a member of the reader's union, or null (None)."""

    slot: int | None
    conversion: Conversion | None  # None: null on both sides


class UnionConversion(msgspec.Struct, frozen=True):
    """Converts a union. `nullable` is the branch that is not null in nullable raw arrays. With
    `members` the column is a struct of all `types`; otherwise it is the only type."""

    column: pa.DataType
    types: tuple[pa.DataType, ...]
    members: bool
    branches: tuple[Branch, ...]
    nullable: int | None

    @property
    def raw(self) -> pa.DataType:
        if self.nullable is not None:
            conversion = self.branches[self.nullable].conversion
            assert conversion is not None
            return conversion.raw
        return pa.struct(
            [
                (branch_name(index), branch.conversion.raw)
                for index, branch in enumerate(self.branches)
                if branch.conversion is not None and branch.conversion.raw != pa.null()
            ]
        )

    def convert(self, raw: pa.Array) -> Converted:
        slot_columns: list[pa.Array | None] = [None] * len(self.types)
        misfits: list[Misfit] = []
        for (rows_of_branch, values), branch in zip(self._parts(raw), self.branches, strict=True):
            if branch.conversion is None:
                continue
            converted = branch.conversion.convert(values)
            misfits += [misfit.among(rows_of_branch()) for misfit in converted.misfits]
            if branch.slot is None:
                continue
            if self.nullable is not None:
                slot_columns[branch.slot] = converted.column
            else:
                slot_columns[branch.slot] = _where(
                    rows_of_branch(), converted.column, slot_columns[branch.slot]
                )
        columns = [
            pa.nulls(len(raw), type_) if column is None else column
            for type_, column in zip(self.types, slot_columns, strict=True)
        ]
        return Converted(_united(self, columns, len(raw)), tuple(misfits))

    def _parts(self, raw: pa.Array) -> list[tuple[Callable[[], pa.BooleanArray], pa.Array]]:
        """Returns each branch's rows, and its values there."""
        if self.nullable is not None:
            valid_part, null_part = (raw.is_valid, raw), (raw.is_null, pa.nulls(len(raw)))
            return [valid_part if index == self.nullable else null_part for index in range(2)]
        indexes = range(len(self.branches))
        # Flattened, because values under a null are undefined.
        branch_arrays = dict(zip((field.name for field in raw.type), raw.flatten(), strict=True))
        arrays = {
            index: branch_arrays[branch_name(index)]
            for index in indexes
            if branch_name(index) in branch_arrays
        }
        find_missing = partial(_all_null, list(arrays.values()), len(raw))
        return [
            (arrays[index].is_valid, arrays[index])
            if index in arrays
            else (find_missing, pa.nulls(len(raw)))
            for index in indexes
        ]


class IntoUnion(msgspec.Struct, frozen=True):
    """Converts a writer's type that is not a union to the reader's union."""

    column: pa.DataType
    types: tuple[pa.DataType, ...]
    members: bool
    slot: int
    conversion: Conversion

    @property
    def raw(self) -> pa.DataType:
        return self.conversion.raw

    def convert(self, raw: pa.Array) -> Converted:
        converted = self.conversion.convert(raw)
        columns = [
            converted.column if slot == self.slot else pa.nulls(len(raw), type_)
            for slot, type_ in enumerate(self.types)
        ]
        return Converted(_united(self, columns, len(raw)), converted.misfits)


def _united(union: UnionConversion | IntoUnion, columns: Sequence[pa.Array], rows: int) -> pa.Array:
    if not columns:
        return pa.nulls(rows, union.column)
    if not union.members:
        return columns[0]
    null_mask = _all_null(columns, rows)
    return pa.StructArray.from_arrays(columns, fields=list(union.column), mask=null_mask)


def _all_null(columns: Sequence[pa.Array], rows: int) -> pa.BooleanArray:
    nulls = constant(TRUE, rows)
    for column in columns:
        nulls = pc.and_(nulls, column.is_null())
    return nulls


def _where(
    present: pa.BooleanArray, values: pa.Array, otherwise: pa.Array | None = None
) -> pa.Array:
    return pc.if_else(
        present, values, pa.scalar(None, values.type) if otherwise is None else otherwise
    )
