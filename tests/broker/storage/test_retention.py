"""Which segments go, by age since append and by size, and that nothing else does; and that a wall
clock that jumps deletes nothing that is young."""

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.errors import OffsetOutOfRange
from broker.storage.log import Log
from broker.storage.retention import JUMP_MS, LONG_STOP_MS, SETTLING_MS, RetentionClock
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
MINUTE = 60_000
HOUR = 60 * MINUTE


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


@pytest.mark.parametrize(
    "config",
    [
        {"days": 1, "retention_bytes": 0, "retention_ms": -1},
        {"retention_ms": 1, "retention_bytes": 1, "delete": False, "compact": True},
        {"retention_ms": -1},
    ],
    ids=["active", "only compacted", "no limits"],
)
def test_what_never_expires(tmp_path: Path, config: dict[str, Any]) -> None:
    assert daily(tmp_path, **config).expire(NOW + 900 * DAY) == []


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


class Clocks:
    """Both clocks of a machine, moved by hand, and a retention clock that is shown them."""

    def __init__(self, last_alive_ms: int | None = None) -> None:
        self.wall, self.monotonic = NOW, 5_000
        self.retention = RetentionClock(self.wall, self.monotonic, last_alive_ms)

    def run(self, milliseconds: int, *, jump: int = 0) -> str | None:
        self.wall += milliseconds + jump
        self.monotonic += milliseconds
        return self.retention.hold(self.wall, self.monotonic)


@given(st.lists(st.integers(0, 10 * HOUR)), st.integers(-JUMP_MS, JUMP_MS))
def test_a_steady_clock_is_trusted(steps: list[int], drift: int) -> None:
    clocks = Clocks(last_alive_ms=NOW - HOUR)
    assert all(clocks.run(step, jump=drift) is None for step in steps)


@pytest.mark.parametrize(
    "jump", [JUMP_MS + 1, 30 * 365 * 24 * HOUR, -JUMP_MS - 1, -(365 * 24 * HOUR)]
)
def test_a_jump_holds_for_an_hour_of_steady_clock(jump: int) -> None:
    clocks = Clocks()
    assert clocks.run(MINUTE) is None
    reason = clocks.run(MINUTE, jump=jump)
    assert reason is not None
    assert ("ahead" in reason) == (jump > 0)
    for _ in range(59):
        assert clocks.run(MINUTE) == reason
    assert clocks.run(MINUTE) is None
    assert clocks.run(MINUTE) is None


def test_a_jump_back_begins_the_hour_again() -> None:
    clocks = Clocks()
    clocks.run(MINUTE, jump=9000 * HOUR)
    assert clocks.run(50 * MINUTE) is not None
    assert clocks.run(MINUTE, jump=-9000 * HOUR) is not None
    assert clocks.run(59 * MINUTE) is not None
    assert clocks.run(MINUTE) is None


@pytest.mark.parametrize(
    ("last_alive", "held"),
    [
        (None, False), (NOW, False), (NOW - LONG_STOP_MS, False), (NOW - LONG_STOP_MS - 1, True),
        (NOW + JUMP_MS, False), (NOW + JUMP_MS + 1, True),
    ],
)  # fmt: skip
def test_a_clock_that_woke_up_wrong_holds(last_alive: int | None, held: bool) -> None:
    clocks = Clocks(last_alive)
    assert (clocks.run(0) is not None) == held
    assert (clocks.run(SETTLING_MS - 1) is not None) == held
    assert clocks.run(1) is None


def test_the_hold_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clocks = Clocks()
    clocks.run(MINUTE, jump=HOUR)
    for _ in range(90):
        clocks.run(MINUTE)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "60 minutes ahead" in caplog.text
