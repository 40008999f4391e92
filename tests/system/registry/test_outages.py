"""The writer is killed, stopped and woken up again, or ZooKeeper dies, while clients of Confluent
register and read; and what is under way when a registry is told to stop."""

import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier, Thread

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.system.registry.raw_http import RawHttp, request
from tests.system.registry.registering import (
    Registrant,
    check_answers,
    check_topic,
    finish,
    go_on,
    numbered,
)

pytestmark = pytest.mark.long

TOPIC = f"_schemas_{uuid.uuid4().hex[:12]}"
NOT_NOW = {50001, 50002, 50003, 50004}
WRITE_SECONDS = 5.0
WITHIN = WRITE_SECONDS + 15  # less than by default


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
            wait_until(tried(registry, f"before_{number}", schemas), what="writes")
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
        wait_until(tried(other, "after", schemas), what="registrations go on")
        writer.start()
        wait_until(tried(writer, "late", schemas), what="registrations go on")
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


@pytest.fixture
def three(
    tmp_path: Path, running_broker: BrokerProcess, chroot: str
) -> Iterator[list[RegistryProcess]]:
    settings = {"topic": TOPIC, "compatibility": "NONE", "zookeeper_session_seconds": 2}
    brokers = running_broker.bootstrap
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                RegistryProcess(
                    tmp_path / name, brokers=brokers, zookeeper=chroot, settings=settings
                )
            )
            for name in ("a", "b", "c")
        ]


def writer_of(registries: list[RegistryProcess]) -> RegistryProcess:
    """The one that says so, once there is exactly one."""

    def found() -> list[RegistryProcess]:
        return [each for each in registries if each.process.alive and each.is_writer]

    wait_until(lambda: len(found()) == 1, what="one is the writer", every=0.1)
    return found()[0]


def registered_at_once(registries: list[RegistryProcess], schema: str) -> list[int]:
    """The ids that each of them gives the same schema, asked at the same time."""
    together, ids = Barrier(len(registries)), []

    def register(registry: RegistryProcess) -> None:
        with SchemaRegistryClient({"url": registry.url}) as client:
            together.wait()
            ids.append(client.register_schema("at-once", Schema(schema)))

    threads = [Thread(target=register, args=(each,)) for each in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ids


@pytest.mark.slow
def test_no_id_is_given_twice_and_no_schema_lost(
    three: list[RegistryProcess], running_broker: BrokerProcess
) -> None:
    for number in range(5):
        ids = registered_at_once(three, numbered("once", number))
        assert len(ids) == 3
        assert len(set(ids)) == 1

    turned = [three[number:] + three[:number] for number in range(3)]
    clients = [Registrant(f"client{number}", turned[number % 3]) for number in range(4)]
    for client in clients:
        client.start()
    go_on(clients)

    # Whoever has it as its first address comes to the next one by itself.
    killed = writer_of(three)
    killed.kill()
    go_on(clients)
    killed.start()

    paused = writer_of(three)
    os.kill(paused.process.pid, signal.SIGSTOP)
    try:
        go_on([client for client in clients if client.registries[0] is not paused], 5)
        writer_of([each for each in three if each is not paused])
    finally:
        os.kill(paused.process.pid, signal.SIGCONT)
    go_on(clients)
    assert not paused.is_writer

    writer_of(three).restart()
    go_on(clients)

    schemas = finish(clients)
    check_answers(three, schemas)
    authors = check_topic(running_broker.partition_dir(TOPIC))
    # Who was paused has written nothing when it came back: epochs only grow.
    assert len({author.producer_id for author in authors}) == 1
    epochs = [author.epoch for author in authors]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) >= 4
    for registry in three:
        assert registry.terminate() == 0
        assert "Traceback" not in registry.log()


WRITES = 20


def test_writes_under_way_are_done_and_answered(
    tmp_path: Path, running_broker: BrokerProcess, new_topic: str
) -> None:
    """They wait for the broker, which is stopped, when the signal comes."""
    settings = {"topic": new_topic}
    registry = RegistryProcess(tmp_path, brokers=running_broker.bootstrap, settings=settings)
    with ExitStack() as stack:
        stack.enter_context(registry)
        idle, *writers = (stack.enter_context(RawHttp(registry.address)) for _ in range(1 + WRITES))
        assert registry.register("before", "int").status == 200
        os.kill(running_broker.process.pid, signal.SIGSTOP)
        try:
            for number, each in enumerate(writers):
                each.send(write(number))
            for _ in range(2):  # Whoever is answered sent later than they, in turn after turn.
                assert registry.ask("GET", "/subjects").body == ["before"]
            os.kill(registry.process.pid, signal.SIGTERM)
            # Whoever has asked nothing is let go of at once.
            assert idle.rest() == b""
        finally:
            os.kill(running_broker.process.pid, signal.SIGCONT)
        answers = [each.answer() for each in writers]
        assert registry.process.wait(within=60) == 0
        assert [answer.status for answer in answers] == [200] * WRITES
        assert registry.ask("GET", "/subjects").status == 0

        registry.start()
        ids = {answer.body["id"] for answer in answers}
        assert len(ids) == WRITES
        assert all(registry.ask("GET", f"/schemas/ids/{each}").status == 200 for each in ids)
        assert len(registry.ask("GET", "/subjects").body) == WRITES + 1


def write(number: int) -> bytes:
    """A request to register a schema that no other number has."""
    schema = json.dumps({"type": "fixed", "name": "F", "size": number + 1})
    body = json.dumps({"schema": schema}).encode()
    return request("POST", f"/subjects/subject-{number}/versions", body)
