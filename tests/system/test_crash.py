"""The broker is killed at random instants under load, or stopped, and nothing that it promised is
lost.

The instants are drawn from a seed, which a failure prints; PENSTOCK_CRASH_SEED repeats it,
PENSTOCK_CRASH_KILLS changes the number of kills. How far the clients have come at an instant is
the machine's matter, so that a seed repeats the plan and not every byte.
"""

import contextlib
import os
import random
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.kafka.apache_kafka import dump_log, kafka_classpath, why_no_kafka
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system import crash
from tests.system.churn import Churner
from tests.system.clients.librdkafka import LibrdkafkaAdmin
from tests.system.clients.stored import stored_batches
from tests.system.crash import (
    IdempotentWriter,
    PlainWriter,
    Violated,
    Watcher,
    Worker,
    finish_all,
    value_of,
)
from tests.system.faults import Faults
from tests.system.topics import create

TOPIC = "crashed"
PARTITIONS = (0, 1, 2)
A_CAMPAIGN = 100
KILLS_IN_START_UP = 0.25
# Small segments, so that kills also meet the moment of a new one.
CONFIGS = {"segment.bytes": str(1 << 20), "index.interval.bytes": "512"}


def kills(in_ci: int) -> list[int]:
    """How often to kill, in campaigns that each begin with an empty directory."""
    long = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
    wanted = int(os.environ.get("PENSTOCK_CRASH_KILLS", 2000 if long else in_ci))
    return [min(A_CAMPAIGN, wanted - begun) for begun in range(0, wanted, A_CAMPAIGN)]


@pytest.fixture
def chance() -> random.Random:
    seed = os.environ.get("PENSTOCK_CRASH_SEED") or str(random.SystemRandom().getrandbits(32))
    print(f"PENSTOCK_CRASH_SEED={seed}")
    return random.Random(seed)


@contextlib.contextmanager
def at_work(workers: Sequence[Worker]) -> Iterator[None]:
    """They all end, whatever happens; what they failed with is raised if all else was well."""
    for worker in workers:
        worker.start()
    try:
        yield
    except BaseException:
        for worker in workers:
            worker.ask_to_stop()
        for worker in workers:
            with contextlib.suppress(Exception):
                worker.finish()
        raise
    finish_all(workers)


class Load:
    """Idempotent writers and a reader, on all partitions of the topic."""

    def __init__(self, broker: BrokerProcess, writers: int) -> None:
        create(broker.bootstrap, TOPIC, partitions=len(PARTITIONS), configs=CONFIGS)
        where = (broker.bootstrap, TOPIC, PARTITIONS)
        self.writers = [IdempotentWriter(f"idempotent-{each}", *where) for each in range(writers)]
        self.watcher = Watcher("watcher", *where)

    def judge(self, broker: BrokerProcess, *plain: PlainWriter) -> None:
        read = {each: crash.read_all(broker.bootstrap, TOPIC, each) for each in PARTITIONS}
        for partition, values in read.items():
            crash.check_dense(values)
            crash.check_still_there(values, self.watcher.shown[partition])
            for writer in self.writers:
                sent = writer.sent[partition]
                assert sent > 0
                assert writer.acknowledged[partition] == sent
                crash.check_exactly_once(values, writer.of(partition), sent)
        for each in plain:
            crash.check_at_least_once(read[each.partition], each.name, each.acknowledged)


def kill_again_and_again(
    broker: BrokerProcess,
    chance: random.Random,
    workers: Sequence[Worker],
    count: int,
    after_kill: Callable[[], None] = lambda: None,
) -> None:
    """Kills and starts the broker; ends early, with the broker up, when a worker has failed."""
    for _ in range(count):
        time.sleep(chance.uniform(0.05, 0.7))
        broker.kill()
        after_kill()
        while chance.random() < KILLS_IN_START_UP:
            broker.process.spawn()
            time.sleep(chance.uniform(0.05, 1.0))
            broker.kill()
            after_kill()
        broker.start()
        offline = [line for line in broker.log().splitlines() if "partition offline" in line]
        assert not offline, offline[0]
        # Nothing that is remembered of a log is beyond what a crash leaves of it.
        assert broker.http("/readyz") == (200, "ready\n")
        if any(worker.failure for worker in workers):
            return


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", kills(in_ci=4))
def test_killed_at_random_instants_under_load(
    chroot: str, tmp_path: Path, chance: random.Random, count: int
) -> None:
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        load = Load(broker, writers=2)
        plain = [PlainWriter(f"acks={acks}", broker.bootstrap, TOPIC, 0, acks) for acks in (1, -1)]
        churner = Churner("churner", broker.bootstrap)
        workers = [*load.writers, *plain, load.watcher, churner]
        with at_work(workers):
            kill_again_and_again(broker, chance, workers, count)
        load.judge(broker, *plain)
        churner.judge()
        directories_are_those_of(broker, {TOPIC, *churner.alive})
        assert broker.terminate() == 0, broker.process.last_words()
    no_complaint_from_kafka(broker, tmp_path)
    shutil.rmtree(broker.data_dir)  # A long run would fill the disk.


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", kills(in_ci=3))
def test_power_lost_at_random_instants_under_load(
    chroot: str, tmp_path: Path, faults: Faults, chance: random.Random, count: int
) -> None:
    """What was not synced may be gone. What was acknowledged with acks=all, or shown, may not."""
    directory = tmp_path / "broker"
    with BrokerProcess(directory, zookeeper=chroot, environment=faults.environment) as broker:
        load = Load(broker, writers=1)
        durable = PlainWriter("acks=all", broker.bootstrap, TOPIC, 0, -1)
        fleeting = PlainWriter("acks=1", broker.bootstrap, TOPIC, 1, 1)
        workers = [*load.writers, durable, fleeting, load.watcher]
        with at_work(workers):
            kill_again_and_again(
                broker, chance, workers, count, lambda: faults.lose_power(broker.data_dir, chance)
            )
        load.judge(broker, durable)
        assert broker.terminate() == 0, broker.process.last_words()
    no_complaint_from_kafka(broker, tmp_path)
    shutil.rmtree(broker.data_dir)  # A long run would fill the disk.


