"""The table of keys against a dict."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.cleaner import SLOT, OffsetMap, capacity_of


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2**62)), max_size=300))
def test_it_is_a_dict(puts: list[tuple[bytes, int]]) -> None:
    model = dict(puts)
    keys = OffsetMap(len(model))
    for key, offset in puts:
        keys.put(key, offset)
    assert keys.size == len(model)
    assert {key: keys.get(key) for key in model} == model
    assert keys.get(b"never put") == -1


def test_it_takes_as_many_keys_as_it_says_and_no_more_memory() -> None:
    keys = OffsetMap(10_000)
    for i in range(10_000):
        keys.put(b"%d" % i, i)
    assert keys.size == keys.capacity
    assert all(keys.get(b"%d" % i) == i for i in range(10_000))
    assert capacity_of(10_000 * SLOT) == 7_500
