"""The verdict in one sentence."""

from typing import Any

import pytest

from audit.api.answers import FailingLoad, TopicFinding
from audit.headline import EXCEPT_ACCEPTED, JudgedTopics, headline, kind_words
from audit.reconciling.findings import FaultKind, Finding, State, counted

EVENING = 1_795_209_247_000  # 2026-11-20 21:14:07 UTC
MINUTE = EVENING - 7_000
DAY_LONG = 86_400_000
FAILING = FailingLoad("dc1", "orders", "hdfs://nn/logs", EVENING, EVENING, "no schema", "")


def finding(kind: FaultKind, **known: Any) -> Finding:
    return Finding(**{"kind": kind, "words": "", **known})


AT = {"from_time": EVENING, "to_time": EVENING}
DAY = {"from_time": EVENING, "to_time": EVENING + DAY_LONG}
BLIND = finding(FaultKind.UNKNOWN, host="web-2", from_time=EVENING, to_time=EVENING + 44_000)
MISSING = finding(FaultKind.MISSING, tier="broker", host="web-3", events=12, **DAY)
LOST = finding(FaultKind.LOST, host="web-3", events=1, **AT)
LANDED = finding(FaultKind.DUPLICATED, tier="hdfs", destination="hdfs://nn/logs", path="a.parquet")


def judged(state: State, *findings: Finding, **more: Any) -> JudgedTopics:
    placed = [
        TopicFinding(cluster="dc1", topic="orders", topic_id="", finding=each) for each in findings
    ]
    return JudgedTopics(state=state, findings=placed, kinds=counted(findings), **more)


@pytest.mark.parametrize(
    ("said", "badge", "words"),
    [
        (
            judged(State.UNKNOWN, BLIND, events=7),
            "? 1",
            "possible loss: orders, host web-2, 2026-11-20 21:14:07 to 21:14:51 UTC (44 s)"
            "|all 7 events arrived",
        ),
        (
            judged(State.MISSING, BLIND, MISSING),
            "✗ 2",
            "missing at the brokers: 12 events of orders, host web-3, 2026-11-20 21:14:07 to "
            "2026-11-21 21:14:07 UTC (24 h)"
            "|in all, 12 events have not arrived; 1 stretch cannot be proven",
        ),
        (
            judged(State.MISSING, LOST, failing_loads=[FAILING]),
            "✗ 1",
            "lost: 1 line of orders, host web-3, 2026-11-20 21:14:07 UTC|1 table cannot be loaded",
        ),
        (judged(State.DUPLICATED, LANDED), "⧉ 1", "duplicated in the files: orders|"),
        (
            judged(State.PENDING, failing_loads=[FAILING]),
            "! 1",
            "not loaded: orders into hdfs://nn/logs, since 2026-11-20 21:14:07 UTC|",
        ),
    ],
)
def test_a_verdict_in_a_sentence(said: JudgedTopics, badge: str, words: str) -> None:
    found = headline(said)
    assert (found.badge, f"{found.title}|{found.more}") == (badge, words)


UNTIL = "every line up to 21:14 UTC is accounted for"
DATED = "every line up to 2026-11-20 21:14 UTC is accounted for"
SOME = "nothing is known to be wrong; some lines are still on their way"
NEWER = "newer lines are on their way"
COMPLETE, PENDING = State.COMPLETE, State.PENDING
NEXT_DAY = EVENING + DAY_LONG


@pytest.mark.parametrize(
    ("state", "more", "words"),
    [
        (COMPLETE, {"complete_until": -1}, "✓ complete: every line is accounted for|"),
        (COMPLETE, {"settled": True}, f"✓ {UNTIL}|"),
        (COMPLETE, {"settled": True, "loaded": False}, f"✓ {UNTIL[:26]} has reached the brokers|"),
        (COMPLETE, {}, f"… pending: {UNTIL}|"),
        (COMPLETE, {"silent": True, "held_up": True}, f"… pending: an agent is silent; {UNTIL}|"),
        (COMPLETE, {"settled": True, "complete_until": 0}, f"… pending: {SOME}|"),
        (PENDING, {"settled": True}, f"✓ {UNTIL}|{NEWER}"),
        (PENDING, {"settled": True, "today": NEXT_DAY}, f"✓ {DATED}|{NEWER}"),
        (PENDING, {"held_up": True}, f"… pending: {UNTIL}|"),
        (PENDING, {"accepted_unknown": True}, f"… pending: {UNTIL}, {EXCEPT_ACCEPTED}|{NEWER}"),
        (State.EMPTY, {"settled": True}, "· empty: no events in this time|"),
    ],
)
def test_a_verdict_names_its_moment(state: State, more: dict[str, Any], words: str) -> None:
    found = headline(judged(state, **{"complete_until": MINUTE, "today": EVENING} | more))
    assert f"{found.mark} {found.title}|{found.more}" == words


def test_the_worst_come_first() -> None:
    several = [BLIND, LOST, MISSING, LANDED]
    found = headline(judged(State.DUPLICATED, *several))
    assert [each.finding for each in found.worst] == [LANDED, LOST, MISSING]


def test_every_kind_has_words() -> None:
    assert all(kind_words(counted([finding(each, events=2)])) for each in FaultKind)
