"""Bodies read one by one, by fastavro, into Python's values of the raw form: slow, and exact.

What it reads, and what it refuses, is what `schemas.envelope` does.
"""

from typing import Any, Final

import pyarrow as pa

from columns.raw_form import tagged
from schemas.envelope import Decoder
from schemas.parsing import AvroSchema

_LEAF: Final = 8  # bytes, about


class RowReader:
    """Reads what was written with one schema. Raises `InvalidSchema` if nothing can be."""

    def __init__(self, writer: AvroSchema) -> None:
        schema = tagged(writer)
        self._decoder = Decoder(lambda _: schema)

    def read(self, message: bytes) -> Any:
        """A message of the envelope, whatever its id. Raises `BadMessage`."""
        return self._decoder.decode(b"\0\0\0\0\0" + message[5:])


def size_in_columns(value: Any, raw: pa.DataType) -> int:
    """The bytes that an array of the raw form needs for this one value, about: text apart."""
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
    below = sum(_in_lists(each, raw.value_type) for each in value)
    return len(value) * _width(raw.value_type) + below
