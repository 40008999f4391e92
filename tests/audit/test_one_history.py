"""A topic has one history at a destination: where its table was lost with its commit log, or it
goes to another table, what the newer commit log says takes the place of all that was said before.
"""

from pathlib import Path
from typing import Any

import pytest

from audit.api.queries import HostsQuery, LoadsQuery
from audit.reconciling.findings import FaultKind, State
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.words import REBUILT
from tests.audit.audited_ledger import FIRST, NOW, AuditedLedger, judged
from tests.audit.log_entries import TIME, agent, broker, each_order, in_orders, shipped
from tests.audit.store.said import (
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

NEXT = TIME + 5 * MINUTE
LOADED = FIRST + HOUR + MINUTE  # everybody has spoken of all that for long by then
AGAIN = FIRST + 2 * HOUR + MINUTE

SHIPPED = [
    agent(0, shipped(0, 0, 600)),
    agent(1, shipped(600, 600, 400, time=NEXT), time=NEXT),
    broker(0, (0, 600, TIME, 0)),
    broker(1, (600, 400, NEXT, 0)),
]


def load(
    journal: str,
    number: int,
    first: int,
    count: int,
    time: int,
    *,
    at: int = LOADED,
    rows: int | None = None,
    **more: Any,
) -> Json:
    """A run, numbered from 1 in each journal, that has read these offsets of one window."""
    fates = [] if rows is None else [excepted("dead_lettered", count - rows)]
    lies = window(time, count if rows is None else rows, excepted=fates)
    lies |= {"bytes": count * 10, "crc_sum": count * 7}
    landed = [run("file", first, count)]
    said = passage(0, first, count, [lies], runs=landed, leader_epoch=0)
    known: Json = {"destination": ROOT, "run": number + 1, "passages": [said]}
    return entry("hdfs", journal, number, at + number, **known | more)


LANDED = [load("old", 0, 0, 600, TIME), load("old", 1, 600, 400, NEXT)]
MOVED = [load("new", 0, 0, 600, TIME, at=AGAIN), load("new", 1, 600, 400, NEXT, at=AGAIN)]


def states(verdict: TopicVerdict) -> list[State]:
    return [each.state for each in verdict.windows]


@each_order
def test_a_table_that_is_another_is_not_the_same_twice(tmp_path: Path, order: int) -> None:
    verdict = judged(tmp_path, in_orders([*SHIPPED, *LANDED, *MOVED])[order])
    assert states(verdict) == [State.COMPLETE, State.COMPLETE]
    assert not verdict.findings


@each_order
def test_what_was_lost_with_its_table_is_missing(tmp_path: Path, order: int) -> None:
    """Retention has left only what is loaded again."""
    again = load("new", 0, 600, 400, NEXT, at=AGAIN)
    verdict = judged(tmp_path, in_orders([*SHIPPED, *LANDED, again])[order])
    assert states(verdict) == [State.MISSING, State.COMPLETE]
    (finding,) = verdict.findings
    assert (finding.kind, finding.tier, finding.destination) == (FaultKind.MISSING, "hdfs", ROOT)
    assert (finding.partition, finding.offset, finding.offsets) == (0, 0, 600)
    assert verdict.totals.missing == 600


@pytest.mark.parametrize("said", [SHIPPED, SHIPPED[:2]], ids=["all", "agents alone"])
def test_what_is_still_to_be_loaded_again_is_waited_for(tmp_path: Path, said: list[Json]) -> None:
    """Though all had passed there long ago, and most of what tells is not kept for so long."""
    verdict = judged(tmp_path, [said, LANDED, MOVED[:1]])
    assert states(verdict) == [State.COMPLETE, State.PENDING]
    assert not verdict.findings
    assert sum(each.pending for each in verdict.windows) == 400


def test_a_history_that_says_only_that_it_begins(tmp_path: Path) -> None:
    """Nothing of the topic is left to be read: nobody takes it for landed."""
    bare = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": -1}
    begun = entry("hdfs", "new", 0, AGAIN, destination=ROOT, run=1, passages=[bare])
    verdict = judged(tmp_path, [SHIPPED, LANDED, [begun]])
    assert states(verdict) == [State.PENDING, State.PENDING]


def test_what_a_rebuild_made_void_is_of_its_own_history(tmp_path: Path) -> None:
    """Runs are numbered from the beginning in each."""
    hours = {"topic": TOPIC, "topic_id": TOPIC_ID, "from_time": FIRST, "to_time": FIRST + HOUR}
    rebuilt = load("old", 2, 0, 600, TIME, rebuilt=[hours])
    (finding,) = judged(tmp_path / "before", [[*SHIPPED, *LANDED, rebuilt]]).findings
    assert (finding.events, finding.reason) == (400, REBUILT)
    verdict = judged(tmp_path / "after", [[*SHIPPED, *LANDED, rebuilt, *MOVED]])
    assert states(verdict) == [State.COMPLETE, State.COMPLETE]


def test_what_was_doubtful_in_the_former_history_is_not_in_this_one(tmp_path: Path) -> None:
    """The former had read something twice, so that only its sums counted."""
    twice = [*LANDED, load("old", 2, 0, 600, TIME)]
    assert State.DUPLICATED in states(judged(tmp_path / "before", [[*SHIPPED, *twice]]))
    moved = [load("new", 0, 0, 600, TIME, at=AGAIN, rows=590), MOVED[1]]
    verdict = judged(tmp_path / "after", [[*SHIPPED, *twice, *moved]])
    assert FaultKind.DUPLICATED not in {each.kind for each in verdict.findings}
    assert State.DUPLICATED not in states(verdict)


@each_order
def test_who_goes_back_to_the_former_table_goes_on_there(tmp_path: Path, order: int) -> None:
    """It has kept where it was."""
    said = [
        *SHIPPED,
        LANDED[0],
        load("new", 0, 0, 600, TIME, at=AGAIN),
        load("old", 1, 600, 400, NEXT, at=AGAIN + HOUR),
    ]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert states(verdict) == [State.COMPLETE, State.COMPLETE]
    assert not verdict.findings


def test_other_roots_keep_what_they_have(tmp_path: Path) -> None:
    other = [load("other", 0, 0, 600, TIME), load("other", 1, 600, 400, NEXT)]
    other = [each | {"destination": "hdfs://copy"} for each in other]
    lost = load("new", 0, 600, 400, NEXT, at=AGAIN)
    verdict = judged(tmp_path, [[*SHIPPED, *LANDED, *other, lost]])
    assert {each.destination for each in verdict.findings} == {ROOT}
    assert verdict.totals.missing == 600


def test_what_the_lists_show(ledger: AuditedLedger) -> None:
    """All runs of both histories; rows and how far it has read of the one that holds."""
    reading = ledger.reading
    for each in (SHIPPED, LANDED, MOVED[:1]):
        touched = ledger.fold(*each)
    assert {hour for _, hour in touched.hours} >= {FIRST}
    (key,) = reading.topics()
    loads = reading.loads(LoadsQuery(topic=TOPIC))
    assert [(each.run, each.rows) for each in loads.items] == [(1, 600), (2, 400), (1, 600)]
    assert loads.destinations == [ROOT]
    (consumer,) = reading.consumers()
    assert (consumer.upto, consumer.lag, consumer.read) == (600, 400, AGAIN)
    (hour,) = reading.hours(key, ROOT, from_time=FIRST, to_time=FIRST + HOUR)
    assert (hour.rows, hour.events) == (600, 1000)
    (host,) = reading.hosts(key, HostsQuery(topic=TOPIC)).items
    assert (host.shipped - host.landed, host.state) == (400, State.PENDING)
    delays = reading.delays(key, FIRST, NOW)
    assert [sum(each) for tier, each in delays.items() if tier.destination == ROOT] == [600]
