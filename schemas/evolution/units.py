"""The units of logical types, which Avro's base types do not have.

Rules:

1. A value keeps its meaning. Between two units of one quantity it is multiplied or divided by a
   power of ten: decimal(12,2) to decimal(12,4), timestamp-millis to timestamp-micros.
2. A value that is not exact in the reader's unit, or does not fit, cannot be read.
3. Other quantities, or a quantity and plain numbers or bytes, do not convert: a date is not a count
   of milliseconds, and what a plain long counted is unknown.
"""

from typing import Final

import msgspec

from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Fixed, Primitive, Type

__all__ = ["Rescaling", "rescaling", "unit_in_words", "units_differ"]

_UNITS: Final = {
    "date": ("date", 0),
    "time-millis": ("time", 3),
    "time-micros": ("time", 6),
    "timestamp-millis": ("timestamp", 3),
    "timestamp-micros": ("timestamp", 6),
    "timestamp-nanos": ("timestamp", 9),
    "local-timestamp-millis": ("local timestamp", 3),
    "local-timestamp-micros": ("local timestamp", 6),
    "local-timestamp-nanos": ("local timestamp", 9),
    "big-decimal": ("big decimal", 0),
    "duration": ("duration", 0),
}
_LARGEST: Final = {"int": 2**31, "long": 2**63}


class _Unit(msgspec.Struct, frozen=True):
    """A unit of 10**-digits. `precision` is that of a decimal."""

    quantity: str
    digits: int
    precision: int | None = None


class Rescaling(msgspec.Struct, frozen=True):
    """Converts numbers from one unit to another: by 10**digits, within the limits of the reader."""

    digits: int
    least: int
    most: int
    target: str

    def number(self, number: int) -> int:
        """Converts a number. Raises ValueError."""
        if self.digits >= 0:
            number *= 10**self.digits
        else:
            number, remainder = divmod(number, 10**-self.digits)
            if remainder:
                raise ValueError(f"a value is not exact as {self.target}")
        if not self.least <= number <= self.most:
            raise ValueError(f"a value does not fit into {self.target}")
        return number

    def bytes(self, value: bytes, size: int | None) -> bytes:
        """Converts a decimal's bytes; `size` is that of a fixed type. Raises ValueError."""
        if not value:
            raise ValueError("a decimal has no bytes")
        number = self.number(int.from_bytes(value, "big", signed=True))
        byte_count = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return number.to_bytes(byte_count if size is None else size, "big", signed=True)


def units_differ(writer: Type, reader: Type) -> bool:
    """Returns whether values of a matching pair of simple types cannot be read without
    conversion."""
    writer_unit, reader_unit = _unit(writer), _unit(reader)
    if writer_unit is None or reader_unit is None:
        return writer_unit is not reader_unit
    return (writer_unit.quantity, writer_unit.digits) != (
        reader_unit.quantity,
        reader_unit.digits,
    ) or ((writer_unit.precision or 0) > (reader_unit.precision or 0))


def rescaling(writer: Type, reader: Type) -> Rescaling | None:
    """Returns the conversion between two units; None if no value can be converted."""
    writer_unit, reader_unit = _unit(writer), _unit(reader)
    if writer_unit is None or reader_unit is None or writer_unit.quantity != reader_unit.quantity:
        return None
    if reader_unit.precision is not None:
        largest = 10**reader_unit.precision - 1
        smallest = -largest
    else:
        largest = _LARGEST.get(reader.kind, 1) - 1
        smallest = -largest - 1
    return Rescaling(
        reader_unit.digits - writer_unit.digits, smallest, largest, unit_in_words(reader)
    )


def unit_in_words(type_: Type) -> str:
    """Returns `decimal(12,2)`, `timestamp-millis`, or the plain type."""
    unit = _unit(type_)
    if unit is None:
        return type_.kind
    if unit.precision is not None:
        return f"decimal({unit.precision},{unit.digits})"
    return logical_type(type_) or type_.kind


def _unit(type_: Type) -> _Unit | None:
    if not isinstance(type_, Primitive | Fixed) or not type_.props:
        return None
    name = logical_type(type_)
    if name == "decimal":
        return _Unit("decimal", type_.props.get("scale", 0), type_.props["precision"])
    return _Unit(*_UNITS[name]) if name in _UNITS else None
