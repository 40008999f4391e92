"""The registry as a program: how it starts, waits, stops, and says in one line why it cannot."""

from contextlib import ExitStack
from pathlib import Path

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until


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
    assert f"topic {new_topic} has another writer" in last_line(registry)
