"""Entries in `_audit`, of a broker and with a registry that run."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from ground.signatures.keys import SigningKey
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from ledger.lookup import lookup_at
from ledger.names import LEDGER_TOPIC, SUBJECT
from ledger.proofs import HEADER, NO_HEAD, Chain, Proof, digest_of, head_after
from ledger.publishing import partition_of, schema_id, write_entries
from schemas.envelope import Decoder, split
from schemas.errors import BadMessage, RegistryNotReachable
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.ledger.said import entry, passage


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    """The topic of the ledger is there, whichever test is the first."""
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        brokers.topic(LEDGER_TOPIC, create=True)
        yield brokers


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as registry:
        yield registry


def _entries(journal: str) -> list[dict[str, Any]]:
    """More than one batch of them."""
    return [entry(journal, seq, passages=[passage("x", 2_000)]) for seq in range(20)]


def _written(
    brokers: Brokers, registry: RegistryClient, journal: str
) -> list[tuple[int, int, Any]]:
    """All entries of that journal: their partition, time and content."""
    decoder = Decoder(registry.schema, built_in(LEDGER))
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        read = [(each.partition, each.record) for each in consumer]
    # Others write there too, some of them with schemas of another registry.
    return [
        (at, record.timestamp, decoder.decode(record.value or b""))
        for at, record in read
        if journal.encode() in (record.value or b"")
    ]


def test_all_entries_arrive_in_their_order(brokers: Brokers, registry: RegistryClient) -> None:
    """Written again they say the same again."""
    journal = uuid.uuid4().hex
    entries = _entries(journal)
    for _ in range(2):
        write_entries(brokers, registry, entries, timestamp=12_345)
    found = _written(brokers, registry, journal)
    assert [each["header"] for *_, each in found] == [each["header"] for each in entries] * 2
    assert found[:20] == found[20:]
    partitions = len(brokers.topic(LEDGER_TOPIC).partitions)
    where = {(at, time) for at, time, _ in found}
    assert where == {(partition_of(journal, partitions), 12_345)}


def test_entries_are_proven_and_their_proofs_repeated(
    brokers: Brokers, registry: RegistryClient
) -> None:
    journal, key = uuid.uuid4().hex, SigningKey.new()
    for _ in range(2):
        write_entries(brokers, registry, _entries(journal)[:3], timestamp=1, chain=Chain(key))
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        records = [each.record for each in consumer]
    own = [record for record in records if journal.encode() in (record.value or b"")]
    assert len(own) == 6
    assert [(one.value, one.headers) for one in own[:3]] == [
        (one.value, one.headers) for one in own[3:]
    ]
    head = NO_HEAD
    for number, record in enumerate(own[:3]):
        ((name, header),) = record.headers
        proof = Proof.decode(header or b"")
        assert name == HEADER
        assert proof is not None
        assert proof.previous == head
        assert proof.key == (None if number else key.public)
        digest = digest_of(record.value or b"")
        assert proof.holds(key.public, digest)
        head = head_after(head, digest)


def test_the_schema_is_the_one_that_is_written(brokers: Brokers, registry: RegistryClient) -> None:
    journal = uuid.uuid4().hex
    write_entries(brokers, registry, _entries(journal)[:1], timestamp=1)
    known = registry.lookup(SUBJECT, built_in(LEDGER).text)
    assert known is not None
    assert schema_id(registry) == known.id
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        values = [each.record.value or b"" for each in consumer]
    assert [split(each)[0] for each in values if journal.encode() in each] == [known.id]


def test_schemas_that_are_not_there_are_none(registry: RegistryClient) -> None:
    lookup = lookup_at(registry)
    assert lookup(schema_id(registry)) == built_in(LEDGER)
    assert lookup(2**31 - 1) is None


def test_journals_are_spread_over_partitions() -> None:
    assert {partition_of(f"journal-{at}", 4) for at in range(50)} == {0, 1, 2, 3}


def test_none_or_all_of_them_are_written(brokers: Brokers, registry: RegistryClient) -> None:
    journal = uuid.uuid4().hex
    with pytest.raises(BadMessage, match="version"):
        write_entries(
            brokers, registry, [entry(journal, 0), entry(journal, 1, version="1")], timestamp=1
        )
    assert _written(brokers, registry, journal) == []


def test_a_registry_that_is_away_is_an_error(brokers: Brokers) -> None:
    """Who has nothing to say does not ask it."""
    (port,) = free_ports(1)
    with RegistryClient(f"http://127.0.0.1:{port}", patience_seconds=0.1) as nobody:
        write_entries(brokers, nobody, [], timestamp=1)
        with pytest.raises(RegistryNotReachable):
            write_entries(brokers, nobody, _entries("j"), timestamp=1)
