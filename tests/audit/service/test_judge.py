"""What is judged, and what cannot be."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig
from audit.reconciling.findings import State
from audit.reconciling.picture import TopicKey
from audit.service.judge import Judge
from audit.store.database import FILE
from audit.store.judged_hours import HourVerdict
from harness.processes.waiting import wait_until
from tests.audit.audited_ledger import KEY, AuditedLedger
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
    window,
)

SPOILT, OTHER = KEY, TopicKey(CLUSTER, "views", TOPIC_ID)
AS_OF = {CLUSTER: BEGIN + HOUR}


def judging_of(ledger: AuditedLedger) -> Judge:
    return Judge(ledger.reading, AuditConfig(data_dir=str(ledger.store.directory)))


def test_a_topic_that_cannot_be_judged_keeps_no_other_waiting(ledger: AuditedLedger) -> None:
    """Something that nobody foresaw stands in the table, and then no more."""
    shipped = passage(0, 0, 10, [window(BEGIN, 10)])
    both = [shipped, shipped | {"topic": OTHER.topic}]
    ledger.fold(
        entry("agent", "a", 0, BEGIN + MINUTE, passages=both),
        entry("operator", "o", 0, BEGIN, accepted=[{"topic": TOPIC, "partition": 0}]),
    )
    judging, said = judging_of(ledger), list[HourVerdict]()

    def judged() -> set[TopicKey]:
        judging.judge(AS_OF, said.extend)
        return {each.judged.key for each in said}

    with closing(sqlite3.connect(ledger.store.directory / FILE)) as connection:
        ((good,),) = connection.execute("SELECT statement FROM accepted").fetchall()
        for statement, expected, failing in ((b"{", {OTHER}, (SPOILT,)), (good, {OTHER, KEY}, ())):
            connection.execute("UPDATE accepted SET statement = ?", (statement,))
            connection.commit()
            judging.sweep()
            wait_until(
                lambda expected=expected, failing=failing: (
                    judged() == expected and judging.failing == failing
                ),
                what="it is judged",
            )


def test_an_entry_that_is_missing_of_quiet_hours_is_in_the_first(tmp_path: Path) -> None:
    """Nothing happened in that hour, so that nobody has it judged but the finding itself."""
    later = BEGIN + 3 * HOUR
    windows = [(0, BEGIN), (10, later)]
    events = [passage(0, first, 10, [window(start, 10)]) for first, start in windows]
    agents = [
        (0, BEGIN, events[:1]),
        (1, BEGIN + HOUR, []),
        (3, BEGIN + 2 * HOUR, []),
        (4, later, events[1:]),
    ]
    said = [
        entry("agent", "a", seq, time + MINUTE, passages=passages) for seq, time, passages in agents
    ]
    said.append(entry("broker", "b", 0, later + MINUTE, passages=events))
    found: dict[int, HourVerdict] = {}
    with AuditedLedger(tmp_path, grace_millis=0) as ledger:
        ledger.fold(*said)
        judging = judging_of(ledger)

        def judged() -> bool:
            judging.judge(
                {CLUSTER: later + HOUR},
                lambda hours: found.update((each.judged.hour, each) for each in hours),
            )
            return not judging.is_behind({CLUSTER})

        wait_until(judged, what="it is judged")
    states = {hour: each.judged.state for hour, each in found.items()}
    assert states.pop(BEGIN + 2 * HOUR) == "complete", "it ends there, where nothing happened"
    assert states == {BEGIN: "complete", BEGIN + HOUR: "missing", later: "complete"}
    assert found[BEGIN + HOUR].judged.findings == 1


def test_it_is_said() -> None:
    standing = AuditState({CLUSTER: ClusterState(read=True)})
    standing.unjudged = (SPOILT, OTHER)
    (notice,) = standing.notices()
    assert notice == "clicks of local and 1 more cannot be judged: see the audit's log"


def test_all_hours_that_a_hole_is_about_are_judged_again(ledger: AuditedLedger) -> None:
    """Another agent's hour lies within it, and was complete when the hole came to be known."""
    judging, said = judging_of(ledger), list[HourVerdict]()

    def ship(agent: str, seq: int, hour: int) -> None:
        time = BEGIN + hour * HOUR + MINUTE
        at = passage(0, hour * 10, 10, [window(time, 10)])
        beat = {"until": BEGIN + 9 * HOUR, "topics": [TOPIC]}
        touched = ledger.fold(entry("agent", agent, seq, time, passages=[at], heartbeats=[beat]))
        judging.touch(touched.hours)

    def state(hour: int) -> str:
        judging.judge({CLUSTER: BEGIN + 3 * HOUR}, said.extend)
        found = [each.judged.state for each in said if each.judged.hour == BEGIN + hour * HOUR]
        return found[-1] if found else ""

    ship("a", 0, 0)
    ship("b", 0, 1)
    wait_until(lambda: state(1) == State.COMPLETE)
    ship("a", 2, 2)
    wait_until(lambda: bool(state(2)))
    assert state(1) == State.COMPLETE
    judging.sweep()
    wait_until(lambda: state(1) == State.MISSING)


@pytest.mark.parametrize(
    ("reports", "loaded", "since"),
    [
        ([(0, 10, MINUTE)], 0, 1 * MINUTE),
        ([(0, 10, 9 * HOUR)], 0, 9 * HOUR),  # old lines, shipped now
        ([(0, 10, 9 * HOUR), (10, 20, 11 * HOUR)], 0, 9 * HOUR),
        ([(0, 10, MINUTE), (10, 20, 11 * HOUR)], 10, 11 * HOUR),  # loaded, and more came later
        ([(0, 10, MINUTE), (10, 20, 11 * HOUR)], 20, None),
    ],
)
def test_old_lines_wait_since_they_were_reported(
    ledger: AuditedLedger, reports: list[tuple[int, int, int]], loaded: int, since: int | None
) -> None:
    def passages(first: int, end: int) -> list[Json]:
        return [passage(0, first, end - first, [window(BEGIN, end - first)])]

    now = BEGIN + 12 * HOUR
    for tier in ("agent", "broker"):
        promise = {"heartbeats": [{"topics": [], "until": now}]}
        ledger.fold(
            *(
                entry(tier, tier, seq, BEGIN + time, passages=passages(first, end))
                for seq, (first, end, time) in enumerate(reports)
            ),
            entry(tier, tier, len(reports), now, **promise if tier == "agent" else {}),
        )
    commit = {"run": 1, "passages": passages(0, loaded)} if loaded else {}
    ledger.fold(entry("hdfs", "l", 0, now, health=[{"name": ROOT, "topics": ["*"]}], **commit))
    judging = judging_of(ledger)
    judging.judge({CLUSTER: now}, lambda _: None)
    (hour,) = judging.verdicts
    assert hour.pending_since == (-1 if since is None else BEGIN + MINUTE)
    assert hour.waiting_since == (-1 if since is None else BEGIN + since)
