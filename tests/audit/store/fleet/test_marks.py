"""Marks on the time axis, in whichever order entries come."""

from pathlib import Path
from typing import Any

import pytest

from audit.api.answers import Mark
from audit.store.fleet.marks import MarksQuery
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.log_entries import broker, each_way, in_chunks, load, operator
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, MINUTE, TOPIC, Json, entry, passage, window

DAY = 24 * HOUR


def started(agent: str, seq: int, at: int, version: str = "1", topic: str = TOPIC) -> Json:
    """Its first entry after that start."""
    beat = {"until": BEGIN, "topics": [topic]}
    health = {"program_version": version, "started": at}
    return entry("agent", agent, seq, at + MINUTE, heartbeats=[beat], health=[health])


def found(ledger: AuditedLedger, **asked: Any) -> list[Mark]:
    wanted = MarksQuery(0, BEGIN + DAY, cluster="", topic="", host="")
    return ledger.reading.marks(wanted._replace(**asked))


def words(ledger: AuditedLedger, **asked: Any) -> list[tuple[str, str]]:
    return [(mark.kind, mark.words) for mark in found(ledger, **asked)]


FLEET = [
    *(started(agent, 0, BEGIN) for agent in "abcd"),
    *(started(agent, 1, BEGIN + HOUR, "2") for agent in "abcd"),
    started("a", 2, BEGIN + 2 * HOUR, "2"),
    started("a", 3, BEGIN + 2 * HOUR, "2"),  # said again by the same process
    started("e", 0, BEGIN + 2 * HOUR, topic="other"),
    entry("broker", "x", 0, BEGIN + 3 * HOUR, health=[{"started": BEGIN + HOUR}]),
    entry("mirror", "m", 0, BEGIN + 3 * HOUR, health=[{"started": BEGIN + HOUR}]),
    entry("agent", "f", 0, BEGIN, heartbeats=[{"until": BEGIN, "topics": [TOPIC]}]),
]


@each_way
def test_starts_and_releases_of_agents(way: str, tmp_path: Path) -> None:
    with AuditedLedger(tmp_path) as ledger:
        for chunk in in_chunks(FLEET, way):
            ledger.fold(*chunk)
        several = "Agents on host-of-a, host-of-b, host-of-c and 1 more"
        assert words(ledger, topic=TOPIC) == [
            ("start", "Agent on host-of-a restarted"),
            ("release", f"{several} restarted: version 2, before 1"),
            ("start", f"{several} started, version 1"),
        ]
        assert words(ledger, host="host-of-e", from_time=BEGIN + HOUR) == [
            ("start", "Agent on host-of-e started, version 1")
        ]
        assert ("start", "Broker on host-of-x started") in words(ledger)
        assert found(ledger, to_time=BEGIN) == []
        assert found(ledger, cluster="elsewhere") == []
        # What is too old goes, but for the version that the next release replaces.
        ledger.store.expire(BEGIN + 60 * DAY)
        assert words(ledger) == []


def test_the_last_start_of_an_agent_is_kept(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path, retention_millis=DAY, clock=BEGIN + 3 * DAY) as ledger:
        ledger.fold(started("a", 0, BEGIN), started("a", 1, BEGIN + 2 * HOUR))
        ledger.store.expire(BEGIN + 2 * DAY)
        ledger.fold(started("a", 2, BEGIN + 2 * DAY, "2"))
        (mark,) = found(ledger, to_time=BEGIN + 3 * DAY, from_time=BEGIN + DAY)
        assert mark.words == "Agent on host-of-a restarted: version 2, before 1"


@each_way
def test_changes_of_leaders(way: str, tmp_path: Path) -> None:
    """The first epoch is none. Several partitions that one broker takes over are one mark."""

    def leads(host: str, seq: int, epoch: int, *partitions: int) -> Json:
        begins = [
            passage(number, 0, 0, [], leader_epoch=epoch) | {"offsets": [{"first": 5, "count": 0}]}
            for number in partitions
        ]
        counted = [passage(n, 5, 1, [window(BEGIN, 1)], leader_epoch=epoch) for n in partitions]
        time = BEGIN + epoch * HOUR + seq
        return entry("broker", host, seq, time, passages=[*begins, *counted])

    with AuditedLedger(tmp_path) as ledger:
        for chunk in in_chunks([leads("x", 0, 0, 0, 1), leads("y", 0, 1, 0, 1)], way):
            ledger.fold(*chunk)
        (mark,) = found(ledger, topic=TOPIC)
        assert mark.words == (
            f"Change of leader: the broker on host-of-y leads {TOPIC}-0, {TOPIC}-1"
        )
        assert (mark.kind, mark.time, mark.host) == ("leader", BEGIN + HOUR, "host-of-y")
        assert found(ledger, host="host-of-y") == [mark]
        assert found(ledger, host="host-of-x") == []


def test_what_operators_and_loads_did(ledger: AuditedLedger) -> None:
    retired = {"host": "web-9", "agent": "", "since": BEGIN, "reason": "sold", "operator": "ada"}
    hours = {"topic": TOPIC, "topic_id": "", "from_time": BEGIN, "to_time": BEGIN + HOUR}
    landed = passage(0, 0, 7, [window(BEGIN, 7)])
    ledger.fold(
        broker(0, (0, 7, BEGIN, 0)),
        operator(BEGIN + HOUR, "the disk broke"),
        entry("operator", "ops", 0, BEGIN + 2 * HOUR, retired=[retired]),
        load(1, landed, time=BEGIN + 3 * HOUR),
        load(2, landed, time=BEGIN + 4 * HOUR, rebuilt=[hours]),
    )
    rebuilt = ("load", f"A load rebuilt hours with 7 rows of {TOPIC} in hdfs://logs")
    assert words(ledger) == [
        rebuilt,
        ("load", f"A load landed 7 rows of {TOPIC} in hdfs://logs"),
        ("retired", "Host web-9 was retired: sold (ada, 2025-10-09 11:00 UTC)"),
        ("accepted", f"A fault of {TOPIC} was accepted: the disk broke"),
    ]
    ledger.fold(*(load(at, landed, time=BEGIN + 5 * HOUR + at * MINUTE) for at in range(3, 30)))
    found = words(ledger, from_time=BEGIN)  # more than one an hour
    assert [each for each in found if each[0] == "load"] == [rebuilt]


@pytest.mark.parametrize("asked", [{}, {"topic": "t"}])
def test_what_was_seen(asked: Any, ledger: AuditedLedger) -> None:
    """A group that reads two topics is one mark; and the same look again changes nothing."""

    def seen(kind: str, topic: str, name: str, at: int = BEGIN) -> Mark:
        words = f"{kind} {name}"
        return Mark(time=at, kind=kind, cluster=CLUSTER, topic=topic, group=name, words=words)

    marks = [seen("group", "t", "g"), seen("group", "u", "g"), seen("broker", "", "2")]
    for _ in range(2):
        ledger.store.keep_measured(BEGIN, [], [], marks)
    assert words(ledger, **asked) == [("broker", "broker 2"), ("group", "group g")]
    assert words(ledger, host="web-1") == []
