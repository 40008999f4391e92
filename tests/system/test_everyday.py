"""Every day's work: a stop while clients write, and clients that wait for what is not there."""

import random
import time
from pathlib import Path

from harness.broker_process import BrokerProcess
from tests.system import crash
from tests.system.crash import IdempotentWriter, PlainWriter, Watcher, Worker
from tests.system.produce import must_produce
from tests.system.raw import FETCH, RawConnection, fetch_body, read_fetched, request
from tests.system.topics import create


def test_stopped_and_started_under_load(chroot: str, tmp_path: Path) -> None:
    """SIGTERM: the broker ends soon and well, and its next start has nothing to recover."""
    partitions = (0, 1)
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        create(broker.bootstrap, "busy", partitions=len(partitions))
        writers: list[IdempotentWriter] = [
            IdempotentWriter("idempotent", broker.bootstrap, "busy", partitions)
        ]
        plain = PlainWriter("acks=1", broker.bootstrap, "busy", 0, 1)
        watcher = Watcher("watcher", broker.bootstrap, "busy", partitions)
        workers: list[Worker] = [*writers, plain, watcher]
        for worker in workers:
            worker.start()
        try:
            chance = random.Random(7)
            for _ in range(2):
                time.sleep(chance.uniform(0.3, 0.8))
                assert broker.terminate() == 0, broker.process.last_words()
                broker.start()
        finally:
            for worker in workers:
                worker.finish()
        assert "torn tail" not in broker.log()
        for partition in partitions:
            read = crash.read_all(broker.bootstrap, "busy", partition)
            crash.check_dense(read)
            crash.check_still_there(read, watcher.shown[partition])
            for writer in writers:
                crash.check_exactly_once(read, writer.of(partition), writer.sent[partition])
            if partition == 0:
                crash.check_at_least_once(read, plain.name, plain.acknowledged)


def test_those_who_wait_cost_nothing_and_are_served_at_once(chroot: str, tmp_path: Path) -> None:
    """A hundred readers at the end of a log, each for up to five seconds."""
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        create(broker.bootstrap, "quiet")
        readers = [RawConnection(broker.bootstrap) for _ in range(100)]
        try:
            body = fetch_body("quiet", 0, 0, max_bytes=1_000_000, wait_ms=60_000)
            for reader in readers:
                reader.send(request(FETCH, 4, body))
            before = broker.cpu_seconds()
            time.sleep(2)  # A while in which nothing is expected to happen.
            assert broker.cpu_seconds() - before < 0.2
            must_produce(broker.bootstrap, "quiet", [b"at last"])
            began = time.monotonic()
            for reader in readers:
                assert b"at last" in read_fetched(reader.answer()).records
            assert time.monotonic() - began < 50
        finally:
            for reader in readers:
                reader.close()


def test_a_wait_ends_in_time_without_anything_to_show(chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        create(broker.bootstrap, "quiet")
        with RawConnection(broker.bootstrap) as reader:
            began = time.monotonic()
            body = fetch_body("quiet", 0, 0, max_bytes=1000, wait_ms=700)
            fetched = read_fetched(reader.ask(FETCH, 4, body))
            assert (fetched.error, fetched.records) == (0, b"")
            assert 0.6 < time.monotonic() - began < 10
