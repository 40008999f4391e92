"""Whatever differs from what was written is said, and nothing else is."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.api.answers import Flow, ReportAnswer, TierTotals, TopicReport
from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import Wait
from penstock.demo.applications.log_writer import WrittenTally
from penstock.demo.command import show_outcome
from penstock.demo.figures import Arrivals, DemonstrationOutcome, Figures, arrivals, document
from penstock.demo.kills import kills_of
from penstock.demo.verdict import TimeSpan, only_faults, span, waits_for

TALLY = WrittenTally(application="payments", lines=14, events=10, files=2)
ALL = arrivals(range(10), 10)


def tier(name: str, events: int = 10) -> TierTotals:
    return TierTotals(
        tier=name, destination="", events=events, bytes=0, crc_sum=0, late=0, duplicates=0, dead=0
    )


def said(state: State = State.COMPLETE, *, shipped: int = 10, read: int = 14) -> TopicReport:
    return TopicReport(
        cluster="offline",
        topic="dc1.payments",
        topic_id="",
        state=state,
        tiers=[tier("agent", shipped), tier("origin"), tier("broker"), tier("hdfs")],
        flow=Flow(read=read, shipped=read, filtered=0, dead=0, lost=0, lost_bytes=0, events=10),
        missing=0,
        excess=0,
        unclaimed=0,
        findings=[],
        findings_total=0,
        waits=[],
        waits_total=0,
    )


BEFORE = [tier("agent"), tier("origin"), tier("broker")]  # of files
GOOD = Figures(tally=TALLY, report=said(), stored=ALL, mirrored=ALL, landed=ALL)


def outcome(*figures: Figures, unsettled: str = "") -> DemonstrationOutcome:
    return DemonstrationOutcome(
        figures=figures, seconds=8, seed=1, kills=kills_of(1, 8), unsettled=unsettled
    )


def test_what_agrees_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    found = outcome(GOOD)
    assert found.agrees
    assert found.differences == []
    show_outcome(found)
    assert capsys.readouterr().out.splitlines() == [
        "topic     lines  events  shipped  stored  mirrored  landed  verdict",
        "payments     14      10       10      10        10      10  complete",
        "all          14      10       10      10        10      10  -",
        "",
        "Killed by seed 1: the agent after 1.7 s, the broker after 5.7 s and the mirror after "
        "6.2 s.",
        "✓ Every line arrived, once, although the agent, the mirror and the broker were killed:",
        "  14 lines of 2 files became 10 events, and as many rows.",
    ]


NOT_EVERY = "Not every line arrived."
NOBODYS = "Every line arrived, and also events that were never written."
NOT_ONCE = "Every line arrived, but not all of them once."
OTHERWISE = "{arrived}; but the agent's counts differ for 1 of 2 topics."
NOT_COMPLETE = "{arrived}; but the audit does not call 1 of 2 topics complete."
ARRIVED = "Every line arrived, once, although the agent, the mirror and the broker were killed"
# What differs, as it is said; of what; and the last sentence, which is true.
A_LOG = "a.log, bytes 1 to 2 are not at the brokers"
LOST = msgspec.structs.replace(
    said(State.MISSING),
    findings=[
        Finding(kind=FaultKind.MISSING, words=A_LOG),
        Finding(kind=FaultKind.LOST, words="known", accepted="it was known"),
    ],
)
LATE = msgspec.structs.replace(said(State.PENDING), waits=[Wait(on="hdfs", words="the next load")])


def of(*numbers: int) -> Arrivals:
    return arrivals(numbers, 10)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("the agent reports 9 of 10 events as shipped", {"report": said(shipped=9)}, OTHERWISE),
    ("the agent reports 13 of 14 lines as read", {"report": said(read=13)}, OTHERWISE),
    ("1 event was not stored: number 9", {"stored": of(*range(9))}, NOT_EVERY),
    ("stored more than once: number 3 (1 too many)", {"stored": of(*range(10), 3)}, NOT_ONCE),
    ("1 event was not mirrored: number 0", {"mirrored": of(*range(1, 10))}, NOT_EVERY),
    ("3 events were not landed: numbers 0 to 2", {"landed": of(*range(3, 10))}, NOT_EVERY),
    ("landed more than once: number 9 (1 too many)", {"landed": of(*range(10), 9)}, NOT_ONCE),
    ("landed, but never written: number 10", {"landed": of(*range(11))}, NOBODYS),
    ("the topic is unknown to the audit", {"report": None}, NOT_COMPLETE),
    (f"the audit's verdict is missing; {A_LOG}", {"report": LOST}, NOT_COMPLETE),
    ("the audit's verdict is pending; it waits for the next load", {"report": LATE}, NOT_COMPLETE),
]


@pytest.mark.parametrize(("words", "spoilt", "last"), WRONG)
def test_what_differs_is_said(
    words: str, spoilt: dict[str, Any], last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(GOOD, msgspec.structs.replace(GOOD, **spoilt))
    assert f"payments: {words}" in found.differences
    assert not found.agrees
    show_outcome(found)
    shown = capsys.readouterr().out.splitlines()
    assert f"✗ payments: {words}" in shown
    assert shown[-1] == f"✗ {last.format(arrived=ARRIVED)}"


def test_what_cannot_be_proven_is_no_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """It fails all the same: not everything is proven."""
    blind = Finding(
        kind=FaultKind.UNKNOWN,
        words="",
        reason="names changed while no agent watched",
        host="web-1",
        from_time=1_795_158_131_000,
        to_time=1_795_158_134_000,
    )
    unknown = msgspec.structs.replace(said(State.UNKNOWN), findings=[blind])
    found = outcome(GOOD, GOOD, msgspec.structs.replace(GOOD, report=unknown))
    assert not found.agrees
    show_outcome(found)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "? payments: the audit's verdict is unknown; possible loss: dc1.payments, host web-1, "
        "2026-11-20 07:02:11 to 07:02:14 UTC (3 s); all 10 events arrived; names changed while "
        "no agent watched",
        f"? {ARRIVED}; but 1 of 3 topics cannot be proven.",
    ]
    both = outcome(GOOD, msgspec.structs.replace(GOOD, report=unknown, landed=arrivals([], 10)))
    show_outcome(both)
    assert capsys.readouterr().out.splitlines()[-1] == "✗ Not every line arrived."
    late = outcome(msgspec.structs.replace(GOOD, report=unknown), unsettled="there is no verdict")
    show_outcome(late)
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"✗ {ARRIVED}; but 1 of 1 topics cannot be proven and there was no verdict in time."
    )


def test_kills_are_drawn_from_a_seed() -> None:
    """The same in each run and release; each program once, in time to be seen."""
    assert [(each.program, round(each.after, 1)) for each in kills_of(1, 8)] == [
        *(("agent", 1.7), ("broker", 5.7), ("mirror", 6.2))
    ]
    assert len({kills_of(seed, 60) for seed in range(100)}) == 100
    for seed in range(100):
        kills = kills_of(seed, 60)
        assert sorted(each.program for each in kills) == ["agent", "broker", "mirror"]
        assert all(6 <= each.after <= 54 for each in kills)
        assert [*kills] == sorted(kills)


def test_where_nothing_is_killed_nothing_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = DemonstrationOutcome(figures=(GOOD,), seconds=8)
    show_outcome(found)
    assert capsys.readouterr().out.splitlines()[-2] == "✓ Every line arrived, once:"
    assert document(found)["seed"] is None
    assert document(outcome(GOOD))["kills"][0] == {"program": "agent", "after": 1.7}


def test_who_did_not_wait_for_the_verdict_has_none() -> None:
    assert not outcome(GOOD, unsettled="there is no verdict").agrees
    assert not outcome().agrees


def test_the_document_has_the_place_of_the_mirror() -> None:
    found = document(outcome(GOOD))
    assert found["agrees"] is True
    assert found["topics"] == [
        {
            "topic": "payments",
            "files": 2,
            "lines": 14,
            "events": 10,
            "shipped": 10,
            "stored": 10,
            "mirrored": 10,
            "landed": 10,
            "verdict": "complete",
        }
    ]
    assert found["totals"]["mirrored"] == found["totals"]["landed"] == 10


def test_whole_windows_are_asked_about() -> None:
    assert span(1_000.0, 1_009.9) == TimeSpan(1_000_000, 1_010_000)
    assert span(1_009.9, 1_010.0) == TimeSpan(1_000_000, 1_020_000)


def report(*topics: TopicReport, as_of: int = 20) -> ReportAnswer:
    return ReportAnswer(
        state=State.COMPLETE, from_time=0, to_time=10, now=30, as_of=as_of, topics=[*topics]
    )


def test_it_waits_until_everybody_has_spoken() -> None:
    topics = ["dc1.payments"]
    assert waits_for(report(said()), topics) == ""
    assert waits_for(report(said(), as_of=9), topics) == "the audit is still reading the ledger"
    assert waits_for(report(), topics) == "dc1.payments is not known to the audit yet"
    for silent in ([], [tier("hdfs", 0)]):
        unloaded = msgspec.structs.replace(said(), tiers=[*BEFORE, *silent])
        assert waits_for(report(unloaded), topics) == "dc1.payments: no report from hdfs yet"
    pending = msgspec.structs.replace(
        said(State.PENDING), waits=[Wait(on="agent", words="web-1: the agent is done up to 7:12")]
    )
    assert waits_for(report(pending), topics) == "dc1.payments: web-1: the agent is done up to 7:12"
    assert waits_for(report(said(State.MISSING)), topics) == "dc1.payments: missing"


def test_it_does_not_wait_for_what_is_wrong_for_good() -> None:
    topics = ["dc1.payments"]
    lost = said(State.MISSING)
    assert only_faults(report(lost), topics)
    assert not only_faults(report(lost, as_of=9), topics)
    assert not only_faults(report(said()), topics)
    unloaded = [*BEFORE, tier("hdfs", 0)]
    for state in (State.COMPLETE, State.MISSING):
        assert not only_faults(report(msgspec.structs.replace(said(state), tiers=unloaded)), topics)
    assert not only_faults(report(), topics)
    assert not only_faults(report(said(State.PENDING)), topics)
    assert not only_faults(report(msgspec.structs.replace(lost, pending=3)), topics)
    waiting = msgspec.structs.replace(lost, waits=[Wait(on="hdfs", words="the next load")])
    assert not only_faults(report(waiting), topics)


@given(st.lists(st.integers(-1, 12)), st.integers(0, 10))
def test_what_arrived_is_held_against_what_was_written(numbers: list[int], written: int) -> None:
    found = arrivals(numbers, written)
    counted = Counter(numbers)
    missing = {number for each in found.missing for number in each}
    assert (found.events, found.distinct) == (len(numbers), len(counted))
    assert missing == set(range(written)) - set(numbers)
    assert found.events_missing == len(missing)
    assert list(found.twice) == sorted(each for each in counted if counted[each] > 1)
    assert set(found.unknown) == set(numbers) - set(range(written))
    all_is_well = sorted(numbers) == list(range(written))
    assert (list(found.faults("landed")) == []) == all_is_well
