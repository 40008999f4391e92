"""Keys go where Kafka's own clients place them."""

import pytest
from aiokafka.partitioner import murmur2 as foreign_murmur2
from hypothesis import given
from hypothesis import strategies as st

from client.producing.keys import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_hashes_that_kafkas_own_tests_give(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFF_FFFF
    assert partition_of(key, 3) == (hashed & 0x7FFF_FFFF) % 3


@given(st.binary(max_size=40))
def test_hashes_are_those_of_another_client(key: bytes) -> None:
    assert murmur2(key) == foreign_murmur2(key) & 0xFFFF_FFFF
