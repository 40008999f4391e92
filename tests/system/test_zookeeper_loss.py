"""The broker loses its session and carries on, and waits for a ZooKeeper that hesitates."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.clusters.zookeepers import ZooKeepers
from harness.processes.waiting import wait_until
from tests.system.produce import must_produce, read_values, wait_writable
from tests.system.topics import create

SESSION_SECONDS = 2.0
SETTINGS = {"zookeeper_session_seconds": SESSION_SECONDS}


@pytest.fixture
def look(zookeeper: EmbeddedZooKeeper, chroot: str) -> Iterator[Callable[[], Any]]:
    """What is registered for broker 1 in ZooKeeper: None, or its node as a dictionary."""
    client = KazooClient(hosts=zookeeper.address)
    client.start()
    node = chroot.removeprefix(zookeeper.address) + "/brokers/ids/1"

    def registration() -> Any:
        try:
            content, stat = client.get(node)
        except NoNodeError:
            return None
        return {"session": stat.ephemeralOwner, **json.loads(content)}

    try:
        yield registration
    finally:
        client.stop()
        client.close()


def test_a_session_that_expired_is_replaced(
    chroot: str, tmp_path: Path, look: Callable[[], Any]
) -> None:
    """The process is stopped for longer than its session lasts, as by a suspended machine."""
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=SETTINGS) as broker:
        create(broker.bootstrap, "before")
        must_produce(broker.bootstrap, "before", [b"before"])
        first = look()
        assert first["port"] == broker.port
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: look() is None, what="the session expires")
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        wait_until(lambda: look() is not None, what="it is registered again")
        assert look()["session"] != first["session"]
        last = wait_writable(broker.bootstrap, "before")
        # A try that was refused while the lead was settled may be there all the same.
        tries = dict.fromkeys(range(1, last + 1), b"try")
        assert read_values(broker.bootstrap, "before") == {0: b"before", **tries}
        # It leads, controls and creates as before.
        wait_until(broker.ready, what="it is ready again")
        create(broker.bootstrap, "after", partitions=3)
        must_produce(broker.bootstrap, "after", [b"after"], partition=2)
        assert broker.terminate() == 0


@pytest.mark.timeout(300)
def test_zookeeper_hesitates_while_a_broker_starts(tmp_path: Path) -> None:
    """It answered, so its address is right: the broker waits for it, and does not end."""
    zookeepers = ZooKeepers(tmp_path, 1)
    broker = BrokerProcess(
        tmp_path / "broker", zookeeper=f"{zookeepers.address}/cluster", settings=SETTINGS
    )
    met = "zookeeper session connected"
    try:
        zookeepers.start()
        for _ in range(10):  # It may have been faster than we.
            broker.spawn()
            wait_until(lambda: met in broker.log(), what="it has met ZooKeeper", every=0.001)
            zookeepers.freeze()
            if "broker ready" not in broker.log():
                break
            zookeepers.thaw()
            broker.kill()
            (tmp_path / "broker" / "broker.log").unlink()
        wait_until(lambda: "start failed, retrying" in broker.log(), within=90, what="it waits")
        assert broker.process.alive
        zookeepers.thaw()
        wait_until(broker.ready, within=90, what="it is ready")
        assert broker.process.terminate() == 0
    finally:
        zookeepers.thaw()
        broker.kill()
        zookeepers.close()
