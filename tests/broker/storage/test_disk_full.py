"""A disk that is really full, and has room again."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.storage.errors import DiskFull
from broker.storage.log import Log
from broker.storage.segments.index import TimeIndex
from tests.broker.storage.log_files import (
    append,
    batch,
    checkpoint,
    create,
    flush,
    grow,
    log_file,
    names,
    read_on,
    reopen,
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=40", "tmpfs", str(path)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted: needs root")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(log: Log, size: int = 1000) -> int:
    """Append until there is no room; how many batches there was room for."""
    count = 0
    with contextlib.suppress(DiskFull):
        while True:
            append(log, batch(size=size, producer=(1, 0, log.end_offset)))
            count += 1
    return count


def block(disk: Path) -> Path:
    """Take up all the room that is left."""
    path = disk / "in the way"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    return path


def test_a_batch_that_does_not_fit_leaves_no_trace(disk: Path) -> None:
    log = create(disk)
    assert fill(log) > 100
    flush(log)
    before = (log.end_offset, log.size, len(log.producers))
    in_the_way = block(disk)
    for _ in range(3):
        with pytest.raises(DiskFull):
            append(log, batch(size=100_000))
        assert (log.end_offset, log.size, len(log.producers)) == before
        assert log_file(log).stat().st_size == log.size
    assert log.offline == ""
    assert len(list(read_on(log, 0))) == log.end_offset
    in_the_way.unlink()
    assert not append(log, batch(size=10, producer=(1, 0, log.end_offset))).duplicate
    flush(log)
    assert len(list(read_on(log, 0))) == log.end_offset == before[0] + 1


def test_a_new_segment_that_does_not_fit_leaves_no_trace(disk: Path) -> None:
    log = create(disk, segment_bytes=20_000)
    grow(log, 18, size=1000, flushed=False)
    assert names(log, ".log") == [0]
    blocks = [disk / f"inode {number}" for number in range(40)]
    for path in blocks:
        with contextlib.suppress(OSError):
            path.touch()
    in_the_way = block(disk)
    for _ in range(3):
        with pytest.raises(DiskFull):
            append(log, batch(size=2000))
        assert names(log, ".log") == names(log, ".index") == names(log, ".timeindex") == [0]
        assert log.offline == ""
    in_the_way.unlink(missing_ok=True)
    for path in blocks:
        path.unlink(missing_ok=True)
    append(log, batch(size=2000))
    flush(log)
    assert names(log, ".log") == [0, 18]


def test_a_full_disk_can_be_flushed_expired_and_closed(disk: Path) -> None:
    log = create(disk, segment_bytes=20_000, retention_bytes=50_000, index_interval_bytes=100)
    fill(log)
    block(disk)
    recovery_point, _ = checkpoint(log)
    assert log.offline == ""
    assert log.exposed_offset == log.end_offset
    assert recovery_point < log.end_offset, "there was no room for the snapshot that proves it"
    size = log.size
    assert log.expire(0)
    flush(log)
    assert log.size < size
    append(log, batch(size=1000))
    flush(log)
    assert set(names(log, ".log")) <= {0, *names(log, ".snapshot")}, "written when there was room"
    assert checkpoint(log)[0] == log.end_offset
    log.close()
    assert reopen(log, clean=True).end_offset == log.end_offset


def test_room_for_a_part_of_an_entry_is_no_room(disk: Path) -> None:
    index = TimeIndex(disk / "0.timeindex", 0)
    for number in range(500):  # entries of 12 bytes, blocks of 4,096
        index.append(number, number)
        if not number:
            index.write_through()
            in_the_way = block(disk)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            index.write_through()
        assert [index.entry(number).last_offset for number in (340, 341)] == [340, 341]
    in_the_way.unlink()
    index.write_through()
    assert [entry.timestamp for entry in map(index.entry, range(500))] == list(range(500))


def test_a_full_disk_at_the_stop_costs_nothing(disk: Path) -> None:
    log = create(disk)
    fill(log)
    block(disk)
    log.close()
    again = reopen(log, clean=True, recovery_point=log.recovery_point)
    assert again.end_offset == log.end_offset
    assert len(list(read_on(again, 0))) == log.end_offset


def test_an_epoch_that_cannot_be_saved_is_found_in_the_batches(disk: Path) -> None:
    log = create(disk)
    append(log, batch(), leader_epoch=0)
    flush(log)
    in_the_way = log.directory / "leader-epoch-checkpoint"
    in_the_way.unlink()
    in_the_way.mkdir()
    recovery_point = log.recovery_point
    append(log, batch(), leader_epoch=1)
    log.checkpoint(0)
    flush(log)
    assert log.flushed_offset == log.end_offset
    assert log.recovery_point == recovery_point
    in_the_way.rmdir()
    log.abandon()
    again = reopen(log, recovery_point=recovery_point)
    assert again.epochs.entries == [(0, 0), (1, 1)]


def test_a_write_that_ends_early_is_undone(disk: Path) -> None:
    """tmpfs takes what there is room for: the kernel reports a short write."""
    log = create(disk)
    append(log, batch(size=1000))
    size = log.size
    with pytest.raises(DiskFull):
        append(log, batch(size=400_000))
    assert log_file(log).stat().st_size == size == log.size
    assert os.statvfs(disk).f_bfree > 40
