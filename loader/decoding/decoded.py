"""The result of decoding a batch: rows, and dead letters with their reasons."""

from collections.abc import Mapping
from typing import Final

import msgspec
import pyarrow as pa

NO_VALUE: Final = "no value"
NOT_FRAMED: Final = "names no schema"
UNKNOWN_SCHEMA: Final = "schema not registered"
INVALID_SCHEMA: Final = "schema cannot be used"
MALFORMED: Final = "malformed"
BROKEN_BATCH: Final = "broken batch"
COLLISION: Final = "source and seq of another event"
NO_SCHEMA: Final = -1


class Dead(msgspec.Struct, frozen=True):
    """A record that did not become a row. `reason` is one of the constants above; `detail`
    describes this record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    reason: str
    detail: str
    schema_id: int = NO_SCHEMA


class Decoded(msgspec.Struct, frozen=True):
    """Rows in the order of their offsets, with their times, sources and numbers."""

    rows: pa.RecordBatch | None
    times: pa.Int64Array  # milliseconds: the header's, else the record's
    sources: pa.Array | None
    seqs: pa.Int64Array | None
    dead: tuple[Dead, ...] = ()
    # The offsets of a broken batch that have no letter of their own, as a half-open range.
    unnamed: tuple[int, int] = (0, 0)
    schema_ids: Mapping[int, int] = {}
