"""Directories and ids that belong to another: the broker refuses to start, and says why."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.system.produce import must_produce, read_values
from tests.system.topics import create


@pytest.fixture(scope="module")
def map_address(zookeeper: EmbeddedZooKeeper) -> str:
    return f"{zookeeper.address}/identity"


@pytest.fixture
def another_map(zookeeper: EmbeddedZooKeeper) -> str:
    return f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def broker(map_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("first"), zookeeper=map_address) as broker:
        create(broker.bootstrap, "topic")
        must_produce(broker.bootstrap, "topic", [b"first"])
        yield broker


@pytest.fixture
def serves(broker: BrokerProcess) -> Iterator[None]:
    """Who was refused has disturbed nothing."""
    yield
    offset = must_produce(broker.bootstrap, "topic", [b"still"])
    assert read_values(broker.bootstrap, "topic")[offset] == b"still"


@pytest.fixture
def directory(broker: BrokerProcess) -> Iterator[Path]:
    """A stopped broker's; nothing has been changed in it afterwards."""
    values = read_values(broker.bootstrap, "topic")
    broker.terminate()
    yield broker.data_dir
    broker.start()
    assert read_values(broker.bootstrap, "topic") == values


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


def cluster_id(data_dir: Path) -> str:
    lines = (data_dir / "meta.properties").read_text().splitlines()
    (found,) = [each.partition("=")[2] for each in lines if each.startswith("cluster.id=")]
    return found


def test_another_clusters_or_brokers_directory(
    directory: Path, map_address: str, another_map: str, tmp_path: Path
) -> None:
    """An empty map is not to be taken for a new cluster where there is data; a damaged
    meta.properties is no reason to begin anew in it."""

    def refused(zookeeper: str, broker_id: int = 1) -> str:
        lost = BrokerProcess(
            tmp_path / "lost", zookeeper=zookeeper, broker_id=broker_id, data_dir=directory
        )
        lost.process.output.unlink(missing_ok=True)
        return refusal(lost)

    assert "recover" in refused(another_map)
    with BrokerProcess(tmp_path / "elsewhere", zookeeper=another_map) as other:
        pass
    assert cluster_id(directory) != cluster_id(other.data_dir)
    said = refused(another_map)
    assert cluster_id(directory) in said
    assert cluster_id(other.data_dir) in said
    said = refused(map_address, broker_id=2)
    assert "1" in said
    assert "2" in said
    meta = directory / "meta.properties"
    whole = meta.read_text()
    meta.write_text("\x00\x00\x00")
    assert "meta.properties" in refused(map_address)
    meta.write_text(whole)


@pytest.mark.usefixtures("serves")
def test_one_directory_for_two_brokers(
    broker: BrokerProcess, map_address: str, tmp_path: Path
) -> None:
    second = BrokerProcess(tmp_path, zookeeper=map_address, broker_id=2, data_dir=broker.data_dir)
    assert str(broker.data_dir) in refusal(second)


@pytest.mark.usefixtures("serves")
def test_the_port_is_taken(broker: BrokerProcess, another_map: str, tmp_path: Path) -> None:
    settings = {"port": broker.port}
    second = BrokerProcess(tmp_path, zookeeper=another_map, settings=settings)
    assert str(broker.port) in refusal(second)


def test_a_restored_copy_of_the_directory_is_the_broker(
    directory: Path, map_address: str, tmp_path: Path
) -> None:
    """A directory may be moved: what it belongs to is written in it, not its path."""
    shutil.copytree(directory, tmp_path / "copy")
    with BrokerProcess(
        tmp_path / "new", zookeeper=map_address, data_dir=tmp_path / "copy"
    ) as moved:
        assert read_values(moved.bootstrap, "topic")[0] == b"first"
