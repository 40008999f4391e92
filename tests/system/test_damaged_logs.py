"""Files of a stopped broker are damaged; it starts, mends what it may and says what it may not.

Each kind of damage gets a partition of its own, so that one restart shows them all. The interval of
checkpoints is long: recovery then re-reads everything, as after a crash right behind the damage.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.broker_process import BrokerProcess
from tests.system.clients.contents import EPOCH
from tests.system.clients.interface import AtTime
from tests.system.clients.librdkafka import Librdkafka
from tests.system.clients.stored import segments, stored_batches
from tests.system.produce import (
    STORAGE_ERROR,
    fetch_error,
    must_produce,
    produce,
    read_values,
    values_in,
)
from tests.system.raw import record_batch
from tests.system.topics import create

BATCH = [b"three", b"small", b"records"]


@pytest.fixture
def broker(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"intervals": {"checkpoint": 3600.0}}
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings) as broker:
        yield broker


def test_values_are_read_as_they_were_written() -> None:
    """The reader of these tests can tell."""
    assert values_in(record_batch(BATCH)) == dict(enumerate(BATCH))
    assert values_in(record_batch(BATCH)[:-1]) == {}


SIZE = len(record_batch(BATCH))
GARBAGE = random.Random(3).randbytes(700)
Ending = Callable[[bytes], bytes]
CUT: list[Ending] = [
    lambda whole, kept=kept: whole[: len(whole) - SIZE + kept] for kept in range(SIZE)
]
SPOILT: list[Ending] = [
    lambda whole: whole[:-1] + b"?",
    lambda whole: whole[: len(whole) - SIZE] + bytes(SIZE),
    lambda whole: whole[: len(whole) - SIZE] + GARBAGE,
    lambda whole: whole[: len(whole) - SIZE] + bytes(5000),
    lambda whole: whole[: len(whole) - SIZE] + whole[-SIZE:-7] + bytes(3000),
]


def with_endings(broker: BrokerProcess, topic: str, endings: list[Ending]) -> None:
    """A killed broker has one partition for each, of three batches the last of which ends so."""
    create(broker.bootstrap, topic, partitions=len(endings))
    for partition in range(len(endings)):
        for _ in range(3):
            must_produce(broker.bootstrap, topic, BATCH, partition=partition)
    broker.kill()
    for partition, ending in enumerate(endings):
        (file,) = segments(broker.partition_dir(topic, partition))
        file.write_bytes(ending(file.read_bytes()))


def check_goes_on(broker: BrokerProcess, topic: str, endings: int) -> None:
    whole = dict(enumerate(2 * BATCH))
    for partition in range(endings):
        found = read_values(broker.bootstrap, topic, partition=partition)
        assert found == whole, f"ending {partition}"
        assert must_produce(broker.bootstrap, topic, [b"after"], partition=partition) == 6
        found = read_values(broker.bootstrap, topic, partition=partition)
        assert found == whole | {6: b"after"}, f"ending {partition}"


def test_a_tail_torn_at_every_byte(broker: BrokerProcess) -> None:
    """Nobody knows of an acknowledgement."""
    endings = [*CUT, *SPOILT]
    with_endings(broker, "torn", endings)
    (broker.data_dir / "acknowledged").unlink()
    broker.start()
    check_goes_on(broker, "torn", len(endings))
    assert broker.log().count("torn tail") >= len(endings) - 1  # One was cut off cleanly.
    assert broker.http("/readyz") == (200, "ready\n")


def test_an_acknowledged_end_that_is_cut_at_every_byte(broker: BrokerProcess) -> None:
    """Nothing is left that could be saved: it is said, and the log goes on."""
    with_endings(broker, "cut", CUT)
    broker.start()
    lost = [line for line in broker.http("/readyz")[1].splitlines() if line.startswith("lost: ")]
    assert len(lost) == len(CUT)
    assert all("messages 6 to 8 are gone, leader epoch 1" in line for line in lost)
    check_goes_on(broker, "cut", len(CUT))


def test_an_acknowledged_end_that_is_not_what_it_was(broker: BrokerProcess) -> None:
    """It is no torn tail: the partition is offline, and nothing is changed."""
    with_endings(broker, "spoilt", SPOILT)
    before = [segments(broker.partition_dir("spoilt", each))[0].read_bytes() for each in range(5)]
    broker.start()
    for partition in range(len(SPOILT)):
        done = produce(broker.bootstrap, "spoilt", BATCH, partition=partition)
        assert done.error == STORAGE_ERROR, partition
        (file,) = segments(broker.partition_dir("spoilt", partition))
        assert file.read_bytes() == before[partition]
        assert f"offline: spoilt-{partition}" in broker.http("/readyz")[1]


def remove(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def zero(file: Path) -> None:
    file.write_bytes(bytes(max(file.stat().st_size, 100)))


def randomise(file: Path) -> None:
    file.write_bytes(random.Random(file.name).randbytes(max(file.stat().st_size, 100)))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 + 1])


def shift(file: Path) -> None:
    """Every entry is plausible and wrong."""
    file.write_bytes(file.read_bytes()[8:] + bytes(8))


DAMAGES = (remove, empty, zero, randomise, cut, shift)
KINDS = ("index", "timeindex", "snapshot")


@pytest.mark.parametrize("stop", ["killed", "stopped"])
def test_damaged_indexes_and_producer_states_are_made_again(
    broker: BrokerProcess, stop: str
) -> None:
    cases = [(kind, damage) for kind in KINDS for damage in DAMAGES]
    configs = {"segment.bytes": "4096", "index.interval.bytes": "200"}
    create(broker.bootstrap, "indexed", partitions=len(cases), configs=configs)
    sent = [f"value {number:03} ".encode() * 8 for number in range(100)]
    for partition in range(len(cases)):
        for number in range(0, 100, 2):
            pair, time = sent[number : number + 2], EPOCH + 1000 * number
            done = produce(broker.bootstrap, "indexed", pair, partition=partition, timestamp=time)
            assert done.error == 0
    _ = broker.kill() if stop == "killed" else broker.terminate()
    for partition, (kind, damage) in enumerate(cases):
        files = sorted(broker.partition_dir("indexed", partition).glob(f"*.{kind}"))
        assert files, f"{kind} of partition {partition}"
        for file in files:
            damage(file)
    broker.start()
    for partition, (kind, damage) in enumerate(cases):
        what = f"{kind}, {damage.__name__}"
        found = read_values(broker.bootstrap, "indexed", partition=partition)
        assert found == dict(enumerate(sent)), what
        for number in (0, 37, 98):
            start = AtTime(EPOCH + 1000 * number - 500)
            expected = -(-number // 2) * 2
            seen = Librdkafka().consume(broker.bootstrap, "indexed", partition, start, 1)
            assert seen[0].offset == expected, what
        assert must_produce(broker.bootstrap, "indexed", [b"after"], partition=partition) == 100


CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")


@pytest.mark.parametrize("stop", ["killed", "stopped"])
def test_damaged_checkpoints_lose_nothing(broker: BrokerProcess, stop: str) -> None:
    create(broker.bootstrap, "checked", configs={"segment.bytes": "4096"})
    expected = [bytes(500)] * 50
    for value in expected:
        must_produce(broker.bootstrap, "checked", [value])
    for damage in (remove, empty, zero, randomise):
        if stop == "killed":
            broker.terminate()  # which writes the checkpoints
            broker.start()
        expected.append(b"last")
        must_produce(broker.bootstrap, "checked", [b"last"])
        _ = broker.kill() if stop == "killed" else broker.terminate()
        damaged = [broker.data_dir / name for name in CHECKPOINTS]
        damaged.append(broker.partition_dir("checked") / "leader-epoch-checkpoint")
        present = [file for file in damaged if file.exists()]
        assert present
        for file in present:
            damage(file)
        broker.start()
        what = damage.__name__
        assert read_values(broker.bootstrap, "checked") == dict(enumerate(expected)), what
        assert must_produce(broker.bootstrap, "checked", [b"after"]) == len(expected), what
        expected.append(b"after")


def test_a_corrupt_batch_in_the_middle_is_reported_and_not_served(broker: BrokerProcess) -> None:
    create(broker.bootstrap, "corrupt", partitions=3)
    create(broker.bootstrap, "sound")
    for partition in range(3):
        for _ in range(5):
            must_produce(broker.bootstrap, "corrupt", BATCH, partition=partition)
    must_produce(broker.bootstrap, "sound", BATCH)
    broker.kill()
    middle = list(stored_batches(broker.partition_dir("corrupt", 1)))[2]
    with middle.file.open("r+b") as file:
        file.seek(middle.position + 70)
        file.write(b"\xff\x00\xff")
    damaged = middle.file.read_bytes()
    broker.start()
    assert produce(broker.bootstrap, "corrupt", BATCH, partition=1).error == STORAGE_ERROR
    assert fetch_error(broker.bootstrap, "corrupt", partition=1) == STORAGE_ERROR
    lines = [
        line for line in broker.log().splitlines() if "corrupt-1" in line or "partition=1" in line
    ]
    assert any("offline" in line and str(middle.position) in line for line in lines), lines
    # What may be needed to repair it is left alone.
    assert middle.file.read_bytes() == damaged
    for partition in (0, 2):
        found = read_values(broker.bootstrap, "corrupt", partition=partition)
        assert found == dict(enumerate(5 * BATCH))
        assert must_produce(broker.bootstrap, "corrupt", [b"after"], partition=partition) == 15
    assert read_values(broker.bootstrap, "sound") == dict(enumerate(BATCH))
    # It stays so over a restart, and can be deleted like any other topic.
    broker.restart()
    assert fetch_error(broker.bootstrap, "corrupt", partition=1) == STORAGE_ERROR
