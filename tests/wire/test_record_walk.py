"""The walk over records that is written in C says what the parser says, where each looks at all."""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.poisoned_batches import PACK, batch, record, sized, varint
from wire.errors import BatchError, ErrorCode
from wire.record_batches.batch import HEADER, HEADER_SIZE, check_batch
from wire.record_batches.large_batches import walk_large
from wire.record_batches.record_check import NATIVE, SLACK, RecordCheck, check_forms, parse

if NATIVE:
    from wire._records import walk
else:
    pytest.skip(
        "wire/_records.c is not compiled: `python hatch_build.py`, with a C compiler and "
        "Python's headers",
        allow_module_level=True,
    )

LIMIT = 64 << 20


def walked(records: bytes, count: int, *, keyed: bool = False) -> str | None:
    """Why they are refused, if they are."""
    try:
        walk(records, count, keyed)
    except ValueError as error:
        return str(error)
    return None


def parsed(records: bytes, count: int, *, keyed: bool = False) -> str | None:
    """The same without C of our own, and with all forms looked at."""
    plain = memoryview(bytearray(HEADER_SIZE + len(records) + SLACK))[:-SLACK]
    plain[HEADER_SIZE:] = records
    HEADER.pack_into(plain, 0, 0, len(plain) - 12, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    try:
        parse(plain, list(range(count)), keyed)
        check_forms(plain, count)
    except BatchError as error:
        return str(error)
    return None


def agree(records: bytes, count: int, *, keyed: bool = False) -> bool:
    """Whether they are sound, of which both say the same."""
    walk, parser = walked(records, count, keyed=keyed), parsed(records, count, keyed=keyed)
    assert (walk is None) == (parser is None), (walk, parser, records)
    return walk is None


LENGTHS = st.sampled_from(
    (
        *(-(2**63), -(2**31), -2, -1, 0, 1, 2, 63, 64, 127, 128, 8191, 8192),
        *(2**31 - 1, 2**31, 2**32, 2**32 + 3, 2**34 - 1, 2**35, 2**63 - 80, 2**63 - 1),
    )
)
NUMBERS = st.builds(
    lambda number, least: varint(number, at_least=least), LENGTHS, st.sampled_from([1, 5, 6, 10])
)
SIZED = st.builds(sized, st.none() | st.binary(max_size=70))
NAMES = st.builds(lambda text: sized(text.encode()), st.text(max_size=4))
MAYBE = st.integers(0, 40).map(lambda chance: chance == 0)


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, int]:
    """Some that are sound, or have one field that is not."""
    count = draw(st.integers(1, 6))
    made = []
    for offset in range(count):
        headers = draw(st.lists(st.tuples(NAMES, SIZED), max_size=3))
        made.append(
            record(
                offset,
                attributes=draw(st.just(b"\0") | st.binary(min_size=1, max_size=2))
                if draw(MAYBE)
                else b"\0",
                time=draw(NUMBERS) if draw(MAYBE) else varint(draw(st.integers(-(2**62), 2**62))),
                key=draw(NUMBERS) if draw(MAYBE) else draw(SIZED),
                rest=draw(NUMBERS) if draw(MAYBE) else draw(SIZED),
                headers=varint(len(headers)) + b"".join(map(b"".join, headers)),
                length=draw(LENGTHS) if draw(MAYBE) else None,
            )
        )
    return b"".join(made), count


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, int]:
    body, count = draw(records())
    data = bytearray(body)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 5)):
            case 0 if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del data[at : at + draw(st.integers(1, 9))]
            case 2:
                data[at:at] = draw(st.binary(min_size=1, max_size=4))
            case 3:
                data[at : at + 1] = draw(NUMBERS)
            case 4 if data:
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case _:
                count = max(1, count + draw(st.sampled_from([-1, 1, 2**31])))
    return bytes(data), min(count, 2**31 - 1)


@pytest.mark.fuzz
@given(mutated(), st.booleans())
def test_it_says_what_the_parser_says(drawn: tuple[bytes, int], keyed: bool) -> None:
    data, count = drawn
    if count > 10_000:  # of which the parser would be given a list of offsets
        assert walked(data, count, keyed=keyed) is not None
    else:
        agree(data, count, keyed=keyed)


@given(records())
def test_it_ends_where_the_records_end(drawn: tuple[bytes, int]) -> None:
    """Cut at every byte, in memory of its own, of which nothing more may be read."""
    body, count = drawn
    for end in range(len(body)):
        assert walked(bytes(body[:end]), count) is not None


