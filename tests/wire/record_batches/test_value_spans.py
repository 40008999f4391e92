"""Where values and one header lie in the records of many batches: in C and in Python alike."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import BatchError
from wire.record_batches.batch import HEADER_SIZE
from wire.record_batches.records import Record, build_batch
from wire.record_batches.value_spans import ABSENT, NUMBERS, value_spans

NAME = b"proof"
NATIVE = pytest.mark.parametrize("native", [True, False])

contents = st.one_of(st.none(), st.binary(max_size=200))
headers = st.tuples(st.sampled_from(["proof", "proof2", "proo", "", "ž"]), contents)
messages = st.tuples(contents, contents, st.lists(headers, max_size=4).map(tuple))
batches = st.lists(st.lists(messages, min_size=1, max_size=5), min_size=1, max_size=4)

Spans = list[tuple[int, int, int, int]]
Message = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def unpacked(batch: list[Message]) -> bytes:
    records = [Record(offset, 7, *message) for offset, message in enumerate(batch)]
    return build_batch(records)[HEADER_SIZE:]


def spans(data: bytes, count: int, *, native: bool) -> Spans:
    numbers = value_spans(data, count, NAME, native=native).tolist()
    return list(zip(*(numbers[place::NUMBERS] for place in range(NUMBERS)), strict=True))


def part(data: bytes, first: int, end: int) -> bytes | None:
    return None if first == ABSENT else data[first:end]


@NATIVE
@given(batches)
def test_each_value_and_the_first_header_of_the_name(
    native: bool, batches: list[list[Message]]
) -> None:
    data = b"".join(map(unpacked, batches))
    everything = [message for batch in batches for message in batch]
    read = spans(data, len(everything), native=native)
    values = [(part(data, *span[:2]), part(data, *span[2:])) for span in read]
    assert values == [
        (value, next((content for name, content in headers if name == "proof"), None))
        for _, value, headers in everything
    ]


@NATIVE
def test_damaged_records_are_refused_or_read_within_their_bytes(native: bool) -> None:
    chance = random.Random(5)
    whole = unpacked([(b"k", b"v" * 90, (("a", b"1"), ("proof", b"p" * 97)))] * 3)
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        del damaged[chance.choice([len(damaged), chance.randrange(len(damaged))]) :]
        try:
            read = spans(bytes(damaged), 3, native=native)
        except BatchError:
            refused += 1
            continue
        for value_start, value_end, start, end in read:
            assert -1 <= value_start <= value_end <= len(damaged)
            assert -1 <= start <= end <= len(damaged)
    assert 1_000 < refused < 3_000


@NATIVE
@pytest.mark.parametrize("count", [0, 2, 4, 2**40, -1])
def test_another_number_of_records_is_refused(native: bool, count: int) -> None:
    with pytest.raises(BatchError):
        spans(unpacked([(None, b"v", ())] * 3), count, native=native)
