"""Decodes ledger entries to columns of one type, whichever version of the schema they were written
with.

`LEDGER_TYPE` has all fields of our Ledger.avsc, in its order: times are numbers of milliseconds,
enums are their symbols. One native call decodes the records of many batches and resolves them to
that type (columns/, as in the loader). If that is not possible, or a single entry does not fit, it
raises NotTogether, and the caller reads the entries one by one.

Pure.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import msgspec
import pyarrow as pa

from columns.column_types import column_type
from columns.conversion import Conversion
from columns.native import NativeReader, NotNative
from columns.resolution import resolve
from ledger.frames import Frames, NotTogether
from schemas.definitions.types import Type
from schemas.errors import InvalidSchema
from schemas.event_schemas import LEDGER, built_in
from schemas.parsing import AvroSchema, parse


def _plain(json_: Any) -> Any:
    """The schema without logical types."""
    if isinstance(json_, dict):
        return {key: _plain(value) for key, value in json_.items() if key != "logicalType"}
    return [_plain(item) for item in json_] if isinstance(json_, list) else json_


def _plain_type(schema: AvroSchema) -> Type:
    return parse(json.dumps(_plain(json.loads(schema.resolved_text)))).type


_READER: Final = _plain_type(built_in(LEDGER))
LEDGER_TYPE: Final[pa.StructType] = column_type(_READER)


def no_entries() -> pa.StructArray:
    return pa.array([], LEDGER_TYPE)


def columns_of(entries: Sequence[Mapping[str, Any]]) -> pa.StructArray:
    """Selects the fields of our schema from entries that have all of them, as columns."""
    return pa.array(entries, LEDGER_TYPE)


class ColumnsOfLedger(msgspec.Struct, frozen=True):
    """Decodes entries that were written with one schema."""

    schema_id: int
    native: NativeReader
    conversion: Conversion

    @classmethod
    def of(cls, schema: AvroSchema, schema_id: int) -> Self | None:
        """Returns the decoder for a schema; None if its entries cannot be decoded together."""
        if schema.full_name != LEDGER:
            return None
        try:
            writer = _plain_type(schema)
            conversion = resolve(writer, _READER)
            native_reader = NativeReader(writer, conversion.raw)
        except (NotNative, InvalidSchema, RecursionError):
            return None
        # If not even an entry with only nulls fits, none does.
        if _fitting(conversion, pa.nulls(1, conversion.raw)) is None:
            return None
        return cls(schema_id, native_reader, conversion)

    def read(self, frames: Frames) -> pa.StructArray:
        """Decodes the entries to `LEDGER_TYPE`. Raises NotTogether."""
        raw = self.native.records(frames.count, frames.data, self.schema_id)
        body = None if raw is None else _fitting(self.conversion, raw)
        if body is None:
            raise NotTogether
        return body


def _fitting(conversion: Conversion, raw: pa.Array) -> pa.StructArray | None:
    """The converted entries; None unless all of them fit."""
    result = conversion.convert(raw)
    return None if any(misfit.rows.true_count for misfit in result.misfits) else result.column
