"""The registry as a program: how it starts, waits, stops, and says in one line why it cannot."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from client import admin
from client.brokers import Brokers
from client.producer import Producer
from cluster.zookeeper import EmbeddedZooKeeper
from tests.broker_process import BrokerProcess
from tests.registry_process import RegistryProcess
from tests.server_process import free_ports, wait_until
from tests.system.crash import Worker

QUICK = {"zookeeper_session_seconds": 4}


def record(field: str) -> object:
    fields = [{"name": field, "type": "int", "default": 0}]
    return {"type": "record", "name": "R", "fields": fields}


def last_line(registry: RegistryProcess) -> str:
    return registry.log().splitlines()[-1]


def ends(registry: RegistryProcess) -> str:
    """What it says when it cannot start; nothing else of it is a traceback."""
    registry.process.spawn()
    assert registry.process.wait(within=30) == 1
    assert "Traceback" not in registry.log()
    return last_line(registry)


def test_it_waits_for_brokers(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    broker = BrokerProcess(tmp_path / "b", zookeeper=f"{zookeeper.address}/{tmp_path.name}")
    registry = RegistryProcess(tmp_path / "r", brokers=broker.bootstrap)
    with ExitStack() as ends:
        ends.callback(registry.stop)
        registry.process.spawn()
        said = f"reaching {broker.bootstrap} failed, trying again"
        wait_until(lambda: said in registry.log(), within=20, what="it says what it waits for")
        ends.enter_context(broker)
        wait_until(registry.ready, within=20, what="it serves")
        assert registry.register("a", record("x")).body["id"] == 1
    assert registry.log().count(said) == 1
    assert registry.process.exit_code == 0


def test_what_keeps_it_from_starting_is_one_line(
    tmp_path: Path, bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, partitions=2)
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    absent = RegistryProcess(
        tmp_path / "absent", brokers=nowhere, settings={"patience": {"start": 0.5}}
    )
    assert ends(absent) == f"penstock registry: no broker at {nowhere}: connection refused"
    wrong = RegistryProcess(tmp_path / "wrong", brokers=bootstrap, settings={"topic": new_topic})
    assert f"penstock registry: topic {new_topic} has 2 partitions" in ends(wrong)
    settings = {"topic": f"{new_topic}-b"}
    with RegistryProcess(tmp_path / "first", brokers=bootstrap, settings=settings) as first:
        settings["topic"] = f"{new_topic}-c"
        second = RegistryProcess(tmp_path / "second", brokers=bootstrap, settings=settings)
        second.config.write_text(
            second.config.read_text().replace(str(second.port), str(first.port))
        )
        assert f"cannot listen on 127.0.0.1:{first.port}" in ends(second)


def test_it_stops_while_it_waits(tmp_path: Path) -> None:
    registry = RegistryProcess(tmp_path, brokers=f"127.0.0.1:{free_ports(1)[0]}")
    registry.process.spawn()
    try:
        wait_until(lambda: "trying again" in registry.log(), within=20, what="it waits")
        assert registry.terminate(within=5) == 0
    finally:
        registry.kill()


def test_a_topic_that_somebody_else_writes_ends_it(
    tmp_path: Path, bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    settings = {"topic": new_topic}
    with RegistryProcess(tmp_path, brokers=bootstrap, settings=settings) as registry:
        assert registry.register("a", record("x")).status == 200
        producer = Producer(brokers, new_topic, create=False)
        producer.send(None, b'{"keytype":"NOOP","magic":0}')
        producer.flush()
        assert registry.process.wait(within=10) == 1
    assert f"topic {new_topic} is written by somebody else as well" in last_line(registry)


class Registrar(Worker):
    """Registers one schema after the other at one registry, until each is answered with an id."""

    def __init__(self, name: str, registry: RegistryProcess) -> None:
        super().__init__(name)
        self.ids: dict[int, object] = {}
        self.slowest = 0.0
        self.failed: list[object] = []
        self.registry = registry

    def work(self) -> None:
        number = 0
        while not self.stopping:
            number += 1
            schema = record(f"{self.name}_{number}")
            began = time.monotonic()
            while (answer := self.registry.register(self.name, schema)).status != 200:
                self.failed.append(answer)
                if self.stopping:
                    return
                time.sleep(0.05)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.ids[answer.body["id"]] = schema
            # Its own write, at the instance it was made at.
            found = self.registry.ask("GET", f"/schemas/ids/{answer.body['id']}")
            assert f"{self.name}_{number}" in found.body["schema"]


@pytest.fixture
def three(
    tmp_path: Path, bootstrap: str, chroot: str, new_topic: str
) -> Iterator[list[RegistryProcess]]:
    settings = {"topic": new_topic, "compatibility": "NONE", **QUICK}
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                RegistryProcess(
                    tmp_path / name, brokers=bootstrap, zookeeper=chroot, settings=settings
                )
            )
            for name in ("a", "b", "c")
        ]


def writer_of(registries: list[RegistryProcess]) -> RegistryProcess:
    def found() -> list[RegistryProcess]:
        return [each for each in registries if each.process.alive and each.is_writer]

    wait_until(lambda: len(found()) == 1, within=20, what="one of them is the writer", every=0.1)
    return found()[0]


@pytest.mark.slow
def test_writers_are_killed_stopped_and_paused_while_schemas_are_registered(
    three: list[RegistryProcess],
) -> None:
    """No id twice, nothing lost, and every write is done within the clients' time."""
    writer = writer_of(three)
    followers = [each for each in three if each is not writer]
    workers = [Registrar(f"s{number}", followers[number % 2]) for number in range(4)]
    for worker in workers:
        worker.start()

    def go_on(*paused: RegistryProcess) -> None:
        going = [worker for worker in workers if worker.registry not in paused]
        before = {worker.name: len(worker.ids) for worker in going}
        wait_until(
            lambda: all(len(each.ids) > before[each.name] + 5 for each in going),
            within=30,
            what="registrations go on",
        )

    go_on()
    writer.kill()
    go_on()
    # One that is killed and started again is not waited for: it takes over what was its own.
    writer.start()
    second = writer_of(three)
    second.restart()
    go_on()
    third = writer_of(three)
    os.kill(third.process.pid, signal.SIGSTOP)
    try:
        go_on(third)
    finally:
        os.kill(third.process.pid, signal.SIGCONT)
    go_on()
    for worker in workers:
        worker.finish()

    given = [schema_id for worker in workers for schema_id in worker.ids]
    assert len(set(given)) == len(given)
    for registry in three:
        for worker in workers:
            for schema_id, schema in worker.ids.items():
                found = registry.ask("GET", f"/schemas/ids/{schema_id}").body["schema"]
                assert schema["fields"][0]["name"] in found  # type: ignore[index]
    assert max(worker.slowest for worker in workers) < 15
    for registry in three:
        assert registry.terminate(within=10) == 0
