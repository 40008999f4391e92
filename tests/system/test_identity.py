"""Directories and ids that belong to another: the broker refuses to start, and says why."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from tests.system.produce import must_produce, read_values
from tests.system.topics import create


@pytest.fixture
def broker(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "first", zookeeper=chroot) as broker:
        create(broker.bootstrap, "topic")
        must_produce(broker.bootstrap, "topic", [b"first"])
        yield broker


def refusal(second: BrokerProcess) -> str:
    """What a broker says that must not start: one error, and no stack trace."""
    try:
        second.process.spawn()
        assert second.process.wait(within=60) != 0
    finally:
        second.kill()
    said = second.log()
    assert "Traceback" not in said, said
    return said


def still_serves(broker: BrokerProcess) -> None:
    offset = must_produce(broker.bootstrap, "topic", [b"still"])
    assert read_values(broker.bootstrap, "topic")[offset] == b"still"


def test_another_clusters_directory(
    broker: BrokerProcess, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    (of_this,) = cluster_ids(broker.data_dir)
    broker.terminate()
    elsewhere = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    with BrokerProcess(tmp_path / "elsewhere", zookeeper=elsewhere) as other:
        (of_other,) = cluster_ids(other.data_dir)
    assert of_this != of_other
    lost = BrokerProcess(tmp_path / "lost", zookeeper=elsewhere, data_dir=broker.data_dir)
    said = refusal(lost)
    assert of_this in said
    assert of_other in said
    # Nothing has been changed by the attempt.
    broker.start()
    assert read_values(broker.bootstrap, "topic") == {0: b"first"}


def cluster_ids(data_dir: Path) -> list[str]:
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return [line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")]


def test_an_empty_zookeeper(
    broker: BrokerProcess, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """A directory with data, and a map without topics: never to be taken for a new cluster."""
    broker.terminate()
    empty = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    lost = BrokerProcess(tmp_path / "lost", zookeeper=empty, data_dir=broker.data_dir)
    said = refusal(lost)
    assert "recover" in said
    broker.start()
    assert read_values(broker.bootstrap, "topic") == {0: b"first"}


def test_another_brokers_directory(broker: BrokerProcess, chroot: str, tmp_path: Path) -> None:
    broker.terminate()
    lost = BrokerProcess(tmp_path / "lost", zookeeper=chroot, broker_id=2, data_dir=broker.data_dir)
    said = refusal(lost)
    assert "1" in said
    assert "2" in said
    broker.start()
    assert read_values(broker.bootstrap, "topic") == {0: b"first"}


def test_two_brokers_of_one_id(broker: BrokerProcess, chroot: str, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "second", zookeeper=chroot)
    said = refusal(second)
    assert "id" in said
    assert str(broker.port) in said, "it says where the other one is"
    still_serves(broker)


def test_one_directory_for_two_brokers(broker: BrokerProcess, chroot: str, tmp_path: Path) -> None:
    second = BrokerProcess(
        tmp_path / "second", zookeeper=chroot, broker_id=2, data_dir=broker.data_dir
    )
    said = refusal(second)
    assert str(broker.data_dir) in said
    still_serves(broker)


def test_the_port_is_taken(
    broker: BrokerProcess, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    elsewhere = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    settings = {"port": broker.port}
    second = BrokerProcess(tmp_path / "second", zookeeper=elsewhere, settings=settings)
    assert str(broker.port) in refusal(second)
    still_serves(broker)


def test_a_directory_that_cannot_be_read_as_one(
    broker: BrokerProcess, chroot: str, tmp_path: Path
) -> None:
    """A damaged meta.properties is no reason to begin anew in it."""
    broker.terminate()
    meta = broker.data_dir / "meta.properties"
    whole = meta.read_text()
    meta.write_text("\x00\x00\x00")
    lost = BrokerProcess(tmp_path / "lost", zookeeper=chroot, data_dir=broker.data_dir)
    assert "meta.properties" in refusal(lost)
    meta.write_text(whole)
    broker.start()
    assert read_values(broker.bootstrap, "topic") == {0: b"first"}


def test_a_restored_copy_of_the_directory_is_the_broker(
    broker: BrokerProcess, chroot: str, tmp_path: Path
) -> None:
    """A directory may be moved: what it belongs to is written in it, not its path."""
    broker.terminate()
    shutil.copytree(broker.data_dir, tmp_path / "copy")
    with BrokerProcess(tmp_path / "new", zookeeper=chroot, data_dir=tmp_path / "copy") as moved:
        assert read_values(moved.bootstrap, "topic") == {0: b"first"}
