"""From the raw form of what a writer wrote to a reader's columns: the parts that are put together.

Conversions work on whole arrays. Rows that do not fit are named and keep some value, or null, in
the column: who asked leaves them out. Which of them count is the business of what is around them:
what is not there (under a null, in another branch) fits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from columns.raw_form import field_name, parts


class Misfit(msgspec.Struct, frozen=True):
    """Rows that cannot be what the reader wants, and why."""

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
        """What of the raw form is needed, for who makes it of Python's values."""

    def convert(self, raw: pa.Array) -> Converted: ...


class Never(msgspec.Struct, frozen=True):
    """Nothing that is written so can be read."""

    raw: pa.DataType
    column: pa.DataType
    reason: str
    detail: str

    def convert(self, raw: pa.Array) -> Converted:
        rows = constant(TRUE, len(raw))
        misfit = Misfit(rows, self.reason, self.detail)
        return Converted(pa.nulls(len(raw), self.column), (misfit,))


class Leaf(msgspec.Struct, frozen=True):
    """A value that has no parts: steps, one after the other."""

    raw: pa.DataType
    steps: tuple[Callable[[pa.Array], Converted], ...]

    def convert(self, raw: pa.Array) -> Converted:
        misfits: tuple[Misfit, ...] = ()
        for step in self.steps:
            done = step(raw)
            raw = done.column
            misfits += done.misfits
        return Converted(raw, misfits)


class FromField(msgspec.Struct, frozen=True):
    """A field that the writer has as well."""

    place: int
    conversion: Conversion


class FromDefault(msgspec.Struct, frozen=True):
    """A field that only the reader has: an array with its one default."""

    default: pa.Array


@dataclass(frozen=True, slots=True)
class RecordConversion:
    column: pa.DataType  # a struct, or a boolean if it has no fields
    fields: tuple[FromField | FromDefault, ...]
    # Of the struct: asking it for them takes longer than making an array of them.
    _made: list[pa.Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", list(self.column) if self.fields else [])

    @property
    def raw(self) -> pa.DataType:
        return parts(
            (field_name(each.place), each.conversion.raw)
            for each in self.fields
            if isinstance(each, FromField)
        )

    def convert(self, raw: pa.Array) -> Converted:
        columns: list[pa.Array] = []
        misfits: list[Misfit] = []
        for each in self.fields:
            if isinstance(each, FromDefault):
                columns.append(constant(each.default, len(raw)))
                continue
            done = each.conversion.convert(raw.field(field_name(each.place)))
            columns.append(done.column)
            misfits += done.misfits
        absent = raw.is_null() if raw.null_count else None
        if not self.fields:
            there = constant(TRUE, len(raw))
            column = (
                there if absent is None else pc.if_else(absent, pa.scalar(None, pa.bool_()), there)
            )
        else:
            column = pa.StructArray.from_arrays(columns, fields=self._made, mask=absent)
        return Converted(column, tuple(misfits))


TRUE: Final = pa.array([True])


def constant(value: pa.Array, length: int) -> pa.Array:
    """An array of one value, so many times."""
    return value.take(pa.repeat(pa.scalar(0, pa.int32()), length))
