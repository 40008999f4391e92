"""Watermarks read from a broker's `_audit`, as agents write it."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client.admin import create_topic, delete_topic
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.producer import Producer
from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from ledger.agents import Agents, Beat, HeardAgent
from ledger.lookup import lookup_at
from ledger.names import LEDGER_TOPIC
from loader.config import LoaderConfig
from loader.hours.completeness import TopicEnd
from loader.hours.ledger_reading import (
    LedgerRead,
    cache_path,
    read_ledger,
    read_watermarks,
    topic_ends,
)
from loader.store.local import LocalStore
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.client.test_partition_reader import delete_before
from tests.ledger.said import entry
from wire.records import Codec

LONG_AGO = 1_000_000
NOW = LONG_AGO + 86_400_000


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    """One whose `_audit` nobody else writes to."""
    directory = tmp_path_factory.mktemp("own-broker")
    with BrokerProcess(directory, zookeeper=f"{zookeeper.address}/{uuid.uuid4().hex}") as broker:
        yield broker


@pytest.fixture
def brokers(broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        if brokers.refresh([LEDGER_TOPIC]).has(LEDGER_TOPIC):
            delete_topic(brokers, LEDGER_TOPIC)
        yield brokers


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


def write(brokers: Brokers, registry: RegistryClient, *entries: dict[str, Any]) -> None:
    """Each in a batch of its own."""
    schema = built_in(LEDGER)
    encoder = Encoder(schema, registry.register("_audit-value", schema.text))
    producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
    for each in entries:
        producer.send(encoder.encode(each))
        producer.flush()


def config(root: Path, cluster: str = "dc1") -> LoaderConfig:
    return LoaderConfig(root=f"file://{root}", topics=("x",), cluster=cluster)


def test_what_agents_said_and_where_topics_end(
    brokers: Brokers, registry: RegistryClient, new_topic: str, tmp_path: Path
) -> None:
    create_topic(brokers, new_topic, partitions=2)
    producer = Producer(brokers, new_topic)
    producer.send(b"1", partition=1)
    producer.flush()
    write(
        brokers,
        registry,
        entry("a", 0, (LONG_AGO, [new_topic]), time=LONG_AGO),
        *(entry("a", seq, (LONG_AGO + seq, []), time=LONG_AGO + seq) for seq in range(1, 40)),
        entry("silent", 0, (1, [new_topic]), time=NOW - 31 * 86_400_000),
    )
    store = LocalStore(f"file://{tmp_path}")
    marks = read_watermarks(
        brokers, registry, store, config(tmp_path), topics=[new_topic, "none"], now=NOW
    )
    known = brokers.topic(new_topic)
    assert marks.ends == {new_topic: TopicEnd(str(known.id), {0: 0, 1: 1}), "none": None}
    assert [(each.agent, each.until) for each in marks.expected(new_topic)] == [
        ("a", LONG_AGO + 39)
    ]


def test_only_what_is_new_is_read_again(
    brokers: Brokers, registry: RegistryClient, tmp_path: Path
) -> None:
    lookup = lookup_at(registry)
    assert read_ledger(brokers, lookup, None).agents == Agents()  # there is no _audit yet
    write(brokers, registry, entry("a", 0, (1, ["x"])))
    first = read_ledger(brokers, lookup, None)
    assert first.positions.offsets == {0: 1}
    assert set(first.agents.by_id) == {"a"}

    write(brokers, registry, entry("b", 0, (1, ["x"])))
    first.agents.by_id.clear()
    again = read_ledger(brokers, lookup, first)
    assert again.positions.offsets == {0: 2}
    assert set(again.agents.by_id) == {"b"}
    assert set(read_ledger(brokers, lookup, again).agents.by_id) == {"b"}


@pytest.mark.parametrize(
    ("other", "known"),
    [
        ({}, {"silent"}),  # nothing is new
        ({"topic_id": "another"}, {"silent", "a"}),
        ({"cluster_id": "another"}, {"a"}),
    ],
)
def test_a_ledger_that_is_another_is_read_from_its_beginning(
    brokers: Brokers, registry: RegistryClient, other: dict[str, Any], known: set[str]
) -> None:
    """Who spoke in the one before is still waited for, if it was this cluster's."""
    write(brokers, registry, entry("a", 0, (1, ["x"])))
    lookup = lookup_at(registry)
    true = read_ledger(brokers, lookup, None)
    agents = Agents({"silent": HeardAgent("h", 0, 0, (Beat(1, frozenset("x")),))})
    positions = msgspec.structs.replace(true.positions, **other)
    read = read_ledger(brokers, lookup, LedgerRead(positions, agents))
    assert set(read.agents.by_id) == known
    assert read.positions == true.positions


def test_entries_that_are_gone_before_they_were_read_are_warned_of(
    brokers: Brokers, registry: RegistryClient, caplog: pytest.LogCaptureFixture
) -> None:
    write(brokers, registry, entry("a", 0, (1, ["x"])), entry("b", 0, (1, ["x"])))
    lookup = lookup_at(registry)
    read = read_ledger(brokers, lookup, None)
    delete_before(brokers, LEDGER_TOPIC, 1)
    assert set(read_ledger(brokers, lookup, read).agents.by_id) == {"a", "b"}
    assert not caplog.records
    assert set(read_ledger(brokers, lookup, None).agents.by_id) == {"b"}
    assert "are not known, and not waited for" in caplog.text


@pytest.mark.parametrize("kept", [b"", b"{}", b'{"version": 9}'])
def test_what_is_kept_may_be_lost_or_damaged(
    brokers: Brokers, registry: RegistryClient, tmp_path: Path, kept: bytes
) -> None:
    write(brokers, registry, entry("a", 0, (1, ["x"]), time=NOW))
    store = LocalStore(f"file://{tmp_path}")
    path = cache_path(brokers.refresh([LEDGER_TOPIC]).cluster_id or "", "dc1")
    store.replace(path, kept)
    for _ in range(2):
        marks = read_watermarks(brokers, registry, store, config(tmp_path), topics=[], now=NOW)
        assert [each.agent for each in marks.expected("x")] == ["a"]
    assert store.read(path) not in {None, kept}


def test_topics_of_no_name_end_nowhere(brokers: Brokers) -> None:
    assert topic_ends(brokers, []) == {}
