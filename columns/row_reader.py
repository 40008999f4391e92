"""Reads bodies one by one, with fastavro, into Python values of the raw form. Slow, but exact.

It accepts and rejects the same as `schemas.envelope`.
"""

from typing import Any, Final

import pyarrow as pa

from columns.raw_form import tagged
from schemas.envelope import Decoder
from schemas.parsing import AvroSchema

_LEAF: Final = 8  # bytes, approximately


class RowReader:
    """Reads values of one schema. Raises `InvalidSchema` if no value can be read."""

    def __init__(self, writer: AvroSchema) -> None:
        schema = tagged(writer)
        self._decoder = Decoder(lambda _: schema)

    def read(self, message: bytes) -> Any:
        """Reads a message in the envelope, whatever its id. Raises `BadMessage`."""
        return self._decoder.decode(b"\0\0\0\0\0" + message[5:])


def size_in_columns(value: Any, raw: pa.DataType) -> int:
    """Estimates the bytes that this value takes in an array of the raw form, without its text."""
    return _width(raw) + _in_lists(value, raw)


def _width(raw: pa.DataType) -> int:
    if pa.types.is_struct(raw):
        return 1 + sum(_width(field.type) for field in raw)
    return _LEAF


def _in_lists(value: Any, raw: pa.DataType) -> int:
    if value is None or not pa.types.is_nested(raw):
        return 0
    if pa.types.is_struct(raw):
        return sum(_in_lists(value.get(field.name), field.type) for field in raw)
    nested_bytes = sum(_in_lists(item, raw.value_type) for item in value)
    return len(value) * _width(raw.value_type) + nested_bytes
