"""Quotas as clients meet them: they are slowed to their rate, told so, and nobody else is."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from client.admin.quotas import alter_quotas, quotas
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import Refused
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.penstock.running import At
from tests.system.bystander import Bystander
from tests.system.raw import API_VERSIONS, METADATA, Closed, RawConnection, metadata_body
from tests.system.topics import create

RATE = 1_000_000.0
BYTES = 4_000_000
WITHIN = 60.0


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("quotas")
    with BrokerProcess(directory, zookeeper=f"{zookeeper.address}/quotas") as broker:
        create(broker.bootstrap, "bystander")
        yield broker


@contextlib.contextmanager
def in_force(
    broker: BrokerProcess, entity: Mapping[str, str | None], rates: Mapping[str, float]
) -> Iterator[None]:
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        alter_quotas(brokers, entity, rates)
        try:
            yield
        finally:
            alter_quotas(brokers, entity, dict.fromkeys(rates))


def write(broker: BrokerProcess, topic: str, client: str) -> tuple[float, int]:
    """Seconds, and the longest that it was told to wait, in milliseconds."""
    told: list[int] = []

    def statistics(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        told.extend(int(each.get("throttle", {}).get("max", 0)) for each in brokers)

    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": client,
        "statistics.interval.ms": 200,
        "stats_cb": statistics,
        "batch.size": 100_000,
    }
    producer = Producer(settings)
    began = time.monotonic()
    for _ in range(BYTES // 10_000):
        producer.produce(topic, bytes(10_000), partition=0)
    assert producer.flush(WITHIN) == 0
    seconds = time.monotonic() - began
    producer.poll(0.5)
    return seconds, max(told, default=0)


def read(broker: BrokerProcess, topic: str, client: str) -> float:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": client,
        "group.id": "by-hand",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": 200_000,
    }
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        left, began = BYTES // 10_000, time.monotonic()
        while left and time.monotonic() < began + WITHIN:
            left -= len(consumer.consume(100, 1.0))
        assert not left
        return time.monotonic() - began


def test_who_writes_too_much_is_slowed_and_told_and_others_are_not(broker: BrokerProcess) -> None:
    create(broker.bootstrap, "written")
    with in_force(broker, {"client-id": "hungry"}, {"producer_byte_rate": RATE}):
        bystander = Bystander(broker.bootstrap, "bystander")
        seconds, told = write(broker, "written", "hungry")
        bystander.finish()
        at_least = BYTES / RATE - 1.5  # a second's worth is free
        assert at_least < seconds < 5 * at_least
        assert told > 0
        another, told = write(broker, "written", "another")
        assert another < seconds
        assert told == 0


def test_who_reads_too_much_is_slowed(broker: BrokerProcess) -> None:
    create(broker.bootstrap, "read")
    write(broker, "read", "writer")
    with in_force(broker, {"client-id": None}, {"consumer_byte_rate": RATE}):
        seconds = read(broker, "read", "reader")
        assert BYTES / RATE - 1.5 < seconds < 5 * BYTES / RATE
    assert read(broker, "read", "reader") < seconds


def test_who_asks_too_much_has_only_so_much_of_the_brokers_time(broker: BrokerProcess) -> None:
    def asked(seconds: float) -> int:
        count, until = 0, time.monotonic() + seconds
        with RawConnection(broker.bootstrap) as connection:
            while time.monotonic() < until:
                connection.ask(METADATA, 1, metadata_body(None))
                count += 1
        return count

    before = asked(1.5)
    with in_force(broker, {"client-id": "raw"}, {"request_percentage": 1.0}):
        assert asked(3) < before


def test_connections_of_an_address(broker: BrokerProcess) -> None:
    def refused() -> int:
        count = 0
        for _ in range(12):
            try:
                with RawConnection(broker.bootstrap) as connection:
                    connection.ask(API_VERSIONS, 0, b"")
            except (Closed, OSError):
                count += 1
        return count

    with in_force(broker, {"ip": "127.0.0.1"}, {"connection_creation_rate": 5.0}):
        assert refused()
        assert "connection rate quota exceeded" in broker.log()
        time.sleep(2.5)  # or who takes the quota away could not connect
    assert not refused()


def test_quotas_outlive_the_broker_and_bad_ones_are_refused(broker: BrokerProcess) -> None:
    entity = {"user": "ANONYMOUS", "client-id": "a,b=c/d"}
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        alter_quotas(brokers, entity, {"producer_byte_rate": 1e9})
    broker.restart()
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        (found,) = quotas(brokers)
        assert (found.entity, found.quotas) == (entity, {"producer_byte_rate": 1e9})
        for whose, rates in (
            ({"user": "a", "ip": "1.2.3.4"}, {"producer_byte_rate": 1.0}),
            ({"host": "a"}, {"producer_byte_rate": 1.0}),
            ({"user": "a"}, {"connection_creation_rate": 1.0}),
            ({"user": "a"}, {"producer_byte_rate": -1.0}),
            ({"user": "a"}, {"producer_byte_rate": float("nan")}),
            ({"user": "a"}, {"tea": 1.0}),
            ({"user": "a" * 1_000}, {"producer_byte_rate": 1.0}),
        ):
            with pytest.raises(Refused):
                alter_quotas(brokers, whose, rates)
        assert len(quotas(brokers)) == 1
        alter_quotas(brokers, entity, {"producer_byte_rate": None})
        assert not quotas(brokers)


def test_the_commands(broker: BrokerProcess) -> None:
    at = At(broker.bootstrap)

    def code(*arguments: str) -> int:
        return at.run("quotas", *arguments).returncode

    assert at.run("quotas", "list").stderr == "no quotas\n"
    assert code("set", "--user", "*", "--produce", "2e6", "--request", "50") == 0
    (shown,) = json.loads(at.run("quotas", "list", "--json").stdout)
    assert shown == {
        "entity": {"user": None},
        "quotas": {"producer_byte_rate": 2e6, "request_percentage": 50.0},
    }
    assert "2,000,000" in at.run("quotas", "list").stdout
    assert code("remove", "--user", "alice") == 2
    assert code("remove", "--user", "*") == 0
    assert code("set", "--produce", "1") == 2
    assert code("set", "--user", "a", "--connections", "1") == 1
    assert json.loads(at.run("quotas", "list", "--json").stdout) == []
