"""Watermarks read from a broker's `_audit`, and what was read of it, kept in a file."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.admin.topics import create_topic, delete_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from ledger.agents import Agents, Beat, HeardAgent, HostRetired, LeftTopics
from ledger.lookup import Lookup, lookup_at
from ledger.names import LEDGER_TOPIC
from ledger.reading import LedgerPositions
from loader.config import LoaderConfig
from loader.hours.completeness import TopicEnd
from loader.hours.ledger_reading import (
    LedgerRead,
    LoadLedger,
    cache_path,
    from_bytes,
    read_chunks,
    to_bytes,
    topic_ends,
)
from loader.store.local import LocalStore
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.client.shipped_topics import delete_before
from tests.ledger.said import entry
from wire.record_batches.records import Codec

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
def lookup(registry: RegistryClient) -> Lookup:
    return lookup_at(registry)


def write(brokers: Brokers, registry: RegistryClient, *entries: dict[str, Any]) -> None:
    """Each in a batch of its own."""
    schema = built_in(LEDGER)
    encoder = Encoder(schema, registry.register("_audit-value", schema.text))
    producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
    for each in entries:
        producer.send(encoder.encode(each))
        producer.flush()


@pytest.fixture
def config(tmp_path: Path) -> LoaderConfig:
    return LoaderConfig(root=f"file://{tmp_path}", topics=("x",), cluster="dc1")


def read_ledger(brokers: Brokers, lookup: Lookup, cached: LedgerRead | None) -> LedgerRead:
    before = cached or LedgerRead(LedgerPositions(), Agents())
    return [before, *read_chunks(brokers, lookup, before)][-1]


def ledger_of(brokers: Brokers, registry: RegistryClient, config: LoaderConfig) -> LoadLedger:
    store = LocalStore(config.root)
    return LoadLedger(config, brokers, registry, store, topics=["x"], now=NOW)


def test_what_agents_said_and_where_topics_end(
    brokers: Brokers, registry: RegistryClient, new_topic: str, config: LoaderConfig
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
    marks = ledger_of(brokers, registry, config).watermarks([new_topic, "none"])
    known = brokers.topic(new_topic)
    assert marks.ends == {new_topic: TopicEnd(str(known.id), {0: 0, 1: 1}), "none": None}
    expected = [(each.agent, each.until) for each in marks.expected(new_topic)]
    assert expected == [("a", LONG_AGO + 39)]
    assert topic_ends(brokers, []) == {}


def test_only_what_is_new_is_read_again(
    brokers: Brokers, registry: RegistryClient, lookup: Lookup
) -> None:
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
    brokers: Brokers,
    registry: RegistryClient,
    config: LoaderConfig,
    other: dict[str, Any],
    known: set[str],
) -> None:
    """Who spoke in the one before is still waited for, if it was this cluster's."""
    write(brokers, registry, entry("a", 0, (1, ["x"]), time=NOW))
    true = read_ledger(brokers, lookup_at(registry), None)
    agents = Agents({"silent": HeardAgent("h", 0, NOW, (Beat(1, frozenset("x")),))})
    positions = msgspec.structs.replace(true.positions, **other)
    store, path = LocalStore(config.root), cache_path(true.positions.cluster_id, "dc1")
    store.replace(path, to_bytes(LedgerRead(positions, agents)))
    ledger = ledger_of(brokers, registry, config)
    assert set(ledger.watermarks([]).agents.by_id) == known
    ledger.save()
    saved = from_bytes(store.read(path) or b"")
    assert saved is not None
    assert saved.positions == (true.positions if other else positions)


def test_entries_that_are_gone_before_they_were_read_are_warned_of(
    brokers: Brokers, registry: RegistryClient, lookup: Lookup, caplog: pytest.LogCaptureFixture
) -> None:
    write(brokers, registry, entry("a", 0, (1, ["x"])), entry("b", 0, (1, ["x"])))
    read = read_ledger(brokers, lookup, None)
    delete_before(brokers, LEDGER_TOPIC, 1)
    assert set(read_ledger(brokers, lookup, read).agents.by_id) == {"a", "b"}
    assert not caplog.records
    assert set(read_ledger(brokers, lookup, None).agents.by_id) == {"b"}
    assert "are unknown, and not waited for" in caplog.text


