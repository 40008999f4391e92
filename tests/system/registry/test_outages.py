"""The broker dies, or ZooKeeper, while Confluent's clients register and read."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.server_process import free_ports
from harness.waiting import wait_until
from tests.system.registry.registering import (
    Registrant,
    check_answers,
    check_topic,
    finish,
    go_on,
    numbered,
)

NOT_NOW = {50001, 50002, 50003, 50004}
WRITE_SECONDS = 5.0
WITHIN = WRITE_SECONDS + 15  # less than by default


def test_the_broker_is_killed_and_comes_back(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    """Reads never notice; clients' writes only wait."""
    settings = {"compatibility": "NONE"}
    chroot = f"{zookeeper.address}/{tmp_path.name}"
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path / "broker", zookeeper=chroot))
        registry = RegistryProcess(
            tmp_path / "registry", brokers=broker.bootstrap, settings=settings
        )
        stack.enter_context(registry)
        clients = [Registrant(f"client{number}", [registry]) for number in range(3)]
        for client in clients:
            client.start()
        go_on(clients, 5)
        broker.kill()
        assert registry.ask("GET", "/schemas/ids/1").status == 200
        time.sleep(0.3)
        broker.start()
        go_on(clients, 5)
        schemas = finish(clients)
        check_answers([registry], schemas)
        check_topic(broker.partition_dir("_schemas"))
        registry.restart()
        check_answers([registry], schemas)
        assert registry.terminate() == 0
        assert "Traceback" not in registry.log()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """One that may be stopped, and started again at its address."""
    (port,) = free_ports(1)
    own = EmbeddedZooKeeper.start(tmp_path / "zookeeper", port=port)
    yield own
    own.stop()


def test_zookeeper_is_away_and_comes_back(
    tmp_path: Path, running_broker: BrokerProcess, own_zookeeper: EmbeddedZooKeeper, new_topic: str
) -> None:
    """Who is writer goes on, for the broker refuses others; there is no next one until it is back.
    Reads are answered all the while."""
    settings = {
        "topic": new_topic,
        "compatibility": "NONE",
        "zookeeper_session_seconds": 2,
        "patience": {"forward": 1.5, "publish": 2, "write": WRITE_SECONDS},
    }
    with ExitStack() as stack:
        two = [
            stack.enter_context(
                RegistryProcess(
                    tmp_path / name,
                    brokers=running_broker.bootstrap,
                    zookeeper=own_zookeeper.address,
                    settings=settings,
                )
            )
            for name in ("a", "b")
        ]
        schemas: dict[int, str] = {}
        for number, registry in enumerate(two):
            wait_until(tried(registry, f"before_{number}", schemas), within=60, what="writes")
        (writer,) = (each for each in two if each.is_writer)
        (other,) = (each for each in two if each is not writer)
        address = own_zookeeper.address
        own_zookeeper.stop()
        end = time.monotonic() + 2.5  # Longer than a session lasts.
        while time.monotonic() < end:
            for registry in two:
                tried(registry, f"meanwhile_{time.monotonic_ns()}", schemas)()
        writer.kill()
        assert not tried(other, "nobody", schemas)()
        assert other.ask("GET", "/subjects/tried/versions/1").status == 200
        assert other.ready()
        port = int(address.rpartition(":")[2])
        again = EmbeddedZooKeeper.start(own_zookeeper.directory, port=port)
        stack.callback(again.stop)
        wait_until(tried(other, "after", schemas), within=60, what="registrations go on")
        writer.start()
        wait_until(tried(writer, "late", schemas), within=60, what="registrations go on")
        check_answers(two, schemas)
        check_topic(running_broker.partition_dir(new_topic))
        for registry in two:
            assert registry.terminate() == 0
            assert "Traceback" not in registry.log()


def tried(registry: RegistryProcess, name: str, schemas: dict[int, str]) -> Callable[[], bool]:
    """Registers a schema, or is told within the time for it that this cannot be done now."""

    def register() -> bool:
        schema = numbered(name, 1)
        began = time.monotonic()
        answer = registry.register("tried", json.loads(schema))
        assert time.monotonic() - began < WITHIN
        if answer.status == 200:
            assert schemas.setdefault(answer.body["id"], schema) == schema
            return True
        assert answer.status == 500, answer
        assert answer.body["error_code"] in NOT_NOW, answer
        return False

    return register
