"""`_audit` of a broker that runs, read backwards."""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.counting.counted_offsets import CountedUpTo, EpochStart, History
from ledger.counting.journal import PartitionKey
from ledger.counting.tail import LedgerTail
from ledger.names import LEDGER_TOPIC
from ledger.publishing import write_entries
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from tests.ledger.said import entry

MINUTE = 60_000
HISTORY = History([EpochStart(0, 0), EpochStart(2, 90)], 200)


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        brokers.topic(LEDGER_TOPIC, create=True)
        yield brokers


@pytest.fixture
def tail(running_broker: BrokerProcess, running_registry: RegistryProcess) -> LedgerTail:
    bootstrap = Bootstrap.of(running_broker.bootstrap)
    registry = RegistryAddress(running_registry.url)
    return LedgerTail(bootstrap, registry, client_id="test", kind="broker")


def counted(key: PartitionKey, epoch: int, first: int, count: int) -> dict[str, Any]:
    stretches = [{"first": first, "count": count}]
    return {**key._asdict(), "leader_epoch": epoch, "offsets": stretches, "windows": []}


def test_what_was_told_last_is_found_however_long_ago(
    brokers: Brokers, running_registry: RegistryProcess, tail: LedgerTail
) -> None:
    topic = uuid.uuid4().hex
    idle, busy, never = (PartitionKey(topic, "an-id", number) for number in range(3))
    a, b = (f"broker-{uuid.uuid4().hex}" for _ in range(2))
    now = time.time_ns() // 1_000_000
    entries = [
        (now - 5_000 * MINUTE, a, 0, [counted(idle, 0, 0, 40), counted(busy, 0, 0, 10)]),
        (now - 300 * MINUTE, a, 1, [counted(idle, 0, 40, 60)]),
        (now - MINUTE, a, 2, [counted(busy, 0, 10, 50)]),
        (now, b, 0, [counted(busy, 2, 90, 30)]),
    ]
    with RegistryClient(running_registry.url) as registry:
        for at, journal, seq, passages in entries:
            said = entry(journal, seq, tier="broker", time=at, passages=passages)
            write_entries(brokers, registry, [said], timestamp=at)
        agent = entry(topic, 0, passages=[counted(never, 0, 0, 9)], host="broker-1")
        write_entries(brokers, registry, [agent], timestamp=now)
    wanted: Mapping[PartitionKey, History] = dict.fromkeys([idle, busy, never], HISTORY)
    assert tail.ends(wanted) == {idle: CountedUpTo(90, 0, a), busy: CountedUpTo(120, 2, b)}
    assert tail.ends({busy: HISTORY}) == {busy: CountedUpTo(120, 2, b)}
