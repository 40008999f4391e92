"""Converts dates, times, decimals and UUIDs to the Avro types that carry them. Pure.

A number is in the unit of its type: milliseconds for a `timestamp-millis`, days for a `date`. Text
is read as ISO 8601; a time without zone is UTC. Times are truncated to the type's precision; a
decimal with more digits is refused, so that no amount of money is rounded.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from agent.encoding.bodies.conversions import (
    PRIMITIVES,
    raw,
    text_of,
    to_bytes,
    to_fixed,
    to_int,
    to_long,
    to_string,
)
from schemas.bodies.primitives import Write
from schemas.bodies.refusals import no
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Fixed, Primitive

_PLAIN_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,40}(\.0*)?\s*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_DAY: Final = date(1970, 1, 1)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOST_DIGITS: Final = 2_000  # of a decimal: more is an attack rather than a number
_EXACT: Final = Context(prec=5 * _MOST_DIGITS)

_UNITS: Final = {"millis": 1_000, "micros": 1, "nanos": 0}  # microseconds in each; 0: a thousandth


def converting_writer(type_: Primitive | Fixed) -> Write:
    """The writer for a type: that of its logical type, if the agent supports it, else of its base
    type."""
    logical_writer = _logical_writer(type_)
    if logical_writer is not None:
        return logical_writer
    return to_fixed(type_.size) if isinstance(type_, Fixed) else PRIMITIVES[type_.kind]


def _logical_writer(type_: Primitive | Fixed) -> Write | None:
    name = logical_type(type_)
    if name is None:
        return None
    if name == "date":
        return _or_number(to_int, _day)
    kind, _, unit = name.rpartition("-")
    if kind == "time":
        return _or_number(to_int if unit == "millis" else to_long, _time_of_day(unit))
    if kind in {"timestamp", "local-timestamp"}:
        return _or_number(to_long, _timestamp(unit, local=kind == "local-timestamp"))
    if name == "uuid":
        return _uuid_bytes if isinstance(type_, Fixed) else _uuid_text
    if name == "decimal":
        size = type_.size if isinstance(type_, Fixed) else None
        return _decimal(int(type_.props["precision"]), int(type_.props.get("scale", 0)), size)
    return None


def _or_number(carried: Write, read: Callable[[Any], int]) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value.__class__ is not int and (
            (isinstance(value, str) and not _PLAIN_NUMBER.fullmatch(value))
            or isinstance(value, date | time)
        ):
            value = read(value)
        carried(out, value)

    return write


def _timestamp(unit: str, *, local: bool) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        date_value = value
        if isinstance(value, str):
            try:
                date_value = datetime.fromisoformat(value.strip())
            except ValueError:
                raise no(value, "not a time") from None
        elif not isinstance(value, datetime):
            if not isinstance(value, date):
                raise no(value, "not a time")
            date_value = datetime(value.year, value.month, value.day)
        if local:
            return _in(unit, date_value.replace(tzinfo=None) - _LOCAL_EPOCH)
        return _in(
            unit, (date_value if date_value.tzinfo else date_value.replace(tzinfo=UTC)) - _EPOCH
        )

    return read


def _time_of_day(unit: str) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        time_value = value
        if isinstance(value, str):
            try:
                time_value = time.fromisoformat(value.strip())
            except ValueError:
                raise no(value, "not a time of day") from None
        if isinstance(time_value, datetime) or not isinstance(time_value, time):
            raise no(value, "not a time of day")
        elapsed = timedelta(
            hours=time_value.hour,
            minutes=time_value.minute,
            seconds=time_value.second,
            microseconds=time_value.microsecond,
        )
        return _in(unit, elapsed)

    return read


def _in(unit: str, since: timedelta) -> int:
    micros = since // timedelta(microseconds=1)
    size = _UNITS[unit]
    return micros // size if size else micros * 1_000


def _day(value: Any) -> int:
    date_value = value
    if isinstance(value, str):
        try:
            date_value = date.fromisoformat(value.strip())
        except ValueError:
            raise no(value, "not a date") from None
    if isinstance(date_value, datetime):
        date_value = date_value.date()
    if not isinstance(date_value, date):
        raise no(value, "not a date")
    return (date_value - _FIRST_DAY).days


def _uuid_text(out: bytearray, value: Any) -> None:
    text = str(value) if isinstance(value, UUID) else text_of(value)
    if not _UUID.fullmatch(text):
        raise no(value, "not a UUID")
    to_string(out, text)


def _uuid_bytes(out: bytearray, value: Any) -> None:
    if isinstance(value, str) and _UUID.fullmatch(value):
        value = UUID(value)
    body = value.bytes if isinstance(value, UUID) else raw(value)
    if len(body) != 16:
        raise no(value, "not a UUID")
    out += body


def _decimal(precision: int, scale: int, size: int | None) -> Write:
    write_bytes = to_bytes if size is None else to_fixed(size)
    limit = 10 ** min(precision, 2 * _MOST_DIGITS)

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes | bytearray):
            unscaled_value = _unscaled(value, scale)
            if abs(unscaled_value) >= limit:
                description = f"not a decimal({precision}, {scale})"
                raise no(value, description)
            bits = (unscaled_value if unscaled_value >= 0 else ~unscaled_value).bit_length()
            value = unscaled_value.to_bytes(size or bits // 8 + 1, "big", signed=True)
        write_bytes(out, value)

    return write


def _unscaled(value: Any, scale: int) -> int:
    number = _exact(value)
    if number is None or scale > _MOST_DIGITS or abs(number.adjusted()) > _MOST_DIGITS:
        raise no(value, "not a decimal")
    scaled_number = number.scaleb(scale, _EXACT)
    integer = scaled_number.to_integral_value(context=_EXACT)
    if integer != scaled_number:
        raise no(value, f"not a decimal with {scale} fractional digits")
    return int(integer)


def _exact(value: Any) -> Decimal | None:
    """The value as a decimal; for a float, its shortest representation."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, int) and value.bit_length() > 3 * _MOST_DIGITS:
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and len(number.as_tuple().digits) <= _MOST_DIGITS else None
