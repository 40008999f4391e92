"""Converts the raw form of a writer's values to a reader's columns: the building blocks.

Conversions work on whole arrays. Rows that do not fit are reported as misfits and keep some value,
or null, in the column; the caller leaves them out. The enclosing conversion decides which of them
count: absent values (under a null, in another branch) fit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from columns.raw_form import field_name, parts


class Misfit(msgspec.Struct, frozen=True):
    """Rows that cannot be converted to the reader's type, and the reason."""

    rows: pa.BooleanArray
    reason: str
    detail: str

    def among(self, present: pa.BooleanArray) -> "Misfit":
        return Misfit(pc.and_(self.rows, present), self.reason, self.detail)


class Converted(msgspec.Struct, frozen=True):
    column: pa.Array
    misfits: tuple[Misfit, ...] = ()


class Conversion(Protocol):
    @property
    def raw(self) -> pa.DataType:
        """The part of the raw form that this conversion needs, for building it from Python
        values."""

    def convert(self, raw: pa.Array) -> Converted: ...


class Never(msgspec.Struct, frozen=True):
    """A conversion that fails: no data written with this type can be read."""

    raw: pa.DataType
    column: pa.DataType
    reason: str
    detail: str

    def convert(self, raw: pa.Array) -> Converted:
        rows = constant(TRUE, len(raw))
        misfit = Misfit(rows, self.reason, self.detail)
        return Converted(pa.nulls(len(raw), self.column), (misfit,))


class Leaf(msgspec.Struct, frozen=True):
    """A value without parts, converted by a series of steps."""

    raw: pa.DataType
    steps: tuple[Callable[[pa.Array], Converted], ...]

    def convert(self, raw: pa.Array) -> Converted:
        misfits: tuple[Misfit, ...] = ()
        for step in self.steps:
            converted = step(raw)
            raw = converted.column
            misfits += converted.misfits
        return Converted(raw, misfits)


class FromField(msgspec.Struct, frozen=True):
    """A field that the writer also has."""

    place: int
    conversion: Conversion


class FromDefault(msgspec.Struct, frozen=True):
    """A field that only the reader has: an array with its default."""

    default: pa.Array


@dataclass(frozen=True, slots=True)
class RecordConversion:
    column: pa.DataType  # a struct, or a boolean if it has no fields
    fields: tuple[FromField | FromDefault, ...]
    # The struct's fields: getting them from it takes longer than building an array.
    _made: list[pa.Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", list(self.column) if self.fields else [])

    @property
    def raw(self) -> pa.DataType:
        return parts(
            (field_name(source.place), source.conversion.raw)
            for source in self.fields
            if isinstance(source, FromField)
        )

    def convert(self, raw: pa.Array) -> Converted:
        columns: list[pa.Array] = []
        misfits: list[Misfit] = []
        for source in self.fields:
            if isinstance(source, FromDefault):
                columns.append(constant(source.default, len(raw)))
                continue
            converted = source.conversion.convert(raw.field(field_name(source.place)))
            columns.append(converted.column)
            misfits += converted.misfits
        null_mask = raw.is_null() if raw.null_count else None
        if not self.fields:
            valid_mask = constant(TRUE, len(raw))
            column = (
                valid_mask
                if null_mask is None
                else pc.if_else(null_mask, pa.scalar(None, pa.bool_()), valid_mask)
            )
        else:
            column = pa.StructArray.from_arrays(columns, fields=self._made, mask=null_mask)
        return Converted(column, tuple(misfits))


TRUE: Final = pa.array([True])


def constant(value: pa.Array, length: int) -> pa.Array:
    """Returns an array that repeats one value."""
    return value.take(pa.repeat(pa.scalar(0, pa.int32()), length))
