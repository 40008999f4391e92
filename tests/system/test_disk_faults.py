"""Disks that are full, fail or are slow, for real: a small file system, and syncs that go wrong."""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.system.bystander import Bystander
from tests.system.clients.stored import segments
from tests.system.faults import Faults
from tests.system.produce import (
    STORAGE_ERROR,
    fetch_error,
    high_watermark,
    must_produce,
    produce,
    read_values,
    wait_writable,
)
from tests.system.raw import (
    PRODUCE,
    RawConnection,
    produce_body,
    read_produced,
    record_batch,
    request,
)
from tests.system.small_disk import mounted_disk
from tests.system.topics import create

MIB = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    with mounted_disk(tmp_path, 24) as disk:
        yield disk


def fill(bootstrap: str, topic: str) -> int:
    """Writes until that is refused; how many records of 400,000 bytes were acknowledged."""
    for number in range(200):
        done = produce(bootstrap, topic, [numbered(number)])
        if done.error != 0:
            return number
        assert done.base_offset == number
    raise AssertionError("the disk took more than it can hold")


def numbered(number: int) -> bytes:
    return b"%06d" % number + bytes(400_000 - 6)


def test_a_full_disk_makes_read_only_until_there_is_room(
    chroot: str, tmp_path: Path, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 * MIB))
    directory = tmp_path / "broker"
    with BrokerProcess(directory, zookeeper=chroot, data_dir=small_disk / "data") as broker:
        create(broker.bootstrap, "fills", configs={"segment.bytes": str(MIB)})
        create(broker.bootstrap, "other")
        must_produce(broker.bootstrap, "other", [b"before"])
        taken = fill(broker.bootstrap, "fills")
        assert taken > 20
        said = [line for line in broker.log().splitlines() if "fills" in line]
        assert any(os.strerror(errno.ENOSPC) in line or "full" in line for line in said), said

        # Reading goes on, the broker lives, and it says so again when asked again.
        expected = {number: numbered(number) for number in range(taken)}
        assert read_values(broker.bootstrap, "fills") == expected
        assert read_values(broker.bootstrap, "other") == {0: b"before"}
        assert produce(broker.bootstrap, "fills", [numbered(0)]).error != 0

        # A kill in this state loses nothing either, and the broker starts on the full disk.
        broker.restart()
        assert read_values(broker.bootstrap, "fills") == expected
        assert read_values(broker.bootstrap, "other") == {0: b"before"}

        fill_up(broker, "fills", taken)
        before = len(read_values(broker.bootstrap, "fills"))
        ballast.unlink()
        offset = wait_writable(broker.bootstrap, "fills", within=30)
        assert offset == before
        wait_writable(broker.bootstrap, "other", within=30)
        found = read_values(broker.bootstrap, "fills")
        assert {number: found[number] for number in expected} == expected
        assert sorted(found) == list(range(len(found)))
        assert broker.terminate() == 0, broker.process.last_words()


def fill_up(broker: BrokerProcess, topic: str, taken: int) -> None:
    """What a restart has made free is used again, so that the disk is surely full."""
    for number in range(taken, taken + 100):
        if produce(broker.bootstrap, topic, [numbered(number)]).error != 0:
            return
    raise AssertionError("the disk is not full")


def test_a_failed_sync_takes_the_partition_offline_for_good(
    chroot: str, tmp_path: Path, faults: Faults
) -> None:
    directory = tmp_path / "broker"
    with BrokerProcess(directory, zookeeper=chroot, environment=faults.environment) as broker:
        create(broker.bootstrap, "fails")
        create(broker.bootstrap, "works")
        must_produce(broker.bootstrap, "fails", [b"safe"])
        must_produce(broker.bootstrap, "works", [b"safe"])
        faults.fail_syncs("/fails-0/")
        assert produce(broker.bootstrap, "fails", [b"unsafe"]).error == STORAGE_ERROR
        said = [line for line in broker.log().splitlines() if "fails" in line and "offline" in line]
        assert said, broker.process.last_words()
        assert any(os.strerror(errno.EIO) in line for line in said), said

        # The disk works again, but what the kernel did with those pages nobody knows.
        faults.no_more()
        for _ in range(5):
            assert produce(broker.bootstrap, "fails", [b"again"]).error == STORAGE_ERROR
            assert fetch_error(broker.bootstrap, "fails") == STORAGE_ERROR
            time.sleep(0.1)
        assert must_produce(broker.bootstrap, "works", [b"all the while"]) == 1

        # A start reads what is really there; the record that was refused may be there or not.
        broker.restart()
        found = read_values(broker.bootstrap, "fails")
        assert found[0] == b"safe"
        assert set(found.values()) <= {b"safe", b"unsafe"}
        assert wait_writable(broker.bootstrap, "fails") == len(found)


def test_nothing_is_shown_before_it_is_synced(chroot: str, tmp_path: Path, faults: Faults) -> None:
    """A slow disk: acks=1 is answered at once, acks=all and readers wait, others do not."""
    slowness = 2.0
    directory = tmp_path / "broker"
    with BrokerProcess(directory, zookeeper=chroot, environment=faults.environment) as broker:
        create(broker.bootstrap, "slow")
        create(broker.bootstrap, "fast")
        must_produce(broker.bootstrap, "slow", [b"first"])
        faults.delay_syncs("/slow-0/", slowness)
        bystander = Bystander(broker.bootstrap, "fast")
        with RawConnection(broker.bootstrap) as waiting:
            began = time.monotonic()
            assert produce(broker.bootstrap, "slow", [b"acks=1"], acks=1).error == 0
            assert time.monotonic() - began < slowness / 2, "acks=1 waited for the disk"
            waiting.send(request_of_acks_all())
            while time.monotonic() - began < slowness * 0.8:
                assert high_watermark(broker.bootstrap, "slow") == 1
                time.sleep(0.02)
            assert read_produced(waiting.answer()).error == 0
            assert time.monotonic() - began > slowness
        # The answer to acks=all came after the sync: by then it is shown.
        assert high_watermark(broker.bootstrap, "slow") == 3
        bystander.finish()
        assert produce(broker.bootstrap, "slow", [b"acks=1 alone"], acks=1).error == 0
        wait_until(
            lambda: high_watermark(broker.bootstrap, "slow") == 4,
            within=slowness + 5,
            what="a record of acks=1 is shown soon, without anybody asking for a sync",
        )


def request_of_acks_all() -> bytes:
    return request(PRODUCE, 7, produce_body("slow", 0, record_batch([b"acks=all"]), -1))


def test_the_roll_of_a_segment_fails_with_its_directory(
    chroot: str, tmp_path: Path, faults: Faults
) -> None:
    """A directory that cannot be synced: the new segment must not be relied on."""
    directory = tmp_path / "broker"
    with BrokerProcess(directory, zookeeper=chroot, environment=faults.environment) as broker:
        create(broker.bootstrap, "rolls", configs={"segment.bytes": "10000"})
        must_produce(broker.bootstrap, "rolls", [bytes(4000)])
        faults.fail_syncs("/rolls-0")
        errors = {produce(broker.bootstrap, "rolls", [bytes(4000)]).error for _ in range(4)}
        assert errors == {STORAGE_ERROR}
        faults.no_more()
        broker.restart()
        found = read_values(broker.bootstrap, "rolls")
        assert found[0] == bytes(4000)
        assert wait_writable(broker.bootstrap, "rolls") == len(found)
        assert segments(broker.partition_dir("rolls"))
