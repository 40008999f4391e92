"""Entries in `_audit`, of a broker and with a registry that run."""

from collections.abc import Iterator
from typing import Any

import pytest
from loader.ledger.publishing import SUBJECT, write_entries

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from loader.config import LEDGER_TOPIC
from loader.ledger.entries import entries_of, in_ledger
from loader.ledger.passages import MOST_RUNS
from loader.manifests import Manifest
from schemas.envelope import Decoder
from schemas.errors import RegistryNotReachable
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.broker_process import BrokerProcess
from tests.loader.ledger.manifests import CONFIG, manifest, passage, windows
from tests.registry_process import RegistryProcess
from tests.server_process import free_ports


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(parse_addresses(running_broker.bootstrap)) as brokers:
        yield brokers


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as registry:
        yield registry


def _large() -> Manifest:
    many = {f"source-{at:06}": ((at, at),) for at in range(2 * MOST_RUNS)}
    several = [passage(partition=at, sources=many, windows=windows(3000)) for at in range(2)]
    return in_ledger(manifest(*several), None, CONFIG)


def _written(brokers: Brokers, registry: RegistryClient, by: Manifest) -> list[tuple[int, Any]]:
    """All entries of the manifest's journal: partition and content."""
    assert by.ledger is not None
    decoder = Decoder(registry.schema, built_in(LEDGER))
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        read = [(each.partition, each.record) for each in consumer]
    # Others write there too, some of them with schemas of another registry.
    name = by.ledger.source.encode()
    read = [each for each in read if name in (each[1].value or b"")]
    found = [(at, record, decoder.decode(record.value or b"")) for at, record in read]
    mine = [each for each in found if each[2]["header"]["source"] == by.ledger.source]
    assert all(record.timestamp == by.committed for _, record, _ in mine)
    return [(at, entry) for at, _, entry in mine]


def test_all_entries_arrive_in_their_order(brokers: Brokers, registry: RegistryClient) -> None:
    run = _large()

    write_entries(brokers, registry, run)

    found = _written(brokers, registry, run)
    assert [entry["header"] for _, entry in found] == [each["header"] for each in entries_of(run)]
    assert len({partition for partition, _ in found}) == 1
    assert registry.latest(SUBJECT) is not None


def test_writing_them_again_says_the_same_again(brokers: Brokers, registry: RegistryClient) -> None:
    run = _large()

    write_entries(brokers, registry, run)
    write_entries(brokers, registry, run)

    once, again = _halves(_written(brokers, registry, run))
    assert once == again


def test_a_run_with_nothing_to_say_asks_nobody(brokers: Brokers) -> None:
    with _nobody() as registry:
        write_entries(brokers, registry, in_ledger(manifest(), None, CONFIG))


def test_a_registry_that_is_away_is_an_error(brokers: Brokers) -> None:
    with _nobody() as registry, pytest.raises(RegistryNotReachable):
        write_entries(brokers, registry, _large())


def _nobody() -> RegistryClient:
    return RegistryClient(f"http://127.0.0.1:{free_ports(1)[0]}", patience_seconds=0.1)


def _halves(found: list[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
    half = len(found) // 2
    assert half > 0
    return found[:half], found[half:]
