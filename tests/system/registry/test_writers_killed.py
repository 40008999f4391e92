"""The writer is killed, stopped and woken up again, while Confluent's clients register schemas."""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier, Thread

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.system.registry.registering import (
    Registrant,
    check_answers,
    check_topic,
    finish,
    go_on,
    numbered,
)

TOPIC = f"_schemas_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def three(
    tmp_path: Path, running_broker: BrokerProcess, chroot: str
) -> Iterator[list[RegistryProcess]]:
    settings = {"topic": TOPIC, "compatibility": "NONE", "zookeeper_session_seconds": 2}
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                RegistryProcess(
                    tmp_path / name,
                    brokers=running_broker.bootstrap,
                    zookeeper=chroot,
                    settings=settings,
                )
            )
            for name in ("a", "b", "c")
        ]


def writer_of(registries: list[RegistryProcess]) -> RegistryProcess:
    """The one that says so, once there is exactly one."""

    def found() -> list[RegistryProcess]:
        return [each for each in registries if each.process.alive and each.is_writer]

    wait_until(lambda: len(found()) == 1, within=60, what="one is the writer", every=0.1)
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
