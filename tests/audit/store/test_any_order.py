"""Entries may come in any order, in any chunks, and again: what is known is the same."""

import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from audit.api.queries import AgentsQuery, HostsQuery, LoadsQuery, SourcesQuery
from audit.store.fleet.agents import SilencePatience
from tests.audit.audited_ledger import KEY, AuditedLedger
from tests.audit.log_entries import load
from tests.audit.store.said import (
    BEGIN,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    excepted,
    passage,
    run,
    window,
)

NOW = BEGIN + 10 * MINUTE


@st.composite
def ledgers(draw: st.DrawFn) -> list[Json]:
    """Of a small pipeline in a few minutes, with all that can be said, and holes."""
    entries: list[Json] = []
    offsets = [0, 0]
    seqs: dict[str, int] = {}
    batches = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ab"),  # agent
                st.integers(0, 1),  # partition
                st.integers(1, 9),  # events
                st.integers(0, 3),  # window
                st.sampled_from(["", "filtered", "lost", "dead_lettered"]),
                st.sampled_from("ABHx"),  # who does not speak of it
            ),
            max_size=10,
        )
    )
    for at, (agent, partition, events, minute, fate, silent) in enumerate(batches):
        first, offsets[partition] = offsets[partition], offsets[partition] + events
        source = f"file-of-{agent}"
        seq = seqs.get(source, 0)
        seqs[source] = seq + events
        time = BEGIN + (minute + 1) * MINUTE + at
        windows = [window(BEGIN + minute * MINUTE, events)]
        runs = [run(source, seq, events, position=seq * 10, end_position=(seq + events) * 10)]
        if fate:
            runs[0] |= {"excepted": [excepted(fate, 1, 10, "so")], "path": f"/log/{at}"}
        spoken = {"runs": runs, "delays": [0, events]}
        beats = [{"until": time, "topics": [TOPIC] if at % 2 else [], "lag_bytes": at}]
        if silent != "A":
            said = passage(partition, first, events, windows, **spoken)
            entries.append(entry("agent", agent, at, time, passages=[said], heartbeats=beats))
        if silent != "B":
            said = passage(partition, first, events, windows)
            entries.append(entry("broker", "broker", at, time + 1, passages=[said]))
        if silent != "H":
            landed = passage(partition, first, events, windows, runs=[run(source, seq, events)])
            hour = {"topic": TOPIC, "topic_id": TOPIC_ID, "from_time": BEGIN}
            rebuilt = [hour | {"to_time": BEGIN + HOUR}] if at % 4 == 3 else []
            entries.append(load(at, landed, time=time + 2, rebuilt=rebuilt))
    return entries + draw(st.lists(st.sampled_from(_SELDOM), unique_by=id))


def _seldom() -> list[Json]:
    time = BEGIN + 5 * MINUTE
    finished = {"topic": TOPIC, "source": "file-of-a", "path": "/log", "events": 9, "size": 90}
    fault = {"path": "p", "hour": BEGIN, "fault": "missing", "committed_rows": 3, "found_rows": 0}
    compared = {
        "topic": TOPIC, "from_time": BEGIN, "to_time": BEGIN + HOUR, "files": 1, "rows": 3,
        "faults": [fault],
    }  # fmt: skip
    retired = {"host": "host-of-a", "agent": "", "since": time, "reason": "old", "operator": "o"}
    accepted = {
        "topic": TOPIC, "partition": 0, "offsets": [{"first": 0, "count": 4}], "reason": "known",
        "runs": [run("file-of-a", 3, 2)], "operator": "o",
    }  # fmt: skip
    damaged = {
        "topic": TOPIC, "partition": 1, "offsets": {"first": 3, "count": 2}, "reason": "crc",
    }  # fmt: skip
    return [
        entry("agent", "a", 50, time, finished=[finished]),
        entry("hdfs", "check-1", 0, time, destination=ROOT, checked=[compared]),
        entry(
            "hdfs", "check-2", 0, time + 1, destination=ROOT, checked=[compared | {"faults": []}]
        ),
        entry("operator", "operator-1", 0, time, retired=[retired]),
        entry("operator", "operator-2", 0, time, accepted=[accepted]),
        entry("broker", "counter", 0, time, damaged=[damaged]),
        entry("agent", "a", 51, time, version=2),
        entry("agent", "b", 60, time, heartbeats=[{"until": 0, "topics": ["other"]}]),
        entry("unknown", "b", 61, time),
    ]


_SELDOM = _seldom()


def known(directory: str, chunks: list[list[Json]]) -> dict[str, Any]:
    with AuditedLedger(Path(directory)) as ledger:
        for chunk in chunks:
            ledger.fold(*chunk)
        reading = ledger.reading
        keys = reading.topics()
        sources = reading.sources(KEY, SourcesQuery(topic=TOPIC))
        return {
            "keys": sorted(keys),
            "pictures": {
                key: ledger.picture(BEGIN - HOUR, BEGIN + HOUR, NOW, key=key, expected=HOUR)
                for key in keys
            },
            "flow": reading.flow(KEY, 0, NOW + HOUR),
            "delays": reading.delays(KEY, 0, NOW + HOUR),
            "hosts": reading.hosts(KEY, HostsQuery(topic=TOPIC)),
            "sources": sorted(sources.items, key=lambda row: row.source),
            "loads": reading.loads(LoadsQuery()),
            "hours": reading.hours(KEY, ROOT, from_time=0, to_time=NOW + HOUR),
            "agents": reading.agents(AgentsQuery(), SilencePatience(NOW, HOUR, HOUR)),
            "consumers": reading.consumers(),
            "journals": reading.journals(),
            "counts": reading.hour_counts(0),
            "open": {key: reading.open_hours(key) for key in keys},
        }


@settings(max_examples=20)
@given(ledgers(), st.randoms(use_true_random=False), st.integers(1, 5))
def test_any_order_and_repetition(entries: list[Json], chance: random.Random, size: int) -> None:
    again = [*entries, *chance.sample(entries, len(entries) // 2)]
    chance.shuffle(again)
    chunks = [again[at : at + size] for at in range(0, len(again), size)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second = known(one, [entries]), known(other, chunks)
        for name, value in first.items():
            assert second[name] == value, name
