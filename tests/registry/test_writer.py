"""Writes: decided one after the other, published together, answered when they can be read."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.producing.producer import Producer, take_identity
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from registry.config import RegistryLimits, Timeouts
from registry.errors import ErrorAnswer
from registry.log.forwarding import Passed
from registry.log.leadership import Alone
from registry.log.topic import SchemasTopic
from registry.log.topic_follower import TopicFollower
from registry.log.topic_view import TopicView
from registry.log.writer import TopicWriter
from registry.schemas_topic.values import Decision, LogRecord
from tests.registry.conftest import both
from tests.registry.numbers import (
    SIGN_OF_LIFE,
    Numbers,
    RunningRegistry,
    all_of,
    batches,
    numbered,
    on_numbers,
    removed,
)
from tests.system.crash import Worker
from wire.record_batches.records import records


class Gate:
    """A write that keeps the writer busy until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, _: Numbers) -> Decision[int]:
        self.reached.set()
        assert self.open.wait(60)
        return Decision((), 0)


def together(
    running: RunningRegistry, *decides: Callable[[Numbers], Decision[int]]
) -> "list[Future[int | Passed]]":
    """Has all of them wait for the writer, and then begin."""
    gate = Gate()
    running.begin(gate)
    assert gate.reached.wait(60)
    pending = [running.begin(decide) for decide in decides]
    wait_until(
        lambda: running.registry.waiting_writes == len(decides), within=20, what="all of them wait"
    )
    gate.open.set()
    return pending


def number_batches(bootstrap: str, topic: str) -> list[int]:
    """How many records each batch has, but for signs of life."""
    found = batches(bootstrap, topic)
    return [each.header.record_count for each in found][1:]


@both
def test_writes_that_wait_are_published_together(bootstrap: str, new_topic: str) -> None:
    with RunningRegistry(bootstrap, new_topic) as running:
        assert running.number(b"first") == 1
        pending = together(running, *[numbered(b"%d" % number) for number in range(50)])
        assert all_of(pending) == list(range(2, 52))
        assert len(running.names()) == 51
    assert number_batches(bootstrap, new_topic) == [1, 50]


def test_each_write_is_decided_on_those_before_it(bootstrap: str, new_topic: str) -> None:
    with RunningRegistry(bootstrap, new_topic) as running:
        same = numbered(b"same")
        pending = together(running, *[same] * 5, removed(b"same"), same)
        assert all_of(pending) == [1, 1, 1, 1, 1, 1, 2]
        assert running.names() == {b"same": 2}
    assert number_batches(bootstrap, new_topic) == [3]


def test_what_is_refused_is_answered_and_changes_nothing(bootstrap: str, new_topic: str) -> None:
    def refused(_: Numbers) -> Decision[int]:
        raise ErrorAnswer(409, 40901, "no")

    def broken(_: Numbers) -> Decision[int]:
        raise ZeroDivisionError

    with RunningRegistry(bootstrap, new_topic) as running:
        with pytest.raises(ErrorAnswer, match="no"):
            running.write(refused)
        with pytest.raises(ZeroDivisionError):
            running.write(broken)
        assert running.number(b"a") == 1
    assert number_batches(bootstrap, new_topic) == [1]


