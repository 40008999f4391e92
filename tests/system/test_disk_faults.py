"""Disks that are full, fail or are slow, for real: a small file system, and syncs that go wrong."""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
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


@pytest.fixture(scope="module")
def faults(faults_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(faults_library, tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory, faults: Faults
) -> Iterator[BrokerProcess]:
    """What its syncs meet is the tests' to say."""
    directory = tmp_path_factory.mktemp("disk-faults")
    address = f"{zookeeper.address}/disk-faults"
    with BrokerProcess(directory, zookeeper=address, environment=faults.environment) as broker:
        yield broker


def numbered(number: int) -> bytes:
    return b"%06d" % number + bytes(400_000 - 6)


def fill(bootstrap: str, topic: str, first: int = 0) -> int:
    """Writes until that is refused; the number that was."""
    for number in range(first, first + 200):
        done = produce(bootstrap, topic, [numbered(number)])
        if done.error != 0:
            return number
        assert done.base_offset == number
    raise AssertionError("the disk took more than it can hold")


def test_a_full_disk_makes_read_only_until_there_is_room(chroot: str, tmp_path: Path) -> None:
    with (
        mounted_disk(tmp_path, 24) as disk,
        BrokerProcess(tmp_path / "broker", zookeeper=chroot, data_dir=disk / "data") as broker,
    ):
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(8 * MIB))
        create(broker.bootstrap, "fills", configs={"segment.bytes": str(MIB)})
        create(broker.bootstrap, "other")
        must_produce(broker.bootstrap, "other", [b"before"])
        taken = fill(broker.bootstrap, "fills")
        assert taken > 20
        assert (
            f"disk full: fills-0 can only be read until there is room in {disk}"
            in (broker.http("/readyz")[1])
        )
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

        fill(broker.bootstrap, "fills", taken)  # what the restart has made free
        before = len(read_values(broker.bootstrap, "fills"))
        ballast.unlink()
        assert wait_writable(broker.bootstrap, "fills") == before
        wait_writable(broker.bootstrap, "other")
        found = read_values(broker.bootstrap, "fills")
        assert {number: found[number] for number in expected} == expected
        assert sorted(found) == list(range(len(found)))
        assert broker.terminate() == 0, broker.process.last_words()


def test_a_failed_sync_takes_the_partition_offline_for_good(
    broker: BrokerProcess, faults: Faults
) -> None:
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


def test_nothing_is_shown_before_it_is_synced(broker: BrokerProcess, faults: Faults) -> None:
    """A slow disk: acks=1 is answered at once, acks=all and readers wait, others do not."""
    slowness = 2.0
    create(broker.bootstrap, "slow")
    create(broker.bootstrap, "fast")
    must_produce(broker.bootstrap, "slow", [b"first"])
    faults.delay_syncs("/slow-0/", slowness)
    bystander = Bystander(broker.bootstrap, "fast")
    with RawConnection(broker.bootstrap) as waiting:
        began = time.monotonic()
        assert produce(broker.bootstrap, "slow", [b"acks=1"], acks=1).error == 0
        assert time.monotonic() - began < slowness / 2, "acks=1 waited for the disk"
        body = produce_body("slow", 0, record_batch([b"acks=all"]), -1)
        waiting.send(request(PRODUCE, 7, body))
        while time.monotonic() - began < slowness * 0.8:
            assert high_watermark(broker.bootstrap, "slow") == 1
            time.sleep(0.05)
        assert read_produced(waiting.answer()).error == 0
        assert time.monotonic() - began > slowness
    # The answer to acks=all came after the sync: by then it is shown.
    assert high_watermark(broker.bootstrap, "slow") == 3
    bystander.finish()
    assert produce(broker.bootstrap, "slow", [b"acks=1 alone"], acks=1).error == 0
    wait_until(
        lambda: high_watermark(broker.bootstrap, "slow") == 4,
        what="a record of acks=1 is shown soon, without anybody asking for a sync",
    )
    faults.no_more()


def test_the_roll_of_a_segment_fails_with_its_directory(
    broker: BrokerProcess, faults: Faults
) -> None:
    """A directory that cannot be synced: the new segment must not be relied on."""
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
