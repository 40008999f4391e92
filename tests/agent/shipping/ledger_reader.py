"""The ledger of one agent as it lies in `_audit`, held against the log that it speaks of."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from tests.agent.shipping.agent_side import WINDOW_MILLIS, events_in_log
from tests.ledger.passages import batches_in_log, digest_in_log, passages_about
from wire.record_batches.records import records

Json = dict[str, Any]


def entries_of(brokers: Brokers, agent_id: str) -> list[Json]:
    """All entries of an agent, each once and none missing."""
    topic = brokers.topic("_audit")
    found = [
        entry
        for partition in topic.partitions
        for entry in events_in_log(brokers, TopicPartition("_audit", partition.index))
        if entry["header"]["source"] == agent_id
    ]
    assert [entry["header"]["seq"] for entry in found] == list(range(len(found)))
    return found


def check_passages(brokers: Brokers, entries: Iterable[Json], target: TopicPartition) -> None:
    """What the ledger says of a partition that has no other writer is what is in its log."""
    passages = passages_about(entries, target)
    batches = batches_in_log(brokers, target)
    log = [(batch.header, list(records(batch.data))) for batch in batches]
    offsets = sorted(
        (each["first"], each["count"]) for passage in passages for each in passage["offsets"]
    )
    assert all(first + count == second for (first, count), (second, _) in pairwise(offsets))
    assert offsets[0][0] == log[0][0].base_offset
    assert sum(offsets[-1]) == log[-1][0].next_offset
    for passage in passages:
        assert sum(passage["delays"]) == sum(each["count"] for each in passage["offsets"])
        assert passage["digest"] == digest_in_log(passage, batches)
    said: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for window in (window for passage in passages for window in passage["windows"]):
        said[window["start"]][0] += window["events"]
        said[window["start"]][1] += window["bytes"]
        said[window["start"]][2] += window["crc_sum"]
    true: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for header, found in log:
        for record in found:
            true[window_of(record.timestamp)][0] += 1
        true[window_of(header.base_timestamp)][1] += header.size
        true[window_of(header.base_timestamp)][2] += header.crc
    assert said == true


def runs_of(entries: Iterable[Json], topic: str, source: str) -> list[Json]:
    """All runs of a source in a topic, by the bytes of its file."""
    found = [
        run
        for entry in entries
        for passage in entry["passages"]
        for run in passage["runs"]
        if passage["topic"] == topic and run["source"] == source
    ]
    return sorted(found, key=lambda run: (run["position"], run["seq"]))


def check_runs(entries: Iterable[Json], topic: str, source: str, *, events: int, size: int) -> None:
    """Every byte of the file lies in one run, and every event is counted."""
    runs = runs_of(entries, topic, source)
    assert runs[0]["position"] == 0
    assert all(one["end_position"] == other["position"] for one, other in pairwise(runs))
    assert runs[-1]["end_position"] == size
    assert sum(run["events"] for run in runs) == events


def window_of(time_millis: int) -> int:
    return time_millis - time_millis % WINDOW_MILLIS
