"""Whatever differs from what was written is said, and nothing else is."""

from typing import Any

import msgspec
import pytest

from audit.answers import Flow, ReportAnswer, TierTotals, TopicReport
from audit.verdicts import FaultKind, Finding, State, Wait
from penstock.demo.applications.writing import WrittenTally
from penstock.demo.command import show_outcome
from penstock.demo.figures import DemonstrationOutcome, Figures, arrivals, document
from penstock.demo.settling import TimeSpan, only_faults, span, waits_for

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
GOOD = Figures(tally=TALLY, said=said(), stored=ALL, mirrored=ALL, landed=ALL)


def outcome(*figures: Figures, unsettled: str = "") -> DemonstrationOutcome:
    return DemonstrationOutcome(
        figures=figures, seconds=8, killed=("agent", "mirror", "broker"), unsettled=unsettled
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
        "✓ Every line arrived, once, although the agent, the mirror and the broker were killed:",
        "  14 lines of 2 files became 10 events, and as many rows.",
    ]


WRONG: dict[str, dict[str, Any]] = {
    "the agent says that it shipped 9 of 10 events": {"said": said(shipped=9)},
    "the agent says that it read 13 of 14 lines": {"said": said(read=13)},
    "1 event was not stored: number 9": {"stored": arrivals(range(9), 10)},
    "stored more than once: number 3 (1 too many)": {"stored": arrivals([*range(10), 3], 10)},
    "1 event was not mirrored: number 0": {"mirrored": arrivals(range(1, 10), 10)},
    "3 events were not landed: numbers 0 to 2": {"landed": arrivals(range(3, 10), 10)},
    "landed more than once: number 9 (1 too many)": {"landed": arrivals([*range(10), 9], 10)},
    "landed, but never written: number 10": {"landed": arrivals(range(11), 10)},
    "the audit knows no such topic": {"said": None},
    "the audit says missing; a.log, bytes 1 to 2 are not at the brokers": {
        "said": msgspec.structs.replace(
            said(State.MISSING),
            findings=[
                Finding(kind=FaultKind.MISSING, words="a.log, bytes 1 to 2 are not at the brokers"),
                Finding(kind=FaultKind.LOST, words="known", accepted="it was known"),
            ],
        )
    },
    "the audit says pending; it waits for the next load": {
        "said": msgspec.structs.replace(
            said(State.PENDING), waits=[Wait(on="hdfs", words="the next load")]
        )
    },
}


@pytest.mark.parametrize("words", WRONG)
def test_what_differs_is_said(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = outcome(GOOD, msgspec.structs.replace(GOOD, **WRONG[words]))
    assert f"payments: {words}" in found.differences
    assert not found.agrees
    show_outcome(found)
    shown = capsys.readouterr().out.splitlines()
    assert f"✗ payments: {words}" in shown
    assert shown[-1] == "✗ Not every line arrived once."


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
    assert waits_for(report(said(), as_of=9), topics) == "the audit still reads the ledger"
    assert waits_for(report(), topics) == "the audit has not heard of dc1.payments yet"
    for silent in ([], [tier("hdfs", 0)]):
        unloaded = msgspec.structs.replace(said(), tiers=[*BEFORE, *silent])
        assert waits_for(report(unloaded), topics) == "dc1.payments: nothing was heard of hdfs yet"
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
