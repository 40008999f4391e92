"""Both clusters compared in the background: what is damaged on disk below the copy is found, what
is the same is not told of, and what one side has deleted is no difference."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess
from harness.server_process import wait_until
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import PATIENCE, batches, delete_before, values, wait_copied, write
from wire.batch import HEADER_SIZE, read_header

OFTEN = {"interval": 0.2}


def metric(mirror: MirrorProcess, name: str) -> float:
    """Of all that have that name; 0 if there is none."""
    found = re.findall(
        rf"^penstock_mirror_{name}(?:{{.*}})? (\S+)$", mirror.http("/metrics")[1], re.MULTILINE
    )
    return sum(map(float, found))


def wait_compared(mirror: MirrorProcess) -> None:
    """From end to end, after now."""

    def passes() -> int:
        return int((mirror.standing() or {})["compared"]["passes"])

    before = passes()  # the one that is under way may have gone past
    wait_until(lambda: passes() >= before + 2, within=PATIENCE, what="all is compared")


def segment(broker: BrokerProcess, topic: str) -> Path:
    (found,) = broker.partition_dir(topic).glob("*.log")
    return found


def bounds(data: bytes) -> list[tuple[int, int]]:
    """Of the batches in a segment."""
    found, at = [], 0
    while at < len(data):
        size = read_header(data, at).size
        found.append((at, at + size))
        at += size
    return found


def flip_a_byte(data: bytes) -> bytes:
    """In a record of the third batch."""
    at = bounds(data)[2][0] + HEADER_SIZE + 20
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def without_a_batch(data: bytes) -> bytes:
    """The third."""
    begin, end = bounds(data)[2]
    return data[:begin] + data[end:]


@pytest.mark.parametrize(
    "spoilt",
    [
        (flip_a_byte, "the copy's bytes are not what their CRC says"),
        (without_a_batch, "the copy lacks it"),
    ],
)
def test_what_is_damaged_on_disk_is_found(
    there: Brokers,
    target: BrokerProcess,
    new_topic: str,
    new_worker: NewWorker,
    spoilt: tuple[Callable[[bytes], bytes], str],
) -> None:
    spoil, said = spoilt
    copy = f"dc1.{new_topic}"
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 80))
    mirror = new_worker(compare=OFTEN)
    mirror.start()
    with Brokers(Bootstrap.of(target.bootstrap), patience_seconds=60) as here:
        wait_copied(there, here, new_topic)
        third = read_header(batches(there, new_topic)[2])
    wait_compared(mirror)
    assert metric(mirror, "different") == 0
    assert "differs" not in mirror.http("/readyz")[1]
    assert "all was compared with the source" in mirror.told("status").stdout
    target.stop()
    damaged = segment(target, copy)
    damaged.write_bytes(spoil(damaged.read_bytes()))
    for index in damaged.parent.glob("*.*index"):
        index.unlink()
    target.start()
    place = f"offsets {third.base_offset} to {third.last_offset}: {said}"
    wait_until(
        lambda: f"{copy}-0 differs from its source at {place}" in mirror.http("/readyz")[1],
        within=PATIENCE,
        what="the damage is found",
    )
    assert metric(mirror, "different") == 1
    shown = mirror.told("status")
    assert (shown.returncode, place in shown.stdout) == (1, True), shown


def test_what_one_side_has_deleted_is_no_difference(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    copy = f"dc1.{new_topic}"
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 60))
    mirror = new_worker(compare=OFTEN)
    mirror.start()
    wait_copied(there, here, new_topic)
    delete_before(there, new_topic, 20)
    wait_compared(mirror)
    delete_before(here, copy, 31)
    wait_compared(mirror)
    assert metric(mirror, "different") == 0
    assert "could not be compared" not in mirror.http("/readyz")[1]


def test_it_keeps_to_its_rate(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 4_000))
    mirror = new_worker(compare={"rate": 100_000, "interval": 0.2})
    mirror.start()
    wait_copied(there, here, new_topic)

    def read(least: float) -> float:
        wait_until(
            lambda: metric(mirror, "compared_bytes_total") >= least,
            within=PATIENCE,
            what=f"{least} bytes are compared",
        )
        return metric(mirror, "compared_age_seconds")

    # It has never come through: so its age is that of the worker.
    began = read(1)
    assert read(500_000) - began >= 3
