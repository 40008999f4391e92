"""Converts values without parts: one written type to a column of another.

Spark is narrower than Avro: its calendar ends with the years 1 and 9999, and a decimal has the
digits that its type says. A value outside of that is a misfit.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from columns.column_types import TIMESTAMP, column_type
from columns.conversion import Converted, Leaf, Misfit
from columns.raw_form import RAW_PRIMITIVES
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Enum, Fixed, Primitive
from schemas.evolution.units import Rescaling, rescaling, units_differ

Step = Callable[[pa.Array], Converted]

NOT_RESOLVABLE: Final = "not resolvable"
OUT_OF_RANGE: Final = "out of range"

_DAYS: Final = (-719_162, 2_932_896)  # 0001-01-01 to 9999-12-31
_MILLIS: Final = (-62_135_596_800_000, 253_402_300_799_999)
_MICROS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)

_MICROS_IN_A_MILLI: Final = pa.scalar(1000, pa.int64())


def primitive(writer: Primitive, reader: Primitive, unit_of: Primitive | None = None) -> Leaf:
    """Converts values to the reader's type, which is the writer's or one that it is promoted to.
    `unit_of` is a type whose unit the values are to have; by default the reader's."""
    steps: list[Step] = []
    if reader.kind == "null":
        return null(column_type(reader))
    if writer.kind == "bytes" and reader.kind == "string":
        steps.append(_as_text)
    elif RAW_PRIMITIVES[writer.kind] != RAW_PRIMITIVES[reader.kind]:
        steps.append(partial(_cast, to=RAW_PRIMITIVES[reader.kind]))
    steps += _rescaled(writer, unit_of or reader)
    steps += _logical(reader)
    return Leaf(RAW_PRIMITIVES[writer.kind], tuple(steps))


def fixed(writer: Fixed, reader: Fixed) -> Leaf:
    return Leaf(pa.binary(), (*_rescaled(writer, reader), *_logical(reader)))


def enum(writer: Enum, reader: Enum) -> Leaf:
    unknown_symbols = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    steps: list[Step] = []
    if unknown_symbols:
        steps.append(partial(_symbols, unknown=pa.array(unknown_symbols), default=reader.default))
    return Leaf(pa.string(), tuple(steps))


def null(column: pa.DataType) -> Leaf:
    return Leaf(pa.null(), (partial(_nulls, to=column),))


def widened(writer: Primitive, reader: Primitive, column: pa.DataType) -> Leaf:
    """Reads a number in the reader's unit, without its logical type, and widens it to the column's
    type."""
    conversion = primitive(writer, Primitive(reader.kind, {}), unit_of=reader)
    return Leaf(conversion.raw, (*conversion.steps, partial(_cast, to=column)))


def _rescaled(writer: Primitive | Fixed, reader: Primitive | Fixed) -> list[Step]:
    """No step unless the units differ; there must be a conversion."""
    scale = rescaling(writer, reader) if units_differ(writer, reader) else None
    if scale is None:
        return []
    if isinstance(reader, Fixed) or reader.kind == "bytes":
        size = reader.size if isinstance(reader, Fixed) else None
        return [partial(_decimals_rescaled, scale=scale, size=size)]
    step = _multiplied if scale.digits > 0 else _divided
    return [partial(step, scale=scale, factor=10 ** abs(scale.digits))]


def _logical(reader: Primitive | Fixed) -> list[Step]:
    column = column_type(reader)
    match logical_type(reader):
        case "date":
            check_days = partial(bounded, bounds=_DAYS, reason=OUT_OF_RANGE, what="date")
            return [check_days, partial(_view, to=column)]
        case "timestamp-millis" | "local-timestamp-millis":
            return _millis(column)
        case "timestamp-micros" | "local-timestamp-micros":
            check_micros = partial(bounded, bounds=_MICROS, reason=OUT_OF_RANGE, what="time")
            return [check_micros, partial(_view, to=column)]
        case "decimal" if pa.types.is_decimal(column):
            return [partial(_decimals, column=column)]
    return []


def _millis(column: pa.DataType) -> list[Step]:
    check_millis = partial(bounded, bounds=_MILLIS, reason=OUT_OF_RANGE, what="time")
    return [check_millis, _to_micros, partial(_view, to=column)]


def _cast(raw: pa.Array, to: pa.DataType) -> Converted:
    """Casts numbers to the same or a larger size, or text to bytes: only the last digits of a long
    as a floating-point number can be lost."""
    return Converted(pc.cast(raw, to, safe=False))


def _nulls(raw: pa.Array, to: pa.DataType) -> Converted:
    return Converted(pa.nulls(len(raw), to))


def _view(raw: pa.Array, to: pa.DataType) -> Converted:
    return Converted(raw.view(to))


def _to_micros(raw: pa.Array) -> Converted:
    return Converted(pc.multiply(raw, _MICROS_IN_A_MILLI))


