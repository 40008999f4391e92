"""What is found once all tiers have passed is about its own hour, and no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.findings import State
from audit.picture import TopicKey
from audit.reconciling.gate import hour_gate
from audit.reconciling.verdict import reconcile
from audit.store.reading import StoreReading
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
    window,
)

KEY = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
FIRST = BEGIN - BEGIN % HOUR
HOURS = 5
LATER = FIRST + HOURS * HOUR


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AuditStore]:
    opened = AuditStore.open(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def reading(store: AuditStore) -> Iterator[StoreReading]:
    opened = store.reading()
    yield opened
    opened.close()


def hours_passed(store: AuditStore, *, landed: int = 100, late: bool = False) -> None:
    """A hundred events an hour; the loader has so many of the first hour, and all of the others."""
    for hour in range(HOURS):
        time = FIRST + hour * HOUR + 30 * MINUTE
        first = hour * 100
        beat: Json = {"until": LATER, "topics": [TOPIC]}
        whole = passage(0, first, 100, [window(time, 100)])
        found = landed if hour == 0 else 100
        read = passage(0, first, found, [window(time, found)])
        said = [
            entry("agent", "a", hour, time, passages=[whole], heartbeats=[beat]),
            entry("broker", "b", hour, time, passages=[whole]),
            entry("hdfs", "l", hour, time, destination=ROOT, run=hour, passages=[read]),
        ]
        if late and hour == HOURS - 1:
            event = passage(0, first + 100, 1, [window(FIRST, 1)])
            said += [entry("agent", "late", 0, time, passages=[event])]
        store.fold(CLUSTER, body(said), LedgerPositions())


def states(reading: StoreReading) -> list[State]:
    found = []
    for hour in range(HOURS):
        at = FIRST + hour * HOUR
        seen = reading.picture(KEY, at, at + HOUR, LATER, expected_millis=30 * 24 * HOUR)
        found.append(reconcile(seen).state)
    return found


def damage(first: int) -> Json:
    said = {
        "topic": TOPIC,
        "partition": 0,
        "offsets": {"first": first, "count": 10},
        "reason": "CRC",
    }
    return entry("broker", "counter", 0, LATER - HOUR, damaged=[said])


def test_damage_is_of_its_own_hour(store: AuditStore, reading: StoreReading) -> None:
    hours_passed(store)
    assert states(reading) == [State.COMPLETE] * HOURS
    touched = store.fold(CLUSTER, body([damage(150)]), LedgerPositions())
    assert (KEY, FIRST + HOUR) in touched.hours
    changed = [State.COMPLETE] * HOURS
    changed[1] = State.CHANGED
    assert states(reading) == changed
    at = FIRST + 2 * HOUR
    assert hour_gate(reading.picture(KEY, at, at + HOUR, LATER, expected_millis=HOUR)).complete


def test_a_late_event_makes_no_hour_reach_over_the_others(
    store: AuditStore, reading: StoreReading
) -> None:
    hours_passed(store, late=True)
    store.fold(CLUSTER, body([damage(250)]), LedgerPositions())
    seen = reading.picture(KEY, FIRST, LATER, LATER, expected_millis=HOUR)
    (spoilt,) = seen.damaged
    assert FIRST + 2 * HOUR <= spoilt.from_time < spoilt.to_time <= FIRST + 3 * HOUR


def test_damage_of_which_nobody_spoke_is_of_when_it_was_found(
    store: AuditStore, reading: StoreReading
) -> None:
    hours_passed(store)
    store.fold(CLUSTER, body([damage(10_000)]), LedgerPositions())
    seen = reading.picture(KEY, FIRST, LATER, LATER, expected_millis=HOUR)
    (spoilt,) = seen.damaged
    assert (spoilt.from_time, spoilt.to_time) == (LATER - HOUR, LATER - HOUR + 1)


def test_offsets_that_were_passed_over_are_of_their_own_hour(
    store: AuditStore, reading: StoreReading
) -> None:
    hours_passed(store, landed=60)
    assert states(reading) == [State.MISSING, *[State.COMPLETE] * (HOURS - 1)]


def test_what_is_older_than_is_kept_is_no_fault_of_now(
    store: AuditStore, reading: StoreReading
) -> None:
    hours_passed(store, landed=60)
    store.expire(FIRST + 2 * HOUR + store.retention_millis)
    assert states(reading) == [State.COMPLETE] * HOURS
