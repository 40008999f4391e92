"""Both clusters compared in the background: what is damaged on disk below the copy is found, what
is the same is not told of, and what one side has deleted is no difference."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.reading.fetch_session import Key
from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import MirrorProcess
from harness.processes.waiting import wait_until
from mirror.clusters.scanner import Scan
from mirror.comparing.comparison import Comparison
from mirror.partitions.partition import CopiedPartition, Stage
from tests.client.shipped_topics import delete_before
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import batches, create, values, wait_copied, write
from tests.mirror.workers import mirror_config
from wire.record_batches.batch import HEADER_SIZE, read_header

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
    wait_until(lambda: passes() >= before + 2, what="all is compared")


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


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "flipped": (flip_a_byte, "the copy's bytes do not match their CRC"),
    "lacking": (without_a_batch, "missing in the copy"),
}


def test_what_is_damaged_on_disk_is_found_and_what_was_deleted_is_no_difference(
    there: Brokers, here: Brokers, target: BrokerProcess, new_topic: str, new_worker: NewWorker
) -> None:
    topics = {name: f"{new_topic}-{name}" for name in (*DAMAGE, "deleted")}
    for topic in topics.values():
        create(there, topic, values(0, 80))
    mirror = new_worker(compare=OFTEN)
    mirror.start()
    for topic in topics.values():
        wait_copied(there, here, topic)
    third = read_header(batches(there, topics["flipped"])[2])
    for brokers, topic, offset in (
        (there, topics["deleted"], 20),
        (here, f"dc1.{topics['deleted']}", 31),
    ):
        delete_before(brokers, topic, offset)
        wait_compared(mirror)
    assert metric(mirror, "different") == 0
    page = mirror.http("/readyz")[1]
    assert "differs" not in page
    assert "could not be compared" not in page
    assert "last complete comparison with the source" in mirror.told("status").stdout
    target.stop()
    for name, (spoil, _) in DAMAGE.items():
        damaged = segment(target, f"dc1.{topics[name]}")
        damaged.write_bytes(spoil(damaged.read_bytes()))
        for index in damaged.parent.glob("*.*index"):
            index.unlink()
    target.start()
    place = f"offsets {third.base_offset} to {third.last_offset}"
    wanted = [
        f"dc1.{topics[name]}-0 differs from its source at {place}: {said}"
        for name, (_, said) in DAMAGE.items()
    ]
    wait_until(
        lambda: all(each in mirror.http("/readyz")[1] for each in wanted),
        what="the damage is found",
    )
    assert metric(mirror, "different") == 2
    shown = mirror.told("status")
    assert shown.returncode == 1
    assert all(f"{place}: {said}" in shown.stdout for _, said in DAMAGE.values())


def test_it_keeps_to_its_rate(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    create(there, new_topic, values(0, 4_000))
    mirror = new_worker(compare={"rate": 100_000, "interval": 0.2})
    mirror.start()
    wait_copied(there, here, new_topic)

    def read(least: float) -> float:
        wait_until(
            lambda: metric(mirror, "compared_bytes_total") >= least,
            what=f"{least} bytes are compared",
        )
        return metric(mirror, "compared_age_seconds")

    # It has never come through: so its age is that of the worker.
    began = read(1)
    assert read(500_000) - began >= 3


class Compared:
    """A topic of one partition or more with itself, from within: this test says what is copied."""

    def __init__(self, broker: BrokerProcess, brokers: Brokers, topic: str, count: int) -> None:
        keys = [(topic, index) for index in range(count)]
        self.partitions = [CopiedPartition(e, e, stage=Stage.COPYING) for e in keys]
        self.asked = 0
        self.once_read: Callable[[], None] = lambda: None  # when the first bytes were compared
        known = admin.all_topics(brokers)
        seen = Scan(time.monotonic(), known, known, {})
        config = mirror_config(broker, broker, compare={"rate": 400_000, "interval": 0.1})
        self.comparing = Comparison(config, lambda: seen, self._mine)

    def _mine(self) -> Mapping[Key, CopiedPartition]:
        self.asked += 1
        if self.comparing.bytes:
            self.once_read()
        return {each.here: each for each in self.partitions}

    def wait_asked(self) -> None:
        """It is tried once more, at least, or is through."""
        until = self.asked + 10
        wait_until(
            lambda: self.asked >= until or bool(self.comparing.passes),
            what="it goes on",
        )

    def start(self) -> None:
        self.comparing.start()

    def close(self) -> None:
        self.comparing.stop()


def check_not_whole_until_it_is_copied(compared: Compared, first: CopiedPartition) -> None:
    wait_until(lambda: bool(compared.comparing.bytes), what="something is read")
    wait_until(lambda: first.stage is Stage.WAITING, what="it waits")
    compared.wait_asked()
    assert compared.comparing.passes == 0
    first.stage, compared.once_read = Stage.COPYING, lambda: None
    wait_until(lambda: compared.comparing.passes > 0, what="all is compared")
    compared.close()
    assert compared.comparing.different == {}


def test_a_pass_that_gave_up_a_partition_half_way_is_not_whole(
    source: BrokerProcess, there: Brokers, new_topic: str
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 2_000))  # more than is read at once
    compared = Compared(source, there, new_topic, 1)
    (only,) = compared.partitions

    def waits() -> None:
        only.stage = Stage.WAITING

    compared.once_read = waits
    began = time.monotonic()
    with closing(compared):
        compared.start()
        wait_until(lambda: only.stage is Stage.WAITING, what="it waits")
        compared.wait_asked()
        waited = time.monotonic() - began
        assert compared.comparing.age_s >= waited
        check_not_whole_until_it_is_copied(compared, only)


def test_a_pass_without_a_partition_that_waits_is_not_whole(
    source: BrokerProcess, there: Brokers, new_topic: str
) -> None:
    admin.create_topic(there, new_topic, partitions=2)
    write(there, new_topic, values(0, 50), 1)
    compared = Compared(source, there, new_topic, 2)
    first, _ = compared.partitions
    first.stage = Stage.WAITING
    with closing(compared):
        compared.start()
        check_not_whole_until_it_is_copied(compared, first)


def test_what_is_paused_or_compacted_keeps_no_pass_from_being_whole(
    source: BrokerProcess, there: Brokers, new_topic: str
) -> None:
    admin.create_topic(there, new_topic, partitions=3)
    write(there, new_topic, values(0, 50), 2)
    compared = Compared(source, there, new_topic, 3)
    paused, compacted, _ = compared.partitions
    paused.stage, compacted.compacts = Stage.PAUSED, True
    with closing(compared):
        compared.start()
        wait_until(lambda: compared.comparing.passes > 0, what="a whole pass")
