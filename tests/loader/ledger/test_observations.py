"""What a loader finds beside its runs, on its way to the ledger."""

from typing import Any

import pytest

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from ledger.names import LEDGER_TOPIC
from loader.ledger.observations import Observations
from schemas.envelope import Decoder
from schemas.errors import RegistryError
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.broker_process import BrokerProcess
from tests.loader.ledger.manifests import CONFIG
from tests.registry_process import RegistryProcess
from tests.server_process import free_ports

NOW = 1_795_158_000_000


def damaged(topic: str, first: int) -> dict[str, Any]:
    offsets = {"first": first, "count": 5}
    batch = {"topic": topic, "partition": 0, "offsets": offsets, "reason": "its CRC"}
    return {"damaged": [batch]}


def test_entries_are_a_journal_until_one_may_have_been_lost(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    observations = Observations(CONFIG)
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    with (
        Brokers(parse_addresses(running_broker.bootstrap)) as brokers,
        RegistryClient(running_registry.url) as registry,
        RegistryClient(nobody, patience_seconds=0.1) as away,
    ):
        observations.tell(brokers, registry, [], NOW)
        observations.tell(brokers, registry, [damaged(new_topic, 0), damaged(new_topic, 5)], NOW)
        observations.tell(brokers, registry, [damaged(new_topic, 10)], NOW + 1)
        with pytest.raises(RegistryError):
            observations.tell(brokers, away, [damaged(new_topic, 15)], NOW + 2)
        observations.tell(brokers, registry, [damaged(new_topic, 15)], NOW + 3)
        decoder = Decoder(registry.schema, built_in(LEDGER))
        with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
            values = [each.record.value or b"" for each in consumer]
    # One journal is one partition; two are in any order.
    entries = sorted(
        (decoder.decode(value) for value in values if new_topic.encode() in value),
        key=lambda each: (each["header"]["time"], each["header"]["seq"]),
    )
    headers = [each["header"] for each in entries]
    first, last = headers[0]["source"], headers[-1]["source"]
    assert first != last
    assert first.startswith("loader-check-")
    assert [(each["source"], each["seq"]) for each in headers] == [
        *((first, seq) for seq in range(3)),
        (last, 0),
    ]
    assert [each["damaged"][0]["offsets"]["first"] for each in entries] == [0, 5, 10, 15]
    assert {(each["tier"], each["cluster"], each["destination"]) for each in entries} == {
        ("hdfs", CONFIG.cluster, CONFIG.root)
    }
