"""The digests and proofs of ledger entries as columns, one row for each entry.

`digest` is the SHA-256 of the record's value, `proof` the value of its header, or null. `value` is
the record's value where it is wanted and the record has a proof, else null. Pure.
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
PROOF_TYPE: Final = pa.struct(
    [("digest", _DIGESTS), ("proof", pa.binary()), ("value", pa.binary())]
)

_HEADER: Final = HEADER.encode()


def proof_columns(
    records: bytes | memoryview, count: int, with_value: pa.BooleanArray
) -> pa.StructArray:
    """Returns the proofs of all records, which may be of several batches, and the values of some.
    Raises BatchError."""
    view = memoryview(records)
    places = np.frombuffer(value_spans(view, count, _HEADER), np.int64).reshape(-1, NUMBERS)
    begins, ends = np.maximum(places[:, 0], 0).tolist(), np.maximum(places[:, 1], 0).tolist()
    digests = b"".join(
        [sha256(view[begin:end]).digest() for begin, end in zip(begins, ends, strict=True)]
    )
    proofs: list[bytes | None] = [None] * count
    values: list[bytes | None] = [None] * count
    has_value = with_value.to_numpy(zero_copy_only=False).tolist()
    for row in np.flatnonzero(places[:, 2] >= 0).tolist():
        proofs[row] = bytes(view[places[row, 2] : places[row, 3]])
        if has_value[row]:
            values[row] = bytes(view[begins[row] : ends[row]])
    return _columns(digests, proofs, values)


def proofs_of(records: Iterable[tuple[Record, bool]]) -> pa.StructArray:
    """Returns the proofs of records, each given with whether its value is wanted."""
    digests: list[bytes] = []
    proofs: list[bytes | None] = []
    values: list[bytes | None] = []
    for record, with_value in records:
        digests.append(sha256(record.value or b"").digest())
        proof = next((value for name, value in record.headers if name == HEADER), None)
        proofs.append(proof)
        values.append(record.value if with_value and proof is not None else None)
    return _columns(b"".join(digests), proofs, values)


def _columns(
    digests: bytes, proofs: list[bytes | None], values: list[bytes | None]
) -> pa.StructArray:
    column = pa.FixedSizeBinaryArray.from_buffers(
        _DIGESTS, len(proofs), [None, pa.py_buffer(digests)]
    )
    return pa.StructArray.from_arrays(
        [column, pa.array(proofs, pa.binary()), pa.array(values, pa.binary())],
        fields=list(PROOF_TYPE),
    )
