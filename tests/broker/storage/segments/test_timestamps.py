"""Records found by their timestamps, where the model-based test does not go."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from broker.storage.log import Log
from tests.broker.storage.log_files import NOW, append, batch, create, flush, grow, names, reopen
from wire.record_batches.batch import CRC_START, HEADER_SIZE, stamp_append_time
from wire.record_batches.compression import Codec


def rising(directory: Path, **config: object) -> Log:
    """Batches of 3 records, each record a second later than the one before."""
    log = create(directory, segment_bytes=20_000, index_interval_bytes=500, **config)
    for number in range(300):
        times = [NOW + 1000 * (3 * number + at) for at in range(3)]
        append(log, batch(3, timestamps=times, codec=list(Codec)[number % len(Codec)]))
    flush(log)
    assert len(names(log, ".log")) > 1
    return log


def test_the_exact_record_is_found_inside_a_compressed_batch(tmp_path: Path) -> None:
    for log in _open_and_reopened(rising(tmp_path)):
        for offset in range(0, 900, 13):
            assert log.offset_for_timestamp(NOW + 1000 * offset) == (offset, NOW + 1000 * offset, 0)
            found = log.offset_for_timestamp(NOW + 1000 * offset - 1)
            assert found is not None
            assert found.offset == offset
        assert log.offset_for_timestamp(NOW + 900_000) is None
        assert log.offset_for_timestamp(-1) == (0, NOW, 0)
        assert log.latest_timestamp() == (899, NOW + 899_000, 0)


def _open_and_reopened(log: Log) -> Iterator[Log]:
    yield log
    log.close()
    yield reopen(log, clean=True)


def test_a_search_reads_little(tmp_path: Path) -> None:
    """One record from the future does not make the search for the others a walk."""
    log = create(tmp_path, index_interval_bytes=500)
    append(log, batch(timestamps=[NOW - 10]))
    append(log, batch(timestamps=[4_070_908_800_000]))
    grow(log, 3000, timestamps=[NOW])
    assert log.offset_for_timestamp(NOW) == (1, 4_070_908_800_000, 0)
    assert log.latest_timestamp() == (1, 4_070_908_800_000, 0)
    assert log.offset_for_timestamp(NOW - 10) == (0, NOW - 10, 0)


def test_append_time_is_the_records_time(tmp_path: Path) -> None:
    log = create(tmp_path)
    for number in range(3):
        sent = batch(2, timestamps=[5, 6])
        stamp_append_time(memoryview(sent), NOW + number)
        append(log, sent)
    flush(log)
    assert log.offset_for_timestamp(NOW + 1) == (2, NOW + 1, 0)
    assert log.latest_timestamp() == (4, NOW + 2, 0)


def test_batches_without_timestamps_are_never_found(tmp_path: Path) -> None:
    log = create(tmp_path, index_interval_bytes=100)
    grow(log, 50, timestamps=[-1])
    for each in _open_and_reopened(log):
        assert each.offset_for_timestamp(0) is None
        assert each.latest_timestamp() is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_that_cannot_be_read_is_taken_by_its_header(tmp_path: Path, codec: Codec) -> None:
    log = create(tmp_path)
    append(log, batch(timestamps=[NOW]))
    broken = batch(3, timestamps=[NOW + 5, NOW + 6, NOW + 7], codec=codec)
    broken[HEADER_SIZE:] = b"\xff" * (len(broken) - HEADER_SIZE)
    broken[CRC_START - 4 : CRC_START] = crc32c(memoryview(broken)[CRC_START:]).to_bytes(4)
    append(log, broken)
    append(log, batch(timestamps=[NOW + 1]))
    flush(log)
    assert log.offset_for_timestamp(NOW + 1) == (1, NOW + 7, 0)
    assert log.latest_timestamp() == (1, NOW + 7, 0)
    assert log.offset_for_timestamp(NOW) == (0, NOW, 0)


def test_a_header_that_promises_too_much_is_passed_over(tmp_path: Path) -> None:
    log = create(tmp_path)
    lying = batch(timestamps=[NOW])
    lying[35:43] = (NOW + 1000).to_bytes(8)  # the maximum timestamp
    lying[CRC_START - 4 : CRC_START] = crc32c(memoryview(lying)[CRC_START:]).to_bytes(4)
    append(log, lying)
    append(log, batch(timestamps=[NOW + 500]))
    flush(log)
    assert log.offset_for_timestamp(NOW + 100) == (1, NOW + 500, 0)