@both
def test_one_that_is_too_large_spoils_no_other(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    limit = 10_000
    configs = {"cleanup.policy": "compact", "max.message.bytes": str(limit)}
    admin.create_topic(brokers, new_topic, partitions=1, configs=configs)
    with RunningRegistry(bootstrap, new_topic) as running:
        before, large, after = together(
            running, numbered(b"before"), numbered(b"large", limit), numbered(b"after")
        )
        assert all_of([before, after]) == [1, 2]
        with pytest.raises(ErrorAnswer) as answered:
            large.result(20)
        assert (answered.value.status, answered.value.code) == (422, 42209)
        # The largest there can be: the header of a batch and what a record needs around it.
        fits = next(size for size in range(limit, 0, -1) if writes(running, b"most", size))
        assert limit - 90 < fits < limit - 61
        assert running.names() == {b"before": 1, b"after": 2, b"most": 3}


def writes(running: RunningRegistry, name: bytes, size: int) -> bool:
    try:
        running.write(numbered(name, size))
    except ErrorAnswer:
        return False
    return True


def test_a_group_larger_than_a_batch_is_cut(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    configs = {"cleanup.policy": "compact", "max.message.bytes": "10000"}
    admin.create_topic(brokers, new_topic, partitions=1, configs=configs)
    with RunningRegistry(bootstrap, new_topic) as running:
        pending = together(running, *[numbered(b"%d" % number, 4000) for number in range(10)])
        assert all_of(pending) == list(range(1, 11))
    assert number_batches(bootstrap, new_topic) == [2] * 5


def test_too_many_are_turned_away(bootstrap: str, new_topic: str) -> None:
    with RunningRegistry(bootstrap, new_topic, limits=RegistryLimits(waiting_writes=3)) as running:
        gate = Gate()
        held = running.begin(gate)
        assert gate.reached.wait(60)
        waiting = [running.begin(numbered(b"%d" % number)) for number in range(3)]
        with pytest.raises(ErrorAnswer) as answered:
            running.write(numbered(b"more"))
        assert answered.value.status == 503
        gate.open.set()
        assert all_of([held, *waiting]) == [0, 1, 2, 3]
        assert running.number(b"more") == 4


def test_one_that_takes_too_long_is_told_so(bootstrap: str, new_topic: str) -> None:
    patience = Timeouts(start=20, publish=5, forward=5, write=0.5)
    with RunningRegistry(bootstrap, new_topic, patience=patience) as running:
        gate = Gate()
        with pytest.raises(ErrorAnswer) as answered:
            running.write(gate)
        assert (answered.value.status, answered.value.code) == (500, 50002)
        gate.open.set()


def test_what_was_written_is_there_after_a_restart(bootstrap: str, new_topic: str) -> None:
    """Also the highest number whose name was removed for ever."""
    for start in range(3):
        with RunningRegistry(bootstrap, new_topic) as running:
            assert running.number(b"%d" % start) == start + 1
            running.write(removed(b"%d" % start))
    signs = [record for _, record in running.contents.applied if record.key == SIGN_OF_LIFE]
    assert signs == [LogRecord(SIGN_OF_LIFE, b"%d" % highest) for highest in range(3)]


def test_a_writer_with_nothing_to_write_is_not_forgotten(bootstrap: str, new_topic: str) -> None:
    with RunningRegistry(bootstrap, new_topic, sign_of_life_seconds=0.1) as running:
        assert running.number(b"a") == 1
        wait_until(lambda: running.registry.offset > 5, within=20, what="signs of life")
        assert running.number(b"b") == 2
        signs = [record for _, record in running.contents.applied[2:] if record.key == SIGN_OF_LIFE]
    assert set(signs[:3]) == {LogRecord(SIGN_OF_LIFE, b"1")}


def test_a_writer_that_has_read_little_so_far_loses_no_number(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    """Its first record says a lower highest number than there is, and is soon the only one left."""
    admin.create_topic(brokers, new_topic, partitions=1, configs={"cleanup.policy": "compact"})
    topic = SchemasTopic(new_topic, None, "", 0, 0)
    producer = Producer(brokers, new_topic, create=False)
    producer.send(b"7", b"a")
    producer.flush()

    async def run() -> int:
        reading = TopicView(Numbers(), 0)
        leadership = Alone("here:1", lambda: take_identity(brokers).producer_id)
        writer = TopicWriter(
            brokers.bootstrap,
            new_topic,
            leadership,
            reading,
            capacity=1,
            publish_seconds=20,
            sign_of_life_seconds=20,
            on_intruder=lambda _: None,
        )
        follower = TopicFollower(brokers.bootstrap, topic, take=reading.take, on_end=lambda _: None)
        writer.start()
        await asyncio.to_thread(wait_for_second, bootstrap, new_topic)
        follower.start()
        try:
            return await writer.submit(on_numbers(numbered(b"b")))
        finally:
            await asyncio.to_thread(writer.stop)
            reading.close()
            await asyncio.to_thread(follower.stop)

    assert asyncio.run(run()) == 8
    written = [record for each in batches(bootstrap, new_topic) for record in records(each.data)]
    assert [(record.key, record.value) for record in written[1:3]] == [
        (SIGN_OF_LIFE, b"0"),
        (SIGN_OF_LIFE, b"7"),
    ]


def wait_for_second(bootstrap: str, topic: str) -> None:
    wait_until(lambda: len(batches(bootstrap, topic)) == 2, within=20, what="its first record")


class Numberer(Worker):
    """Has names numbered, one after the other; notes what it was told."""

    def __init__(self, name: str, running: RunningRegistry) -> None:
        super().__init__(name)
        self.told: dict[bytes, int] = {}
        self.failed = 0
        self._running = running

    def work(self) -> None:
        asked = 0
        while not self.stopping:
            asked += 1
            name = f"{self.name}-{asked}".encode()
            try:
                self.told[name] = self._running.number(name)
            except ErrorAnswer as answered:
                if answered.code not in {50001, 50004}:
                    raise
                self.failed += 1


def own_broker(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> BrokerProcess:
    return BrokerProcess(tmp_path, zookeeper=f"{zookeeper.address}/{tmp_path.name}")


def under_load(
    broker: BrokerProcess, running: RunningRegistry, disturb: Callable[[], None], *, times: int
) -> list[Numberer]:
    workers = [Numberer(f"worker{number}", running) for number in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(times):
        before = sum(len(worker.told) for worker in workers)
        wait_until(
            lambda before=before: sum(len(each.told) for each in workers) > before + 50,
            within=30,
            what="writes go on",
        )
        disturb()
    before = sum(len(worker.told) for worker in workers)
    wait_until(
        lambda: sum(len(each.told) for each in workers) > before + 50,
        within=30,
        what="writes go on",
    )
    for worker in workers:
        worker.finish()
    told = {name: number for worker in workers for name, number in worker.told.items()}
    names = running.names()
    assert names.items() >= told.items(), "what was told is there"
    assert len(set(names.values())) == len(names), "no number was given twice"
    with RunningRegistry(broker.bootstrap, running.config.topic) as again:
        assert again.names() == names
    return workers


def test_brokers_may_restart_under_load(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    """A short absence fails nothing: the same batch is sent again until it is known to be there."""
    patient = Timeouts(publish=60, forward=60, write=90)
    with (
        own_broker(tmp_path, zookeeper) as broker,
        RunningRegistry(broker.bootstrap, "_schemas", patience=patient) as running,
    ):
        workers = under_load(broker, running, broker.restart, times=1)
        assert sum(worker.failed for worker in workers) == 0


def test_brokers_may_be_away_for_longer(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str
) -> None:
    """Writes fail then, and what became of them is found in the topic by the next epoch."""
    patience = Timeouts(start=20, publish=0.3, forward=0.3, write=20)
    with (
        own_broker(tmp_path, zookeeper) as broker,
        RunningRegistry(
            broker.bootstrap, "_schemas", zookeeper=chroot, patience=patience
        ) as running,
    ):

        def disturb() -> None:
            broker.kill()
            wait_until(lambda: not running.registry.is_writer, within=20, what="it gives up")
            broker.start()

        workers = under_load(broker, running, disturb, times=2)
        assert sum(worker.failed for worker in workers) > 0
        epochs = {each.header.producer_epoch for each in batches(broker.bootstrap, "_schemas")}
    assert len(epochs) >= 3