def headers(*each: bytes) -> bytes:
    return varint(len(each) // 2) + b"".join(each)


MANY = varint(65_537) + b"\0\1" * 65_537
DAMAGE: list[tuple[bytes, str]] = [
    (b"", "malformed records: the last record is incomplete (record 1, byte 8)"),
    (b"\x80", "malformed records: the last record is incomplete"),
    (b"\x80" * 5 + b"\0", "a number of more than five bytes"),
    (record(1, length=-1), "malformed records: a record of -1 bytes"),
    (record(1, length=2**34 - 1), "malformed records: a record of 17179869183 bytes"),
    (record(1, length=0), "malformed records: the last record is incomplete"),
    (record(1, attributes=b"\xff\0"), "a record's attributes are 255, beyond 127"),
    (record(1, time=varint(0, at_least=11)), "a time of more than ten bytes"),
    (record(2), "offset delta 2, expected 1"),
    (record(-1), "offset delta -1, expected 1"),
    (record(1, key=varint(-2)), "a length of -2"),
    (record(1, key=varint(0, at_least=6)), "a number of more than five bytes"),
    (record(1, key=sized(b"", 500)), "malformed records: 500 bytes in a record that has not as"),
    (record(1, rest=varint(-2)), "a length of -2"),
    (record(1, rest=sized(b"", 99)), "malformed records: 99 bytes in a record that has not as"),
    (record(1, headers=b""), "malformed records: the last record is incomplete"),
    (record(1, headers=varint(-1)), "a record with -1 headers, at most 65536 are accepted"),
    (record(1, headers=MANY), "a record with 65537 headers, at most 65536 are accepted"),
    (record(1, headers=varint(2) + b"\0\1"), "malformed records: the last record is incomplete"),
    (record(1, headers=headers(varint(-1), b"\1")), "a header's name of -1 bytes"),
    (record(1, headers=headers(varint(-2), b"\1")), "a length of -2"),
    (record(1, headers=headers(sized(b"\xff"), b"\1")), "a header's name is not UTF-8"),
    (record(1, headers=headers(sized(b"k"), varint(-2))), "a length of -2"),
    (record(1, headers=headers(sized(b"k"), sized(b"v", 2))), "malformed records: 2 bytes in a"),
    (record(1, headers=b"\0\0"), "malformed records: 1 bytes behind what a record holds"),
    (record(1) + b"abc", "malformed records: 3 bytes behind 2 records"),
]


@pytest.mark.parametrize(("second", "why"), DAMAGE)
def test_what_is_wrong_is_said(second: bytes, why: str) -> None:
    first = record(0, rest=sized(b"v"))
    assert walked(first, 1) is None
    said = walked(first + second, 2)
    assert said is not None
    assert said.startswith(why)


def test_keys_are_asked_for_where_they_must_be() -> None:
    body = record(0, key=sized(b"")) + record(1)
    assert walked(body, 2) is None
    said = "a compacted topic needs a key in every record (record 1, byte "
    assert (walked(body, 2, keyed=True) or "").startswith(said)


def second_and_third() -> Iterable[bytes]:
    """Of leads that are something, the edges of what may follow."""
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    leads = (0x41, 0xC2, *range(0xDF, 0x100))
    return (bytes(each) for each in product(leads, edges, edges))


def fourth() -> Iterator[bytes]:
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0xBF, 0xC0)
    for each in product((*range(0xEE, 0x100), 0x41), edges, edges, edges):
        yield bytes(each)
    chance = random.Random(11)
    for _ in range(20_000):
        yield chance.randbytes(4)


@pytest.mark.not_quick("tries very many names")
@pytest.mark.parametrize(
    "names",
    [
        lambda: (bytes([each]) for each in range(256)),
        lambda: (bytes(each) for each in product(range(256), repeat=2)),
        second_and_third,
        fourth,
        lambda: (chr(each).encode(errors="surrogatepass") for each in range(0, 0x110000, 31)),
    ],
    ids=["one byte", "two", "three", "four", "characters"],
)
def test_names_are_utf_8_where_python_says_so(names: Callable[[], Iterable[bytes]]) -> None:
    for name in names():
        body = record(0, rest=b"\1", headers=headers(sized(name), b"\1"))
        try:
            name.decode()
        except UnicodeDecodeError:
            assert (walked(body, 1) or "").startswith("a header's name is not UTF-8"), name
        else:
            assert walked(body, 1) is None, name


@pytest.mark.not_quick("walks over megabytes")
@pytest.mark.parametrize("codec", PACK)
def test_large_batches_are_walked_over_in_one_go(codec: int) -> None:
    count = 22_000
    body = b"".join(record(offset, rest=sized(b"0123456789" * 20)) for offset in range(count))
    for records, refused in ((body, False), (body + b"\0", True), (body[:-1], True)):
        view = memoryview(batch(PACK[codec](records), codec, count=count))
        header = check_batch(view)
        assert not RecordCheck().check(view, header, False, 0)
        for keyed in (False, True):
            expected = pytest.raises(BatchError) if refused or keyed else contextlib.nullcontext()
            with expected as raised:
                walk_large(view, header, LIMIT, keyed=keyed)
            assert raised is None or raised.value.code is ErrorCode.invalid_record
