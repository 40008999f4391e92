"""Compares the brokers' ledger entries about a topic with its log."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.fetcher import FetchedBatch, Fetcher
from client.reading.offsets import Beginning, End, start_offsets
from harness.processes.waiting import wait_until
from ledger.names import LEDGER_TOPIC, topic_id_text
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.batch import BatchHeader
from wire.record_batches.records import records

Json = dict[str, Any]


class Sums(msgspec.Struct):
    """Sums by window."""

    events: Counter[int] = msgspec.field(default_factory=Counter)
    bytes: Counter[int] = msgspec.field(default_factory=Counter)
    crc_sum: Counter[int] = msgspec.field(default_factory=Counter)


class Said(msgspec.Struct):
    """The claims about one partition: offsets, each as often as claimed, and sums."""

    offsets: Counter[int] = msgspec.field(default_factory=Counter)
    no_events: int = 0
    sums: Sums = msgspec.field(default_factory=Sums)
    passages: list[Json] = []


def read_all(brokers: Brokers, target: TopicPartition) -> list[FetchedBatch]:
    """All current batches of a partition."""
    return _read(brokers, target.topic, [target.partition])


def _read(brokers: Brokers, topic: str, partitions: Sequence[int]) -> list[FetchedBatch]:
    ends = start_offsets(brokers, topic, partitions, End())
    begins = start_offsets(brokers, topic, partitions, Beginning())
    filled = {each: at for each, at in begins.items() if at < ends[each]}
    if not filled:
        return []
    fetcher = Fetcher(brokers, topic, filled)
    found: list[FetchedBatch] = []
    try:
        while any(fetcher.positions[each] < ends[each] for each in filled):
            found += [
                FetchedBatch(each.partition, each.header, memoryview(bytes(each.data)))
                for each in fetcher.poll(1)
            ]
    finally:
        fetcher.close()
    return found


def entries(brokers: Brokers) -> list[Json]:
    """The entries of brokers and counters, without repetitions, which must be equal."""
    if LEDGER_TOPIC not in brokers.refresh(None).topics:
        return []
    decoder = Decoder(lambda _: built_in(LEDGER))
    found: dict[tuple[str, int], Json] = {}
    partitions = [each.index for each in brokers.topic(LEDGER_TOPIC).partitions]
    for batch in _read(brokers, LEDGER_TOPIC, partitions):
        for record in records(batch.data):
            entry: Any = decoder.decode(record.value or b"")
            if entry["tier"] == "broker":
                key = (entry["header"]["source"], entry["header"]["seq"])
                assert found.setdefault(key, entry) == entry
    return list(found.values())


def said(brokers: Brokers, topic: str, topic_id: str, partition: int = 0) -> Said:
    found = Said()
    told = entries(brokers)
    _check_numbers(told, topic_id)
    for entry in told:
        for passage in entry["passages"]:
            about = passage["topic"], passage["topic_id"], passage["partition"]
            if about != (topic, topic_id, partition):
                continue
            found.passages.append(passage)
            found.no_events += passage["no_events"]
            for each in passage["offsets"]:
                found.offsets.update(range(each["first"], each["first"] + each["count"]))
            for window in passage["windows"]:
                for name in ("events", "bytes", "crc_sum"):
                    getattr(found.sums, name)[window["start"]] += window[name]
    return found


def _check_numbers(told: list[Json], topic_id: str) -> None:
    """The journals that mention this topic lack no entry."""
    seqs: dict[str, list[int]] = {}
    speakers = set()
    for entry in told:
        source = entry["header"]["source"]
        seqs.setdefault(source, []).append(entry["header"]["seq"])
        if topic_id in {passage["topic_id"] for passage in entry["passages"]}:
            speakers.add(source)
    for source in speakers:
        assert sorted(seqs[source]) == list(range(len(seqs[source]))), "an entry is missing"


def in_log(batches: list[FetchedBatch], window: int = 60_000) -> Sums:
    """The claims that the log requires."""
    found = Sums()
    for batch in batches:
        start = _window(batch.header, window)
        found.bytes[start] += batch.header.size
        found.crc_sum[start] += batch.header.crc
        for record in records(batch.data):
            found.events[record.timestamp // window * window] += 1
    return found


def _window(header: BatchHeader, window: int) -> int:
    return header.base_timestamp // window * window


def id_of(brokers: Brokers, topic: str) -> str:
    return topic_id_text(brokers.topic(topic).id)


def wait_told(brokers: Brokers, topic: str, partition: int = 0, *, within: float = 30) -> Said:
    """The claims about a topic, once its last offset is claimed."""
    topic_id = id_of(brokers, topic)
    (end,) = start_offsets(brokers, topic, [partition], End()).values()
    wait_until(
        lambda: end - 1 in said(brokers, topic, topic_id, partition).offsets,
        within=within,
        what=f"{topic}-{partition} is told up to {end}",
        every=0.1,
    )
    return said(brokers, topic, topic_id, partition)


def check_told_once(found: Said, batches: list[FetchedBatch]) -> None:
    """Everything in the log is claimed exactly once, and nothing else."""
    expected = in_log(batches)
    assert set(found.offsets.values()) <= {1}, "an offset is told twice"
    there = {
        offset
        for batch in batches
        for offset in range(batch.header.base_offset, batch.header.next_offset)
    }
    assert set(found.offsets) == there
    assert +found.sums.events == expected.events
    assert found.no_events == 0
    assert +found.sums.bytes == expected.bytes
    assert +found.sums.crc_sum == expected.crc_sum
