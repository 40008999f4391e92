"""What a producer's records must be: at once, in both ways, and piece by piece: one verdict."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.poisoned_batches import (
    LZ4,
    NONE,
    PACK,
    RECORDS,
    Suspect,
    batch,
    lz4_frame,
    record,
    sized,
    sound_records,
    suspects,
    varint,
)
from wire.errors import BatchError, ErrorCode
from wire.record_batches.batch import check_batch
from wire.record_batches.compression import Codec
from wire.record_batches.large_batches import LargeBatch, unpack_large
from wire.record_batches.record_check import NATIVE, RecordCheck
from wire.record_batches.records import Record, build_batch

LIMIT = 64 << 20
NOW = 1_700_000_000_000
CHECK = RecordCheck(native=False)
MOST = list(suspects(large=False))
each_codec = pytest.mark.parametrize("codec", PACK)


def at_once(data: bytes, *, keyed: bool = False) -> ErrorCode | None:
    """None where it may be kept; large ones are looked through piece by piece."""
    (code,) = {_at_once(data, keyed=keyed, native=native) for native in {False, NATIVE}}
    return code


def _at_once(data: bytes, *, keyed: bool, native: bool) -> ErrorCode | None:
    view = memoryview(bytearray(data))
    try:
        header = check_batch(view)
        if not RecordCheck(native=native).check(view, header, keyed, NOW):
            return piece_by_piece(data, keyed=keyed)
    except BatchError as error:
        return error.code
    assert bytes(view) == data
    return None


def piece_by_piece(data: bytes, *, keyed: bool = False) -> ErrorCode | None:
    view = memoryview(bytearray(data))
    try:
        for _ in pieces(view, keyed=keyed):
            pass
    except BatchError as error:
        return error.code
    assert bytes(view) == data
    return None


def pieces(view: memoryview, *, keyed: bool = False, limit: int = LIMIT) -> Iterator[None]:
    header = check_batch(view)
    plain = unpack_large(view, header, limit)
    yield from LargeBatch(plain, header, keyed=keyed, allows=lambda _: True).check()


@pytest.mark.parametrize("suspect", [each for each in MOST if each.is_sound], ids=lambda s: s.name)
def test_what_is_sound_is_taken(suspect: Suspect) -> None:
    assert at_once(suspect.batch) is None
    assert piece_by_piece(suspect.batch) is None


@pytest.mark.not_quick("damages very many batches")
def test_both_ways_say_the_same_of_what_is_damaged() -> None:
    for suspect in suspects(seed=1, flips=40):
        first, second = at_once(suspect.batch), piece_by_piece(suspect.batch)
        assert (first is None) == (second is None), suspect.name
        if first is not None:
            assert first in {ErrorCode.invalid_record, ErrorCode.unsupported_compression_type}


@each_codec
@pytest.mark.parametrize(
    "name", ["garbage", "one record instead of five", "a byte behind", "a byte missing", "nothing"]
)
def test_what_stopped_every_reader_is_refused(codec: int, name: str) -> None:
    (suspect,) = (each for each in MOST if each.name == f"{Codec(codec).name.lower()}: {name}")
    assert at_once(suspect.batch) is ErrorCode.invalid_record


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**60),
            st.none() | st.binary(max_size=90),
            st.none() | st.binary(max_size=90),
            st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(Codec),
)
def test_what_is_built_is_taken(
    drawn: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: Codec,
) -> None:
    messages = [
        Record(offset, time, key, value, tuple(headers))
        for offset, (time, key, value, headers) in enumerate(drawn)
    ]
    data = build_batch(messages, codec=codec)
    assert at_once(data) is None
    assert piece_by_piece(data) is None
    has_keys = all(message.key is not None for message in messages)
    for way in (at_once, piece_by_piece):
        refused = way(data, keyed=True)
        assert refused is (None if has_keys else ErrorCode.invalid_record)


@pytest.mark.parametrize("number", [0, 3, 6000])
@pytest.mark.parametrize("value", [b"v", b"v" * 70_000])
def test_the_record_that_is_at_fault_is_named(number: int, value: bytes) -> None:
    keyed = [Record(offset, 0, b"k", b"v") for offset in range(number)]
    rest = [Record(number, 0, None, value), Record(number + 1, 0, None, b"v")]
    view = memoryview(bytearray(build_batch([*keyed, *rest])))
    for native in {False, NATIVE}:
        with pytest.raises(BatchError) as refused:
            RecordCheck(native=native).check(view, check_batch(view), True, NOW)
        assert refused.value.record == number
    with pytest.raises(BatchError) as refused:
        list(pieces(view, keyed=True))
    assert refused.value.record == number


def test_nothing_of_one_batch_is_believed_of_the_next() -> None:
    """They are looked at in the same memory."""
    for suspect in random.Random(3).sample(MOST, 200):
        assert at_once(batch(record(0, rest=sized(b"x" * 20_000)), count=1)) is None
        cut = batch(sound_records()[:-1])
        assert at_once(cut) is ErrorCode.invalid_record
        at_once(suspect.batch)
        assert at_once(cut) is ErrorCode.invalid_record


@pytest.mark.not_quick("looks through megabytes")
@each_codec
def test_large_batches_are_looked_through_in_pieces(codec: int) -> None:
    count, value = 10_000, sized(b"0123456789" * 20)
    body = b"".join(record(offset, rest=value) for offset in range(count))
    data = batch(PACK[codec](body), codec, count=count)
    view = memoryview(bytearray(data))
    assert not CHECK.check(view, check_batch(view), False, NOW)
    assert sum(1 for _ in pieces(view)) > 5
    for spoilt in (body + b"\0", body[:-1], body[: len(body) // 2]):
        data = batch(PACK[codec](spoilt), codec, count=count)
        assert piece_by_piece(data) is ErrorCode.invalid_record
    late = body.replace(record(9_000, rest=value), record(8_999, rest=value))
    assert piece_by_piece(batch(PACK[codec](late), codec, count=count)) is ErrorCode.invalid_record


@pytest.mark.parametrize("size", [0, 60_000, 200_000])
def test_large_records_are_judged_like_small_ones(size: int) -> None:
    """Of each kind one that is larger than what the parser is given."""
    value = sized(bytes(size))
    head = varint(2) + sized(b"name") + sized(b"v") + sized(b"") + sized(None)
    others = sound_records(3)
    sound = record(3, key=sized(b"k"), rest=value, headers=head)
    for large, expected in (
        (sound, None),
        (record(2, key=sized(b"k"), rest=value), ErrorCode.invalid_record),
        (record(3, rest=value, headers=varint(-1)), ErrorCode.invalid_record),
        (record(3, rest=value, headers=varint(1)), ErrorCode.invalid_record),
        (record(3, rest=value, headers=varint(1) + varint(-1) * 2), ErrorCode.invalid_record),
        (record(3, rest=value, headers=varint(1) + sized(b"\xff") * 2), ErrorCode.invalid_record),
        (record(3, rest=value, headers=varint(1) + sized(b"a", 9) * 2), ErrorCode.invalid_record),
        (record(3, rest=sized(bytes(size), size + 9)), ErrorCode.invalid_record),
        (record(3, rest=value, headers=b""), ErrorCode.invalid_record),
    ):
        data = batch(others + large + record(4))
        assert piece_by_piece(data) is expected
        assert at_once(data) is expected
    keyless = batch(record(0, rest=value), count=1)
    assert piece_by_piece(keyless) is None
    assert piece_by_piece(keyless, keyed=True) is ErrorCode.invalid_record


def test_what_unpacks_to_more_than_the_limit_is_refused() -> None:
    body = record(0, rest=sized(bytes(3 << 20)))
    for codec in (1, 2, 3, 4):
        view = memoryview(bytearray(batch(PACK[codec](body), codec, count=1)))
        for _ in pieces(view, limit=len(body)):
            pass
        with pytest.raises(BatchError):
            next(pieces(view, limit=len(body) - 1), None)


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    """Java reads none."""
    body = b"".join(record(offset, rest=sized(b"0123456789" * 9_000)) for offset in range(RECORDS))
    linked = lz4_frame(body, block_linked=True, block_size=4)
    assert not linked[4] & 0x20
    assert at_once(batch(linked, LZ4)) is ErrorCode.invalid_record
    assert at_once(batch(body, NONE)) is None
