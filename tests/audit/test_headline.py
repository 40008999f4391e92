"""The verdict in one sentence."""

from typing import Any

import pytest

from audit.api.answers import FailingLoad, TopicFinding
from audit.headline import JudgedTopics, Unreported, headline
from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import FaultKind, Finding, KindCount, State, counted
from audit.reconciling.picture import TopicKey
from audit.reconciling.words import of_kinds

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
CUT = [LOST, finding(FaultKind.LOST, host="web-2", position=0, end_position=4_096, **AT)]
GONE = [
    finding(FaultKind.MISSING, tier="hdfs", path=f"{events}.parquet", events=events, **AT)
    for events in (952, 776)
]
LANDED = finding(FaultKind.DUPLICATED, tier="hdfs", destination="hdfs://nn/logs", path="a.parquet")


def judged(state: State, *findings: Finding, **more: Any) -> JudgedTopics:
    placed = [
        TopicFinding(cluster="dc1", topic="orders", topic_id="", finding=each) for each in findings
    ]
    kinds = {TopicKey("dc1", "orders", ""): counted(findings)}
    return JudgedTopics(state=state, findings=placed, kinds=kinds, **more)


LONG = "2026-11-20 21:14:07"
ALL = "✓|complete: every line is accounted for"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            judged(State.UNKNOWN, BLIND, events=7),
            f"? 1|possible loss: orders, host web-2, {LONG} to 21:14:51 UTC (44 s)"
            "|all 7 events arrived",
        ),
        (
            judged(State.MISSING, BLIND, MISSING),
            f"✗ 2|missing at the brokers: 12 events of orders, host web-3, {LONG} to "
            "2026-11-21 21:14:07 UTC (24 h)"
            "|in all, 12 events have not arrived; 1 stretch cannot be proven",
        ),
        (
            judged(State.MISSING, LOST, failing_loads=[FAILING]),
            f"✗ 1|lost: 1 line of orders, host web-3, {LONG} UTC|1 table cannot be loaded",
        ),
        (
            judged(State.MISSING, *GONE),
            f"✗ 2|missing in the files: 1,728 events of orders in 2 files, {LONG} UTC|",
        ),
        (
            judged(State.MISSING, *CUT, BLIND),
            f"✗ 3|lost: at least 1 line of orders in 2 findings, hosts web-2 and web-3, {LONG} UTC"
            "|in all, at least 1 line was gone before it was read; 1 stretch cannot be proven",
        ),
        (
            judged(State.MISSING, CUT[1]),
            f"✗ 1|lost: 4,096 bytes of orders, host web-2, {LONG} UTC|",
        ),
        (judged(State.DUPLICATED, LANDED), "⧉ 1|duplicated in the files: orders|"),
        (
            judged(State.PENDING, failing_loads=[FAILING]),
            f"! 1|not loaded: orders into hdfs://nn/logs, since {LONG} UTC|",
        ),
        (
            judged(State.COMPLETE, accepted=counted([MISSING, *CUT, BLIND])),
            f"{ALL}, except for at least 1 lost line, 12 missing events and 1 unproven stretch"
            " (accepted)|",
        ),
        (
            judged(State.COMPLETE, accepted=counted([CUT[1]])),
            f"{ALL}, except for 4,096 lost bytes (accepted)|",
        ),
    ],
)
def test_a_verdict_in_a_sentence(said: JudgedTopics, words: str) -> None:
    found = headline(said)
    assert f"{found.badge}|{found.title}|{found.more}" == words


UNTIL = "every line up to 21:14 UTC is accounted for"
DATED = "every line up to 2026-11-20 21:14 UTC is accounted for"
SOME = "nothing is known to be wrong; some lines are still on their way"
NEWER = "newer lines are on their way"
READ = UNTIL.replace("line", "line read")
LOSS, A = (KindCount(kind=FaultKind.LOST, findings=1, events=1),), " (accepted)"
OLD = (KindCount(kind=FaultKind.LOST),)
SILENT, UNREAD = Unreported.SILENT, Unreported.UNREAD
COMPLETE, PENDING = State.COMPLETE, State.PENDING
NEXT_DAY = EVENING + DAY_LONG
RAW = {TopicKey("dc1", "orders", ""): DeadLetters(lines=1, events=300)}
LINES = {TopicKey("dc1", name, ""): DeadLetters(lines=2) for name in "abcd"}
FOUR = "except for 8 dead letters (in 4 places)"
BUT = "except for 301 dead letters (in orders.dead and _dead/orders)"


@pytest.mark.parametrize(
    ("state", "more", "words"),
    [
        (COMPLETE, {"complete_until": -1}, "✓ complete: every line is accounted for|"),
        (COMPLETE, {"settled": True}, f"✓ {UNTIL}|"),
        (COMPLETE, {"settled": True, "loaded": False}, f"✓ {UNTIL[:26]} has reached the brokers|"),
        (COMPLETE, {}, f"… pending: {UNTIL}|"),
        (COMPLETE, {"unreported": SILENT}, f"… pending: an agent is silent; {UNTIL}|"),
        (COMPLETE, {"unreported": UNREAD}, f"… pending: {UNREAD.value}; {READ}|"),
        (COMPLETE, {"settled": True, "complete_until": 0}, f"… pending: {SOME}|"),
        (PENDING, {"settled": True}, f"✓ {UNTIL}|{NEWER}"),
        (PENDING, {"settled": True, "today": NEXT_DAY}, f"✓ {DATED}|{NEWER}"),
        (PENDING, {"held_up": True}, f"… pending: {UNTIL}|"),
        (PENDING, {"accepted": LOSS}, f"… pending: {UNTIL}, except for 1 lost line{A}|{NEWER}"),
        (COMPLETE, {"accepted": OLD}, f"… pending: {UNTIL}, except for older faults{A}|"),
        (State.EMPTY, {"settled": True}, "· empty: no events in this time|"),
        (State.EMPTY, {"dead": RAW}, f"· empty: no events in this time, {BUT}|"),
        (COMPLETE, {"dead": LINES}, f"… pending: {UNTIL}, {FOUR}|"),
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
    assert all(of_kinds(counted([finding(each, events=2)])) for each in FaultKind)