def test_stopped_and_started_under_load(chroot: str, tmp_path: Path) -> None:
    """SIGTERM: the broker ends soon and well, and its next start has nothing to recover."""
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        load = Load(broker, writers=1)
        plain = PlainWriter("acks=1", broker.bootstrap, TOPIC, 0, 1)
        chance = random.Random(7)
        with at_work([*load.writers, plain, load.watcher]):
            for _ in range(2):
                time.sleep(chance.uniform(0.3, 0.8))
                assert broker.terminate() == 0, broker.process.last_words()
                broker.start()
        assert "torn tail" not in broker.log()
        load.judge(broker, plain)


def directories_are_those_of(broker: BrokerProcess, topics: set[str]) -> None:
    """What was deleted leaves nothing behind, and nothing is listed that was."""
    listed = LibrdkafkaAdmin().topics(broker.bootstrap)
    assert set(listed) == topics

    def present() -> set[str]:
        return {each.name for each in broker.data_dir.iterdir() if each.is_dir()}

    wanted = {f"{name}-{number}" for name in topics for number in range(listed[name])}
    wait_until(lambda: present() == wanted, what=f"{present()} becomes {wanted}")


def no_complaint_from_kafka(broker: BrokerProcess, directory: Path) -> None:
    """Apache Kafka's own tool reads segments, indexes and producer states, and finds no fault."""
    if kafka_classpath() is None:
        pytest.skip(f"all else holds, but Apache Kafka cannot be had: {why_no_kafka()}")
    for partition in PARTITIONS:
        here = broker.partition_dir(TOPIC, partition)
        files = [
            each
            for kind in ("log", "index", "timeindex", "snapshot")
            for each in here.glob(f"*.{kind}")
        ]
        said = dump_log(sorted(files), directory=directory, deep=False)
        batches = sum(1 for _ in stored_batches(here))
        assert said.count("isvalid: true") == batches > 0
        # So it begins every complaint: invalid bytes, mismatches, offsets out of order.
        complaints = ("isvalid: false", "Found ", "Mismatches", "Non-consecutive", "Exception")
        found = [line for line in said.splitlines() if any(each in line for each in complaints)]
        assert not found, found[:10]


def test_the_judge_sees_what_is_wrong() -> None:
    """The checks above can fail: each kind of damage is found."""
    good = {offset: value_of("w", offset) for offset in range(10)}
    crash.check_exactly_once(good, "w", 10)
    crash.check_dense(good)

    lost = {offset: value for offset, value in good.items() if offset != 4}
    with pytest.raises(Violated, match="no record at offset 4"):
        crash.check_dense(lost)
    with pytest.raises(Violated, match="record 5 where 4 belongs"):
        crash.check_exactly_once(lost, "w", 10)
    with pytest.raises(Violated, match="10 records of 11"):
        crash.check_exactly_once(good, "w", 11)
    twice = good | {10: value_of("w", 9)}
    with pytest.raises(Violated, match="11 records of 10"):
        crash.check_exactly_once(twice, "w", 10)
    crash.check_at_least_once(twice, "w", 10)
    swapped = good | {2: good[3], 3: good[2]}
    with pytest.raises(Violated, match="record 3 where 2 belongs"):
        crash.check_at_least_once(swapped, "w", 10)
    changed = good | {7: good[7][:-1] + b"?"}
    with pytest.raises(Violated, match="record 7 was changed"):
        crash.check_exactly_once(changed, "w", 10)

    shown = {offset: zlib.crc32(value) for offset, value in good.items()}
    crash.check_still_there(good, shown)
    with pytest.raises(Violated, match="offset 4 was shown and is gone"):
        crash.check_still_there(lost, shown)
    with pytest.raises(Violated, match="offset 2 was shown with another value"):
        crash.check_still_there(swapped, shown)
