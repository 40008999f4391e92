"""Statements of operators: proven by the audit that took them, and by nobody from a command."""

import uuid
from collections.abc import Iterator

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from ground.signatures.keys import SigningKey
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.names import LEDGER_TOPIC
from ledger.operators import write_retired
from ledger.proofs import NO_HEAD, Proof, digest_of
from schemas.registry_client import RegistryClient


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        brokers.topic(LEDGER_TOPIC, create=True)
        yield brokers


def test_a_statement_is_a_proven_journal(
    brokers: Brokers, running_registry: RegistryProcess
) -> None:
    key, host = SigningKey.new(), uuid.uuid4().hex
    retired = {"host": host, "agent": "", "since": 1, "reason": "sold", "operator": "ada"}
    with RegistryClient(running_registry.url) as registry:
        write_retired(brokers, registry, "test", retired, key)
        write_retired(brokers, registry, "test", retired)
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        records = [each.record for each in consumer]
    own = [record for record in records if host.encode() in (record.value or b"")]
    assert [len(record.headers) for record in own] == [1, 0]
    proof = Proof.decode(own[0].headers[0][1] or b"")
    assert proof is not None
    assert (proof.previous, proof.key) == (NO_HEAD, key.public)
    assert proof.holds(key.public, digest_of(own[0].value or b""))
