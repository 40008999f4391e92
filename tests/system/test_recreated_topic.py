"""A topic is deleted and created again under its name: its old data never appears."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.system.clients.librdkafka import LibrdkafkaAdmin
from tests.system.clients.stored import segments
from tests.system.produce import UNAVAILABLE, must_produce, produce, read_values, wait_writable
from tests.system.raw import FETCH, RawConnection, fetch_body, read_fetched, request
from tests.system.topics import create


@pytest.fixture
def broker(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        yield broker


def delete(broker: BrokerProcess, topic: str) -> None:
    """Deletes it, and returns when no client is told of it any more."""
    admin = LibrdkafkaAdmin()
    admin.delete_topic(broker.bootstrap, topic)
    wait_until(
        lambda: topic not in admin.topics(broker.bootstrap), within=10, what="it is unlisted"
    )


def topic_id(broker: BrokerProcess, topic: str) -> str:
    text = (broker.partition_dir(topic) / "partition.metadata").read_text()
    return next(line for line in text.splitlines() if line.startswith("topic_id:"))


def test_old_data_never_appears(broker: BrokerProcess) -> None:
    ids = set()
    for life in range(8):
        create(broker.bootstrap, "again")
        ids.add(topic_id(broker, "again"))
        assert read_values(broker.bootstrap, "again") == {}
        values = [b"life %d" % life] * 10
        assert must_produce(broker.bootstrap, "again", values) == 0
        if life % 3 == 1:
            broker.restart()
            assert read_values(broker.bootstrap, "again") == dict(enumerate(values))
        delete(broker, "again")
        if life % 3 == 2:
            broker.restart()
            assert "again" not in LibrdkafkaAdmin().topics(broker.bootstrap)
    assert len(ids) == 8


def test_the_directory_of_an_earlier_life_is_not_adopted(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """As a restored backup, or a disk that was away meanwhile, would have it."""
    create(broker.bootstrap, "again")
    must_produce(broker.bootstrap, "again", [b"first life"])
    first = topic_id(broker, "again")
    shutil.copytree(broker.partition_dir("again"), tmp_path / "earlier")
    delete(broker, "again")
    create(broker.bootstrap, "again")
    must_produce(broker.bootstrap, "again", [b"second life", b"second life"])
    broker.terminate()
    shutil.rmtree(broker.partition_dir("again"))
    shutil.copytree(tmp_path / "earlier", broker.partition_dir("again"))
    broker.start()
    done = produce(broker.bootstrap, "again", [b"now"])
    # Its own data is missing, which is said; what was lost is not given again.
    assert (done.error, done.base_offset) == (0, 2)
    assert topic_id(broker, "again") != first
    for file in segments(broker.partition_dir("again")):
        assert b"first life" not in file.read_bytes()
    assert "messages 0 to 1 are gone" in broker.http("/readyz")[1]


def test_a_waiting_reader_is_told(broker: BrokerProcess) -> None:
    """A long poll on a topic that goes away ends with an error, not in silence."""
    create(broker.bootstrap, "goes")
    must_produce(broker.bootstrap, "goes", [b"one"])
    with RawConnection(broker.bootstrap) as reader:
        body = fetch_body("goes", 0, 1, max_bytes=1000, wait_ms=20_000)
        reader.send(request(FETCH, 4, body))
        delete(broker, "goes")
        assert read_fetched(reader.answer(within=25)).error in UNAVAILABLE


def test_deleted_while_it_is_written_to(broker: BrokerProcess) -> None:
    """Kills between deletion and creation: whatever is there afterwards is of the last life."""
    for life in range(4):
        create(broker.bootstrap, "torn")
        must_produce(broker.bootstrap, "torn", [b"life %d" % life])
        LibrdkafkaAdmin().delete_topic(broker.bootstrap, "torn")
        broker.restart()
        wait_until(
            lambda: "torn" not in LibrdkafkaAdmin().topics(broker.bootstrap),
            within=10,
            what="the deletion is carried out",
        )
        wait_until(
            lambda: not broker.partition_dir("torn").exists(), within=10, what="its data is gone"
        )
    create(broker.bootstrap, "torn")
    assert wait_writable(broker.bootstrap, "torn") == 0
    assert set(read_values(broker.bootstrap, "torn").values()) == {b"try"}
