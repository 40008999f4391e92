"""What a loader finds beside its runs, on its way to the ledger."""

from pathlib import Path
from typing import Any

import pytest

from client.connection.brokers import Brokers
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from harness.processes.server_process import free_ports
from ledger.names import LEDGER_TOPIC
from loader.ledger.observations import TOLD, Observations
from loader.store.local import LocalStore
from schemas.envelope import Decoder
from schemas.errors import RegistryError
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.loader.ledger.manifests import CONFIG

NOW = 1_795_158_000_000
HOUR = 3_600_000


def damaged(topic: str, first: int) -> dict[str, Any]:
    offsets = {"first": first, "count": 5}
    batch = {"topic": topic, "partition": 0, "offsets": offsets, "reason": "its CRC"}
    return {"damaged": [batch]}


def written(
    brokers: Brokers, registry: RegistryClient, topic: str
) -> list[tuple[int, dict[str, Any]]]:
    """Entries about the topic, each with the time of its record. One journal is one partition; two
    are in any order."""
    decoder = Decoder(registry.schema, built_in(LEDGER))
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        found = [
            (each.record.timestamp, decoder.decode(each.record.value or b""))
            for each in consumer
            if topic.encode() in (each.record.value or b"")
        ]
    return sorted(found, key=lambda each: (each[1]["header"]["time"], each[1]["header"]["seq"]))


def checked(topic: str, files: int) -> dict[str, Any]:
    hour = {"topic": topic, "from_time": NOW, "to_time": NOW + HOUR, "files": files, "rows": 1}
    return {"checked": [hour | {"faults": []}]}


def test_entries_are_a_journal_until_one_may_have_been_lost(
    brokers: Brokers, registry: RegistryClient, new_topic: str
) -> None:
    observations = Observations(CONFIG, None)
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    with RegistryClient(nobody, patience_seconds=0.1) as away:
        observations.tell(brokers, registry, [], NOW)
        observations.tell(brokers, registry, [damaged(new_topic, 0), damaged(new_topic, 5)], NOW)
        observations.tell(brokers, registry, [damaged(new_topic, 10)], NOW + 1)
        with pytest.raises(RegistryError):
            observations.tell(brokers, away, [damaged(new_topic, 15)], NOW + 2)
        observations.tell(brokers, registry, [damaged(new_topic, 15)], NOW + 3)
        entries = [entry for _, entry in written(brokers, registry, new_topic)]
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


def test_what_is_told_is_the_latest_by_whatever_clock(
    brokers: Brokers, registry: RegistryClient, new_topic: str, tmp_path: Path
) -> None:
    """Loads on three hosts: one clock is right, one is ahead, one was set back."""
    store = LocalStore(f"file://{tmp_path}/root")
    clocks = [NOW, NOW + 2 * HOUR, NOW + 5, NOW - HOUR, NOW + 3 * HOUR]
    for files, clock in enumerate(clocks):
        observations = Observations(CONFIG, store)
        observations.tell_latest(brokers, registry, [checked(new_topic, files)], clock)
    found = written(brokers, registry, new_topic)
    # What has its place in time, and not in an order, is told as the clock has it.
    observations.tell(brokers, registry, [damaged(f"{new_topic}-2", 0)], NOW)
    ((_, spoilt),) = written(brokers, registry, f"{new_topic}-2")
    assert [entry["checked"][0]["files"] for _, entry in found] == [0, 1, 2, 3, 4]
    ahead = NOW + 2 * HOUR
    times = [NOW, ahead, ahead + 1, ahead + 2, NOW + 3 * HOUR]
    assert [entry["header"]["time"] for _, entry in found] == times
    assert [time for time, _ in found] == clocks
    assert spoilt["header"]["time"] == NOW


@pytest.mark.parametrize("kept", [b"", b"{}", b'{"version": 2, "time": 9}'])
def test_where_nothing_is_known_of_before_the_clock_counts(
    brokers: Brokers, registry: RegistryClient, new_topic: str, tmp_path: Path, kept: bytes
) -> None:
    """What is kept may be damaged, and a root that cannot be written to holds nothing up."""
    store = LocalStore(f"file://{tmp_path}/root")
    store.replace(TOLD, kept)
    (tmp_path / "file").write_text("no folder")
    for each in (store, LocalStore(f"file://{tmp_path}/file"), None):
        observations = Observations(CONFIG, each)
        for files in (0, 1):
            observations.tell_latest(brokers, registry, [checked(new_topic, files)], NOW)
    found = written(brokers, registry, new_topic)
    times = [entry["header"]["time"] for _, entry in found]
    assert times == [NOW] * 3 + [NOW + 1] * 3
