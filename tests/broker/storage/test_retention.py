"""Which segments go, by age since append and by size, and that nothing else does."""

from pathlib import Path

import pytest

from broker.storage.errors import OffsetOutOfRange
from broker.storage.log import Log
from tests.broker.storage.log_files import (
    NOW,
    append,
    batch,
    create,
    flush,
    log_file,
    names,
    read_on,
    reopen,
)

DAY = 86_400_000


def daily(directory: Path, days: int = 5, **config: object) -> Log:
    """One segment a day, of ten batches of 3 records."""
    log = create(directory, segment_ms=DAY, **config)
    for day in range(days):
        for _ in range(10):
            append(log, batch(3), NOW + day * DAY)
    flush(log)
    assert names(log, ".log") == list(range(0, 30 * days, 30))
    return log


def test_segments_go_by_the_time_since_they_were_appended_to(tmp_path: Path) -> None:
    log = daily(tmp_path, retention_ms=2 * DAY)
    assert log.expire(NOW + 2 * DAY) == []
    assert log.expire(NOW + 4 * DAY + 5) == [0, 30, 60]
    assert (log.start_offset, log.end_offset) == (90, 150)
    flush(log)
    assert names(log, ".log") == names(log, ".index") == names(log, ".timeindex") == [90, 120]
    assert [header.base_offset for header, _ in read_on(log, 90)] == list(range(90, 150, 3))
    with pytest.raises(OffsetOutOfRange):
        log.read(89, 100)


def test_what_records_say_of_time_decides_nothing(tmp_path: Path) -> None:
    log = create(tmp_path, segment_bytes=200, retention_ms=DAY)
    for timestamp in (0, 4_070_908_800_000, NOW):
        append(log, batch(timestamps=[timestamp] * 2, size=50, records=2), NOW)
    flush(log)
    assert log.expire(NOW + DAY) == []
    assert len(log.expire(NOW + DAY + 1)) == 3


def test_an_active_segment_that_is_old_is_sealed_and_goes(tmp_path: Path) -> None:
    log = create(tmp_path, retention_ms=DAY)
    append(log, batch(3, producer=(5, 0, 0)))
    assert log.expire(NOW + 2 * DAY) == [], "it is not yet exposed"
    flush(log)
    piece = log.read(0, 1000)
    assert log.expire(NOW + 2 * DAY) == [0]
    assert log.expire(NOW + 9 * DAY) == []
    assert (log.start_offset, log.end_offset, log.size) == (3, 3, 0)
    assert log.read(3, 100) is None
    assert piece is not None
    flush(log)
    assert names(log, ".log") == [3]
    append(log, batch(3, producer=(5, 0, 3)))
    flush(log)
    assert len(list(read_on(log, 3))) == 1
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert (again.start_offset, again.end_offset) == (3, 6)
    assert append(again, batch(3, producer=(5, 0, 3))).duplicate


def test_a_crash_before_the_flush_brings_back_what_had_expired(tmp_path: Path) -> None:
    log = create(tmp_path, retention_ms=DAY)
    append(log, batch(3, producer=(5, 0, 0)))
    flush(log)
    assert log.expire(NOW + 2 * DAY) == [0]
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert (again.start_offset, again.end_offset) == (0, 3)
    assert append(again, batch(3, producer=(5, 0, 0))).duplicate, "the producer is not forgotten"


def test_the_time_of_append_survives_a_restart(tmp_path: Path) -> None:
    log = create(tmp_path, retention_ms=DAY)
    append(log, batch())
    log.close()
    appended = log_file(log).stat().st_mtime_ns // 1_000_000
    log = reopen(log, clean=True)
    assert log.expire(appended + DAY) == []
    assert log.expire(appended + DAY + 2) == [0]


def test_segments_go_by_size(tmp_path: Path) -> None:
    log = daily(tmp_path, retention_bytes=2000, retention_ms=-1)
    each = log_file(log).stat().st_size
    assert 5 * each > 2000 > each
    assert log.expire(0) == [0, 30, 60][: (5 * each - 2000) // each]
    assert log.size >= 2000
    assert log.expire(0) == []


def test_the_active_segment_never_goes_by_size(tmp_path: Path) -> None:
    log = daily(tmp_path, days=1, retention_bytes=0, retention_ms=-1)
    assert log.expire(0) == []


def test_what_is_only_compacted_never_expires(tmp_path: Path) -> None:
    log = daily(tmp_path, retention_ms=1, retention_bytes=1, delete=False, compact=True)
    assert log.expire(NOW + 90 * DAY) == []


def test_without_limits_nothing_expires(tmp_path: Path) -> None:
    log = daily(tmp_path, retention_ms=-1)
    assert log.expire(NOW + 900 * DAY) == []


def test_records_are_deleted_up_to_an_offset(tmp_path: Path) -> None:
    log = daily(tmp_path)
    log.delete_before(0)
    log.delete_before(45)
    assert log.start_offset == 45
    log.delete_before(10)
    assert log.start_offset == 45
    flush(log)
    assert names(log, ".log") == [30, 60, 90, 120]
    assert names(log, ".start") == [45]
    with pytest.raises(OffsetOutOfRange):
        log.read(44, 100)
    header, _ = next(read_on(log, 46))
    assert header.base_offset == 45
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 45
    for offset in (-1, 151):
        with pytest.raises(OffsetOutOfRange):
            log.delete_before(offset)
    log.delete_before(150)
    assert (log.start_offset, log.end_offset, log.size) == (150, 150, 0)
    assert log.latest_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_what_is_not_exposed_is_not_deleted(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(3))
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(1)
