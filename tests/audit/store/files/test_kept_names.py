"""For how long it is known which events of which file are missing."""

from pathlib import Path

import pytest

from audit.api.queries import AgentsQuery
from audit.reconciling.picture import TopicKey
from audit.store.fleet.agents import SilencePatience
from tests.audit.audited_ledger import DAY, AuditedLedger
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    passage,
    run,
    window,
)

SIZE = 10  # events of an entry


def said(tier: str, number: int, time: int, **more: object) -> Json:
    """The entry of that number, whose events have offsets and numbers after those before."""
    first = number * SIZE
    runs = [] if tier == "broker" else [run("file", first, SIZE, path="/a.log")]
    one = passage(0, first, SIZE, [window(time - time % MINUTE, SIZE)], runs=runs)
    return entry(tier, f"{tier}-1", number, time + MINUTE, passages=[one], **more)


def firsts(ledger: AuditedLedger) -> list[int]:
    seen = ledger.picture(expected=HOUR)
    return [stretch.first for source in seen.sources for stretch in source.stretches]


def said_of_three(ledger: AuditedLedger, *more: Json) -> AuditedLedger:
    """By the agent; brokers lack the second."""
    ledger.fold(*(said("agent", at, BEGIN) for at in range(3)), *more)
    ledger.fold(said("broker", 0, BEGIN), said("broker", 2, BEGIN))
    return ledger


def test_what_brokers_lack_keeps_its_name_where_nobody_loads(ledger: AuditedLedger) -> None:
    said_of_three(ledger)
    assert firsts(ledger) == [10]
    for hour in range(1, 30):
        time = BEGIN + hour * HOUR
        ledger.fold(said("agent", 2 + hour, time), said("broker", 2 + hour, time))
    assert firsts(ledger) == [10]


def test_what_brokers_come_to_late_has_a_name_then(ledger: AuditedLedger) -> None:
    ledger.fold(*(said("agent", at, BEGIN) for at in range(3)), said("broker", 0, BEGIN))
    ledger.fold(said("agent", 3, BEGIN + 5 * HOUR))
    ledger.fold(said("broker", 2, BEGIN), said("broker", 3, BEGIN + 5 * HOUR))
    ledger.fold(said("agent", 4, BEGIN + 9 * HOUR), said("broker", 4, BEGIN + 9 * HOUR))
    assert firsts(ledger) == [10]


def test_what_brokers_lack_keeps_its_name_though_it_was_loaded(ledger: AuditedLedger) -> None:
    said_of_three(ledger)
    loaded = [said("hdfs", at, BEGIN, destination=ROOT, run=at) for at in range(3)]
    ledger.fold(*loaded)
    ledger.fold(said("agent", 3, BEGIN + HOUR), said("broker", 3, BEGIN + HOUR))
    assert firsts(ledger) == [10]


@pytest.mark.parametrize("damaged_at", [1, 2])
def test_what_was_loaded_and_is_damaged_keeps_its_name(
    ledger: AuditedLedger, damaged_at: int
) -> None:
    """Also if the damage is found when it has landed, and no loader goes on."""
    damage = {
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": 0,
        "offsets": {"first": 10, "count": 10},
        "reason": "its CRC does not match",
    }
    of = {"agent": {}, "broker": {}, "hdfs": {"destination": ROOT}}
    steps = [[said(tier, at, BEGIN, **more) for at in range(3)] for tier, more in of.items()]
    steps.insert(damaged_at + 1, [entry("broker", "other", 0, BEGIN + MINUTE, damaged=[damage])])
    for step in steps:
        ledger.fold(*step)
    assert firsts(ledger) == [10]
    ledger.fold(said("agent", 3, BEGIN + HOUR), said("broker", 3, BEGIN + HOUR))
    assert firsts(ledger) == [10]


def test_a_clock_that_is_ahead_makes_nothing_old(tmp_path: Path) -> None:
    ahead = BEGIN + 1000 * DAY
    beat = {"until": ahead, "topics": ["other"]}
    with AuditedLedger(tmp_path, clock=BEGIN + HOUR) as ledger:
        ledger.fold(entry("agent", "agent-2", 0, ahead, heartbeats=[beat]))
        assert firsts(said_of_three(ledger)) == [10]
        patience = SilencePatience(BEGIN + 2 * HOUR, HOUR // 2, DAY)
        seen = ledger.reading.agents(AgentsQuery(), patience)
        (agent,) = (each for each in seen.items if each.agent == "agent-2")
        assert (agent.heard, agent.state) == (BEGIN + HOUR, "silent")
        picture = ledger.picture(end=ahead, key=TopicKey(CLUSTER, "other", ""), expected=DAY)
        assert [each.until for each in picture.agents] == [BEGIN + HOUR]


def test_nor_does_it_when_it_is_read_later(ledger: AuditedLedger) -> None:
    beat = {"until": BEGIN, "topics": ["other"]}
    ahead = entry("agent", "agent-2", 0, BEGIN + 30 * DAY, heartbeats=[beat])
    assert firsts(said_of_three(ledger, ahead)) == [10]
