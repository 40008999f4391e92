"""CRCs that are derived are those that the library computes."""

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka_target.checksum import crc_with
from wire.record_batches.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_PREFIX, BatchHeader

SIZES = st.one_of(st.integers(0, 300), st.sampled_from([4095, 4096, 65_537, 1_048_577]))


def header(size: int, attributes: int, producer: int, sequence: int) -> BatchHeader:
    length = HEADER_SIZE - LENGTH_PREFIX + size
    return BatchHeader(7, length, 3, 2, 0, attributes, 9, 10, 20, producer, 1, sequence, 10)


@given(
    SIZES,
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**40),
    st.integers(0, 0x7F),
    st.integers(0, 255),
)
def test_of_any_size(size: int, sequence: int, producer: int, attributes: int, byte: int) -> None:
    records = bytes((byte + each * each) & 0xFF for each in range(size))
    before = header(size, attributes, -1, -1)
    before = before._replace(crc=crc32c((HEADER.pack(*before) + records)[CRC_START:]))
    after = header(size, 0, producer, sequence)
    wanted = crc32c((HEADER.pack(*after) + records)[CRC_START:])
    assert crc_with(after, before) == wanted
    damaged = before._replace(crc=before.crc ^ 1)
    assert crc_with(after, damaged) != wanted
