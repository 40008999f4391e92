"""Offsets that a loader has landed, and not compared with what an agent has signed of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.gate import hour_gate
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import FIRST, KEY, AuditedLedger
from tests.audit.log_entries import (
    LATER,
    OF_THE_LOG,
    TIME,
    accepting,
    agent,
    broker,
    in_orders,
    load,
    shipped,
)
from tests.audit.store.said import HOUR, MINUTE, ROOT, Json, entry, passage, window

DIGEST: Final = bytes(range(16))
SENT: Final = agent(0, shipped(0, 0, 100) | {"digest": DIGEST})
UNSIGNED: Final = agent(0, shipped(0, 0, 100))
COUNTED: Final = broker(0, (0, 100, TIME, 0))


def landed(run: int = 0, *uncompared: tuple[int, int], time: int = TIME + MINUTE) -> Json:
    """A run that has read all, and has not compared these offsets."""
    stretches = [{"first": first, "count": end - first} for first, end in uncompared]
    return load(run, shipped(0, 0, 100) | {"uncompared": stretches}, time=time)


def compared(first: int, end: int, run: int = 0, journal: str = "loader") -> Json:
    """By a later load."""
    offsets = [{"first": first, "count": end - first}]
    statement = OF_THE_LOG | {"journal": journal, "run": run, "offsets": offsets}
    return entry("hdfs", "check", 0, LATER, destination=ROOT, compared=[statement])


def next_run(time: int) -> Json:
    """Another run, which has read other events."""
    return load(1, passage(1, 0, 5, [window(LATER, 5)], leader_epoch=0), time=time)


def judged(
    path: Path, chunks: Sequence[Sequence[Json]], now: int = FIRST + HOUR + 10 * MINUTE
) -> TopicVerdict:
    with AuditedLedger(path) as ledger:
        for chunk in chunks:
            ledger.fold(*chunk)
        return reconcile(ledger.picture(now=now))


@pytest.mark.parametrize("order", range(6))
def test_an_hour_waits_for_the_next_load_to_compare_it(tmp_path: Path, order: int) -> None:
    waiting = [SENT, COUNTED, landed(0, (60, 80))]
    verdict = judged(tmp_path / "waiting", in_orders(waiting)[order])
    assert verdict.state is State.PENDING
    assert verdict.findings == []
    (wait,) = [wait for wait in verdict.waits if "signed" in wait.words]
    assert wait.on == "hdfs"
    assert wait.words.startswith("offsets 60 to 79 of partition 0: landed, and not yet compared")
    done = judged(tmp_path / "done", in_orders([*waiting, compared(60, 80)])[order])
    assert (done.state, done.findings, done.waits) == (State.COMPLETE, [], [])


@pytest.mark.parametrize(
    "statements",
    [
        [SENT, COUNTED, landed()],
        [UNSIGNED, COUNTED, landed(0, (0, 100))],
        [SENT, COUNTED, landed(0, (100, 200))],
        [SENT, COUNTED, landed(0, (0, 10), (50, 60)), compared(0, 70)],
    ],
    ids=["all compared", "no digests", "of another producer", "compared since"],
)
def test_nothing_is_said_of_what_no_agent_has_signed(
    tmp_path: Path, statements: list[Json]
) -> None:
    verdict = judged(tmp_path, [statements], now=FIRST + 4 * HOUR)
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


@pytest.mark.parametrize(
    "later",
    [
        [],
        [compared(60, 70)],
        [compared(60, 80, run=-1)],
        [compared(60, 80, journal="another")],
    ],
    ids=["nothing", "a part", "an earlier run", "another table's"],
)
def test_what_a_later_load_has_not_compared_is_a_finding(tmp_path: Path, later: list[Json]) -> None:
    """An hour after both are known, if there was a load since; an operator can accept it."""
    statements = [SENT, COUNTED, landed(0, (60, 80)), *later]
    without = judged(tmp_path / "waiting", [statements], now=FIRST + 3 * HOUR)
    assert (without.state, without.findings) == (State.PENDING, [])
    statements.append(next_run(FIRST + HOUR + MINUTE))
    young = judged(tmp_path / "young", [statements], now=FIRST + 2 * HOUR - MINUTE)
    assert (young.state, young.findings) == (State.PENDING, [])
    verdict = judged(tmp_path / "overdue", [statements], now=FIRST + 2 * HOUR)
    (finding,) = verdict.findings
    assert (verdict.state, finding.kind) == (FaultKind.UNPROVEN.state, FaultKind.UNPROVEN)
    first = 70 if later == [compared(60, 70)] else 60
    assert (finding.tier, finding.destination) == ("hdfs", ROOT)
    assert (finding.offset, finding.offsets) == (first, 80 - first)
    assert "has not seen what agents have signed" in finding.words
    accepted = accepting(60, 20, FIRST + 2 * HOUR)
    done = judged(tmp_path / "accepted", [[*statements, accepted]], now=FIRST + 2 * HOUR)
    assert done.state is State.COMPLETE


def test_a_day_without_a_run_is_long_enough(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[SENT, COUNTED, landed(0, (60, 80))]], now=FIRST + 27 * HOUR)
    assert [finding.offset for finding in verdict.findings] == [60]


def test_the_gate_knows_of_it_only_if_files_are_asked_about(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path) as ledger:
        ledger.fold(SENT, COUNTED, landed(0, (60, 80)))
        picture = ledger.picture(now=FIRST + HOUR + 10 * MINUTE)
    assert hour_gate(picture).complete
    assert not hour_gate(picture, ROOT, TIME).complete


def test_what_a_rebuild_reads_again_must_be_compared_again(tmp_path: Path) -> None:
    statements = [SENT, COUNTED, landed(0, (60, 80)), compared(60, 80)]
    hours = {"topic": OF_THE_LOG["topic"], "topic_id": OF_THE_LOG["topic_id"]}
    rebuilt = hours | {"from_time": FIRST, "to_time": FIRST + HOUR}
    again = landed(1, (60, 65), time=TIME + 2 * MINUTE)
    verdict = judged(tmp_path, [[*statements, again | {"rebuilt": [rebuilt]}]])
    assert verdict.state is State.PENDING


def test_loaders_can_ask_whether_agents_have_signed_offsets(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path) as ledger:
        ledger.fold(SENT, agent(1, shipped(100, 200, 50), until=FIRST))
        assert ledger.reading.signed(KEY, {0: ((99, 300),)})
        assert not ledger.reading.signed(KEY, {0: ((100, 300),)})
        assert not ledger.reading.signed(KEY, {1: ((0, 100),)})
