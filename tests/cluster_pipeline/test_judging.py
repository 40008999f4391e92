"""The judge objects to each thing that may be wrong, and to nothing else."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.cluster_pipeline.judging import Evidence, judge

LINES = ("one", "two", "three")
REPORT: dict[str, Any] = {
    "state": "complete",
    "tiers": [{"tier": name, "events": 3} for name in ("agent", "broker", "hdfs")],
    "flow": {"read": 3, "shipped": 3, "filtered": 0, "dead": 0, "lost": 0},
    **dict.fromkeys(("missing", "excess", "unclaimed", "pending"), 0),
    "findings": [],
    "findings_total": 0,
    "waits": [],
    "waits_total": 0,
}
GOOD = Evidence(
    written=LINES,
    logged=("three", "one", "two"),
    sources=(("a", 0), ("a", 1), ("b", 0)),
    landed=("two", "three", "one"),
    exit_code=0,
    report=REPORT,
    cells=({"state": "complete"}, {"state": "complete"}),
    answered=((0, 10), (1, 11)),
    registered=({0: 10, 1: 11}, {0: 10, 1: 11}),
)


def counted(tier: str, events: int) -> dict[str, Any]:
    tiers = [{**each, **({"events": events} if each["tier"] == tier else {})} for each in TIERS]
    return {**REPORT, "tiers": tiers}


TIERS = REPORT["tiers"]
RED = {
    **REPORT,
    "state": "missing",
    "findings": [{"words": "2 events are missing"}],
    "findings_total": 1,
}


def test_nothing_is_wrong() -> None:
    assert judge(GOOD) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(GOOD, logged=("one", "two")), "in the log: 1 lines lost: three"),
        (replace(GOOD, logged=(*LINES, "two")), "in the log: 1 lines doubled: two"),
        (replace(GOOD, logged=(*LINES, "four")), "in the log: 1 lines never written: four"),
        (replace(GOOD, sources=(("a", 0), ("a", 0))), "numbers of sources twice: ('a', 0)"),
        (replace(GOOD, landed=("one", "two")), "in the store: 1 lines lost: three"),
        (replace(GOOD, landed=(*LINES, "two")), "in the store: 1 lines doubled: two"),
        (replace(GOOD, exit_code=2), "the verdict: complete (2)"),
        (replace(GOOD, report=RED), "the verdict: missing (0); 2 events are missing"),
        (replace(GOOD, report={**REPORT, "missing": 1}), "the verdict: missing 1"),
        (replace(GOOD, report={**REPORT, "waits_total": 1}), "the verdict: waits_total 1"),
        (replace(GOOD, report={}), "the verdict: nothing (0)"),
        (replace(GOOD, report=counted("agent", 2)), "the tier agent: 2 events of 3 lines"),
        (replace(GOOD, report=counted("broker", 4)), "the tier broker: 4 events of 3 lines"),
        (replace(GOOD, report=counted("hdfs", 0)), "the tier hdfs: 0 events of 3 lines"),
        (replace(GOOD, report={**REPORT, "tiers": TIERS[:2]}), "the tier hdfs: 0 events"),
        (replace(GOOD, report={**REPORT, "tiers": [*TIERS, TIERS[2]]}), "the tier hdfs: 6 events"),
        (
            replace(GOOD, report={**REPORT, "flow": {"read": 3, "shipped": 2, "lost": 1}}),
            "the flow: {'read': 3, 'shipped': 2, 'lost': 1} of 3 lines",
        ),
        (replace(GOOD, cells=()), "0 of 0 windows are not complete"),
        (
            replace(GOOD, cells=({"state": "complete"}, {"state": "pending"})),
            "1 of 2 windows are not complete",
        ),
        (replace(GOOD, answered=((0, 10), (1, 10))), "ids given to two schemas: 10"),
        (
            replace(GOOD, registered=({0: 10, 1: 11}, {0: 10})),
            "registry 2: 1 registrations changed: (1, 11)",
        ),
        (replace(GOOD, troubles=("broker 1 ended",)), "broker 1 ended"),
        (replace(GOOD, faults_meanwhile=("missing: 3",)), "meanwhile: missing: 3"),
    ],
)
def test_what_is_wrong_is_said(wrong: Evidence, said: str) -> None:
    assert any(said in each for each in judge(wrong)), judge(wrong)
