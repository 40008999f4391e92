"""Entries of the ledger as columns of one known type, whichever version of its schema wrote them.

`LEDGER_TYPE` has all fields of our Ledger.avsc, in its order: times are numbers of milliseconds,
enums are their symbols. The records of many batches are decoded in one native call (frames.py) and
conformed to it (conforming.py). What cannot be read so is NotTogether, and somebody reads it one by
one. Every string is UTF-8, or none of it is handed out.

Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyruhvro

from ledger.conforming import Unlike, arrow_type, conformed
from ledger.frames import Frames, NotTogether, check_records, records_schema
from schemas.definitions.types import Type
from schemas.event_schemas import LEDGER, built_in
from schemas.parsing import AvroSchema

LEDGER_TYPE: Final[pa.StructType] = arrow_type(built_in(LEDGER).type)


def no_entries() -> pa.StructArray:
    return pa.array([], LEDGER_TYPE)


def columns_of(entries: Sequence[Mapping[str, Any]]) -> pa.StructArray:
    """Entries that have all fields of our schema, as columns."""
    return pa.array(entries, LEDGER_TYPE)


@dataclass(frozen=True, slots=True)
class ColumnsOfLedger:
    """Reads what was written with one schema."""

    schema_id: int
    text: str  # of an array of records with such entries
    written: Type | None  # where it is not ours

    @classmethod
    def of(cls, schema: AvroSchema, schema_id: int) -> Self | None:
        """None if entries of that schema are not to be read together."""
        if schema.full_name != LEDGER:
            return None
        body = _without_logical_types(json.loads(schema.resolved_text))
        if _has_bytes(body):
            return None
        ours = schema.canonical_form == built_in(LEDGER).canonical_form
        columns = cls(schema_id, json.dumps(records_schema(body)), None if ours else schema.type)
        try:
            columns.read(Frames(0, b""))
        except NotTogether:
            return None
        return columns

    def read(self, frames: Frames) -> pa.StructArray:
        """Of `LEDGER_TYPE`. Raises NotTogether."""
        try:
            batch = pyruhvro.deserialize_array([frames.as_array()], self.text)
            records = batch.column(0).values
            if frames.count:
                check_records(records, frames, self.schema_id)
            body = records.field("body")
            if self.written is not None:
                body = conformed(body, self.written, built_in(LEDGER).type)
            body.validate(full=True)
        except (Unlike, ValueError, RuntimeError, OverflowError, pa.ArrowException):
            raise NotTogether from None
        if body.type != LEDGER_TYPE:
            raise NotTogether
        return body


def _without_logical_types(json_: Any) -> Any:
    if isinstance(json_, dict):
        return {
            key: _without_logical_types(value)
            for key, value in json_.items()
            if key not in {"logicalType", "doc", "default"}
        }
    if isinstance(json_, list):
        return [_without_logical_types(each) for each in json_]
    return json_


def _has_bytes(type_: Any) -> bool:
    """Types that the native decoder does not take."""
    if isinstance(type_, str):
        return type_ in {"bytes", "fixed"}
    if isinstance(type_, list):
        return any(map(_has_bytes, type_))
    inner = [type_[key] for key in ("type", "items", "values") if key in type_]
    return any(map(_has_bytes, (*inner, *type_.get("fields", ()))))
