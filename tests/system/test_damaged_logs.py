"""Files of a stopped broker are damaged; it starts, mends what it may and says what it may not.

Each kind of damage gets a partition of its own, so that one restart shows them all. The interval of
checkpoints is long: recovery then re-reads everything, as after a crash right behind the damage.
That a log is mended whichever byte is its last: tests/broker/storage/recovery/test_recovery.py.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
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
SIZE = len(record_batch(BATCH))
GARBAGE = random.Random(3).randbytes(700)
Damage = Callable[[Path], object]
Ending = Callable[[bytes], bytes]

# How the last of three batches ends: cut behind so many of its bytes, or not what it was.
CUT: list[Ending] = [
    lambda whole, kept=kept: whole[: len(whole) - SIZE + kept]
    for kept in (0, 1, 11, 12, 60, 61, 90)
]
SPOILT: list[Ending] = [
    lambda whole: whole[:-1] + b"?",
    lambda whole: whole[: len(whole) - SIZE] + bytes(SIZE),
    lambda whole: whole[: len(whole) - SIZE] + GARBAGE,
    lambda whole: whole[: len(whole) - SIZE] + whole[-SIZE:-7] + bytes(3000),
]
DAMAGES: dict[str, Damage] = {
    "remove": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "zero": lambda file: file.write_bytes(bytes(max(file.stat().st_size, 100))),
    "randomise": lambda file: file.write_bytes(GARBAGE[: max(file.stat().st_size, 100)]),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 + 1]),
    # Every entry is plausible and wrong.
    "shift": lambda file: file.write_bytes(file.read_bytes()[8:] + bytes(8)),
}
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("damaged")
    settings = {"intervals": {"checkpoint": 3600.0}}
    address = f"{zookeeper.address}/damaged"
    with BrokerProcess(directory, zookeeper=address, settings=settings) as broker:
        yield broker


def test_values_are_read_as_they_were_written() -> None:
    """The reader of these tests can tell."""
    assert values_in(record_batch(BATCH)) == dict(enumerate(BATCH))
    assert values_in(record_batch(BATCH)[:-1]) == {}


def with_endings(broker: BrokerProcess, topic: str, endings: list[Ending]) -> None:
    """A killed broker has one partition for each."""
    create(broker.bootstrap, topic, partitions=len(endings))
    for partition in range(len(endings)):
        for _ in range(3):
            must_produce(broker.bootstrap, topic, BATCH, partition=partition)
    broker.kill()
    for partition, ending in enumerate(endings):
        (file,) = segments(broker.partition_dir(topic, partition))
        file.write_bytes(ending(file.read_bytes()))


def check_goes_on(broker: BrokerProcess, topic: str, partitions: int) -> None:
    whole = dict(enumerate(2 * BATCH))
    for partition in range(partitions):
        found = read_values(broker.bootstrap, topic, partition=partition)
        assert found == whole, f"ending {partition}"
        assert must_produce(broker.bootstrap, topic, [b"after"], partition=partition) == 6
        found = read_values(broker.bootstrap, topic, partition=partition)
        assert found == whole | {6: b"after"}, f"ending {partition}"


def test_a_torn_tail_is_cut_off(broker: BrokerProcess, new_topic: str) -> None:
    """Nobody knows of an acknowledgement."""
    endings = [*CUT, *SPOILT]
    with_endings(broker, new_topic, endings)
    (broker.data_dir / "acknowledged").unlink()
    broker.start()
    check_goes_on(broker, new_topic, len(endings))
    said = [line for line in broker.log().splitlines() if "torn tail" in line and new_topic in line]
    assert len(said) >= len(endings) - 1  # One was cut off cleanly.
    assert f"lost: {new_topic}" not in broker.http("/readyz")[1]


def test_an_acknowledged_end_that_is_cut_is_said_to_be_lost(
    broker: BrokerProcess, new_topic: str
) -> None:
    """Nothing is left that could be saved: it is said, and the log goes on."""
    with_endings(broker, new_topic, CUT)
    broker.start()
    said = f"lost: {new_topic}-"
    lost = [line for line in broker.http("/readyz")[1].splitlines() if line.startswith(said)]
    assert len(lost) == len(CUT)
    assert all("acknowledged messages 6 to 8, leader epoch 1" in line for line in lost)
    check_goes_on(broker, new_topic, len(CUT))


def test_an_acknowledged_end_that_is_not_what_it_was(broker: BrokerProcess, new_topic: str) -> None:
    """It is no torn tail: the partition is offline, and nothing is changed."""
    with_endings(broker, new_topic, SPOILT)
    files = [segments(broker.partition_dir(new_topic, at))[0] for at in range(len(SPOILT))]
    before = [file.read_bytes() for file in files]
    broker.start()
    for partition in range(len(SPOILT)):
        done = produce(broker.bootstrap, new_topic, BATCH, partition=partition)
        assert done.error == STORAGE_ERROR, partition
        assert f"offline: {new_topic}-{partition}" in broker.http("/readyz")[1]
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("stop", ["killed", "stopped"])
def test_damaged_indexes_and_producer_states_are_made_again(
    broker: BrokerProcess, new_topic: str, stop: str
) -> None:
    cases = [(kind, what) for kind in ("index", "timeindex", "snapshot") for what in DAMAGES]
    configs = {"segment.bytes": "4096", "index.interval.bytes": "200"}
    create(broker.bootstrap, new_topic, partitions=len(cases), configs=configs)
    sent = [f"value {number:03} ".encode() * 24 for number in range(40)]
    for partition in range(len(cases)):
        for number in range(0, 40, 2):
            pair, time = sent[number : number + 2], EPOCH + 1000 * number
            done = produce(broker.bootstrap, new_topic, pair, partition=partition, timestamp=time)
            assert done.error == 0
    _ = broker.kill() if stop == "killed" else broker.terminate()
    for partition, (kind, what) in enumerate(cases):
        files = sorted(broker.partition_dir(new_topic, partition).glob(f"*.{kind}"))
        assert files, f"{kind} of partition {partition}"
        for file in files:
            DAMAGES[what](file)
    broker.start()
    for partition, case in enumerate(cases):
        found = read_values(broker.bootstrap, new_topic, partition=partition)
        assert found == dict(enumerate(sent)), case
        for number in (0, 17, 38) if case[0] == "timeindex" else (17,):
            start = AtTime(EPOCH + 1000 * number - 500)
            expected = -(-number // 2) * 2
            seen = Librdkafka().consume(broker.bootstrap, new_topic, partition, start, 1)
            assert seen[0].offset == expected, case
        assert must_produce(broker.bootstrap, new_topic, [b"after"], partition=partition) == 40


@pytest.mark.parametrize(
    ("stop", "damages"), [("killed", ["randomise"]), ("stopped", ["remove", "zero"])]
)
def test_damaged_checkpoints_lose_nothing(
    broker: BrokerProcess, new_topic: str, stop: str, damages: list[str]
) -> None:
    create(broker.bootstrap, new_topic, configs={"segment.bytes": "4096"})
    expected = [bytes(500)] * 50
    for value in expected:
        must_produce(broker.bootstrap, new_topic, [value])
    for what in damages:
        if stop == "killed":
            broker.terminate()  # which writes the checkpoints
            broker.start()
        expected.append(b"last")
        must_produce(broker.bootstrap, new_topic, [b"last"])
        _ = broker.kill() if stop == "killed" else broker.terminate()
        damaged = [broker.data_dir / name for name in CHECKPOINTS]
        damaged.append(broker.partition_dir(new_topic) / "leader-epoch-checkpoint")
        present = [file for file in damaged if file.exists()]
        assert present
        for file in present:
            DAMAGES[what](file)
        broker.start()
        assert read_values(broker.bootstrap, new_topic) == dict(enumerate(expected)), what
        assert must_produce(broker.bootstrap, new_topic, [b"after"]) == len(expected), what
        expected.append(b"after")


def test_a_corrupt_batch_in_the_middle_is_reported_and_not_served(
    broker: BrokerProcess, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic, partitions=3)
    for partition in range(3):
        for _ in range(5):
            must_produce(broker.bootstrap, new_topic, BATCH, partition=partition)
    broker.kill()
    middle = list(stored_batches(broker.partition_dir(new_topic, 1)))[2]
    with middle.file.open("r+b") as file:
        file.seek(middle.position + 70)
        file.write(b"\xff\x00\xff")
    damaged = middle.file.read_bytes()
    broker.start()
    assert produce(broker.bootstrap, new_topic, BATCH, partition=1).error == STORAGE_ERROR
    assert fetch_error(broker.bootstrap, new_topic, partition=1) == STORAGE_ERROR
    lines = [line for line in broker.log().splitlines() if new_topic in line and "offline" in line]
    assert any(str(middle.position) in line for line in lines), lines
    # What may be needed to repair it is left alone.
    assert middle.file.read_bytes() == damaged
    for partition in (0, 2):
        found = read_values(broker.bootstrap, new_topic, partition=partition)
        assert found == dict(enumerate(5 * BATCH))
        assert must_produce(broker.bootstrap, new_topic, [b"after"], partition=partition) == 15
    # It stays so over a restart.
    broker.restart()
    assert fetch_error(broker.bootstrap, new_topic, partition=1) == STORAGE_ERROR