def _multiplied(raw: pa.Array, scale: Rescaling, factor: int) -> Converted:
    bounds = (-(-scale.least // factor), scale.most // factor)
    converted = bounded(raw, bounds, OUT_OF_RANGE, scale.target)
    return Converted(pc.multiply(converted.column, pa.scalar(factor, raw.type)), converted.misfits)


def _divided(raw: pa.Array, scale: Rescaling, factor: int) -> Converted:
    divisor = pa.scalar(factor, raw.type)
    numbers = pc.divide(raw, divisor)
    inexact_mask = pc.not_equal(pc.multiply(numbers, divisor), raw).fill_null(False)
    if not inexact_mask.true_count:
        return Converted(numbers)
    detail = f"{raw.filter(inexact_mask)[0].as_py()} is not exact as {scale.target}"
    return Converted(numbers, (Misfit(inexact_mask, OUT_OF_RANGE, detail),))


def bounded(raw: pa.Array, bounds: tuple[int, int], reason: str, what: str) -> Converted:
    """Keeps numbers within the bounds; numbers outside them are misfits."""
    least, most = bounds
    limits: Mapping[str, int | None] = pc.min_max(raw).as_py()
    lowest_value, highest_value = limits["min"], limits["max"]
    if (
        lowest_value is None
        or highest_value is None
        or (least <= lowest_value and highest_value <= most)
    ):
        return Converted(raw)
    outside_mask = pc.or_(pc.less(raw, least), pc.greater(raw, most)).fill_null(False)
    detail = f"{lowest_value if lowest_value < least else highest_value} is not a {what}"
    return Converted(
        pc.if_else(outside_mask, pa.scalar(0, raw.type), raw),
        (Misfit(outside_mask, reason, detail),),
    )


def _as_text(raw: pa.BinaryArray) -> Converted:
    return _in_utf8(raw, NOT_RESOLVABLE, "the reader's type is string, and the bytes are not UTF-8")


def _in_utf8(raw: pa.BinaryArray, reason: str, detail: str) -> Converted:
    try:
        return Converted(pc.cast(raw, pa.string()))
    except pa.ArrowInvalid:
        values = raw.to_pylist()
    rows = pa.array([value is not None and not _is_utf8(value) for value in values], pa.bool_())
    texts = pc.if_else(rows, pa.scalar(b"", pa.binary()), raw)
    return Converted(pc.cast(texts, pa.string()), (Misfit(rows, reason, detail),))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _symbols(raw: pa.Array, unknown: pa.Array, default: str | None) -> Converted:
    rows = pc.is_in(raw, value_set=unknown)
    if not rows.true_count:
        return Converted(raw)
    if default is not None:
        return Converted(pc.if_else(rows, pa.scalar(default), raw))
    first_symbol = raw.filter(rows)[0].as_py()
    detail = f"the reader's enum has no symbol {first_symbol}, and no default"
    return Converted(raw, (Misfit(rows, NOT_RESOLVABLE, detail),))


def _decimals_rescaled(raw: pa.Array, scale: Rescaling, size: int | None) -> Converted:
    """Misfits keep a zero."""
    values: list[bytes | None] = []
    reasons: dict[int, str] = {}
    for row, value in enumerate(raw.to_pylist()):
        try:
            values.append(None if value is None else scale.bytes(value, size))
        except (ValueError, OverflowError) as error:
            values.append(b"\0")
            reasons[row] = str(error)
    rescaled_values = pa.array(values, pa.binary())
    misfits = []
    for reason in dict.fromkeys(reasons.values()):
        rows = pa.array([reasons.get(row) == reason for row in range(len(raw))], pa.bool_())
        misfits.append(Misfit(rows, OUT_OF_RANGE, reason))
    return Converted(rescaled_values, tuple(misfits))


def _decimals(raw: pa.Array, column: pa.DataType) -> Converted:
    """Converts big-endian numbers of any length to Arrow's, of sixteen bytes."""
    limit = 10**column.precision - 1
    buffer = bytearray()
    outside_rows = []
    for value in raw.to_pylist():
        number = int.from_bytes(value or b"", "big", signed=True)
        fits = value is None or (value != b"" and -limit <= number <= limit)
        outside_rows.append(not fits)
        buffer += (number if fits else 0).to_bytes(16, "little", signed=True)
    numbers = pa.Array.from_buffers(column, len(raw), [None, pa.py_buffer(bytes(buffer))])
    array = pc.if_else(raw.is_valid(), numbers, pa.scalar(None, column))
    if not any(outside_rows):
        return Converted(array)
    detail = f"the number does not fit into decimal({column.precision},{column.scale})"
    return Converted(array, (Misfit(pa.array(outside_rows), OUT_OF_RANGE, detail),))


KEYS: Final = Leaf(pa.string(), ())  # of maps
RECORD_TIMES: Final = Leaf(pa.int64(), tuple(_millis(TIMESTAMP)))
