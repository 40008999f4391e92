"""What is plain is cut as far as it is plain, and not a byte further."""

import pytest

from client.reading.plain_batches import cut
from wire.record_batches.batch import CONTROL, TRANSACTIONAL, read_header
from wire.record_batches.records import Codec, Record, build_batch

BATCHES = [
    build_batch(
        [Record(at, 5 + at, None, b"x" * at), Record(at + 1, 9, None, b"y")],
        codec=codec,
        base_offset=at,
        base_timestamp=5,
        producer_id=at,
        producer_epoch=0,
        base_sequence=0,
    )
    for at, codec in enumerate([Codec.NONE, Codec.ZSTD, Codec.GZIP])
]


def placed(*batches: bytes) -> list[bytes]:
    """Two offsets each, one behind the other; the CRC covers neither."""
    return [(2 * at).to_bytes(8, "big") + batch[8:] for at, batch in enumerate(batches)]


def changed(batch: bytes, at: int, value: bytes) -> bytes:
    return batch[:at] + value + batch[at + len(value) :]


def test_plain_batches_are_cut() -> None:
    batches = placed(*BATCHES)
    found = cut(b"".join(batches), 0, 100)
    headers = [read_header(batch) for batch in batches]
    assert found.batches == [
        (header.producer_id, header.codec, 2, batch)
        for header, batch in zip(headers, batches, strict=True)
    ]
    assert found.times == [header.max_timestamp for header in headers]
    assert (found.size, found.next_offset) == (sum(map(len, batches)), 6)
    assert found.leader_epoch == headers[-1].leader_epoch


def test_where_it_begins_and_ends() -> None:
    batches = placed(*BATCHES)
    data = b"".join(batches)
    assert [batch for *_, batch in cut(data, 0, 3).batches] == batches[:2]
    assert cut(data, 1, 100).size == 0  # it begins before
    for missing in (1, 40, len(batches[2]) - 1):
        assert [batch for *_, batch in cut(data[:-missing], 0, 9).batches] == batches[:2]
    assert cut(b"", 0, 9).size == cut(data[:60], 0, 9).size == 0


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (8, b"\0\0\0\x05"),  # shorter than a header
        (8, b"\xff\xff\xff\xff"),
        (8, b"\x7f\xff\xff\xff"),
        (16, b"\x01"),  # another format
        (17, b"\0\0\0\0"),  # the CRC
        (70, b"?"),
        (0, b"\0" * 8),  # before the one before it
    ],
)
def test_what_needs_care_ends_it(at: int, value: bytes) -> None:
    first, second, third = placed(*BATCHES)
    found = cut(first + changed(second, at, value) + third, 0, 100)
    assert [batch for *_, batch in found.batches] == [first]
    assert (found.size, found.next_offset) == (len(first), 2)


@pytest.mark.parametrize("attribute", [CONTROL, TRANSACTIONAL])
def test_of_transactions_nothing_is_plain(attribute: int) -> None:
    batch = build_batch([Record(0, 5, None, b"x")], attributes=attribute)
    assert read_header(batch).attributes & attribute
    assert not cut(batch, 0, 100).batches
