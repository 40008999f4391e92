"""Keyed digests of ledger entries. Equal entries have equal digests, whichever schema version they
were written with. The key is secret, so that an attacker cannot construct two entries with the same
digest. Whole columns are hashed at once; only each distinct text costs a call in Python. Pure.
"""

import hashlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Digests = NDArray[np.uint64]

_MISSING: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(0xBF58476D1CE4E5B9)
_TWO: Final = np.uint64(0x94D049BB133111EB)


def digests_of(body: pa.StructArray, key: bytes) -> NDArray[np.uint32]:
    """Of each entry; none is 0."""
    with np.errstate(over="ignore"):
        found = _hashed(body, key)
    return np.maximum((found >> np.uint64(32)).astype(np.uint32), np.uint32(1))


def _hashed(column: pa.Array, key: bytes) -> Digests:
    kind = column.type
    if pa.types.is_struct(kind):
        found = _salted(key, b"struct", len(column))
        for field, part in zip(kind, column.flatten(), strict=True):
            found += _mixed(_hashed(part, key) + _salt(key, field.name.encode()))
    elif pa.types.is_list(kind):
        found = _of_lists(column, key)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        encoded = column.dictionary_encode()
        texts = [_salt(key, each.as_buffer()) for each in encoded.dictionary]
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        found = np.array(texts, np.uint64)[codes] if texts else np.zeros(len(column), np.uint64)
    else:
        values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        found = values.astype(np.uint64) ^ _salt(key, b"number")
    if column.null_count:
        found[~column.is_valid().to_numpy(zero_copy_only=False)] = _MISSING
    return _mixed(found)


def _of_lists(column: pa.ListArray, key: bytes) -> Digests:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    found: Digests = lengths.astype(np.uint64) ^ _salt(key, b"list")
    items = column.flatten()
    if len(items):
        ends = np.cumsum(lengths)
        place = np.arange(len(items)) - np.repeat(ends - lengths, lengths)
        parts = _mixed(_hashed(items, key) + place.astype(np.uint64) * _MISSING)
        np.add.at(found, np.repeat(np.arange(len(lengths)), lengths), parts)
    return found


def _salted(key: bytes, what: bytes, count: int) -> Digests:
    return np.full(count, _salt(key, what), np.uint64)


def _salt(key: bytes, what: bytes | pa.Buffer) -> np.uint64:
    digest = hashlib.blake2b(what, digest_size=8, key=key).digest()
    return np.uint64(int.from_bytes(digest))


def _mixed(values: Digests) -> Digests:
    """Each bit depends on all bits, as in splitmix64."""
    values = (values ^ (values >> np.uint64(30))) * _ONE
    values = (values ^ (values >> np.uint64(27))) * _TWO
    return np.asarray(values ^ (values >> np.uint64(31)))
