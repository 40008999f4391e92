"""For how long it is known which events of which file are missing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.picture import BatchPart, TopicKey
from audit.queries import AgentsQuery
from audit.store.fleet import SilencePatience
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    body,
    entry,
    passage,
    run,
    window,
)

KEY = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
DAY = 24 * HOUR
SIZE = 10  # events of an entry


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AuditStore]:
    opened = AuditStore.open(tmp_path)
    yield opened
    opened.close()


def said(tier: str, number: int, time: int, **more: object) -> Json:
    """The entry of that number, whose events have offsets and numbers after those before."""
    first = number * SIZE
    runs = [] if tier == "broker" else [run("file", first, SIZE, path="/a.log")]
    one = passage(0, first, SIZE, [window(time - time % MINUTE, SIZE)], runs=runs)
    return entry(tier, f"{tier}-1", number, time + MINUTE, passages=[one], **more)


def fold(store: AuditStore, *entries: Json) -> None:
    store.fold(CLUSTER, body(entries), LedgerPositions())


def named(store: AuditStore) -> list[BatchPart]:
    reading = store.reading()
    try:
        seen = reading.picture(KEY, BEGIN, BEGIN + HOUR, BEGIN + 2 * HOUR, expected_millis=HOUR)
        return [stretch for source in seen.sources for stretch in source.stretches]
    finally:
        reading.close()


def firsts(store: AuditStore) -> list[int]:
    return [stretch.first for stretch in named(store)]


def test_what_brokers_lack_keeps_its_name_where_nobody_loads(store: AuditStore) -> None:
    fold(store, *(said("agent", at, BEGIN) for at in range(3)))
    fold(store, said("broker", 0, BEGIN), said("broker", 2, BEGIN))
    assert firsts(store) == [10]
    for hour in range(1, 30):
        time = BEGIN + hour * HOUR
        fold(store, said("agent", 2 + hour, time), said("broker", 2 + hour, time))
    assert firsts(store) == [10]


def test_what_brokers_come_to_late_has_a_name_then(store: AuditStore) -> None:
    fold(store, *(said("agent", at, BEGIN) for at in range(3)), said("broker", 0, BEGIN))
    fold(store, said("agent", 3, BEGIN + 5 * HOUR))
    fold(store, said("broker", 2, BEGIN), said("broker", 3, BEGIN + 5 * HOUR))
    fold(store, said("agent", 4, BEGIN + 9 * HOUR), said("broker", 4, BEGIN + 9 * HOUR))
    assert firsts(store) == [10]


def test_what_brokers_lack_keeps_its_name_though_it_was_loaded(store: AuditStore) -> None:
    fold(store, *(said("agent", at, BEGIN) for at in range(3)))
    fold(store, said("broker", 0, BEGIN), said("broker", 2, BEGIN))
    loaded = [said("hdfs", at, BEGIN, destination=ROOT, run=at) for at in range(3)]
    fold(store, *loaded)
    fold(store, said("agent", 3, BEGIN + HOUR), said("broker", 3, BEGIN + HOUR))
    assert firsts(store) == [10]


def test_a_clock_that_is_ahead_makes_nothing_old(tmp_path: Path) -> None:
    store = AuditStore.open(tmp_path, clock=lambda: BEGIN + HOUR)
    ahead = BEGIN + 1000 * DAY
    beat = {"until": ahead, "topics": ["other"]}
    fold(store, entry("agent", "agent-2", 0, ahead, heartbeats=[beat]))
    fold(store, *(said("agent", at, BEGIN) for at in range(3)))
    fold(store, said("broker", 0, BEGIN), said("broker", 2, BEGIN))
    assert firsts(store) == [10]
    reading = store.reading()
    seen = reading.agents(AgentsQuery(), SilencePatience(BEGIN + 2 * HOUR, HOUR // 2, DAY))
    (agent,) = (each for each in seen.items if each.agent == "agent-2")
    assert (agent.heard, agent.state) == (BEGIN + HOUR, "silent")
    other = TopicKey(CLUSTER, "other", "")
    picture = reading.picture(other, BEGIN, ahead, BEGIN + 2 * HOUR, expected_millis=DAY)
    assert [each.until for each in picture.agents] == [BEGIN + HOUR]
    reading.close()
    store.close()


def test_nor_does_it_when_it_is_read_later(store: AuditStore) -> None:
    beat = {"until": BEGIN, "topics": ["other"]}
    ahead = entry("agent", "agent-2", 0, BEGIN + 30 * DAY, heartbeats=[beat])
    fold(store, *(said("agent", at, BEGIN) for at in range(3)), ahead)
    fold(store, said("broker", 0, BEGIN), said("broker", 2, BEGIN))
    assert firsts(store) == [10]
