"""Computes keyed digests of ledger entries. Equal entries have equal digests, whichever schema
version they were written with. The key is secret, so that an attacker cannot construct two entries
with the same digest. Whole columns are hashed at once. Pure.

Texts are hashed by multilinear hashing: each byte is multiplied by a secret number that depends on
its position, and the products are added. Without the key, no text can be chosen to collide.
"""

import hashlib
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Digests = NDArray[np.uint64]

_MISSING: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(0xBF58476D1CE4E5B9)
_TWO: Final = np.uint64(0x94D049BB133111EB)
_BYTE: Final = np.uint64(1)  # added to each byte, so that zeros count
_LONGEST: Final = 4_096  # bytes of a text; longer ones are hashed one by one


def digests_of(body: pa.StructArray, key: bytes) -> NDArray[np.uint32]:
    """Returns a digest of each entry, which is never 0."""
    with np.errstate(over="ignore"):
        hashes = _hashed(body, key)
    return np.maximum((hashes >> np.uint64(32)).astype(np.uint32), np.uint32(1))


def _hashed(column: pa.Array, key: bytes) -> Digests:
    kind = column.type
    if pa.types.is_struct(kind):
        hashes = _salted(key, b"struct", len(column))
        for field, part in zip(kind, column.flatten(), strict=True):
            hashes += _mixed(_hashed(part, key) + _salt(key, field.name.encode()))
    elif pa.types.is_list(kind):
        hashes = _of_lists(column, key)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        dictionary = column.dictionary_encode()
        texts = _of_texts(dictionary.dictionary, key)
        codes = _numbers(dictionary.indices)
        hashes = texts[codes] if len(texts) else np.zeros(len(column), np.uint64)
    else:
        hashes = _numbers(column.cast(pa.int64())).view(np.uint64) ^ _salt(key, b"number")
    if column.null_count:
        hashes[~column.is_valid().to_numpy(zero_copy_only=False)] = _MISSING
    return _mixed(hashes)


def _of_lists(column: pa.ListArray, key: bytes) -> Digests:
    items = column.flatten()
    if not len(items):
        return _salted(key, b"list", len(column))
    lengths = _numbers(pc.list_value_length(column))
    parts = _places(lengths).view(np.uint64) * _MISSING
    parts += _hashed(items, key)
    hashes = _added(_mixed(parts), lengths)
    hashes += lengths.astype(np.uint64) ^ _salt(key, b"list")
    return hashes


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Returns a read-only array; nulls become 0."""
    filled_column = column if not column.null_count else pc.fill_null(column, 0)
    return np.asarray(filled_column.to_numpy(zero_copy_only=False))


def _of_texts(texts: pa.StringArray | pa.BinaryArray, key: bytes) -> Digests:
    """Hashes texts without nulls."""
    _, offset_buffer, data_buffer = texts.buffers()
    if data_buffer is None or not len(texts):
        return _salted(key, b"text", len(texts))
    offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    factors, longest_text = _factors(key), int(lengths.max())
    if longest_text <= _LONGEST and longest_text * len(texts) == len(
        data
    ):  # equal lengths, as of ids
        hashes = (data.reshape(len(texts), longest_text) + _BYTE) @ factors[:longest_text]
    else:
        places = np.minimum(_places(lengths), _LONGEST - 1)
        hashes = _added((data + _BYTE) * factors[places], lengths)
    hashes ^= _salt(key, b"text")
    for index in np.flatnonzero(lengths > _LONGEST).tolist():
        digest = hashlib.blake2b(texts[index].as_buffer(), digest_size=8, key=key).digest()
        hashes[index] = int.from_bytes(digest)
    return hashes


def _places(lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Returns the index of each item in its list."""
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(lengths.sum()) - np.repeat(starts, lengths))


def _added(parts: Digests, lengths: NDArray[np.integer[Any]]) -> Digests:
    """Sums consecutive lists."""
    running_sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(parts)))
    ends = np.cumsum(lengths)
    return np.asarray(running_sums[ends] - running_sums[ends - lengths])


@lru_cache(maxsize=4)
def _factors(key: bytes) -> Digests:
    """Returns the factor of each position in a text."""
    return np.frombuffer(hashlib.shake_256(key + b"places").digest(8 * _LONGEST), np.uint64)


def _salted(key: bytes, what: bytes, count: int) -> Digests:
    return np.full(count, _salt(key, what), np.uint64)


@lru_cache(maxsize=1_024)
def _salt(key: bytes, what: bytes) -> np.uint64:
    digest = hashlib.blake2b(what, digest_size=8, key=key).digest()
    return np.uint64(int.from_bytes(digest))


def _mixed(values: Digests) -> Digests:
    """Each bit depends on all bits, as in splitmix64. Changes the values in place."""
    for shift, factor in ((30, _ONE), (27, _TWO)):
        values ^= values >> np.uint64(shift)
        values *= factor
    values ^= values >> np.uint64(31)
    return values
