"""The digests and proofs of ledger entries as columns, one row for each entry.

`digest` is the SHA-256 of the record's value, `proof` the value of its header, or null. Pure.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import numpy as np
import pyarrow as pa

from ledger.proofs import HEAD_BYTES, HEADER
from wire.record_batches.records import Record
from wire.record_batches.value_spans import NUMBERS, value_spans

_DIGESTS: Final = pa.binary(HEAD_BYTES)
PROOF_TYPE: Final = pa.struct([("digest", _DIGESTS), ("proof", pa.binary())])

_HEADER: Final = HEADER.encode()


def proof_columns(records: bytes | memoryview, count: int) -> pa.StructArray:
    """Returns the proofs of all records, which may be of several batches. Raises BatchError."""
    view = memoryview(records)
    places = np.frombuffer(value_spans(view, count, _HEADER), np.int64).reshape(-1, NUMBERS)
    begins, ends = np.maximum(places[:, 0], 0).tolist(), np.maximum(places[:, 1], 0).tolist()
    digests = b"".join(
        [sha256(view[begin:end]).digest() for begin, end in zip(begins, ends, strict=True)]
    )
    proofs: list[bytes | None] = [None] * count
    for row in np.flatnonzero(places[:, 2] >= 0).tolist():
        proofs[row] = bytes(view[places[row, 2] : places[row, 3]])
    return _columns(digests, proofs)


def proofs_of(records: Iterable[Record]) -> pa.StructArray:
    """Returns the proofs of records."""
    digests: list[bytes] = []
    proofs: list[bytes | None] = []
    for record in records:
        digests.append(sha256(record.value or b"").digest())
        proofs.append(next((value for name, value in record.headers if name == HEADER), None))
    return _columns(b"".join(digests), proofs)


def _columns(digests: bytes, proofs: list[bytes | None]) -> pa.StructArray:
    column = pa.FixedSizeBinaryArray.from_buffers(
        _DIGESTS, len(proofs), [None, pa.py_buffer(digests)]
    )
    return pa.StructArray.from_arrays(
        [column, pa.array(proofs, pa.binary())], fields=list(PROOF_TYPE)
    )
