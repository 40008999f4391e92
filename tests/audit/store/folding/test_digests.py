"""Digests of entries: of a text they depend on each byte, and on nothing that is beside it."""

import pyarrow as pa
import pytest

from audit.store.folding.digests import digests_of

KEY = bytes(range(16))
TEXTS = ["", "a", "b", "ab", "ba", "aa", "a\0", "\0", "\0\0", "ä", "x" * 5_000, "x" * 4_999 + "y"]
LISTS = [[], [""], ["", ""], ["a", "b"], ["ab"], ["b", "a"], None]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.string(), TEXTS),
        (pa.binary(), [text.encode() for text in TEXTS]),
        (pa.string(), ["same", "size"]),
        (pa.list_(pa.string()), LISTS),
        (pa.int32(), [0, 1, -1, None]),
    ],
)
def test_different_values_have_different_digests(type_: pa.DataType, values: list[object]) -> None:
    def digests(chosen: list[object], key: bytes = KEY) -> list[int]:
        column = pa.array(chosen, type_)
        found = digests_of(pa.StructArray.from_arrays([column], ["value"]), key)
        return [int(digest) for digest in found]

    alone = [digests([value])[0] for value in values]
    assert len(set(alone)) == len(values)
    assert digests(values) == alone
    assert digests(values[::-1]) == alone[::-1]
    assert set(digests(values, KEY[::-1])).isdisjoint(alone)