@pytest.mark.parametrize("kept", [b"", b"{}", b'{"version": 9}'])
def test_what_is_kept_may_be_lost_or_damaged(
    brokers: Brokers, registry: RegistryClient, config: LoaderConfig, kept: bytes
) -> None:
    write(brokers, registry, entry("a", 0, (1, ["x"]), time=NOW))
    store = LocalStore(config.root)
    path = cache_path(brokers.refresh([LEDGER_TOPIC]).cluster_id or "", "dc1")
    store.replace(path, kept)
    for _ in range(2):
        ledger = ledger_of(brokers, registry, config)
        marks = ledger.watermarks([])
        ledger.save()
        assert [each.agent for each in marks.expected("x")] == ["a"]
    assert store.read(path) not in {None, kept}


millis = st.integers(-1, 2**53)
any_topics = st.frozensets(st.text(max_size=4), max_size=3)
any_agents = st.builds(
    HeardAgent,
    host=st.text(max_size=4),
    seq=millis,
    heard=millis,
    shipped=st.lists(st.builds(Beat, millis, any_topics), max_size=2).map(tuple),
    left=st.lists(st.builds(LeftTopics, millis, any_topics, millis), max_size=2).map(tuple),
)
any_retired = st.builds(HostRetired, st.text(max_size=2), st.text(max_size=2), millis, millis)
any_read = st.builds(
    LedgerRead,
    st.builds(
        LedgerPositions,
        st.text(max_size=3),
        st.text(max_size=3),
        st.dictionaries(st.integers(0, 5), st.integers(0, 2**53)),
        st.dictionaries(st.integers(0, 5), st.integers(0, 2**31 - 1)),
    ),
    st.builds(
        Agents,
        st.dictionaries(st.text(max_size=3), any_agents, max_size=4),
        st.lists(any_retired, max_size=3).map(lambda all_: {(r.host, r.agent): r for r in all_}),
    ),
)
POSITIONS = LedgerPositions("c", "t", {0: 5}, {0: 1})
ONE = LedgerRead(POSITIONS, Agents({"a": HeardAgent("h", 1, 2, (Beat(3, frozenset("x")),))}))


@given(any_read)
def test_what_is_kept_is_read_again(any_read: LedgerRead) -> None:
    assert from_bytes(to_bytes(any_read)) == any_read


def test_what_is_damaged_is_nothing() -> None:
    """Cut anywhere, of another version, or with a set of any_topics that is not there."""
    whole = to_bytes(ONE)
    assert all(from_bytes(whole[:size]) is None for size in range(len(whole)))
    for key, value in (("version", 2), ("topics", []), ("agents", [["a"]])):
        assert from_bytes(json.dumps(json.loads(whole) | {key: value}).encode()) is None


def test_what_was_kept_without_epochs_is_read() -> None:
    old = {key: value for key, value in json.loads(to_bytes(ONE)).items() if key != "epochs"}
    found = from_bytes(json.dumps(old).encode())
    assert found is not None
    assert found.positions == LedgerPositions("c", "t", {0: 5})


def test_a_large_fleet_takes_little_room() -> None:
    """Ten thousand any_agents with a hundred any_topics each."""
    any_topics = frozenset(f"a-topic-with-a-name-{number}" for number in range(100))
    fleet = {
        f"{number:032x}": HeardAgent(
            f"web-{number:05}.example.com", number, 1, (Beat(2, any_topics),)
        )
        for number in range(10_000)
    }
    size = len(to_bytes(LedgerRead(POSITIONS, Agents(fleet))))
    assert size < 1_000_000


@pytest.mark.parametrize(
    ("cluster_id", "name"),
    [("", "local"), ("MkU3OEVBNTcwNTJENDM2Qk-_", "MkU3OEVBNTcwNTJENDM2Qk-_"), ("a/../b", "a____b")],
)
def test_each_cluster_has_its_own(cluster_id: str, name: str) -> None:
    """Whatever it is called in the configuration, if it has an id."""
    assert cache_path(cluster_id, "local") == f"_penstock/~watermarks/{name}.json"
