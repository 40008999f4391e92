"""What becomes of a batch: rows, and what cannot be one, with its reason."""

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
    """A record that is no row. `reason` is one of few; `detail` says it of this record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    reason: str
    detail: str
    schema_id: int = NO_SCHEMA


class Decoded(msgspec.Struct, frozen=True):
    """Rows in the order of their offsets, and what stands beside each."""

    rows: pa.RecordBatch | None
    times: pa.Int64Array  # milliseconds: the header's, or the record's without one
    sources: pa.Array | None
    seqs: pa.Int64Array | None
    dead: tuple[Dead, ...] = ()
    # Of a broken batch whose offsets are too many to name each: from, and up to but without.
    unnamed: tuple[int, int] = (0, 0)
    schema_ids: Mapping[int, int] = {}
